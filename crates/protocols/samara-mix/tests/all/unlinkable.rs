//! The output position of a payload is independent of its input position and of its appearance.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use crypto_bigint::{JacobiSymbol, Odd, U256};
use samara_mix::{Config, Group, MixFrame, Outcome, Phase};

use crate::config;
use crate::net::Net;

const BATCH: usize = 8;

/// The output position of each payload, for many rounds.
static POSITIONS: LazyLock<Vec<Vec<usize>>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for seed in 0.. {
        let batch = BATCH as u32;
        let mut net = Net::new(seed, Config { batch, realtime_slots: 4, ..config(3, 3, Group::Model) });
        net.slot_cost = Duration::from_micros(1);
        net.latency = Duration::from_micros(50);
        net.run_for(Duration::from_secs(1));
        for round in net.record.complete() {
            let outcomes = &net.record.delivered.range((round, 0)..).next().unwrap().1.1;
            let place = |sent: &Vec<u8>| {
                outcomes.iter().position(|outcome| *outcome == Outcome::Content(sent.clone().into())).unwrap()
            };
            all.push(net.record.sent[&round].iter().map(place).collect());
        }
        if all.len() >= 2_000 {
            return all;
        }
    }
    unreachable!("seeds do not end")
});

/// Asserts that the chi-square statistic of counts, which should be equal, is not too large for
/// `freedom` degrees of freedom.
fn assert_even(counts: &[u32], freedom: f64) {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let statistic: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    assert!(statistic < critical(freedom), "{statistic} with {freedom} degrees of freedom: {counts:?}");
}

/// Returns the value that chi-square with `freedom` degrees of freedom exceeds with a probability
/// of about 10^-4 (Wilson and Hilferty, 1931).
fn critical(freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3)
}

#[test]
fn output_positions_are_uniform() {
    let mut counts = vec![0; BATCH * BATCH];
    for round in &*POSITIONS {
        round.iter().enumerate().for_each(|(from, to)| counts[from * BATCH + to] += 1);
    }
    // Rows and columns add up to the number of rounds.
    assert_even(&counts, ((BATCH - 1) * (BATCH - 1)) as f64);
}

#[test]
fn neighbours_stay_neighbours_only_by_chance() {
    let mut counts = vec![0; BATCH - 1];
    for pair in POSITIONS.iter().flat_map(|round| round.windows(2)) {
        counts[(pair[1] + BATCH - pair[0]) % BATCH - 1] += 1;
    }
    assert_even(&counts, (BATCH - 2) as f64 * 1.5);
}

#[test]
fn permutations_of_consecutive_rounds_are_independent() {
    let mut counts = vec![0; BATCH * BATCH];
    for pair in POSITIONS.windows(2) {
        counts[pair[0][0] * BATCH + pair[1][0]] += 1;
    }
    assert_even(&counts, (BATCH * BATCH - 1) as f64);
}

thread_local! {
    /// The elements that arrived at the first node after a pass through all nodes, by round, phase
    /// and element.
    static SEEN: RefCell<BTreeMap<(u64, Phase, usize), [u8; 32]>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns true if a number is a square modulo the prime of the group.
fn is_square(bytes: &[u8]) -> bool {
    let modulus = Odd::new(U256::MAX.wrapping_sub(&U256::from_u32(36_112))).unwrap();
    U256::from_be_slice(bytes).jacobi_symbol(&modulus) == JacobiSymbol::One
}

/// In the group of all numbers modulo p, two observations reveal whether a payload is a square:
/// whether its product with the factors is one, and whether the factors are. The encrypted keys of
/// the precomputation reveal the latter, because the generator is a square. Slots with two payloads
/// would fall into four classes, which any node of the team could distinguish at the output.
#[test]
fn squareness_reveals_nothing() {
    SEEN.take();
    let mut net = Net::new(1, config(3, 3, Group::Small256));
    net.meddle = Some(|_, _, frame| {
        if let MixFrame::Slots(piece) = &frame {
            let each = match piece.phase {
                Phase::PrecomputePermute => 4,
                Phase::Permute => 2,
                _ => return frame,
            };
            // Only the elements that arrive at the first seat are in the original order. They come
            // first.
            for (index, element) in piece.elements.chunks_exact(32).enumerate() {
                let at = (piece.round, piece.phase, piece.first as usize * each + index);
                SEEN.with_borrow_mut(|seen| {
                    seen.entry(at).or_insert(element.try_into().unwrap());
                });
            }
        }
        frame
    });
    net.run_until(Duration::from_secs(60), |net| net.record.complete().len() >= 40);
    let seen = SEEN.take();
    let (mut agree, mut all) = (0u32, 0u32);
    for round in net.record.complete() {
        for (slot, content) in net.record.sent[&round].iter().enumerate() {
            for (half, content) in content.chunks_exact(30).enumerate() {
                let payload = [&[0, 1], content].concat();
                let hidden = seen[&(round, Phase::Permute, 2 * slot + half)];
                let keys = seen[&(round, Phase::PrecomputePermute, 4 * slot + 2 * half)];
                let guess = is_square(&hidden) == is_square(&keys);
                agree += u32::from(guess == is_square(&payload));
                all += 1;
            }
        }
    }
    // Four standard deviations of a fair coin.
    let (half, deviation) = (f64::from(all) / 2.0, f64::from(all).sqrt() / 2.0);
    assert!((f64::from(agree) - half).abs() < 4.0 * deviation, "{agree} of {all}");
    assert!(all > 1_900);
}
