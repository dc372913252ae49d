//! Push-pull gossip: in each round, a node and a random neighbour exchange the rumours that the
//! other one lacks (Demers et al. 1987, anti-entropy).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::outbox::Lane;
use samara_engine::{Context, Engine, Frame, Input, PeerId, TimerToken};
use samara_sim::App;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub enum Gossip {
    /// The rumours that the sender has. The receiver answers, unless this is an answer.
    Have {
        rumours: Arc<BTreeSet<u32>>,
        is_answer: bool,
    },
    Rumour {
        number: u32,
        bytes: usize,
    },
}

impl Frame for Gossip {
    fn encoded_len(&self) -> usize {
        // A kind, a length, and four bytes for each number.
        match self {
            Self::Have { rumours, .. } => 5 + 4 * rumours.len(),
            Self::Rumour { bytes, .. } => 9 + bytes,
        }
    }

    fn payload_len(&self) -> usize {
        if let Self::Rumour { bytes, .. } = self { *bytes } else { 0 }
    }
}

/// Reports that a rumour has arrived at a node.
#[derive(Serialize, Deserialize)]
pub struct Heard {
    pub number: u32,
    pub is_new: bool,
}

/// A node. Its command is the number of a rumour that starts there.
pub struct PushPull {
    pub round: Duration,
    pub rumour_bytes: usize,
    pub peers: Vec<PeerId>,
    pub known: BTreeSet<u32>,
}

impl PushPull {
    fn send(&self, peer: PeerId, frame: Gossip, cx: &mut Context<'_, Gossip, Heard>) {
        let now = cx.now();
        // The lane has room for everything, so nothing is lost here.
        let _ = cx.outbox().owe(now, peer, Lane(0), frame, None, None);
    }

    fn send_known(&self, peer: PeerId, is_answer: bool, cx: &mut Context<'_, Gossip, Heard>) {
        self.send(peer, Gossip::Have { rumours: Arc::new(self.known.clone()), is_answer }, cx);
    }
}

impl Engine for PushPull {
    type Frame = Gossip;
    type Command = u32;
    type Event = Heard;

    fn handle(&mut self, input: Input<Gossip, u32>, cx: &mut Context<'_, Gossip, Heard>) {
        match input {
            Input::Start => {
                let nanos = cx.rng().below(self.round.as_nanos() as u64);
                cx.set_timer(cx.now().plus_nanos(nanos), TimerToken(0));
            }
            Input::Timer(token) => {
                cx.set_timer(cx.now() + self.round, token);
                if !self.peers.is_empty() {
                    let at = cx.rng().below(self.peers.len() as u64) as usize;
                    self.send_known(self.peers[at], false, cx);
                }
            }
            Input::LinkUp { peer, .. } => self.peers.push(peer),
            Input::LinkDown { peer } => self.peers.retain(|other| *other != peer),
            Input::Frame { peer, frame: Gossip::Have { rumours, is_answer } } => {
                for number in self.known.difference(&rumours).copied() {
                    self.send(peer, Gossip::Rumour { number, bytes: self.rumour_bytes }, cx);
                }
                if !is_answer && !rumours.is_subset(&self.known) {
                    self.send_known(peer, true, cx);
                }
            }
            Input::Frame { frame: Gossip::Rumour { number, .. }, .. } => {
                let is_new = self.known.insert(number);
                cx.emit(Heard { number, is_new });
            }
            Input::Command(number) => drop(self.known.insert(number)),
            Input::DialFailed { .. } => {}
        }
    }
}

impl App for PushPull {
    // Its events say everything.
    type Counters = ();

    fn counters(&self) {}
}
