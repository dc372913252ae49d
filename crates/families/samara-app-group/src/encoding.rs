//! Frames, commands, events and counters come back from their encodings.

use samara_engine::{PeerIdentity, Shape};
use samara_lab::testing::{bytes, frames_survive, survives};
use samara_ring::daisychain::DaisyFrame;
use samara_ring::wire::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, State, Unit};
use samara_ring::{Member as RingMember, RingFrame, ViewId};
use samara_sim::Postcard;

use super::codec::Wire;
use super::{Act, Cause, Counters, Counts, Delivery, MemberEvent, Totals};

#[test]
fn frames_come_back() {
    let view = |counter| ViewId { counter, proposer: u64::MAX };
    let member = RingMember { identity: PeerIdentity::new(&[0, 1]), incarnation: 3 };
    let unit =
        Unit { origin: 1, sequence: 2, hops: 3, stamp: 4, first: true, last: true, bytes: bytes(1_000) };
    let ack = Ack { origin: 1, reached: 2, stable: 1 };
    let data = RingFrame::Data(Data::new(view(1), vec![unit], vec![ack]).into());
    let heartbeat = Heartbeat {
        group: 1,
        incarnation: 2,
        leader: Some(member.identity.clone()),
        view: Some(view(1)),
        members: 5,
        promised: None,
        leaving: true,
        suspects: vec![1, 2],
        progress: 3,
        sent: 4,
        echo: 5,
        held: 6,
    };
    let hello = Hello { group: 1, site: 2, leads: true, leader: None };
    let members = vec![member];
    let prepare =
        Prepare { proposal: view(2), departing: members.clone(), members, shape: Shape::DoubleTree };
    let state = State { proposal: view(2), view: Some(view(1)), ready: None, have: vec![1, 2] };
    let old = OldView { view: view(1), last: vec![4], staying: vec![0, 1] };
    let cut = Cut { proposal: view(2), views: vec![old] };
    let resume = Resume { view: view(1), proposal: Some(view(2)), have: vec![3] };
    frames_survive(
        &Wire,
        &[
            RingFrame::Bridge(data.clone().into()),
            data,
            RingFrame::Heartbeat(heartbeat.into()),
            RingFrame::Credit { view: view(1), bytes: 1 << 40 },
            RingFrame::Prepare(prepare.into()),
            RingFrame::State(state.into()),
            RingFrame::Nack { proposal: view(2), promised: view(3) },
            RingFrame::Resume(resume.into()),
            RingFrame::Cut(cut.into()),
            RingFrame::Ready { proposal: view(2) },
            RingFrame::Install { proposal: view(2) },
            RingFrame::Early(bytes(20)),
            RingFrame::Hello(hello.into()),
        ],
    );
}

#[test]
fn frames_of_the_daisy_chain_come_back() {
    let message = DaisyFrame::Message { origin: 1, ttl: 2, content: bytes(100) };
    frames_survive(&Postcard, &[message, DaisyFrame::Credit(3)]);
}

#[test]
fn commands_events_and_counters_come_back() {
    [Act::Begin, Act::Leave, Act::End].iter().for_each(|act| drop(survives(act)));
    survives(&MemberEvent::Started);
    survives(&MemberEvent::Delivered(Delivery { origin: 1, number: 2, nanos: 3, from: Some(4) }));
    survives(&MemberEvent::Done { broadcast: 1 });
    survives(&MemberEvent::Suspected { host: 1, is_slow: true });
    let ignored = vec![
        (Cause::Ring(samara_ring::Ignored::Duplicate), 1),
        (Cause::Federation(samara_ring::Unused::Duplicate), 2),
        (Cause::Inconsistent, 3),
    ];
    let totals = Totals { bytes_from: vec![1, 2], bytes_of: [3; 5], ..Totals::default() };
    survives(&Counters { engine: Counts { ignored, ..Counts::default() }, totals });
}
