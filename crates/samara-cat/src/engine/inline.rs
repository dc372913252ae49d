//! Transactions so small that their announcements would cost more than they do.
//!
//! An announcement costs 32 bytes for each peer that is told, and then somebody asks and is answered once. A body in its place costs its
//! own length for each peer, and is never asked for. With `e` announcements sent for each node and transaction, an announced transaction of
//! `B` bytes costs `32 e + 36 + (B + 4)`, one that goes inline `(B + 2) e`, where 36 and 4 are the bytes of a request and of the frame
//! around the answer, and 2 those around each body in a shared frame. Inline wins below
//!
//! ```text
//! B* = (30 e + 40) / (e - 1)
//! ```
//!
//! which is 100 bytes for a node with 3 peers, 36 with 18, and never less than 30: a body that is shorter than its key is not announced by it.

use samara_engine::PeerId;
use smallvec::SmallVec;

use super::announce::Member;
use super::{Cat, Cx};
use crate::Transaction;
use crate::config::Inline;
use crate::pool::Application;
use crate::wire::{CatFrame, Kind};

/// Bytes of a body beyond which it is never sent in the place of its announcement, however few peers there are: it would be a push.
const INLINE_MAX: u64 = 1_024;

/// The length of bodies below which sending them to all peers costs less than announcing them: see above. Of the peers of a node two
/// in three are told of a transaction (the others have told it before, or have it from the same neighbour).
pub(super) fn crossover(peers: usize) -> usize {
    let told = 2 * peers as u64;
    // With e = told / 3, all multiplied by three.
    let limit = (30 * told + 120).checked_div(told.saturating_sub(3)).unwrap_or(INLINE_MAX);
    limit.min(INLINE_MAX) as usize
}

impl<A: Application> Cat<A> {
    /// The length of the longest body that is sent in the place of its announcement; 0 for none.
    pub(super) fn inline_max(&self) -> usize {
        match self.config.inline {
            Inline::Never => 0,
            Inline::UpTo(most) => most,
            Inline::WhereItWins => crossover(self.peers.len()),
        }
    }

    /// Which of these transactions go inline, by a bit for each.
    pub(super) fn inline_mask(&self, kind: Kind, members: &[Member]) -> u64 {
        let most = self.inline_max();
        if most == 0 || kind != Kind::Transaction {
            return 0;
        }
        let is_short = |key| self.pool.get(key).is_some_and(|tx| tx.len() <= most);
        members.iter().enumerate().fold(0, |mask, (bit, (_, key))| mask | u64::from(is_short(key)) << bit)
    }

    /// Sends a peer the bodies of these transactions in one frame. Whether there was room.
    pub(super) fn tell_bodies(
        &mut self,
        peer: PeerId,
        members: &[Member],
        mask: u64,
        cx: &mut Cx<'_>,
    ) -> bool {
        let chosen = || members.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        let txs: Vec<Transaction> =
            chosen().filter_map(|(_, (_, key))| self.pool.get(key).cloned()).collect();
        let ids: SmallVec<[_; 8]> = chosen().map(|(_, (id, _))| *id).collect();
        let count = txs.len() as u64;
        let frame = CatFrame::txs(txs);
        if !self.owe(peer, self.config.sending.map.bodies, frame, None, cx) {
            self.resync_later(peer, cx);
            return false;
        }
        self.metrics.inline_txs += count;
        for id in ids {
            self.note_seen(id, peer);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula in whole numbers, and what it says.
    #[test]
    fn the_crossover_falls_with_the_number_of_peers() {
        assert_eq!([0, 1, 2, 3, 5, 10, 18, 50].map(crossover), [1_024, 1_024, 240, 100, 60, 42, 36, 32]);
        for peers in 2..200usize {
            let e = peers as f64 * 2.0 / 3.0;
            let exact = (30.0 * e + 40.0) / (e - 1.0);
            let found = crossover(peers) as f64;
            assert!(found <= exact + 1e-9 && exact < found + 1.0, "{peers} peers: {found}, {exact}");
        }
        assert!(crossover(10_000) >= 30);
    }
}
