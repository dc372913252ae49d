//! Ids that a neighbour chooses to share a hash cost no more than others.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use nix::time::{ClockId, clock_gettime};
use samara_baselines::{IHave, MessageId, PlumtreeConfig, PlumtreeFrame};
use samara_engine::PeerId;

/// Below the limit of announcements per neighbour, so that each id is looked up.
const IDS: u64 = 4_000;

/// A constant that a hash with a seed, but without a key, mixes its input with. Input that equals
/// it multiplies the seed by zero, so all such ids share one hash for every seed.
const FACTOR: u64 = 0xc0ac_29b7_c97c_50dd;

fn chosen(number: u64) -> MessageId {
    MessageId::from_bytes((u128::from(number) << 64 | u128::from(FACTOR)).to_be_bytes())
}

fn scattered(number: u64) -> MessageId {
    message(number).id()
}

/// Returns the processor time of this thread, which other programs do not affect.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists on every Unix").into()
}

fn announced_ten_times(ids: &[MessageId]) -> Duration {
    let mut node = plumtree(PlumtreeConfig::default(), 1);
    let messages = ids.iter().map(|id| (*id, 0)).collect();
    let frame = PlumtreeFrame::IHave(Arc::new(IHave { topic: topic(), messages }));
    let start = processor_time();
    (0..10).for_each(|_| node.frame(PeerId(0), frame.clone()));
    let took = processor_time() - start;
    assert_eq!(node.engine.sizes().missing, ids.len());
    took
}

#[test]
fn chosen_ids_cost_no_more_than_scattered_ones() {
    let others: Vec<MessageId> = (0..IDS).map(scattered).collect();
    let chosen: Vec<MessageId> = (0..IDS).map(chosen).collect();
    // The minimum of five alternating measurements, since other load only adds time.
    let rounds = (0..5).map(|_| [announced_ten_times(&chosen), announced_ten_times(&others)]);
    let [chosen, others] = rounds.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).expect("five rounds");
    let ratio = chosen.as_secs_f64() / others.as_secs_f64();
    println!("{ratio:.2}");
    assert!(ratio < 5.0, "chosen ids take {ratio:.1} times as long");
}
