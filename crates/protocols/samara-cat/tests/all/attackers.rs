//! Attacking hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_cat::wire::KeyList;
use samara_cat::{CatFrame, Command, Config, Event, Protocol, Transaction, TxKey};
use samara_engine::{Context, Engine, Input, PeerId, TimerToken};

use crate::invalid;
use crate::node::seen;

/// The action of an attacker, 20 times a second. Attackers never forward anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Announces all keys that it knows, and never delivers.
    Withhold,
    /// Announces invented keys.
    Announce,
    /// Sends invalid transactions, and answers requests with them.
    Garbage,
    /// Repeatedly sends valid transactions that nobody requested.
    Unrequested,
    /// Repeatedly requests all keys that it knows.
    WantAll,
}

/// Maximum number of keys that an attacker remembers.
const HEARD_MAX: usize = 100;
const ROUND: Duration = Duration::from_millis(50);

pub(crate) struct Attacker {
    pub(crate) attack: Attack,
    pub(crate) config: Config,
    /// The number of the host, which makes its invented keys unique.
    pub(crate) number: u32,
    peers: BTreeSet<PeerId>,
    heard: BTreeSet<TxKey>,
    bodies: Vec<Transaction>,
    rounds: u64,
}

type Cx<'a> = Context<'a, CatFrame, Event>;

impl Attacker {
    pub(crate) fn new(attack: Attack, config: Config, number: u32) -> Self {
        let (peers, heard) = (BTreeSet::new(), BTreeSet::new());
        Self { attack, config, number, peers, heard, bodies: Vec::new(), rounds: 0 }
    }

    fn observe(&mut self, peer: PeerId, frame: &CatFrame, cx: &mut Cx<'_>) {
        let asked = match frame {
            CatFrame::WantTx(_) => 1,
            CatFrame::WantKeys(keys) => keys.len(),
            _ => 0,
        };
        match frame {
            CatFrame::SeenTx(seen) => _ = self.heard.insert(seen.key),
            CatFrame::SeenKeys(seen) => self.heard.extend(seen.keys.iter().copied()),
            frame => {
                self.heard.extend(frame.bodies().iter().map(Transaction::key));
                self.bodies.extend(frame.bodies().iter().cloned());
            }
        }
        if self.attack == Attack::Garbage {
            for _ in 0..asked {
                self.rounds += 1;
                let garbage = invalid(u64::from(self.number) << 40 | self.rounds, 200);
                let (now, lane) = (cx.now(), self.config.sending.map.bodies);
                let _ = cx.outbox().owe(now, peer, lane, CatFrame::tx(garbage), None, None);
            }
        }
        while self.heard.len() > HEARD_MAX {
            self.heard.pop_last();
        }
    }

    fn announce(&self, keys: Vec<TxKey>) -> Vec<CatFrame> {
        if !self.config.protocols.contains(&Protocol::Extended) {
            return keys.into_iter().map(CatFrame::seen).collect();
        }
        keys.chunks(KeyList::MAX).map(seen).collect()
    }

    fn round(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + ROUND, TimerToken(0));
        self.rounds += 1;
        let map = self.config.sending.map;
        for peer in &self.peers {
            let salt = (u64::from(self.number) << 44) + (self.rounds << 20) + (u64::from(peer.0) << 12);
            let (lane, frames) = match self.attack {
                Attack::Withhold => (map.announcements, self.announce(self.heard.iter().copied().collect())),
                Attack::Announce => {
                    let keys = (0..40).map(|number: u64| TxKey::of(&(salt + number).to_be_bytes())).collect();
                    (map.announcements, self.announce(keys))
                }
                Attack::Garbage => {
                    (map.bodies, (0..5).map(|number| CatFrame::tx(invalid(salt + number, 300))).collect())
                }
                Attack::Unrequested => {
                    (map.bodies, self.bodies.iter().take(20).cloned().map(CatFrame::tx).collect())
                }
                Attack::WantAll => {
                    (map.requests, self.heard.iter().take(60).map(|key| CatFrame::want(*key)).collect())
                }
            };
            for frame in frames {
                let _ = cx.outbox().owe(now, *peer, lane, frame, None, None);
            }
        }
    }
}

impl Engine for Attacker {
    type Frame = CatFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<CatFrame, Command>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => cx.set_timer(cx.now() + ROUND, TimerToken(0)),
            Input::Timer(_) => self.round(cx),
            Input::LinkUp { peer, .. } => _ = self.peers.insert(peer),
            Input::LinkDown { peer } => _ = self.peers.remove(&peer),
            Input::Frame { peer, frame } => self.observe(peer, &frame, cx),
            Input::DialFailed { .. } | Input::Command(_) => {}
        }
    }
}
