//! Frames round-trip, and invalid input does no harm.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use samara_engine::Frame;
use samara_engine::Shape;
use samara_mix::wire::{Limits, Piece, decode, encode};
use samara_mix::{Cause, Failure, MixFrame, NodeState, Phase, Plan, Transfer};

fn phase() -> impl Strategy<Value = Phase> {
    (0..Phase::ALL.len()).prop_map(|index| Phase::ALL[index])
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn failure() -> impl Strategy<Value = Failure> {
    let cause = (0..Cause::ALL.len()).prop_map(|index| Cause::ALL[index]);
    (cause, proptest::option::of(0..u32::MAX)).prop_map(|(cause, culprit)| Failure { cause, culprit })
}

fn plan() -> impl Strategy<Value = Plan> {
    let numbers = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    let team = proptest::collection::vec((any::<u32>(), any::<u64>()), 0..32);
    (numbers, team, any::<[bool; 2]>(), 0usize..4).prop_map(|(numbers, team, [is_unary, knows], shape)| {
        Plan {
            round: numbers.0,
            team: team.iter().map(|(node, _)| *node).collect(),
            incarnations: team.iter().filter(|_| knows).map(|(_, one)| *one).collect(),
            batch: numbers.1,
            precomputation_slots: numbers.2,
            realtime_slots: numbers.3,
            transfer: if is_unary { Transfer::Unary } else { Transfer::Streamed },
            shape: Shape::ALL[shape],
        }
    })
}

/// Returns a strategy for any valid frame.
pub(crate) fn frame() -> impl Strategy<Value = MixFrame> {
    let state = (0..NodeState::ALL.len()).prop_map(|index| NodeState::ALL[index]);
    prop_oneof![
        any::<u64>().prop_map(|incarnation| MixFrame::Hello { incarnation }),
        plan().prop_map(|plan| MixFrame::Create(Arc::new(plan))),
        any::<u64>().prop_map(|round| MixFrame::Queued { round }),
        (any::<u64>(), proptest::option::of(failure()))
            .prop_map(|(round, failure)| MixFrame::End { round, failure }),
        (any::<u64>(), state).prop_map(|(round, state)| MixFrame::Status { round, state }),
        (any::<u64>(), any::<u16>(), any::<bool>(), bytes(600)).prop_map(
            |(round, origin, is_complete, key)| MixFrame::Share { round, origin, is_complete, key }
        ),
        (any::<u64>(), phase(), any::<u32>(), bytes(2_000), bytes(600)).prop_map(
            |(round, phase, first, elements, credentials)| {
                MixFrame::Slots(Piece { round, phase, first, elements, credentials })
            }
        ),
        (any::<u64>(), phase()).prop_map(|(round, phase)| MixFrame::Received { round, phase }),
        (any::<u64>(), any::<u64>(), any::<u16>()).prop_map(|(round, number, seat)| MixFrame::Ping {
            round,
            number,
            seat
        }),
        (any::<u64>(), any::<bool>()).prop_map(|(number, is_answer)| MixFrame::Echo { number, is_answer }),
    ]
}

fn written(frame: &MixFrame) -> Vec<u8> {
    let mut written = Vec::new();
    encode(frame, &mut written);
    written
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn frames_round_trip_with_the_computed_length(frame in frame()) {
        let written = written(&frame);
        prop_assert_eq!(written.len(), frame.encoded_len());
        prop_assert_eq!(decode(written.into(), &Limits::default()).unwrap(), frame);
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in bytes(400)) {
        if let Ok(frame) = decode(bytes, &Limits::default()) {
            prop_assert_eq!(decode(written(&frame).into(), &Limits::default()).unwrap(), frame);
        }
    }

    #[test]
    fn changed_or_missing_byte_does_no_harm(
        frame in frame(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut written = written(&frame);
        prop_assume!(!written.is_empty());
        let at = at.index(written.len());
        if cut { written.truncate(at) } else { written[at] = to }
        let _ = decode(written.into(), &Limits::default());
    }
}
