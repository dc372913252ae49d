//! Keys that a peer chooses to share a hash cost no more than others.

use std::time::Duration;

use crate::node::{Node, seen};
use nix::time::{ClockId, clock_gettime};
use samara_cat::wire::KeyList;
use samara_cat::{Config, TxKey};

/// Maximum number of keys without a body that one peer may announce.
const KEYS: u64 = 8_192;

/// A constant that a hash with a seed, but without a key, mixes its input with. Input that equals
/// it multiplies the seed by zero, so all such keys share one hash for every seed.
const FACTOR: u64 = 0xc0ac_29b7_c97c_50dd;

fn chosen(number: u64) -> TxKey {
    let bytes = [FACTOR, FACTOR, number, number].map(u64::to_le_bytes).concat();
    TxKey::try_from(&bytes[..]).expect("32 bytes")
}

/// Returns the processor time of this thread, which other programs do not affect.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock exists on every Unix").into()
}

fn announced_ten_times(keys: &[TxKey]) -> Duration {
    let mut node = Node::new(Config::default());
    node.connect(0, "cat/2");
    let start = processor_time();
    for _ in 0..10 {
        keys.chunks(KeyList::MAX).for_each(|keys| node.frame(0, seen(keys)));
    }
    let took = processor_time() - start;
    assert_eq!(node.engine.keys(), keys.len());
    took
}

#[test]
fn chosen_keys_cost_no_more_than_scattered_ones() {
    let others: Vec<TxKey> = (0..KEYS).map(|number| TxKey::of(&number.to_le_bytes())).collect();
    let chosen: Vec<TxKey> = (0..KEYS).map(chosen).collect();
    // The minimum of five alternating measurements, since other load only adds time.
    let rounds = (0..5).map(|_| [announced_ten_times(&chosen), announced_ten_times(&others)]);
    let [chosen, others] = rounds.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).expect("five rounds");
    let ratio = chosen.as_secs_f64() / others.as_secs_f64();
    println!("{ratio:.2}");
    assert!(ratio < 5.0, "chosen keys take {ratio:.1} times as long");
}
