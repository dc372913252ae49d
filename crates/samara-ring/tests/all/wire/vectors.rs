//! The format, byte by byte: a change of these is a change of the version.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::PeerIdentity;
use samara_engine::Shape;
use samara_ring::wire::{Ack, Data, Hello, Limits, Prepare, RingFrame, Unit, decode, encode};
use samara_ring::{Member, ViewId};

const VIEW: ViewId = ViewId { counter: 300, proposer: 0x0102_0304_0506_0708 };
const VIEW_BYTES: [u8; 10] = [0xac, 0x02, 8, 7, 6, 5, 4, 3, 2, 1];

fn check(frame: &RingFrame, expected: &[u8]) {
    let mut written = Vec::new();
    encode(frame, &mut written);
    assert_eq!(written, expected);
    assert_eq!(&decode(&written.into(), &Limits::default()).unwrap(), frame);
}

#[test]
fn data() {
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
fn prepare() {
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
fn small_frames() {
    let with_view = |kind: u8, rest: &[u8]| [&[1, kind][..], &VIEW_BYTES, rest].concat();
    check(&RingFrame::Credit { view: VIEW, bytes: 128 }, &with_view(3, &[0x80, 1]));
    check(&RingFrame::Nack { proposal: VIEW, promised: VIEW }, &with_view(6, &VIEW_BYTES));
    check(&RingFrame::Ready { proposal: VIEW }, &with_view(9, &[]));
    check(&RingFrame::Install { proposal: VIEW }, &with_view(10, &[]));
    check(&RingFrame::Early(Bytes::from_static(b"x")), &[1, 11, 1, b'x']);
}

#[test]
fn frames_of_federations() {
    let hello = Hello { group: 2, site: 300, leads: true, leader: Some(PeerIdentity::new(b"n1")) };
    let expected = [1, 12, 2, 0, 0, 0, 0, 0, 0, 0, 0xac, 2, 1, 1, 2, b'n', b'1'];
    check(&RingFrame::Hello(Arc::new(hello)), &expected);
    let early = Arc::new(RingFrame::Early(Bytes::from_static(b"x")));
    check(&RingFrame::Bridge(early.clone()), &[1, 13, 1, 11, 1, b'x']);
    // One in another is refused, so that nobody can send a tower of them.
    let mut written = Vec::new();
    encode(&RingFrame::Bridge(Arc::new(RingFrame::Bridge(early))), &mut written);
    assert!(decode(&written.into(), &Limits::default()).is_err());
}
