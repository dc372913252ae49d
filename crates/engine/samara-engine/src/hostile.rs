//! Hosts that break the rules of any protocol: what they do to frames between their engine and the
//! network.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::outbox::{Lane, Outgoing};
use crate::{Effects, Frame, LinkRequest, NodeRng, Outbox, PeerId, Time};

/// A way in which a host breaks the rules. Its engine follows the protocol; the frames that leave
/// the host do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misconduct {
    /// Frames are not sent: for a part of them, the host only claims to have sent them.
    Withhold,
    /// Earlier frames leave in place of new ones, sent by this host or by any of its peers.
    Replay,
    /// Frames leave with changed bytes: with other content, or so that no receiver can decode them.
    /// The link closes then, as a receiver would close it.
    Alter,
    /// For each received frame, the host sends a number of earlier or altered frames to random
    /// peers.
    Flood,
    /// Frames leave with false claims about what the host has: see [`Forge`].
    Claim,
    /// For each received frame, the host sends a number of frames about things that do not exist to
    /// random peers: see [`Forge`].
    Invent,
}

impl Misconduct {
    const COUNT: usize = 6;
}

/// Returns a false frame in place of another one, under [`Misconduct::Claim`] or
/// [`Misconduct::Invent`]; `None` if nothing is sent.
pub type Forge<F> = Arc<dyn Fn(Misconduct, &F, &mut NodeRng) -> Option<F> + Send + Sync>;

/// Number of frames that a hostile host remembers.
const REMEMBERED: usize = 64;
/// Maximum number of frames per second with which a host floods. Two hosts that flood each other
/// would otherwise fill their links.
const FLOOD_PER_S: u64 = 1_000;

/// The state of a host that breaks the rules.
///
/// Its driver takes copies out of the outbox with [`next`](Self::next), and tells it what the host
/// receives and which links it has.
pub struct Hostile<F> {
    rng: NodeRng,
    /// The strength of each [`Misconduct`]: a share of frames, or a number of frames.
    strength: [f64; Misconduct::COUNT],
    forge: Option<Forge<F>>,
    /// The latest frames sent and received.
    seen: VecDeque<F>,
    peers: Vec<PeerId>,
    /// Peers that received bytes which they cannot decode.
    closing: Vec<PeerId>,
    /// The current second, and the number of frames of a flood in it.
    flooded: (u64, u64),
}

impl<F: Frame> Hostile<F> {
    /// Creates a host that keeps the rules until [`set`](Self::set), with links to these peers. Without
    /// `forge`, frames stay as they are under [`Misconduct::Claim`] and [`Misconduct::Invent`].
    pub fn new(rng: NodeRng, peers: Vec<PeerId>, forge: Option<Forge<F>>) -> Self {
        Self {
            rng,
            strength: [0.0; Misconduct::COUNT],
            forge,
            seen: VecDeque::new(),
            peers,
            closing: Vec::new(),
            flooded: (0, 0),
        }
    }

    /// Sets the strength of a misconduct, 0 for none: the share of frames, or with
    /// [`Misconduct::Flood`] and [`Misconduct::Invent`] the number of frames for each received one.
    pub fn set(&mut self, what: Misconduct, strength: f64) {
        self.strength[what as usize] = strength;
    }

    /// Adds a peer that the host can flood.
    pub fn link_up(&mut self, peer: PeerId) {
        self.link_down(peer);
        self.peers.push(peer);
    }

    /// Removes a peer.
    pub fn link_down(&mut self, peer: PeerId) {
        self.peers.retain(|other| *other != peer);
    }

    fn does(&mut self, what: Misconduct) -> bool {
        let share = self.strength[what as usize];
        share > 0.0 && self.rng.chance(share)
    }

