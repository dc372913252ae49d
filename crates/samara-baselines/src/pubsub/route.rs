//! Whom a message goes to: all that FloodSub and RandomSub differ in.

use std::fmt::Debug;

use samara_engine::{NodeRng, PeerId};

/// Chooses among the subscribers of a topic.
pub trait Route: Debug + Send + 'static {
    /// Keeps those of `peers` that a message goes to, in the order in which they are handed to the schedule. `floods` says
    /// whether a peer speaks FloodSub.
    fn choose(&self, peers: &mut Vec<PeerId>, floods: impl Fn(PeerId) -> bool, rng: &mut NodeRng);
}

/// FloodSub: everybody. In random order, as iterating over a map gives it in go-libp2p-pubsub.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everybody;

impl Route for Everybody {
    fn choose(&self, peers: &mut Vec<PeerId>, _: impl Fn(PeerId) -> bool, rng: &mut NodeRng) {
        rng.shuffle(peers);
    }
}

/// RandomSub: peers that speak FloodSub, and [`fanout`](Self::fanout) others at random.
///
/// `RandomSubRouter.Publish` in go-libp2p-pubsub's `randomsub.go`: all if there are at most `RandomSubD`, otherwise
/// `max(RandomSubD, ceil(sqrt(size)))` of them (all, if there are not so many), drawn anew for each message.
#[derive(Clone, Copy, Debug)]
pub struct AtRandom {
    fanout: usize,
}

impl AtRandom {
    /// The least number of peers that a message goes to: `RandomSubD` in go-libp2p-pubsub's `randomsub.go`.
    pub const FANOUT_MIN: usize = 6;

    /// For a network of so many nodes, as a parameter of the protocol: nobody counts them.
    pub const fn new(network_size: usize) -> Self {
        let floor = network_size.isqrt();
        let root = if floor * floor < network_size { floor + 1 } else { floor };
        Self { fanout: if root > Self::FANOUT_MIN { root } else { Self::FANOUT_MIN } }
    }

    /// How many peers a message goes to, if there are so many.
    pub const fn fanout(&self) -> usize {
        self.fanout
    }
}

impl Route for AtRandom {
    fn choose(&self, peers: &mut Vec<PeerId>, floods: impl Fn(PeerId) -> bool, rng: &mut NodeRng) {
        let mut flooding = 0;
        for at in 0..peers.len() {
            if floods(peers[at]) {
                peers.swap(at, flooding);
                flooding += 1;
            }
        }
        // The first steps of a shuffle (Fisher and Yates) draw without looking at the rest.
        let others = &mut peers[flooding..];
        let chosen = self.fanout.min(others.len());
        for at in 0..chosen {
            let drawn = at + rng.index(others.len() - at);
            others.swap(at, drawn);
        }
        peers.truncate(flooding + chosen);
        rng.shuffle(peers);
    }
}
