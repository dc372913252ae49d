//! Pins the format: changing these bytes must be a deliberate decision.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Shape;
use samara_mix::wire::{Piece, encode};
use samara_mix::{Cause, Failure, MixFrame, NodeState, Phase, Plan, Transfer};

#[test]
fn frames_have_these_bytes() {
    let plan = Plan {
        round: 300,
        team: vec![4, 0, 2],
        incarnations: Vec::new(),
        batch: 1_000,
        precomputation_slots: 4,
        realtime_slots: 32,
        transfer: Transfer::Unary,
        shape: Shape::DoubleTree,
    };
    let with_incarnations = Plan { team: vec![4, 0], incarnations: vec![1, 2], ..plan.clone() };
    let key = Bytes::from_static(&[7, 8]);
    let piece = Piece {
        round: 300,
        phase: Phase::Permute,
        first: 5,
        elements: Bytes::from_static(&[1, 2, 3]),
        credentials: Bytes::from_static(&[4]),
    };
    let failure = Some(Failure::by(Cause::BadElement, 0));
    let frames = [
        (MixFrame::Hello { incarnation: 1 }, "0a09090100000000000000"),
        (MixFrame::Create(Arc::new(plan)), "121308ac0212030400021 8e807200428203001 3803"),
        (
            MixFrame::Create(Arc::new(with_incarnations)),
            "122408ac021202040018e80720042820300138034210 0100000000000000 0200000000000000",
        ),
        (MixFrame::Queued { round: 300 }, "1a0308ac02"),
        (MixFrame::End { round: 300, failure: None }, "220308ac02"),
        (MixFrame::End { round: 300, failure }, "220708ac0210041801"),
        (MixFrame::Status { round: 300, state: NodeState::Standby }, "2a0508ac021002"),
        (MixFrame::Share { round: 300, origin: 2, is_complete: true, key }, "320b08ac021002180122020708"),
        (MixFrame::Slots(piece), "3a0f08ac02100418052203010203 2a0104"),
        (MixFrame::Received { round: 300, phase: Phase::Result }, "420508ac021005"),
        (MixFrame::Ping { round: 300, number: 1, seat: 2 }, "4a0e08ac021101000000000000001802"),
        (MixFrame::Echo { number: 1, is_answer: true }, "520b0901000000000000001001"),
    ];
    for (frame, expected) in frames {
        let mut written = Vec::new();
        encode(&frame, &mut written);
        let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""), "{frame:?}");
    }
}