    /// Remembers a frame while the host breaks the rules. Before, it does not know that it will: in the
    /// simulator, this state begins with the first fault.
    fn remember(&mut self, frame: &F) {
        if self.strength.iter().all(|strength| *strength == 0.0) {
            return;
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(frame.clone());
    }

    fn any_seen(&mut self) -> Option<F> {
        let at = self.rng.index(self.seen.len().max(1));
        self.seen.get(at).cloned()
    }

    /// Returns the false frame in place of another one; the other one if nobody forges frames.
    fn forged(&mut self, what: Misconduct, frame: F) -> Option<F> {
        match &self.forge {
            Some(forge) => forge(what, &frame, &mut self.rng),
            None => Some(frame),
        }
    }

    /// Returns the next copy that `pop` takes out of the outbox, as it leaves the host.
    pub fn next(
        &mut self,
        outbox: &mut Outbox<F>,
        mut pop: impl FnMut(&mut Outbox<F>) -> Option<Outgoing<F>>,
    ) -> Option<Outgoing<F>> {
        loop {
            let copy = pop(outbox)?;
            if let Some(frame) = self.twist(copy.peer, copy.frame) {
                return Some(Outgoing { len: frame.encoded_len() as u32, frame, ..copy });
            }
        }
    }

    /// Returns what leaves to a peer in place of a frame; `None` if nothing does.
    pub fn twist(&mut self, peer: PeerId, mut frame: F) -> Option<F> {
        self.remember(&frame);
        if self.does(Misconduct::Withhold) {
            return None;
        }
        if self.does(Misconduct::Replay) {
            frame = self.any_seen().unwrap_or(frame);
        }
        if self.does(Misconduct::Claim) {
            frame = self.forged(Misconduct::Claim, frame)?;
        }
        if self.does(Misconduct::Alter) {
            let Some(altered) = frame.altered(&mut self.rng) else {
                self.closing.push(peer);
                return None;
            };
            frame = altered;
        }
        Some(frame)
    }

    /// Handles a received frame: floods random peers.
    pub fn received(&mut self, now: Time, frame: &F, outbox: &mut Outbox<F>) {
        self.remember(frame);
        let second = now.as_nanos() / 1_000_000_000;
        if self.flooded.0 != second {
            self.flooded = (second, 0);
        }
        let count = |what: Misconduct| self.strength[what as usize] as usize;
        let kinds = [Misconduct::Flood, Misconduct::Invent].map(|what| (what, count(what)));
        for what in kinds.into_iter().flat_map(|(what, count)| std::iter::repeat_n(what, count)) {
            if self.flooded.1 == FLOOD_PER_S {
                return;
            }
            self.flooded.1 += 1;
            let (Some(peer), Some(mut frame)) = (self.rng.choose(&self.peers).copied(), self.any_seen())
            else {
                return;
            };
            if what == Misconduct::Invent {
                let Some(invented) = self.forged(what, frame) else { continue };
                frame = invented;
            } else if self.rng.chance(0.5) {
                frame = frame.altered(&mut self.rng).unwrap_or(frame);
            }
            let lane = Lane(self.rng.index(outbox.lanes().max(1)) as u8);
            // A full queue keeps the host from flooding faster than its link.
            let _ = outbox.owe(now, peer, lane, frame, None, None);
        }
    }

    /// Requests the end of links over which undecodable bytes have left.
    pub fn close<E>(&mut self, effects: &mut Effects<E>) {
        effects.links.extend(self.closing.drain(..).map(LinkRequest::Close));
    }
}

impl<F> fmt::Debug for Hostile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hostile").field("strength", &self.strength).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use crate::outbox::{Dispatch, LaneConfig, OutboxConfig};

    const PEER: PeerId = PeerId(0);
    const LANE: Lane = Lane(0);

    /// A number. No receiver can decode an odd one that is altered.
    #[derive(Clone, Debug, PartialEq)]
    struct Number(u64);

    impl Frame for Number {
        fn encoded_len(&self) -> usize {
            self.0 as usize
        }

        fn payload_len(&self) -> usize {
            0
        }

        fn altered(&self, _: &mut NodeRng) -> Option<Self> {
            self.0.is_multiple_of(2).then_some(Self(self.0 + 1_000))
        }
    }

