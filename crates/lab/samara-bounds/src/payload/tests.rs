use proptest::prelude::*;

use super::*;

const MBIT: u64 = 1_000_000;

/// A network in which all hosts wait for `bytes`, except the publisher, host 0.
fn limits<'a>(rates: &[(u64, u64)], bytes: u64, latency: &'a dyn Fn(u32, u32) -> u64) -> PayloadLimits<'a> {
    PayloadLimits {
        publisher: 0,
        uplink_bps: rates.iter().map(|(up, _)| *up).collect(),
        downlink_bps: rates.iter().map(|(_, down)| *down).collect(),
        needed_bytes: vec![bytes; rates.len()],
        uplink_burst_bytes: 0,
        downlink_burst_bytes: 0,
        latency_nanos: latency,
        ways: Ways::Pairs,
        pieces: None,
    }
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-4 * expected.max(1.0)
}

/// Kumar and Ross 2006: the minimum distribution time of a file, as a fluid and without latency, is
/// the largest of the server's time, the slowest downlink's, and that of all uplinks for all copies.
#[test]
fn last_completion_is_that_of_kumar_and_ross() {
    const BYTES: u64 = 10_000_000;
    for (server, peers, down) in [(50, 50, 100), (5, 50, 100), (50, 2, 100), (50, 50, 3), (1, 0, 100)] {
        for count in [1, 2, 10, 499] {
            let mut rates = vec![(peers * MBIT, down * MBIT); count + 1];
            rates[0].0 = server * MBIT;
            let none = |_, _| 0;
            let curve = payload(&limits(&rates, BYTES, &none));
            let ms = |mbit: u64, copies: usize| BYTES as f64 * 8.0 * copies as f64 / mbit as f64 / 1e3;
            let all = server + peers * count as u64;
            let expected = ms(server, 1).max(ms(down, 1)).max(ms(all, count));
            assert!(close(curve.last(), expected), "{server}, {peers}, {down}, {count}: {}", curve.last());
            assert_eq!(curve.len(), count);
        }
    }
}

/// Mundinger, Weber and Weiss 2008: M parts of a file reach N peers in 1 + ⌊log₂ N⌋ / M times the
/// time of the file, if all hosts upload equally fast.
#[test]
fn last_completion_is_that_of_mundinger() {
    const BYTES: u64 = 10_000_000;
    for parts in [1, 2, 16, 100_u32] {
        let own: Vec<u32> = (0..parts).collect();
        for count in [1, 2, 3, 4, 7, 8, 100, 499, 512] {
            let rates = vec![(8 * MBIT, 8_000 * MBIT); count + 1];
            let none = |_, _| 0;
            let mut limits = limits(&rates, BYTES, &none);
            limits.pieces =
                Some(Pieces { bytes: BYTES / u64::from(parts), of: vec![own.as_slice(); count + 1] });
            let expected = 10_000.0 * (1.0 + f64::from(count.ilog2()) / f64::from(parts));
            let found = payload(&limits).last();
            assert!(close(found, expected), "{parts} parts, {count} peers: {found}, not {expected}");
        }
    }
}

/// Bar-Noy and Kipnis 1994: in the postal model, n hosts have one message after the least t with
/// `F(t) >= n`, where `F(t) = F(t - 1) + F(t - latency)`; k messages take at least k - 1 more.
#[test]
fn completions_are_those_of_the_postal_model() {
    for lambda in [1, 2, 3, 7_u64] {
        let mut reached = vec![1_u64; lambda as usize];
        while *reached.last().unwrap_or(&0) < 1_000 {
            let at = reached.len();
            reached.push(reached[at - 1] + reached[at - lambda as usize]);
        }
        let time_of = |hosts: u64| reached.iter().position(|found| *found >= hosts).unwrap_or(0) as f64;
        for messages in [1, 5_u32] {
            let own: Vec<u32> = (0..messages).collect();
            // A message of 1,000 bytes takes 1 ms.
            let rates = vec![(8 * MBIT, 800_000 * MBIT); 500];
            let latency = |_, _| (lambda - 1) * 1_000_000;
            let mut limits = limits(&rates, 1_000 * u64::from(messages), &latency);
            limits.pieces = Some(Pieces { bytes: 1_000, of: vec![own.as_slice(); 500] });
            let curve = payload(&limits);
            for (complete, (found, share)) in (1_u32..).zip(curve.points()) {
                let expected = f64::from(messages - 1) + time_of(u64::from(complete) + 1);
                let is_exact = messages == 1;
                assert!(
                    found >= expected - 1e-6 && (found <= expected + 1e-6 || !is_exact),
                    "{lambda}, {found}"
                );
                assert!(close(share, f64::from(complete) / 499.0));
            }
        }
    }
}

