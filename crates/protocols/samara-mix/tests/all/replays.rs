//! Repeated frames and payloads have no effect.

use std::cell::RefCell;
use std::time::Duration;

use samara_mix::{Batch, Command, Group, Ignored, MixFrame, Outcome, RefuseError, Voided};

use crate::config;
use crate::net::Net;

thread_local! {
    static SEEN: RefCell<Vec<(u32, u32, MixFrame)>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn replayed_frames_change_nothing() {
    SEEN.take();
    let mut net = Net::new(3, config(5, 5, Group::Model));
    net.meddle = Some(|from, to, frame| {
        SEEN.with_borrow_mut(|seen| seen.push((from, to, frame.clone())));
        frame
    });
    net.run_until(Duration::from_secs(20), |net| net.record.complete().len() >= 10);
    net.meddle = None;
    let delivered = net.record.delivered.len();
    // Repeated incarnations have no effect either.
    for (from, to, frame) in SEEN.take() {
        net.frame(to, from, frame);
    }
    net.run_for(Duration::from_secs(2));
    net.record.check(&[]);
    assert!(net.record.failed.is_empty(), "{:?}", net.record.causes());
    assert!(net.record.delivered.len() > delivered);
    let ignored = |cause| (0..5).map(|node| net.node(node).metrics().ignored(cause)).sum::<u64>();
    assert!(ignored(Ignored::Replay) > 0 && ignored(Ignored::Stale) > 100);
}

#[test]
fn duplicate_frames_are_taken_once() {
    SEEN.take();
    let mut net = Net::new(3, config(5, 5, Group::Small256));
    net.meddle = Some(|from, to, frame| {
        SEEN.with_borrow_mut(|seen| seen.push((from, to, frame.clone())));
        frame
    });
    for _ in 0..600 {
        net.run_for(Duration::from_millis(1));
        for (from, to, frame) in SEEN.take() {
            net.frame(to, from, frame);
        }
    }
    net.record.check(&[]);
    assert!(net.record.failed.is_empty(), "{:?}", net.record.causes());
    assert!(net.record.complete().len() > 3);
    assert!((0..5).all(|node| net.node(node).metrics().ignored(Ignored::Duplicate) > 100));
}

#[test]
fn batch_is_accepted_once_by_the_first_node_of_an_open_round() {
    let mut net = Net::new(4, config(5, 5, Group::Model));
    net.is_idle = true;
    net.run_until(Duration::from_secs(10), |net| !net.record.plans.is_empty());
    let plan = net.record.plans.values().next().unwrap().clone();
    let sealed = net.batch(&plan);
    let batch = Batch::new(&sealed).unwrap();
    let mix = |net: &mut Net, node, round, batch: &Batch| {
        net.command(node, Command::Mix { round, batch: batch.clone() });
        net.record.refused.pop()
    };
    let refused = |error: RefuseError| Some(error.to_string());
    assert_eq!(mix(&mut net, plan.team[1], plan.round, &batch), refused(RefuseError::NotFirst));
    assert_eq!(mix(&mut net, plan.team[0], 10_000, &batch), refused(RefuseError::NotOpen));
    let short = Batch::new(&sealed[1..]).unwrap();
    let wrong = RefuseError::BatchLength { found: 23, expected: 24 };
    assert_eq!(mix(&mut net, plan.team[0], plan.round, &short), refused(wrong));
    let other: Vec<_> = (0..24u8)
        .map(|salt| net.sender.seal(plan.round, &plan.team[..4], [salt; 32], &vec![0; 508]).unwrap())
        .collect();
    assert_eq!(
        mix(&mut net, plan.team[0], plan.round, &Batch::new(&other).unwrap()),
        refused(RefuseError::Sealed)
    );
    assert_eq!(mix(&mut net, plan.team[0], plan.round, &batch), None);
    assert_eq!(mix(&mut net, plan.team[0], plan.round, &batch), refused(RefuseError::NotOpen));
    net.run_until(Duration::from_secs(10), |net| !net.record.complete().is_empty());
    assert_eq!(mix(&mut net, plan.team[0], plan.round, &batch), refused(RefuseError::NotOpen));
    net.record.check(&[]);
}

#[test]
fn copied_payload_in_the_same_round_is_voided() {
    for group in [Group::Model, Group::Small256] {
        let mut net = Net::new(5, config(5, 5, group));
        net.tamper = Some(|_, sealed| sealed[20] = sealed[3].clone());
        net.run_until(Duration::from_secs(10), |net| !net.record.complete().is_empty());
        let round = net.record.complete()[0];
        let outcomes = &net.record.delivered.range((round, 0)..).next().unwrap().1.1;
        let voids = outcomes.iter().filter(|outcome| **outcome == Outcome::Void).count();
        assert_eq!(voids, 1, "{group:?}");
        let mut contents: Vec<_> = outcomes.iter().map(|outcome| format!("{outcome:?}")).collect();
        contents.sort();
        contents.dedup();
        assert_eq!(contents.len(), 24, "content came out twice");
    }
}

#[test]
fn payload_of_another_round_is_voided() {
    let mut net = Net::new(6, config(5, 5, Group::Small256));
    net.is_idle = true;
    net.run_until(Duration::from_secs(10), |net| net.record.plans.len() >= 2);
    let plans: Vec<_> = net.record.plans.values().cloned().collect();
    let old = net.batch(&plans[0]);
    let mut sealed = net.batch(&plans[1]);
    sealed[11] = old[11].clone();
    let batch = Batch::new(&sealed).unwrap();
    net.command(plans[1].team[0], Command::Mix { round: plans[1].round, batch });
    net.run_until(Duration::from_secs(10), |net| !net.record.complete().is_empty());
    let outcomes = &net.record.delivered.values().next().unwrap().1;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Void).count(), 1);
    assert_eq!(net.node(plans[1].team[0]).metrics().voided(Voided::WrongCode), 1);
}