    fn outbox() -> Outbox<Number> {
        let lanes = vec![LaneConfig::unbounded("all", 0)];
        let mut outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::default(), lanes });
        outbox.link_up(PEER);
        outbox
    }

    fn hostile(what: Misconduct, strength: f64, forge: Option<Forge<Number>>) -> Hostile<Number> {
        let mut hostile = Hostile::new(NodeRng::new(1, 0, Purpose::Hostile), vec![PEER], forge);
        hostile.set(what, strength);
        hostile
    }

    fn left(hostile: &mut Hostile<Number>, outbox: &mut Outbox<Number>) -> Vec<(u64, u32)> {
        let next = || hostile.next(outbox, |outbox| outbox.pop_for(Time::ZERO, PEER));
        std::iter::from_fn(next).map(|copy| (copy.frame.0, copy.len)).collect()
    }

    /// Returns the numbers and lengths of what leaves in place of these numbers.
    fn sent(hostile: &mut Hostile<Number>, numbers: std::ops::Range<u64>) -> Vec<(u64, u32)> {
        let mut outbox = outbox();
        for number in numbers {
            outbox.owe(Time::ZERO, PEER, LANE, Number(number), None, None).expect("room");
        }
        left(hostile, &mut outbox)
    }

    #[test]
    fn a_share_is_withheld_and_nothing_afterwards() {
        let mut host = hostile(Misconduct::Withhold, 0.5, None);
        assert!((60..140).contains(&sent(&mut host, 0..200).len()));
        host.set(Misconduct::Withhold, 1.0);
        assert_eq!(sent(&mut host, 0..9), []);
        host.set(Misconduct::Withhold, 0.0);
        assert_eq!(sent(&mut host, 7..9), [(7, 7), (8, 8)]);
    }

    #[test]
    fn earlier_frames_leave_with_their_lengths() {
        let sent = sent(&mut hostile(Misconduct::Replay, 1.0, None), 0..50);
        assert_eq!(sent.len(), 50);
        assert!(sent.iter().zip(0..).all(|((number, len), at)| *number <= at && u64::from(*len) == *number));
        assert!(!sent.is_sorted(), "{sent:?}");
    }

    #[test]
    fn frames_from_before_the_fault_do_not_leave() {
        let mut host = hostile(Misconduct::Replay, 0.0, None);
        host.received(Time::ZERO, &Number(7), &mut outbox());
        assert_eq!(sent(&mut host, 8..10), [(8, 8), (9, 9)]);
        host.set(Misconduct::Replay, 1.0);
        assert!(sent(&mut host, 10..50).iter().all(|(number, _)| *number >= 10));
    }

    #[test]
    fn links_with_undecodable_frames_are_closed() {
        let mut host = hostile(Misconduct::Alter, 1.0, None);
        assert_eq!(sent(&mut host, 3..5), [(1_004, 1_004)]);
        let mut effects = Effects::<()>::default();
        host.close(&mut effects);
        assert_eq!(effects.links, [LinkRequest::Close(PEER)]);
        host.close(&mut effects);
        assert_eq!(effects.links.len(), 1, "only once");
    }

    #[test]
    fn floods_go_to_peers_with_links_and_end_for_the_second() {
        let mut host = hostile(Misconduct::Flood, 400.0, None);
        let mut outbox = outbox();
        let mut receive = |host: &mut Hostile<Number>, at_ms: u64| {
            host.received(Time::from_nanos(at_ms * 1_000_000), &Number(2), &mut outbox);
            std::iter::from_fn(|| outbox.pop_for(Time::ZERO, PEER)).count()
        };
        assert_eq!([0, 1, 2, 3, 1_000].map(|at_ms| receive(&mut host, at_ms)), [400, 400, 200, 0, 400]);
        host.link_down(PEER);
        assert_eq!(receive(&mut host, 2_000), 0);
        host.link_up(PEER);
        assert_eq!(receive(&mut host, 2_001), 400);
    }

    #[test]
    fn false_frames_are_those_of_the_protocol() {
        let forge: Forge<Number> = Arc::new(|what, number: &Number, _: &mut NodeRng| match what {
            Misconduct::Claim => number.0.is_multiple_of(2).then_some(Number(100 + number.0)),
            _ => Some(Number(500)),
        });
        let mut host = hostile(Misconduct::Claim, 1.0, Some(Arc::clone(&forge)));
        assert_eq!(sent(&mut host, 1..5), [(102, 102), (104, 104)]);
        let mut host = hostile(Misconduct::Claim, 1.0, None);
        assert_eq!(sent(&mut host, 1..3), [(1, 1), (2, 2)]);
        let mut host = hostile(Misconduct::Invent, 3.0, Some(forge));
        let mut outbox = outbox();
        host.received(Time::ZERO, &Number(7), &mut outbox);
        assert_eq!(left(&mut host, &mut outbox), [(500, 500); 3]);
    }
}