#[test]
fn shortest_paths_follow_the_links() {
    // A chain of 10 ms for each link, and 1 ms between all others.
    let latency = |a: u32, b: u32| if a.abs_diff(b) == 1 { 10_000_000 } else { 1_000_000 };
    let rates = vec![(8_000 * MBIT, 8_000 * MBIT); 4];
    let mut limits = limits(&rates, 1, &latency);
    let times = |limits: &PayloadLimits<'_>| -> Vec<f64> {
        payload(limits).points().map(|(ms, _)| (ms * 10.0).round() / 10.0).collect()
    };
    // 0 to 2 and 3 directly, and over one of them to 1.
    assert_eq!(times(&limits), [1.0, 1.0, 2.0]);
    let links = [(0, 1), (2, 1), (2, 3)];
    limits.ways = Ways::Links(&links);
    assert_eq!(times(&limits), [10.0, 20.0, 30.0]);
}

#[test]
fn bursts_pass_in_no_time() {
    let latency = |_, _| 20_000_000;
    let rates = vec![(8 * MBIT, 16 * MBIT); 2];
    let mut limits = limits(&rates, 11_500, &latency);
    assert!(close(payload(&limits).last(), 31.5));
    (limits.uplink_burst_bytes, limits.downlink_burst_bytes) = (1_500, 1_500);
    assert!(close(payload(&limits).last(), 30.0));
    // Several copies of a piece fit into a burst.
    let (rates, piece) = (vec![(8 * MBIT, 8 * MBIT); 4], [&[0_u32][..]; 4]);
    let mut limits = self::limits(&rates, 500, &latency);
    limits.pieces = Some(Pieces { bytes: 500, of: piece.to_vec() });
    (limits.uplink_burst_bytes, limits.downlink_burst_bytes) = (1_500, 1_500);
    assert!(close(payload(&limits).last(), 20.0));
}

/// Four nodes keep the first piece and one each of the others. When m pieces have left, the nodes
/// that keep only these can be complete.
#[test]
fn pieces_that_left_limit_the_complete_nodes() {
    let kept: [&[u32]; 5] = [&[], &[0], &[0], &[1, 2], &[1, 3]];
    let latency = |_, _| 5_000_000;
    let rates = vec![(8 * MBIT, 8_000 * MBIT); 5];
    let mut limits = limits(&rates, 0, &latency);
    limits.needed_bytes = kept.iter().map(|own| own.len() as u64 * 1_000).collect();
    limits.pieces = Some(Pieces { bytes: 1_000, of: kept.to_vec() });
    let pieces = limits.pieces.clone().unwrap();
    let times = subsets(&limits, &[1, 2, 3, 4], &pieces, &Distances::of(&limits));
    // Weights are 2, 1, 0.5 and 0.5.
    assert!(
        times.iter().zip([6e6, 6e6, 7e6, 9e6]).all(|(found, expected)| close(*found, expected)),
        "{times:?}"
    );
    // All uplinks together need more: until 10 ms, only the publisher's.
    let all: Vec<f64> = payload(&limits).points().map(|(ms, _)| ms).collect();
    assert!(
        all.iter().zip([6.0, 7.0, 9.0, 10.2]).all(|(found, expected)| close(*found, expected)),
        "{all:?}"
    );
}

#[test]
fn quantiles_are_those_of_completions() {
    let latency = |_, _| 0;
    let rates: Vec<(u64, u64)> = (0..=4).map(|host| (8_000 * MBIT, 8 * MBIT / (1 << host))).collect();
    let curve = payload(&limits(&rates, 1_000, &latency));
    let times = [0.25, 0.3, 0.5, 0.99, 1.0].map(|q| curve.quantile(q));
    assert!(times.iter().zip([2.0, 4.0, 4.0, 16.0, 16.0]).all(|(a, b)| close(*a, b)), "{times:?}");
    assert!(close(curve.mean(), 7.5) && close(curve.last(), 16.0));
    assert_eq!(payload(&limits(&rates[..1], 1_000, &latency)), Curve::default());
    assert!(Curve::default().quantile(0.5).abs() < f64::EPSILON && Curve::default().is_empty());
}

