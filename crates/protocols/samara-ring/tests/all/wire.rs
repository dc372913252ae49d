//! The wire format: frames round-trip, lengths are right, and invalid input does no harm.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use samara_engine::{Frame, PeerIdentity, Shape};
use samara_ring::wire::{
    Ack, Cut, Data, Heartbeat, Hello, Limits, OldView, Prepare, Resume, RingFrame, State, Unit,
    WireErrorKind, decode, encode,
};
use samara_ring::{Member, ViewId};

// ---- strategies for frames ----

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

/// Any frame, including those between leaders of sites.
pub(crate) fn frame() -> impl Strategy<Value = RingFrame> {
    let hello = (any::<u64>(), any::<u16>(), any::<bool>(), option::of(vec(any::<u8>(), 0..9)));
    let hello = hello.prop_map(|(group, site, leads, leader)| {
        let leader = leader.map(|bytes| PeerIdentity::new(&bytes));
        RingFrame::Hello(Arc::new(Hello { group, site, leads, leader }))
    });
    prop_oneof![plain_frame(), plain_frame().prop_map(|frame| RingFrame::Bridge(Arc::new(frame))), hello]
}

fn written(frame: &RingFrame) -> Vec<u8> {
    let mut written = Vec::new();
    encode(frame, &mut written);
    written
}

// ---- properties of every frame ----

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn frames_round_trip(frame in frame()) {
        let written = written(&frame);
        prop_assert_eq!(written.len(), frame.encoded_len());
        prop_assert!(frame.payload_len() <= frame.encoded_len());
        prop_assert_eq!(decode(&written.into(), &Limits::default()).unwrap(), frame);
    }

    #[test]
    fn rejects_truncated_and_extended_frames(frame in frame(), cut in any::<prop::sample::Index>()) {
        let mut written = written(&frame);
        let cut = cut.index(written.len());
        let short = Bytes::copy_from_slice(&written[..cut]);
        prop_assert!(decode(&short, &Limits::default()).is_err());
        written.push(0);
        prop_assert!(decode(&written.into(), &Limits::default()).is_err());
    }

    #[test]
    fn any_bytes_decode_or_fail(mut bytes in vec(any::<u8>(), 0..400), kind in 0u8..16) {
        if let [version, found, ..] = &mut bytes[..] {
            (*version, *found) = (1, kind);
        }
        if let Ok(frame) = decode(&bytes.into(), &Limits::default()) {
            prop_assert_eq!(decode(&written(&frame).into(), &Limits::default()).unwrap(), frame);
        }
    }

    #[test]
    fn changed_byte_does_no_harm(frame in frame(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut written = written(&frame);
        let at = at.index(written.len());
        written[at] = to;
        let _ = decode(&written.into(), &Limits::default());
    }
}

// ---- the format, byte by byte: changing these bytes needs a new version ----

const VIEW: ViewId = ViewId { counter: 300, proposer: 0x0102_0304_0506_0708 };
const VIEW_BYTES: [u8; 10] = [0xac, 0x02, 8, 7, 6, 5, 4, 3, 2, 1];

fn check(frame: &RingFrame, expected: &[u8]) {
    let written = written(frame);
    assert_eq!(written, expected);
    assert_eq!(&decode(&written.into(), &Limits::default()).unwrap(), frame);
}

#[test]
fn data_has_these_bytes() {
    let unit = Unit {
        origin: 3,
        sequence: 129,
        hops: 2,
        stamp: 0,
        first: true,
        last: true,
        bytes: Bytes::from_static(b"abc"),
    };
    let stamped = Unit { stamp: 5, last: false, ..unit.clone() };
    let acks = vec![Ack { origin: 1, reached: 7, stable: 6 }];
    let frame = RingFrame::Data(Arc::new(Data::new(VIEW, vec![unit, stamped], acks)));
    let mut expected = vec![1, 2];
    expected.extend(VIEW_BYTES);
    expected.extend([2, 3, 2, 3, 0x81, 1, 3, b'a', b'b', b'c']);
    expected.extend([3, 2, 1 | 4, 0x81, 1, 5, 3, b'a', b'b', b'c']);
    expected.extend([1, 1, 7, 6]);
    check(&frame, &expected);
}

