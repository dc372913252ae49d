//! Limits and undefined values.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Shape;
use samara_mix::wire::{Limits, Piece, WireError, decode, encode};
use samara_mix::{MixFrame, Phase, Plan, Transfer};

fn read(frame: &MixFrame, limits: &Limits) -> Result<MixFrame, WireError> {
    let mut written = Vec::new();
    encode(frame, &mut written);
    decode(written.into(), limits)
}

fn slots(len: usize) -> MixFrame {
    let elements = Bytes::from(vec![1; len]);
    MixFrame::Slots(Piece { round: 1, phase: Phase::Decrypt, first: 0, elements, credentials: Bytes::new() })
}

#[test]
fn frames_are_bounded_by_kind() {
    let limits = Limits { slots_bytes: 10_000, control_bytes: 100, team: 3 };
    assert!(read(&slots(9_900), &limits).is_ok());
    assert!(matches!(read(&slots(10_000), &limits), Err(WireError::TooLong { max: 10_000, .. })));
    let share =
        |len| MixFrame::Share { round: 1, origin: 0, is_complete: false, key: Bytes::from(vec![1; len]) };
    assert!(read(&share(80), &limits).is_ok());
    assert!(matches!(read(&share(200), &limits), Err(WireError::TooLong { max: 100, .. })));
    let plan = |team| {
        MixFrame::Create(Arc::new(Plan {
            round: 1,
            team: (0..team).collect(),
            incarnations: Vec::new(),
            batch: 1,
            precomputation_slots: 1,
            realtime_slots: 1,
            transfer: Transfer::Streamed,
            shape: Shape::Ring,
        }))
    };
    assert!(read(&plan(3), &limits).is_ok());
    assert_eq!(read(&plan(4), &limits), Err(WireError::Limit { field: "create.team", found: 4, max: 3 }));
}

#[test]
fn default_limits_allow_a_whole_batch_of_the_larger_group() {
    // 1,000 slots with keys and ciphertexts of 512 bytes for both payloads, and 1,000 slots with
    // credentials for 32 nodes.
    assert!(read(&slots(1_000 * 4 * 512), &Limits::default()).is_ok());
    assert!(read(&slots(1_000 * (2 * 512 + 34 * 32)), &Limits::default()).is_ok());
}

#[test]
fn rejects_undefined_values() {
    // Written by hand: field, length, and contents.
    for (bytes, field) in [
        (&[0x3a, 2, 0x10, 6][..], "slots.phase"),
        (&[0x42, 2, 0x10, 99], "received.phase"),
        (&[0x2a, 2, 0x10, 6], "status.state"),
        (&[0x22, 2, 0x10, 10], "end.cause"),
        (&[0x4a, 4, 0x18, 0x80, 0x80, 0x04], "ping.seat"),
        // A culprit without a cause.
        (&[0x22, 2, 0x18, 1], "end.cause"),
        (&[0x12, 2, 0x38, 4], "create.shape"),
        // Incarnations of a part, and of one node without a team.
        (&[0x12, 3, 0x42, 1, 7], "create.incarnations"),
        (&[0x12, 10, 0x42, 8, 1, 2, 3, 4, 5, 6, 7, 8], "create.incarnations"),
        (&[0x32, 4, 0x10, 0x80, 0x80, 0x04], "share.origin"),
        (&[], "body"),
    ] {
        match decode(Bytes::copy_from_slice(bytes), &Limits::default()) {
            Err(WireError::Value { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let truncated = decode(Bytes::from_static(&[0x3a, 9, 1]), &Limits::default());
    assert!(matches!(truncated, Err(WireError::Protobuf(_))));
}
