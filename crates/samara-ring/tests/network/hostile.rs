//! Frames that no member would send.

use std::time::Duration;

use proptest::prelude::*;
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time, TimerToken,
};
use samara_ring::wire::{Data, Heartbeat, State, Unit};
use samara_ring::{Command, Config, Event, Ignored, Preset, Ring, RingFrame, ViewId};

#[path = "../wire/arbitrary.rs"]
mod arbitrary;

use crate::common::{identity, message};

/// A frame as another one says it, about this view or proposal: otherwise nearly all would be ignored at once.
fn aim(frame: RingFrame, node: &Ring) -> RingFrame {
    let Some(view) = node.view().map(|view| view.id) else { return frame };
    let next = ViewId { counter: view.counter + 1, ..view };
    match frame {
        RingFrame::Data(data) => {
            let aimed =
                |unit: &Unit| Unit { origin: unit.origin % 4, sequence: unit.sequence % 40, ..unit.clone() };
            let units = data.units().iter().map(aimed).collect();
            RingFrame::Data(Data::new(view, units, data.acks().to_vec()).into())
        }
        RingFrame::Heartbeat(heartbeat) => {
            let mut heartbeat = (*heartbeat).clone();
            (heartbeat.group, heartbeat.view) = (0, heartbeat.view.map(|_| view));
            heartbeat.incarnation |= u64::MAX << 1;
            RingFrame::Heartbeat(heartbeat.into())
        }
        RingFrame::Credit { bytes, .. } => RingFrame::Credit { view, bytes },
        RingFrame::Resume(resume) => {
            let mut resume = (*resume).clone();
            (resume.view, resume.proposal) = (view, resume.proposal.map(|_| next));
            resume.have.resize(3, 0);
            RingFrame::Resume(resume.into())
        }
        RingFrame::Prepare(prepare) => {
            let mut prepare = (*prepare).clone();
            prepare.proposal = next;
            prepare.members.push(node.member().clone());
            RingFrame::Prepare(prepare.into())
        }
        RingFrame::Cut(cut) => {
            let mut cut = (*cut).clone();
            cut.proposal = next;
            if let Some(first) = cut.views.first_mut() {
                first.view = view;
                first.last.resize(3, 1);
            }
            RingFrame::Cut(cut.into())
        }
        RingFrame::Install { .. } => RingFrame::Install { proposal: next },
        other => other,
    }
}

/// A node and two peers, that the test plays.
struct Played {
    node: Ring,
    outbox: Outbox<RingFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    now: Time,
}

impl Played {
    /// The peers join as they should.
    fn new(config: &Config) -> Self {
        let mut played = Self {
            node: Ring::new(config.clone(), identity(0)).unwrap(),
            outbox: Outbox::new(config.outbox()),
            rng: NodeRng::new(1, 0, Purpose::Engine),
            effects: Effects::default(),
            now: Time::from_secs(1),
        };
        played.handle(Input::Start);
        for peer in 0..2 {
            let info = PeerInfo {
                identity: identity(peer + 1),
                outbound: true,
                address: None,
                protocol: "ring/1".into(),
            };
            played.outbox.link_up(PeerId(peer));
            played.handle(Input::LinkUp { peer: PeerId(peer), info });
            let heartbeat = Heartbeat { incarnation: u64::MAX, ..Heartbeat::default() };
            played.say(peer, RingFrame::Heartbeat(heartbeat.into()));
        }
        for _ in 0..20 {
            if played.node.view().is_some() {
                return played;
            }
            played.tick();
        }
        panic!("no view");
    }

    fn say(&mut self, peer: u32, frame: RingFrame) {
        self.handle(Input::Frame { peer: PeerId(peer), frame });
    }

    fn tick(&mut self) {
        self.now += Duration::from_millis(100);
        self.handle(Input::Timer(TimerToken(0)));
    }

    /// What the node sends; as long as it has no view its peers answer.
    fn handle(&mut self, input: Input<RingFrame, Command>) {
        let mut cx = Context::new(self.now, &mut self.rng, &mut self.outbox, &mut self.effects);
        self.node.handle(input, &mut cx);
        self.effects.timers.clear();
        while let Some(copy) = self.outbox.pop(self.now, |_| true) {
            if self.node.view().is_some() {
                continue;
            }
            match copy.frame {
                RingFrame::Prepare(prepare) => {
                    let proposal = prepare.proposal;
                    let state = State { proposal, view: None, ready: None, have: Vec::new() };
                    self.say(copy.peer.0, RingFrame::State(state.into()));
                }
                RingFrame::Cut(cut) => self.say(copy.peer.0, RingFrame::Ready { proposal: cut.proposal }),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever two members say, nothing breaks, and what is kept stays bounded.
    #[test]
    fn a_member_survives_anything(
        total in any::<bool>(),
        frames in proptest::collection::vec((0u32..2, 0u64..300, arbitrary::frame()), 0..200),
    ) {
        let config = if total { Preset::Total.config() } else { Config::default() };
        let mut played = Played::new(&config);
        prop_assert_eq!(played.node.view().map(|view| view.len()), Some(3));
        for (number, (peer, wait, frame)) in (0u64..).zip(frames) {
            played.now += Duration::from_millis(wait);
            played.handle(Input::Command(Command::Broadcast(message(0, number, 100))));
            if wait % 8 == 0 {
                played.tick();
            }
            let frame = aim(frame, &played.node);
            played.say(peer, frame);
            prop_assert!(played.node.kept_bytes() < 64 << 20);
        }
    }
}

/// A view number out of nowhere does not use all numbers up.
#[test]
fn view_numbers_do_not_run_out() {
    let mut played = Played::new(&Config::default());
    let view = Some(ViewId { counter: u64::MAX, proposer: 1 });
    let heartbeat = Heartbeat { incarnation: u64::MAX, view, ..Heartbeat::default() };
    played.say(0, RingFrame::Heartbeat(heartbeat.into()));
    (0..100).for_each(|_| played.tick());
    assert!(played.node.view().unwrap().id.counter < 100);
    assert!(played.node.metrics().ignored(Ignored::Inconsistent) > 0);
}
