//! Frames that no correct member sends.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use samara_engine::Shape;
use samara_engine::testing::{Single, identity_of};
use samara_engine::{Input, LinkRequest, Outbox, PeerId, PeerIdentity, Time, TimerToken};
use samara_ring::wire::{Ack, Cut, Data, Heartbeat, OldView, Prepare, State, Unit};
use samara_ring::{Command, Config, Event, Ignored, Member, Preset, Ring, RingFrame, SuspectCause, ViewId};

use crate::message;
use crate::wire;

/// Adapts a frame to the node's current view or proposal, because the node would ignore nearly all
/// others at once.
fn aim(frame: RingFrame, peer: u32, node: &Ring) -> RingFrame {
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
            heartbeat.incarnation = incarnation(peer) - heartbeat.incarnation % 2;
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

/// Returns the incarnation of a peer.
fn incarnation(peer: u32) -> u64 {
    u64::MAX - 2 * u64::from(peer)
}

/// A node and two peers, which the test plays.
struct Played(Single<Ring>);

impl Played {
    /// The peers join correctly.
    fn new(config: &Config) -> Self {
        let node = Ring::new(config.clone(), identity_of(0)).unwrap();
        let mut played = Self(Single::new(node, Outbox::new(config.outbox()), 1));
        played.0.now = Time::from_secs(1);
        played.handle(Input::Start);
        for peer in 0..2 {
            played.link_up(peer, peer + 1);
            let heartbeat = Heartbeat { incarnation: incarnation(peer), ..Heartbeat::default() };
            played.say(peer, RingFrame::Heartbeat(heartbeat.into()));
        }
        for _ in 0..20 {
            if played.0.engine.view().is_some() {
                return played;
            }
            played.tick();
        }
        panic!("no view");
    }

    fn link_up(&mut self, peer: u32, host: u32) {
        self.0.connect(PeerId(peer), identity_of(host), "ring/1", true);
        self.answer();
    }

    fn link_down(&mut self, peer: u32) {
        self.0.disconnect(PeerId(peer));
        self.answer();
    }

    fn say(&mut self, peer: u32, frame: RingFrame) {
        self.handle(Input::Frame { peer: PeerId(peer), frame });
    }

    fn tick(&mut self) {
        self.0.now += Duration::from_millis(100);
        self.handle(Input::Timer(TimerToken(0)));
    }

    /// Returns the nodes that were dialled since the last call.
    fn dials(&mut self) -> Vec<PeerIdentity> {
        let links = self.0.links.drain(..);
        links
            .filter_map(|link| if let LinkRequest::Dial(identity) = link { Some(identity) } else { None })
            .collect()
    }

    /// Advances the time, lets each dial fail, and counts the dials to a node.
    fn count_dials(&mut self, of: u32, seconds: u64, mut each_tick: impl FnMut(&mut Self)) -> usize {
        let mut count = 0;
        for _ in 0..10 * seconds {
            self.tick();
            each_tick(self);
            for dialled in self.dials() {
                count += usize::from(dialled == identity_of(of));
                self.handle(Input::DialFailed { identity: dialled });
            }
        }
        count
    }

    fn handle(&mut self, input: Input<RingFrame, Command>) {
        self.0.handle(input);
        self.answer();
    }

    /// Answers the node as its peers until it has a view.
    fn answer(&mut self) {
        while let Some(copy) = self.0.pop() {
            if self.0.engine.view().is_some() {
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

    /// Two members may send anything: the node does not panic, and its memory stays bounded.
    #[test]
    fn member_survives_any_frames(
        total in any::<bool>(),
        frames in proptest::collection::vec((0u32..2, 0u64..300, wire::frame()), 0..200),
    ) {
        let config = if total { Preset::RingTotal.config().unwrap() } else { Config::default() };
        let mut played = Played::new(&config);
        prop_assert_eq!(played.0.engine.view().map(|view| view.len()), Some(3));
        for (number, (peer, wait, frame)) in (0u64..).zip(frames) {
            played.0.now += Duration::from_millis(wait);
            played.handle(Input::Command(Command::Broadcast(message(0, number, 100))));
            if wait % 8 == 0 {
                played.tick();
            }
            let frame = aim(frame, peer, &played.0.engine);
            played.say(peer, frame);
            prop_assert!(played.0.engine.kept_bytes() < 64 << 20);
        }
    }
}

/// A view number far ahead does not exhaust the numbers.
#[test]
fn view_number_far_ahead_is_ignored() {
    let mut played = Played::new(&Config::default());
    let view = Some(ViewId { counter: u64::MAX, proposer: 1 });
    let heartbeat = Heartbeat { incarnation: u64::MAX, view, ..Heartbeat::default() };
    played.say(0, RingFrame::Heartbeat(heartbeat.into()));
    (0..100).for_each(|_| played.tick());
    assert!(played.0.engine.view().unwrap().id.counter < 100);
    assert!(played.0.engine.metrics().ignored(Ignored::Inconsistent) > 0);
}

/// Nor do many views, each as far ahead as possible.
#[test]
fn view_numbers_outlast_a_flood() {
    let mut played = Played::new(&Config::default());
    let before = played.0.engine.view().unwrap().id.counter;
    let mut counter = before;
    for number in 0..1_000_000 {
        counter += 1 << 32;
        let view = Some(ViewId { counter, proposer: 1 });
        let heartbeat = Heartbeat { incarnation: u64::MAX, view, ..Heartbeat::default() };
        played.say(0, RingFrame::Heartbeat(heartbeat.into()));
        if number % 10_000 == 0 {
            played.tick();
        }
        if played.0.engine.metrics().ignored(Ignored::Inconsistent) > 0 {
            break;
        }
    }
    assert!(counter - before <= 3 << 32, "{counter}");
    // Proposals still work: the other member is silent.
    (0..200).for_each(|_| played.tick());
    assert!(played.0.engine.metrics().proposals > 1, "{:?}", played.0.engine.metrics());
}

/// Returns a data frame of the peer with number 0, whose rank is 1, that lies in a block of the
/// transport.
fn data_in_block(played: &Played, sequence: u64, len: usize) -> (Bytes, RingFrame) {
    let block = Bytes::from(vec![7; 256 << 10]);
    let unit =
        Unit { origin: 1, sequence, hops: 1, stamp: 0, first: true, last: true, bytes: block.slice(..len) };
    let view = played.0.engine.view().unwrap().id;
    (block, RingFrame::Data(Data::new(view, vec![unit], Vec::new()).into()))
}

/// A unit that waits until all members have it keeps no block alive whose other frames nobody keeps.
#[test]
fn short_units_keep_no_blocks_alive() {
    let config = Config::default();
    let mut played = Played::new(&config);
    played.handle(Input::Command(Command::Pause));
    let mut alive = Vec::new();
    for sequence in 1..=200 {
        // Nobody keeps a frame of another view.
        let stale = ViewId { counter: u64::MAX, proposer: 1 };
        let junk = Unit {
            origin: 1,
            sequence: 1,
            hops: 1,
            stamp: 0,
            first: true,
            last: true,
            bytes: vec![0; 250 << 10].into(),
        };
        played.say(0, RingFrame::Data(Data::new(stale, vec![junk], Vec::new()).into()));
        let (block, frame) = data_in_block(&played, sequence, 100);
        played.say(0, frame);
        alive.push(block);
    }
    assert_eq!(played.0.engine.kept_bytes(), 200 * (100 + 64));
    let kept = alive.iter().filter(|block| !block.is_unique()).count();
    assert!(kept <= 1, "{kept} of 200 blocks are alive");
}

/// Units that fill their blocks are not copied.
#[test]
fn long_units_are_not_copied() {
    let mut played = Played::new(&Config::default());
    for sequence in 1..=20 {
        let (block, frame) = data_in_block(&played, sequence, 8 << 10);
        played.say(0, frame);
        assert!(!block.is_unique(), "unit {sequence} was copied");
    }
}

/// Missing units before one that has arrived count like kept ones.
#[test]
fn places_of_missing_units_are_bounded() {
    let config = Config::default();
    let mut played = Played::new(&config);
    let bound = 2 * (config.window.max_bytes + config.chunk_bytes as u64 + 64);
    let ignored = |played: &Played| played.0.engine.metrics().ignored(Ignored::BeyondWindow);
    for sequence in [u64::MAX, 1 << 60, bound / 64 + 2] {
        let before = ignored(&played);
        let (_block, frame) = data_in_block(&played, sequence, 1);
        played.say(0, frame);
        assert_eq!(ignored(&played), before + 1, "unit {sequence}");
        assert_eq!(played.0.engine.kept_bytes(), 0);
    }
    let (_block, frame) = data_in_block(&played, bound / 64 - 10, 1);
    played.say(0, frame);
    assert_eq!(played.0.engine.kept_bytes(), (bound / 64 - 10) * 64 + 1);
    // The places leave no room for a unit of this length.
    let (_block, frame) = data_in_block(&played, 1, 4 << 10);
    played.say(0, frame);
    assert!(played.0.engine.kept_bytes() <= bound);
    assert_eq!(ignored(&played), 4);
}

/// Messages without content, and early ones, are bounded while the application takes nothing.
#[test]
fn deliveries_that_wait_are_bounded() {
    let config = Config { held_bytes: 10_000, ..Config::default() };
    let mut played = Played::new(&config);
    played.handle(Input::Command(Command::Pause));
    for _ in 0..1_000 {
        played.say(0, RingFrame::Early(Bytes::new()));
    }
    let overflow = played.0.engine.metrics().ignored(Ignored::EarlyOverflow);
    assert!((800..900).contains(&overflow), "{overflow} messages were refused");
}

/// Returns a proposal of a view of this node and 255 others, numbered from `first`.
fn crowd(played: &Played, counter: u64, first: u32) -> RingFrame {
    let others = (first..first + 255).map(|host| Member { identity: identity_of(host), incarnation: 1 });
    let members = std::iter::once(played.0.engine.member().clone()).chain(others).collect();
    let proposal = ViewId { counter, proposer: 1 };
    RingFrame::Prepare(Prepare { proposal, members, departing: Vec::new(), shape: Shape::Ring }.into())
}

#[test]
fn dials_for_proposals_are_bounded() {
    let config = Config::default();
    let mut played = Played::new(&config);
    let counter = played.0.engine.view().unwrap().id.counter;
    played.dials();
    for number in 1..=1_000 {
        let prepare = crowd(&played, counter + number, 1_000 * number as u32);
        played.say(0, prepare);
    }
    played.tick();
    let dialled = played.dials().len();
    assert!((200..=config.members_max).contains(&dialled), "{dialled} dials");
    // Each other name was counted.
    assert!(played.0.engine.metrics().refused_names >= 998 * 255, "{:?}", played.0.engine.metrics());
}

/// The limit holds even if new proposals arrive all the time. The dials stop when the proposals
/// end.
#[test]
fn dials_for_an_uninstalled_view_stop_after_seconds() {
    let config = Config::default();
    let mut played = Played::new(&config);
    let counter = played.0.engine.view().unwrap().id.counter;
    let mut dialled = std::collections::BTreeSet::new();
    for number in 1..=300 {
        let prepare = crowd(&played, counter + number, 1_000 * number as u32);
        played.say(0, prepare);
        played.tick();
        dialled.extend(played.dials());
    }
    // A proposal lasts 6.2 s, so the node takes part in at most five in 30 s.
    assert!((config.members_max..=5 * config.members_max).contains(&dialled.len()), "{}", dialled.len());
    played.count_dials(0, 7, |_| {});
    let members = [identity_of(1), identity_of(2)];
    for _ in 0..100 {
        played.tick();
        let dials = played.dials();
        assert!(dials.iter().all(|identity| members.contains(identity)), "{dials:?}");
    }
}

#[test]
fn dials_of_a_named_address_back_off() {
    let mut played = Played::new(&Config::default());
    let leader = Some(identity_of(9));
    let heartbeat = Heartbeat { incarnation: u64::MAX, leader, ..Heartbeat::default() };
    let frame = RingFrame::Heartbeat(heartbeat.into());
    let count = played.count_dials(9, 60, |played| played.say(0, frame.clone()));
    // After 0, 1, 3, 7, 15, 23... seconds.
    assert!((8..=12).contains(&count), "{count} dials");
}

#[test]
fn dials_of_a_lost_member_back_off_after_a_minute() {
    let mut played = Played::new(&Config::default());
    played.dials();
    played.link_down(1);
    let count = played.count_dials(2, 50, |_| {});
    assert!(count >= 90, "{count} dials");
    played.count_dials(2, 60, |_| {});
    let count = played.count_dials(2, 60, |_| {});
    assert!((6..=9).contains(&count), "{count} dials");
    // A member that returned gets the same patience again.
    played.link_up(1, 2);
    played.link_down(1);
    let count = played.count_dials(2, 50, |_| {});
    assert!(count >= 90, "{count} dials");
}

/// A member can make a node install any view. The members of the last one are dialled for ten
/// minutes.
#[test]
fn dials_for_installed_views_are_bounded() {
    let config = Config::default();
    let mut played = Played::new(&config);
    let counter = played.0.engine.view().unwrap().id.counter;
    for number in 1..=20 {
        let id = ViewId { counter: counter + number, proposer: 1 };
        let RingFrame::Prepare(prepare) = crowd(&played, id.counter, 1_000 * number as u32) else {
            unreachable!()
        };
        let mut prepare = (*prepare).clone();
        let peer = Member { identity: identity_of(1), incarnation: u64::MAX };
        prepare.members[1] = peer;
        played.say(0, RingFrame::Prepare(prepare.into()));
        let view = played.0.engine.view().unwrap().clone();
        let staying = vec![0, 1];
        let old = OldView { view: view.id, last: vec![0; view.len()], staying };
        played.say(0, RingFrame::Cut(Cut { proposal: id, views: vec![old] }.into()));
        played.say(0, RingFrame::Install { proposal: id });
        assert_eq!(played.0.engine.view().unwrap().id, id, "the view is installed");
    }
    played.dials();
    played.tick();
    let dialled = played.dials().len();
    assert!((200..=2 * config.members_max).contains(&dialled), "{dialled} dials");
}

/// After a proposer's peer number is reused, the new node has no part in the old proposal.
#[test]
fn number_of_a_forgotten_peer_can_be_reused() {
    let mut played = Played::new(&Config::default());
    let view = played.0.engine.view().unwrap().id;
    assert!(!played.0.engine.forget_peer(PeerId(0)), "a member");
    played.link_down(0);
    assert!(!played.0.engine.forget_peer(PeerId(0)), "a member without a link");
    played.link_up(0, 1);
    played.link_up(2, 3);
    assert!(!played.0.engine.forget_peer(PeerId(2)), "its link is up");

    let proposal = ViewId { counter: view.counter + 1, proposer: 3 };
    let members =
        [(0, played.0.engine.member().incarnation), (1, incarnation(0)), (2, incarnation(1)), (3, 3)];
    let members =
        members.map(|(host, incarnation)| Member { identity: identity_of(host), incarnation }).to_vec();
    let (departing, shape) = (Vec::new(), Shape::Ring);
    played.say(0, RingFrame::Heartbeat(Heartbeat { incarnation: u64::MAX, ..Heartbeat::default() }.into()));
    played.say(2, RingFrame::Prepare(Prepare { proposal, members, departing, shape }.into()));
    assert!(played.0.engine.is_changing());
    played.link_down(2);
    assert!(played.0.engine.forget_peer(PeerId(2)));
    played.link_up(2, 4);
    let before = played.0.engine.metrics().ignored(Ignored::StaleProposal);
    played.say(2, RingFrame::Cut(Cut { proposal, views: Vec::new() }.into()));
    assert_eq!(played.0.engine.metrics().ignored(Ignored::StaleProposal), before + 1);
    // It does not wait for the new node to continue the proposal either.
    let proposals = played.0.engine.metrics().proposals;
    played.tick();
    assert_eq!(played.0.engine.metrics().proposals, proposals + 1);
}

/// Returns a heartbeat of a member of the node's view.
fn heartbeat(played: &Played, incarnation: u64, suspects: Vec<u16>) -> RingFrame {
    let view = played.0.engine.view().map(|view| view.id);
    RingFrame::Heartbeat(Heartbeat { incarnation, view, members: 3, suspects, ..Heartbeat::default() }.into())
}

fn suspicions(played: &Played) -> Vec<(PeerIdentity, SuspectCause)> {
    let of = |event: &Event| match event {
        Event::Suspected { member, cause } => Some((member.identity.clone(), *cause)),
        _ => None,
    };
    played.0.events.iter().filter_map(of).collect()
}

/// The node tells the others that it knows, so that the group does not take it for the one at fault.
#[test]
fn a_member_that_repeats_a_heartbeat_of_another_is_convicted() {
    for repeated in [None, Some(1)] {
        let mut played = Played::new(&Config::default());
        let of = repeated.map_or(played.0.engine.member().incarnation, incarnation);
        let frame = heartbeat(&played, of, Vec::new());
        played.0.handle(Input::Frame { peer: PeerId(0), frame });
        assert_eq!(suspicions(&played), [(identity_of(1), SuspectCause::Impersonates)]);
        assert_eq!(played.0.engine.metrics().ignored(Ignored::Forged), 1);
        let rank = played
            .0
            .engine
            .view()
            .unwrap()
            .rank_of(&Member { identity: identity_of(1), incarnation: incarnation(0) });
        let mut suspects = std::iter::from_fn(|| played.0.pop()).filter_map(|copy| match copy.frame {
            RingFrame::Heartbeat(heartbeat) if copy.peer == PeerId(1) => Some(heartbeat.suspects.clone()),
            _ => None,
        });
        assert_eq!(suspects.next(), Some(vec![rank.unwrap() | Heartbeat::PROVEN]));
    }
}

/// The node proposes a view without it at once, regardless of the peers that joined later.
#[test]
fn a_member_believes_who_knows_that_another_broke_the_protocol() {
    let mut played = Played::new(&Config::default());
    let proposals = played.0.engine.metrics().proposals;
    let frame = heartbeat(&played, incarnation(0), vec![2]);
    played.say(0, frame);
    assert_eq!(played.0.engine.metrics().proposals, proposals, "it may hear it again");
    let frame = heartbeat(&played, incarnation(0), vec![2 | Heartbeat::PROVEN]);
    played.0.handle(Input::Frame { peer: PeerId(0), frame });
    assert_eq!(played.0.engine.metrics().proposals, proposals + 1);
    let prepare = std::iter::from_fn(|| played.0.pop()).find_map(|copy| match copy.frame {
        RingFrame::Prepare(prepare) => Some(prepare),
        _ => None,
    });
    let members = prepare.unwrap().members.iter().map(|member| member.identity.clone()).collect::<Vec<_>>();
    assert_eq!(members, [identity_of(0), identity_of(1)]);
}

/// A proposal that another member repeats would make the node wait for that one, and refuse the
/// proposer's own.
#[test]
fn a_repeated_proposal_is_not_accepted() {
    let mut played = Played::new(&Config::default());
    let view = played.0.engine.view().unwrap().clone();
    let proposal = ViewId { counter: view.id.counter + 1, proposer: incarnation(1) };
    let (members, departing) = (view.members.to_vec(), Vec::new());
    let prepare = RingFrame::Prepare(Prepare { proposal, members, departing, shape: Shape::Ring }.into());
    played.say(0, prepare.clone());
    assert_eq!(played.0.engine.metrics().ignored(Ignored::Forged), 1);
    // The node has proposed a view without the one that repeats.
    let RingFrame::Prepare(own) = prepare else { unreachable!() };
    let proposal = ViewId { counter: view.id.counter + 2, ..own.proposal };
    played.say(1, RingFrame::Prepare(Prepare { proposal, ..(*own).clone() }.into()));
    assert!(played.0.engine.is_changing());
    assert_eq!(played.0.engine.metrics().ignored(Ignored::Forged), 1);
}

/// Only the predecessor knows what all members before this one have.
#[test]
fn acknowledgements_of_another_than_the_predecessor_do_not_count() {
    let mut played = Played::new(&Config::default());
    played.handle(Input::Command(Command::Broadcast(message(0, 1, 100))));
    assert_eq!(played.0.engine.kept_bytes(), 164);
    let view = played.0.engine.view().unwrap().id;
    let acks = vec![Ack { origin: 0, reached: 1, stable: 1 }];
    let frame = RingFrame::Data(Data::new(view, Vec::new(), acks).into());
    played.say(0, frame.clone());
    assert_eq!(played.0.engine.kept_bytes(), 164, "the other member may lack it");
    played.say(1, frame);
    assert_eq!(played.0.engine.kept_bytes(), 0);
}