/// The completion times of whole messages that every holder sends on to the next host without one,
/// in the order of their numbers, at its full rate. Sorted, in milliseconds.
fn relayed(rates: &[(u64, u64)], bytes: u64, latency: &dyn Fn(u32, u32) -> u64) -> Vec<f64> {
    let mut holders = BinaryHeap::from([Reverse((0_u64, 0_u32))]);
    let mut times = Vec::new();
    for next in 1..rates.len() as u32 {
        let Some(Reverse((free_at, holder))) = holders.pop() else { break };
        let sent = free_at + nanos(bytes, rates[holder as usize].0) + 1;
        let arrives = sent.max(free_at + nanos(bytes, rates[next as usize].1) + 1) + latency(holder, next);
        times.push(arrives as f64 / 1e6);
        holders.push(Reverse((sent, holder)));
        holders.push(Reverse((arrives, next)));
    }
    times.sort_unstable_by(f64::total_cmp);
    times
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// No completion of a schedule is below its bound, with and without a code.
    #[test]
    fn schedules_are_not_below_the_bound(
        mbit in prop::collection::vec((1_u64..200, 1_u64..200), 2..60),
        bytes in 1_000_u64..2_000_000,
        latencies in prop::collection::vec(0_u64..200_000_000, 97),
    ) {
        let rates: Vec<(u64, u64)> = mbit.iter().map(|(up, down)| (up * MBIT, down * MBIT)).collect();
        let latency = |a: u32, b: u32| latencies[(a.min(b) * 31 + a.max(b)) as usize % 97];
        let found = relayed(&rates, bytes, &latency);
        let mut limits = limits(&rates, bytes, &latency);
        for pieces in [None, Some(Pieces { bytes, of: vec![&[0][..]; rates.len()] })] {
            limits.pieces = pieces;
            let bounds: Vec<f64> = payload(&limits).points().map(|(ms, _)| ms).collect();
            prop_assert_eq!(bounds.len(), found.len());
            for (bound, time) in bounds.iter().zip(&found) {
                prop_assert!(*bound <= time + 1e-6, "{} ms, bound {} ms", time, bound);
            }
        }
    }

    /// Faster links, lower latencies and a code lower no bound's usefulness: they never raise it.
    #[test]
    fn bounds_are_monotone(
        mbit in prop::collection::vec((1_u64..200, 1_u64..200), 3..40),
        faster in any::<prop::sample::Index>(),
        pieces in 1_u32..20,
        latency_ms in 0_u64..100,
    ) {
        let rates: Vec<(u64, u64)> = mbit.iter().map(|(up, down)| (up * MBIT, down * MBIT)).collect();
        let own: Vec<u32> = (0..pieces).collect();
        let of = |rates: &[(u64, u64)], nanos: u64, code: bool, ways: Ways<'_>| {
            let latency = |a: u32, b: u32| nanos + u64::from(a ^ b) * 1_000;
            let mut limits = limits(rates, 16_000 * u64::from(pieces), &latency);
            limits.pieces = (!code).then(|| Pieces { bytes: 16_000, of: vec![&own; rates.len()] });
            payload(&PayloadLimits { ways, ..limits })
        };
        let nanos = latency_ms * 1_000_000;
        let base = of(&rates, nanos, false, Ways::Pairs);
        let below = |lower: &Curve, upper: &Curve| {
            lower.points().zip(upper.points()).all(|((a, _), (b, _))| a <= b + 1e-9)
        };
        prop_assert!(base.points().zip(base.points().skip(1)).all(|(a, b)| a.0 <= b.0));
        let mut quick = rates.clone();
        let host = faster.index(rates.len());
        quick[host] = (2 * quick[host].0, 2 * quick[host].1);
        prop_assert!(below(&of(&quick, nanos, false, Ways::Pairs), &base));
        prop_assert!(below(&base, &of(&rates, nanos + 1_000_000, false, Ways::Pairs)));
        prop_assert!(below(&of(&rates, nanos, true, Ways::Pairs), &base));
        let ring: Vec<(u32, u32)> = (0..rates.len() as u32).map(|a| (a, (a + 1) % rates.len() as u32)).collect();
        prop_assert!(below(&base, &of(&rates, nanos, false, Ways::Links(&ring))));
        prop_assert!(below(&of(&rates, nanos, false, Ways::AtLeast(nanos)), &base));
        prop_assert!(base.quantile(0.5) <= base.quantile(0.99) && base.mean() <= base.last());
    }
}
