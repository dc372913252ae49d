//! Hosts that break the rules of any protocol: what they do to frames between their engine and the
//! network.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use samara_engine::outbox::{Lane, Outgoing};
use samara_engine::{Effects, Frame, LinkRequest, NodeRng, Outbox, PeerId, Time};

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
    /// Frames leave with false claims about what the host has: see
    /// [`Simulation::set_forge`](crate::Simulation::set_forge).
    Claim,
    /// For each received frame, the host sends a number of frames about things that do not exist to
    /// random peers: see [`Simulation::set_forge`](crate::Simulation::set_forge).
    Invent,
}

impl Misconduct {
    const COUNT: usize = 6;
}

/// Returns a false frame in place of another one, under [`Misconduct::Claim`] or
/// [`Misconduct::Invent`]; `None` if nothing is sent.
pub(crate) type Forge<F> = Box<dyn Fn(Misconduct, &F, &mut NodeRng) -> Option<F> + Send + Sync>;

/// Number of frames that a hostile host remembers.
const REMEMBERED: usize = 64;
/// Maximum number of frames per second with which a host floods. Two hosts that flood each other
/// would otherwise fill their links.
const FLOOD_PER_S: u64 = 1_000;

/// The state of a host that breaks the rules.
pub(crate) struct Hostile<F> {
    rng: NodeRng,
    /// The strength of each [`Misconduct`]: a share of frames, or a number of frames.
    strength: [f64; Misconduct::COUNT],
    forge: Arc<OnceLock<Forge<F>>>,
    /// The latest frames sent and received.
    seen: VecDeque<F>,
    peers: Vec<PeerId>,
    /// Peers that received bytes which they cannot decode.
    closing: Vec<PeerId>,
    /// The current second, and the number of frames of a flood in it.
    flooded: (u64, u64),
}

impl<F: Frame> Hostile<F> {
    pub(crate) fn new(rng: NodeRng, peers: Vec<PeerId>, forge: &Arc<OnceLock<Forge<F>>>) -> Self {
        Self {
            rng,
            strength: [0.0; Misconduct::COUNT],
            forge: Arc::clone(forge),
            seen: VecDeque::new(),
            peers,
            closing: Vec::new(),
            flooded: (0, 0),
        }
    }

    pub(crate) fn set(&mut self, what: Misconduct, strength: f64) {
        self.strength[what as usize] = strength;
    }

    pub(crate) fn link_up(&mut self, peer: PeerId) {
        self.link_down(peer);
        self.peers.push(peer);
    }

    pub(crate) fn link_down(&mut self, peer: PeerId) {
        self.peers.retain(|other| *other != peer);
    }

    fn does(&mut self, what: Misconduct) -> bool {
        let share = self.strength[what as usize];
        share > 0.0 && self.rng.chance(share)
    }

    fn remember(&mut self, frame: &F) {
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(frame.clone());
    }

    fn any_seen(&mut self) -> Option<F> {
        let at = self.rng.index(self.seen.len().max(1));
        self.seen.get(at).cloned()
    }

    /// Returns the false frame in place of another one; the other one if the simulation has none.
    fn forged(&mut self, what: Misconduct, frame: F) -> Option<F> {
        match self.forge.get() {
            Some(forge) => forge(what, &frame, &mut self.rng),
            None => Some(frame),
        }
    }

    /// Returns what leaves in place of a copy; `None` if nothing does.
    pub(crate) fn twist(&mut self, copy: Outgoing<F>) -> Option<Outgoing<F>> {
        self.remember(&copy.frame);
        if self.does(Misconduct::Withhold) {
            return None;
        }
        let mut frame = copy.frame;
        if self.does(Misconduct::Replay) {
            frame = self.any_seen().unwrap_or(frame);
        }
        if self.does(Misconduct::Claim) {
            frame = self.forged(Misconduct::Claim, frame)?;
        }
        if self.does(Misconduct::Alter) {
            let Some(altered) = frame.altered(&mut self.rng) else {
                self.closing.push(copy.peer);
                return None;
            };
            frame = altered;
        }
        Some(Outgoing { len: frame.encoded_len() as u32, frame, ..copy })
    }

    /// Handles a received frame: floods random peers.
    pub(crate) fn received(&mut self, now: Time, frame: &F, outbox: &mut Outbox<F>) {
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
    pub(crate) fn close<E>(&mut self, effects: &mut Effects<E>) {
        effects.links.extend(self.closing.drain(..).map(LinkRequest::Close));
    }
}
