//! What is refused, where, and why.

use bytes::Bytes;
use samara_ring::wire::{Limits, WireErrorKind, decode};

fn error(bytes: &[u8]) -> (&'static str, usize, WireErrorKind) {
    let error = decode(&Bytes::copy_from_slice(bytes), &Limits::default()).unwrap_err();
    (error.path, error.offset, error.kind)
}

const VIEW: [u8; 9] = [1, 0, 0, 0, 0, 0, 0, 0, 0];

fn data(rest: &[u8]) -> Vec<u8> {
    [&[1, 2][..], &VIEW, rest].concat()
}

#[test]
fn versions_and_kinds() {
    assert_eq!(error(&[]), ("version", 0, WireErrorKind::Truncated { needed: 1, available: 0 }));
    assert_eq!(error(&[2, 1]), ("version", 1, WireErrorKind::Unknown { found: 2 }));
    assert_eq!(error(&[1, 14]), ("kind", 2, WireErrorKind::Unknown { found: 14 }));
}

/// A list that claims more entries than the frame can hold takes no memory.
#[test]
fn long_lists() {
    let many = WireErrorKind::Truncated { needed: 5 * 4_000, available: 0 };
    assert_eq!(error(&data(&[0xa0, 0x1f])), ("data.units", 13, many));
    let too_many = WireErrorKind::Limit { found: 5_000, max: 4_096 };
    assert_eq!(error(&data(&[0x88, 0x27])), ("data.units", 13, too_many));
}

#[test]
fn values_that_stand_for_nothing() {
    let flags = error(&data(&[1, 0, 0, 8, 1, 0, 0]));
    assert_eq!(flags, ("unit.flags", 15, WireErrorKind::Unknown { found: 8 }));
    let stamp = error(&data(&[1, 0, 0, 4, 1, 0, 0, 0]));
    assert_eq!(stamp, ("unit.stamp", 17, WireErrorKind::Unknown { found: 0 }));
    let rank = error(&data(&[1, 0x80, 0x80, 4, 0, 0, 0]));
    assert_eq!(rank, ("unit.origin", 15, WireErrorKind::Limit { found: 65_536, max: 65_535 }));
    let long = error(&[1, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]);
    assert_eq!(long, ("credit.view", 2, WireErrorKind::VarintTooLong));
    let trailing = error(&[1, 11, 0, 0]);
    assert_eq!(trailing, ("frame", 3, WireErrorKind::Trailing { found: 1 }));
}
