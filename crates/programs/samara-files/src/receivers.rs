//! The receivers as the sender knows them: who misses what, and the next piece. A member is a receiver
//! once it has answered an offer; one that only sends is none.

use std::collections::BTreeMap;

use crate::wire::{Control, PIECE_BYTES, RANGES_MAX};
use crate::{MemberState, Ranges};

/// Maximum number of receivers that a sender remembers, besides those in the group: one that comes
/// back under another address is another one. With causes and ranges at their limits, 1,024 of them
/// are less than 10 MiB.
pub(crate) const RECEIVERS_MAX: usize = 1024;

/// The sender's view of a receiver.
#[derive(Debug, Default)]
struct Peer {
    /// What it misses of what was not broadcast since it asked; `None` before it asked.
    missing: Option<Ranges>,
    bytes: u64,
    is_done: bool,
    failure: Option<String>,
    /// How often its bytes were complete and wrong.
    corrupt: u32,
    /// Whether it has answered an offer, now or as an earlier process of its address.
    is_receiver: bool,
    is_present: bool,
    /// The number of the last view with it.
    seen: u64,
}

/// All receivers, by address.
#[derive(Debug, Default)]
pub(crate) struct Receivers {
    peers: BTreeMap<String, Peer>,
    /// Number of views so far.
    views: u64,
    /// Number of receivers that are not remembered any more, and of those among them with the file.
    forgotten: usize,
    forgotten_done: usize,
}

impl Peer {
    fn state(&self) -> MemberState {
        match &self.failure {
            Some(cause) => MemberState::Failed(cause.clone()),
            None if self.is_done => MemberState::Done,
            None if self.is_present => MemberState::Receiving(self.bytes),
            None => MemberState::Left,
        }
    }

    /// Returns what it misses, if it is there and takes pieces.
    fn asked(&self) -> Option<&Ranges> {
        self.missing.as_ref().filter(|_| self.is_present && self.failure.is_none())
    }
}

impl Receivers {
    /// Notes who is in the group. Returns true if a receiver left.
    ///
    /// Of those that are gone, the ones without the file are forgotten first, and then those that
    /// were seen least recently.
    pub(crate) fn note_view(&mut self, present: &[String]) -> bool {
        self.views += 1;
        let mut has_left = false;
        for (_, peer) in self.peers.iter_mut().filter(|(name, _)| !present.contains(name)) {
            has_left |= peer.is_present && peer.is_receiver;
            // Its next process asks again.
            (peer.is_present, peer.missing) = (false, None);
        }
        self.peers.retain(|_, peer| peer.is_present || peer.is_receiver);
        for name in present {
            let peer = self.peers.entry(name.clone()).or_default();
            (peer.is_present, peer.seen) = (true, self.views);
        }
        while self.peers.len() > RECEIVERS_MAX {
            let gone = self.peers.iter().filter(|(_, peer)| !peer.is_present);
            let Some((name, _)) = gone.min_by_key(|(_, peer)| (peer.is_done, peer.seen)) else { break };
            let name = name.clone();
            let peer = self.peers.remove(&name).expect("it is there");
            self.forgotten += 1;
            self.forgotten_done += usize::from(peer.is_done);
        }
        has_left
    }

    /// Takes a message of a receiver. Returns its state, and whether it is another one than before.
    pub(crate) fn note(&mut self, from: &str, control: Control, size: u64) -> Option<(MemberState, bool)> {
        let peer = self.peers.get_mut(from)?;
        let before = peer.state();
        match control {
            Control::Want { missing, is_corrupt, .. } => {
                peer.corrupt = peer.corrupt.saturating_add(u32::from(is_corrupt));
                let mut all = Ranges::default();
                missing.into_iter().for_each(|(start, end)| all.insert(start..end.min(size)));
                peer.bytes = size - all.bytes();
                (peer.missing, peer.is_done, peer.failure) = (Some(all), false, None);
            }
            Control::Progress { bytes, .. } => peer.bytes = bytes.min(size),
            Control::Done { .. } => peer.is_done = true,
            Control::Failed { cause, .. } => peer.failure = Some(cause),
            Control::Offer { .. }
            | Control::Digest { .. }
            | Control::Waiting { .. }
            | Control::Release { .. }
            | Control::End { .. } => return None,
        }
        let is_new = !std::mem::replace(&mut peer.is_receiver, true);
        let state = peer.state();
        let is_change = is_new || state != before;
        Some((state, is_change))
    }

