//! Frames of all kinds.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use samara_engine::PeerIdentity;
use samara_engine::Shape;
use samara_ring::wire::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, RingFrame, State, Unit};
use samara_ring::{Member, ViewId};

/// Numbers of all lengths.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

fn view() -> impl Strategy<Value = ViewId> {
    (number(), any::<u64>()).prop_map(|(counter, proposer)| ViewId { counter, proposer })
}

fn content() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn name() -> impl Strategy<Value = PeerIdentity> {
    vec(any::<u8>(), 1..40).prop_map(|bytes| PeerIdentity::new(&bytes))
}

fn member() -> impl Strategy<Value = Member> {
    let identity = vec(any::<u8>(), 0..40).prop_map(|bytes| PeerIdentity::new(&bytes));
    (identity, any::<u64>()).prop_map(|(identity, incarnation)| Member { identity, incarnation })
}

fn unit() -> impl Strategy<Value = Unit> {
    (any::<u16>(), number(), any::<u16>(), number(), any::<bool>(), any::<bool>(), content()).prop_map(
        |(origin, sequence, hops, stamp, first, last, bytes)| Unit {
            origin,
            sequence,
            hops,
            stamp,
            first,
            last,
            bytes,
        },
    )
}

fn ack() -> impl Strategy<Value = Ack> {
    (any::<u16>(), number(), number()).prop_map(|(origin, reached, stable)| Ack { origin, reached, stable })
}

fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let one = (
        any::<u64>(),
        any::<u64>(),
        option::of(view()),
        any::<u16>(),
        option::of(view()),
        option::of(name()),
    );
    let two = (any::<bool>(), vec(any::<u16>(), 0..8), number(), number(), number(), number());
    (one, two).prop_map(|(one, two)| Heartbeat {
        group: one.0,
        incarnation: one.1,
        leader: one.5,
        view: one.2,
        members: one.3,
        promised: one.4,
        leaving: two.0,
        suspects: two.1,
        progress: two.2,
        sent: two.3,
        echo: two.4,
        held: two.5,
    })
}

fn plain_frame() -> impl Strategy<Value = RingFrame> {
    let data = (view(), vec(unit(), 0..8), vec(ack(), 0..8))
        .prop_map(|(view, units, acks)| RingFrame::Data(Arc::new(Data::new(view, units, acks))));
    let shape = (0..Shape::ALL.len()).prop_map(|index| Shape::ALL[index]);
    let prepare = (view(), vec(member(), 0..8), vec(member(), 0..4), shape).prop_map(
        |(proposal, members, departing, shape)| {
            RingFrame::Prepare(Arc::new(Prepare { proposal, members, departing, shape }))
        },
    );
    let state = (view(), option::of(view()), option::of(view()), vec(number(), 0..20)).prop_map(
        |(proposal, view, ready, have)| RingFrame::State(Arc::new(State { proposal, view, ready, have })),
    );
    let resume = (view(), option::of(view()), vec(number(), 0..20))
        .prop_map(|(view, proposal, have)| RingFrame::Resume(Arc::new(Resume { view, proposal, have })));
    let old = (view(), vec(number(), 0..20), vec(any::<u16>(), 0..9))
        .prop_map(|(view, last, staying)| OldView { view, last, staying });
    let cut = (view(), vec(old, 0..5))
        .prop_map(|(proposal, views)| RingFrame::Cut(Arc::new(Cut { proposal, views })));
    prop_oneof![
        heartbeat().prop_map(|heartbeat| RingFrame::Heartbeat(Arc::new(heartbeat))),
        data,
        (view(), number()).prop_map(|(view, bytes)| RingFrame::Credit { view, bytes }),
        prepare,
        state,
        (view(), view()).prop_map(|(proposal, promised)| RingFrame::Nack { proposal, promised }),
        resume,
        cut,
        view().prop_map(|proposal| RingFrame::Ready { proposal }),
        view().prop_map(|proposal| RingFrame::Install { proposal }),
        content().prop_map(RingFrame::Early),
    ]
}

/// Any frame, of leaders of sites too.
pub(crate) fn frame() -> impl Strategy<Value = RingFrame> {
    let hello = (any::<u64>(), any::<u16>(), any::<bool>(), option::of(vec(any::<u8>(), 0..9)));
    let hello = hello.prop_map(|(group, site, leads, leader)| {
        let leader = leader.map(|bytes| PeerIdentity::new(&bytes));
        RingFrame::Hello(Arc::new(Hello { group, site, leads, leader }))
    });
    prop_oneof![plain_frame(), plain_frame().prop_map(|frame| RingFrame::Bridge(Arc::new(frame))), hello]
}
