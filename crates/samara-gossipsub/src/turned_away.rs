//! Peers that a mesh refused, or that entered or left it a moment ago.
//!
//! Such a peer may have no other place: on sparse graphs a node with few links whose neighbours all have full meshes gets
//! messages, and gets rid of its own, by gossip alone, and gossip that goes to some random peers outside of the mesh can pass it by
//! for as long as a message is gossiped about. So these peers are told of every message.

use std::collections::BTreeMap;

use samara_engine::{PeerId, Time};

use crate::ids::TopicIdx;

/// The turned-away peers of one node. At most one entry for each topic and link.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    until: BTreeMap<(TopicIdx, PeerId), Time>,
}

impl TurnedAway {
    /// A peer was refused, or had to leave; it is remembered until a time.
    pub(crate) fn add(&mut self, peer: PeerId, topic: TopicIdx, until: Time) {
        let known = self.until.entry((topic, peer)).or_insert(until);
        *known = until.max(*known);
    }

    /// Who is remembered for a topic; those whose time is over are forgotten.
    pub(crate) fn of(&mut self, topic: TopicIdx, now: Time) -> Vec<PeerId> {
        let of_topic = (topic, PeerId(0))..=(topic, PeerId(u32::MAX));
        let (over, peers): (Vec<_>, Vec<_>) = self
            .until
            .range(of_topic)
            .map(|((_, peer), until)| (*peer, *until))
            .partition(|(_, until)| *until < now);
        for (peer, _) in over {
            self.until.remove(&(topic, peer));
        }
        peers.into_iter().map(|(peer, _)| peer).collect()
    }

    /// A link is gone.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.until.retain(|(_, known), _| *known != peer);
    }

    /// A topic was left.
    pub(crate) fn forget_topic(&mut self, topic: TopicIdx) {
        self.until.retain(|(known, _), _| *known != topic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_remembered_for_their_time() {
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let (a, b, topic, other) = (PeerId(1), PeerId(2), TopicIdx(0), TopicIdx(1));
        let mut away = TurnedAway::default();
        away.add(a, topic, at(10));
        away.add(a, topic, at(5));
        away.add(b, topic, at(20));
        away.add(b, other, at(20));
        assert_eq!(away.of(topic, at(10)), [a, b]);
        assert_eq!(away.of(topic, at(11)), [b], "an earlier time does not shorten a later one");
        away.forget_peer(b);
        assert!(away.of(topic, at(0)).is_empty() && away.of(other, at(0)).is_empty());
    }
}