    /// Notes a receiver of which a receipt says that it has the file, unless it has said what it misses.
    pub(crate) fn note_receipt(&mut self, name: String) {
        let peer = self.peers.entry(name).or_default();
        if peer.asked().is_none_or(Ranges::is_empty) {
            (peer.is_receiver, peer.is_done) = (true, true);
        }
    }

    /// Notes that a member offers a file of its own.
    pub(crate) fn note_sender(&mut self, name: &str) {
        if let Some(peer) = self.peers.get_mut(name).filter(|peer| !peer.is_done) {
            (peer.is_receiver, peer.missing, peer.failure) = (false, None, None);
        }
    }

    /// Notes that all in the group get the bytes.
    pub(crate) fn sent(&mut self, start: u64, end: u64) {
        for missing in self.peers.values_mut().filter_map(|peer| peer.missing.as_mut()) {
            missing.remove(start..end);
            missing.limit(RANGES_MAX);
        }
    }

    /// Returns the number of receivers that have the file.
    pub(crate) fn done(&self) -> usize {
        self.forgotten_done + self.peers.values().filter(|peer| peer.is_done).count()
    }

    /// Returns the receivers that have the file, the last ones first.
    pub(crate) fn with_file(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<_> = self.peers.iter().filter(|(_, peer)| peer.is_done).collect();
        names.sort_by_key(|(_, peer)| std::cmp::Reverse(peer.seen));
        names.into_iter().map(|(name, _)| name.as_str())
    }

    /// Returns the number of receivers that have answered: they take pieces, have the file, or do not
    /// take it.
    pub(crate) fn there(&self) -> usize {
        let is_there = |peer: &&Peer| peer.is_done || peer.failure.is_some() || peer.asked().is_some();
        self.forgotten_done + self.peers.values().filter(is_there).count()
    }

    /// Returns the number of receivers that are not remembered any more.
    pub(crate) fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Returns the number of receivers that do not take the file. One that starts again asks again.
    pub(crate) fn refused(&self) -> usize {
        self.peers.values().filter(|peer| peer.failure.is_some()).count()
    }

    /// Returns true if a receiver is getting the file.
    pub(crate) fn is_any_getting(&self) -> bool {
        self.peers.values().any(|peer| peer.asked().is_some() && !peer.is_done)
    }

    /// Returns the offset and the length of the next piece after `cursor` that a receiver misses, or
    /// of the first one.
    pub(crate) fn next_piece(&self, cursor: u64) -> Option<(u64, usize)> {
        let after = |from| {
            let asked = self.peers.values().filter_map(Peer::asked);
            asked.filter_map(move |missing| missing.next_after(from, PIECE_BYTES))
        };
        let ahead = after(cursor).filter(|piece| piece.start >= cursor).min_by_key(|piece| piece.start);
        let piece = ahead.or_else(|| after(0).min_by_key(|piece| piece.start))?;
        Some((piece.start, (piece.end - piece.start) as usize))
    }

    pub(crate) fn states(&self) -> BTreeMap<String, MemberState> {
        let receivers = self.peers.iter().filter(|(_, peer)| peer.is_receiver);
        receivers.map(|(name, peer)| (name.clone(), peer.state())).collect()
    }

