//! Frames, commands, events and counters come back from their encodings.

use std::time::Duration;

use samara_engine::Shape;
use samara_engine::outbox::Tally;
use samara_lab::testing::{bytes, frames_survive, survives};
use samara_mix::wire::Piece;
use samara_mix::{Failure, Mark, MixFrame, NodeState, Phase, Plan, RoundState, Transfer};

use super::codec::Wire;
use super::{Act, Checked, RoundEvent, WorkSpan};

fn plan() -> Plan {
    Plan {
        round: 3,
        team: vec![4, 0, 2],
        incarnations: vec![1, 2, u64::MAX],
        batch: 100,
        precomputation_slots: 10,
        realtime_slots: 20,
        transfer: Transfer::Unary,
        shape: Shape::BinaryTree,
    }
}

#[test]
fn frames_come_back() {
    let piece =
        Piece { round: 3, phase: Phase::Decrypt, first: 10, elements: bytes(512), credentials: bytes(128) };
    let failure = Some(Failure::by(samara_mix::Cause::Timeout, 2));
    frames_survive(
        &Wire,
        &[
            MixFrame::Hello { incarnation: 1 },
            MixFrame::Create(plan().into()),
            MixFrame::Queued { round: 3 },
            MixFrame::End { round: 3, failure },
            MixFrame::End { round: 3, failure: None },
            MixFrame::Status { round: 3, state: NodeState::Standby },
            MixFrame::Share { round: 3, origin: 1, is_complete: true, key: bytes(256) },
            MixFrame::Slots(piece),
            MixFrame::Received { round: 3, phase: Phase::Result },
            MixFrame::Ping { round: 3, number: 5, seat: 2 },
            MixFrame::Echo { number: 5, is_answer: true },
        ],
    );
}

#[test]
fn commands_events_and_counters_come_back() {
    // The results of threads cannot be compared, and never leave their host.
    let read = |text: &str| serde_json::from_str::<Act>(text).expect("an act");
    assert!(matches!(read(r#"{"submit":7}"#), Act::Submit(7)));
    assert_eq!(serde_json::to_string(&read(r#"{"submit":7}"#)).expect("text"), r#"{"submit":7}"#);
    assert_eq!(serde_json::to_string(&read("\"begin\"")).expect("text"), "\"begin\"");
    let span = WorkSpan { host: 1, core: 2, round: 3, phase: Some(Phase::Reveal), from: 4, to: 5 };
    for event in [
        RoundEvent::Work(span),
        RoundEvent::Work(WorkSpan { phase: None, ..span }),
        RoundEvent::Open(1),
        RoundEvent::Entered(1),
        RoundEvent::Refused,
        RoundEvent::Delivered(1, Checked { wrong: 2, order: u64::MAX, is_unmixed: false }),
        RoundEvent::Failed(1, Failure::of(samara_mix::Cause::BadElement)),
        RoundEvent::Mark(1, Phase::Decrypt, Mark::FirstReceived),
        RoundEvent::Drawn,
        RoundEvent::Looped(Some(Duration::from_nanos(1_234_567_890))),
        RoundEvent::Looped(None),
        RoundEvent::Made(1, plan().into()),
        RoundEvent::Round(1, RoundState::Standby),
    ] {
        survives(&event);
    }
    let mut metrics = samara_mix::Metrics::default();
    (metrics.rounds, metrics.slot_frames) = (1, Tally { copies: 2, bytes: 3 });
    survives(&metrics);
}