#[test]
fn proposals_have_these_bytes() {
    let member = Member { identity: PeerIdentity::new(b"n1"), incarnation: 9 };
    let frame = RingFrame::Prepare(Arc::new(Prepare {
        proposal: VIEW,
        members: vec![member],
        departing: Vec::new(),
        shape: Shape::DoubleTree,
    }));
    let mut expected = vec![1, 4];
    expected.extend(VIEW_BYTES);
    expected.extend([1, 2, b'n', b'1', 9, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    check(&frame, &expected);
}

#[test]
fn small_frames_have_these_bytes() {
    let with_view = |kind: u8, rest: &[u8]| [&[1, kind][..], &VIEW_BYTES, rest].concat();
    check(&RingFrame::Credit { view: VIEW, bytes: 128 }, &with_view(3, &[0x80, 1]));
    check(&RingFrame::Nack { proposal: VIEW, promised: VIEW }, &with_view(6, &VIEW_BYTES));
    check(&RingFrame::Ready { proposal: VIEW }, &with_view(9, &[]));
    check(&RingFrame::Install { proposal: VIEW }, &with_view(10, &[]));
    check(&RingFrame::Early(Bytes::from_static(b"x")), &[1, 11, 1, b'x']);
}

#[test]
fn federation_frames_have_these_bytes() {
    let hello = Hello { group: 2, site: 300, leads: true, leader: Some(PeerIdentity::new(b"n1")) };
    let expected = [1, 12, 2, 0, 0, 0, 0, 0, 0, 0, 0xac, 2, 1, 1, 2, b'n', b'1'];
    check(&RingFrame::Hello(Arc::new(hello)), &expected);
    let early = Arc::new(RingFrame::Early(Bytes::from_static(b"x")));
    check(&RingFrame::Bridge(early.clone()), &[1, 13, 1, 11, 1, b'x']);
    // Nested frames are rejected, so that no peer can send a deep stack of them.
    let tower = written(&RingFrame::Bridge(Arc::new(RingFrame::Bridge(early))));
    assert!(decode(&tower.into(), &Limits::default()).is_err());
}

// ---- errors: path, offset and kind ----

fn error(bytes: &[u8]) -> (&'static str, usize, WireErrorKind) {
    let error = decode(&Bytes::copy_from_slice(bytes), &Limits::default()).unwrap_err();
    (error.path, error.offset, error.kind)
}

const FIRST_VIEW: [u8; 9] = [1, 0, 0, 0, 0, 0, 0, 0, 0];

fn data(rest: &[u8]) -> Vec<u8> {
    [&[1, 2][..], &FIRST_VIEW, rest].concat()
}

#[test]
fn rejects_unknown_versions_and_kinds() {
    assert_eq!(error(&[]), ("version", 0, WireErrorKind::Truncated { needed: 1, available: 0 }));
    assert_eq!(error(&[2, 1]), ("version", 1, WireErrorKind::Unknown { found: 2 }));
    assert_eq!(error(&[1, 14]), ("kind", 2, WireErrorKind::Unknown { found: 14 }));
}

/// A list that claims more entries than the frame can hold allocates no memory.
#[test]
fn rejects_long_lists() {
    let many = WireErrorKind::Truncated { needed: 5 * 4_000, available: 0 };
    assert_eq!(error(&data(&[0xa0, 0x1f])), ("data.units", 13, many));
    let too_many = WireErrorKind::Exceeds { found: 5_000, max: 4_096 };
    assert_eq!(error(&data(&[0x88, 0x27])), ("data.units", 13, too_many));
}

#[test]
fn rejects_undefined_values() {
    let flags = error(&data(&[1, 0, 0, 8, 1, 0, 0]));
    assert_eq!(flags, ("unit.flags", 15, WireErrorKind::Unknown { found: 8 }));
    let stamp = error(&data(&[1, 0, 0, 4, 1, 0, 0, 0]));
    assert_eq!(stamp, ("unit.stamp", 17, WireErrorKind::Unknown { found: 0 }));
    let rank = error(&data(&[1, 0x80, 0x80, 4, 0, 0, 0]));
    assert_eq!(rank, ("unit.origin", 15, WireErrorKind::Exceeds { found: 65_536, max: 65_535 }));
    let long = error(&[1, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]);
    assert_eq!(long, ("credit.view", 2, WireErrorKind::VarintTooLong));
    let trailing = error(&[1, 11, 0, 0]);
    assert_eq!(trailing, ("frame", 3, WireErrorKind::Trailing { found: 1 }));
}

#[test]
fn members_are_printed_by_their_names() {
    let member = |name: &[u8]| Member { identity: PeerIdentity::new(name), incarnation: 0x1_0009 };
    let address = member(b"[::1]:7800");
    assert_eq!(
        format!("{address} {address:?} {:?}", address.identity),
        "[::1]:7800 [::1]:7800/0009 [::1]:7800"
    );
    let key = member(b"\x00\x7fa");
    assert_eq!(format!("{key} {key:?}"), "007f61 007f61/0009");
    let ambiguous = member(b"a b\n");
    assert_eq!(ambiguous.to_string(), "6120620a");
}