    /// Returns how often the bytes of a receiver were complete and wrong, of those with any.
    pub(crate) fn corrupt(&self) -> BTreeMap<String, u32> {
        let corrupt = self.peers.iter().filter(|(_, peer)| peer.corrupt > 0);
        corrupt.map(|(name, peer)| (name.clone(), peer.corrupt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    const FILE: FileId = FileId(1);

    fn want(missing: Vec<(u64, u64)>) -> Control {
        Control::Want { file: FILE, is_corrupt: false, missing }
    }

    fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn receivers_that_come_and_go_are_bounded() {
        let mut receivers = Receivers::default();
        receivers.note_view(&names(["first", "stays"]));
        receivers.note("first", Control::Done { file: FILE }, 9);
        receivers.note("stays", want(vec![(0, 9)]), 9);
        for number in 0..2 * RECEIVERS_MAX {
            let others = [format!("a{number:05}"), "stays".to_owned()];
            assert!(receivers.note_view(&others), "the one before left");
            receivers.note(&others[0], want(vec![(0, 9)]), 9);
            assert!(receivers.peers.len() <= RECEIVERS_MAX, "{} receivers", receivers.peers.len());
        }
        let states = receivers.states();
        assert_eq!(states["first"], MemberState::Done, "one with the file is forgotten last");
        assert_eq!(states["stays"], MemberState::Receiving(0), "one in the group is not forgotten");
        assert!(!states.contains_key("a00000"), "the first one is forgotten");
        assert_eq!(receivers.forgotten(), 2 + 2 * RECEIVERS_MAX - RECEIVERS_MAX);
    }

    #[test]
    fn receivers_with_the_file_count_after_they_are_forgotten() {
        let mut receivers = Receivers::default();
        for number in 0..RECEIVERS_MAX + 10 {
            let name = format!("{number}");
            receivers.note_view(std::slice::from_ref(&name));
            receivers.note(&name, Control::Done { file: FILE }, 9);
        }
        assert_eq!((receivers.peers.len(), receivers.forgotten()), (RECEIVERS_MAX, 10));
        assert_eq!(receivers.done(), RECEIVERS_MAX + 10);
    }

    #[test]
    fn ranges_that_others_cut_up_are_bounded() {
        let size = 64 * RANGES_MAX as u64;
        let mut receivers = Receivers::default();
        receivers.note_view(&names(["cutter", "whole"]));
        receivers.note("whole", want(vec![(0, size)]), size);
        for round in 0..4 {
            let cut = (0..RANGES_MAX as u64).map(|at| 4 * (4 * at + round) + 1);
            receivers.note("cutter", want(cut.map(|at| (at, at + 1)).collect()), size);
            for _ in 0..RANGES_MAX {
                let piece = receivers.peers["cutter"].missing.as_ref().unwrap().next_after(0, PIECE_BYTES);
                let piece = piece.expect("the cutter misses something");
                receivers.sent(piece.start, piece.end);
                let missing = receivers.peers["whole"].missing.as_ref().unwrap();
                assert!(missing.len() <= RANGES_MAX, "{} ranges", missing.len());
            }
        }
        // All that was not sent is still sent.
        receivers.note_view(&names(["whole"]));
        let mut cursor = 0;
        while let Some((offset, len)) = receivers.next_piece(cursor) {
            cursor = offset + len as u64;
            receivers.sent(offset, cursor);
        }
        assert!(receivers.peers["whole"].missing.as_ref().unwrap().is_empty());
    }

    #[test]
    fn a_receiver_that_comes_back_asks_again() {
        let mut receivers = Receivers::default();
        receivers.note_view(&names(["one"]));
        receivers.note("one", want(vec![(0, 9)]), 9);
        assert_eq!((receivers.there(), receivers.next_piece(0)), (1, Some((0, 9))));
        assert!(receivers.note_view(&[]));
        assert_eq!((receivers.there(), receivers.next_piece(0)), (0, None));
        assert_eq!(receivers.states()["one"], MemberState::Left);
        assert!(!receivers.note_view(&names(["one"])));
        assert_eq!(receivers.there(), 0, "its next process has not asked yet");
        receivers.note("one", Control::Failed { file: FILE, cause: "full".to_owned() }, 9);
        assert_eq!(receivers.there(), 1, "one that does not take the file is there");
    }

    #[test]
    fn members_that_send_are_no_receivers() {
        let mut receivers = Receivers::default();
        receivers.note_view(&names(["one", "sends", "was-one"]));
        receivers.note("one", want(vec![(0, 9)]), 9);
        receivers.note("was-one", want(vec![(0, 9)]), 9);
        receivers.note_sender("sends");
        receivers.note_sender("was-one");
        assert_eq!((receivers.there(), receivers.states().len()), (1, 1), "{receivers:?}");
        assert!(!receivers.note_view(&names(["one"])), "no receiver left");
        assert_eq!(receivers.peers.len(), 1, "those that said nothing are not remembered");
    }

    #[test]
    fn a_receipt_counts_until_its_receiver_asks() {
        let mut receivers = Receivers::default();
        receivers.note_view(&names(["asks"]));
        receivers.note("asks", want(vec![(0, 9)]), 9);
        receivers.note_receipt("asks".to_owned());
        receivers.note_receipt("gone".to_owned());
        assert_eq!((receivers.done(), receivers.there()), (1, 2));
        assert_eq!(receivers.with_file().collect::<Vec<_>>(), ["gone"]);
        receivers.note_view(&names(["asks", "gone"]));
        receivers.note("gone", want(vec![(0, 4)]), 9);
        assert_eq!((receivers.done(), receivers.there()), (0, 2), "its file is gone");
    }
}
