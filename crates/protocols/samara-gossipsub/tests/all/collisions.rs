//! Peers gain nothing by choosing ids that would share a hash.

use std::time::Duration;

use crate::common::*;
use nix::time::{ClockId, clock_gettime};
use samara_gossipsub::rpc::MessageId;

/// Maximum number of ids that the limits let one peer store.
const IDS: u64 = 10_000;

/// Two of the constants with which a seeded hash without a key mixes its input. Input that equals
/// them multiplies the seed by zero: all such ids share one hash, whatever the seed is.
const LONG: u64 = 0xc0ac_29b7_c97c_50dd;
const SHORT: u64 = 0x3f84_d5b5_b547_0917;

/// Three forms of such ids: 16 bytes, 20 bytes as in Ethereum, and 32 bytes.
const FORMS: [fn(u64) -> Vec<u8>; 3] = [
    |number| [number, SHORT].map(u64::to_le_bytes).concat(),
    |number| [&(number as u32).to_le_bytes()[..], &LONG.to_le_bytes(), &LONG.to_le_bytes()].concat(),
    |number| [LONG, LONG, number, number].map(u64::to_le_bytes).concat(),
];

/// Returns ids of the same length without a pattern (the finaliser of SplitMix64).
fn scattered(number: u64, len: usize) -> Vec<u8> {
    let word = |word: u64| {
        let z = (number << 8 | word).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..4).flat_map(word).collect();
    bytes.truncate(len);
    bytes
}

/// Returns the processor time of this thread. Wall-clock time would include other programs.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Unix has this clock").into()
}

/// Measures a flood of IDONTWANT within all limits, and the heartbeats that forget it.
fn flood(ids: &[MessageId]) -> Duration {
    let (mut node, peers) = Node::on_topic(plain(), "t", 2, 0);
    let start = processor_time();
    for ids in ids.chunks(10) {
        node.rpc(peers[0], idontwant(ids.to_vec()));
    }
    assert_eq!(node.engine.sizes().unwanted, ids.len());
    (0..4).for_each(|_| node.heartbeat());
    assert_eq!(node.engine.sizes().unwanted, 0);
    processor_time() - start
}

/// Returns how many times as long a flood of chosen ids takes. Each measurement is the minimum of
/// five alternating rounds, since other load can only add to it.
fn ratio(form: fn(u64) -> Vec<u8>) -> f64 {
    let len = form(0).len();
    let chosen: Vec<MessageId> = (0..IDS).map(|number| MessageId::new(&form(number))).collect();
    let others: Vec<MessageId> = (0..IDS).map(|number| MessageId::new(&scattered(number, len))).collect();
    let rounds = (0..5).map(|_| [flood(&chosen), flood(&others)]);
    let [chosen, others] = rounds.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]).expect("five rounds");
    chosen.as_secs_f64() / others.as_secs_f64()
}

#[test]
fn chosen_ids_cost_an_idontwant_flood_no_more_than_scattered_ones() {
    for form in FORMS {
        let ratio = ratio(form);
        println!("{} bytes: {ratio:.2}", form(0).len());
        assert!(ratio < 5.0, "ids of {} bytes take {ratio:.1} times as long", form(0).len());
    }
}
