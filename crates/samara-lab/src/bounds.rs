//! How fast it could be: a lower bound for the mean time to custody.
//!
//! Three things cannot be avoided, whatever the schedule:
//!
//! 1. **The publisher's uplink.** One copy of every column has to pass it. With `s` the time that a copy takes there
//!    (frame, framing and headers over the rate), the first copy of the `k`-th column is out no earlier than `k s`.
//! 2. **The last of a node's columns.** A schedule does not know who keeps what. Of `C` columns in any such order, the
//!    last of a node's `c` has the mean position `c (C + 1) / (c + 1)`.
//! 3. **The spread.** From its first copy on, a column spreads at best as in the postal model (Bar-Noy and Kipnis 1992):
//!    everybody who has it sends a copy every `s'`, the fastest uplink's time, and a copy arrives the least latency of
//!    the network later. The publisher is granted to help every column all the time, which no real one can.
//!
//! A schedule that does not know who keeps what does not know for whom a column is the last one either. A node's place in
//! the spread of each of its columns is then random, and it has all of them by time `t` with the probability that a random
//! set of `c` columns has arrived: the elementary symmetric polynomial of degree `c` in the columns' probabilities, over
//! `binom(C, c)`. The bound is the mean of that distribution. A node's own downlink adds that it cannot have its columns
//! before they fit through it. Nothing else counts: no slow start, no duplicates, no control traffic, no validation.
//!
//! The bound is one for the expectation over custody sets. A single run's sets move it by a fraction of a column's time
//! (the standard deviation over a thousand nodes is a quarter of `s`).

/// What the bound depends on. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Columns of a block.
    pub columns: u32,
    /// How many columns each node (but the publisher) waits for.
    pub custody: Vec<u32>,
    /// Time that a copy takes on the publisher's uplink.
    pub publisher_ms: f64,
    /// Time that a copy takes on the fastest uplink of the network.
    pub fastest_ms: f64,
    /// Time that a copy takes on each node's downlink.
    pub downlink_ms: Vec<f64>,
    /// The least latency in the network.
    pub latency_ms: f64,
}

/// A lower bound of the mean time to custody in milliseconds; 0 if nobody waits for anything.
pub fn mean_custody_ms(setting: &Setting) -> f64 {
    let mut total = 0.0;
    // Nodes that wait for equally many columns are alike but for their downlinks.
    let mut by_custody: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for (custody, downlink) in setting.custody.iter().zip(&setting.downlink_ms) {
        by_custody.entry(*custody).or_default().push(*downlink);
    }
    let waited: u64 = setting.custody.iter().map(|custody| u64::from(*custody)).sum();
    let subscribers = (waited as f64 / f64::from(setting.columns)).round().max(1.0) as usize;
    let spread = spread_ms(subscribers, setting.fastest_ms, setting.publisher_ms, setting.latency_ms);
    let mut nodes = 0;
    for (custody, downlinks) in &by_custody {
        if *custody == 0 {
            continue;
        }
        let published = mean_of_last_ms(setting, *custody, &spread);
        for downlink in downlinks {
            total += published.max(f64::from(*custody) * downlink + setting.latency_ms);
            nodes += 1;
        }
    }
    if nodes == 0 { 0.0 } else { total / f64::from(nodes) }
}

/// The mean time until a node has a random set of `custody` columns, each at a random place of its spread.
fn mean_of_last_ms(setting: &Setting, custody: u32, spread: &[f64]) -> f64 {
    let end = f64::from(setting.columns) * setting.publisher_ms
        + setting.latency_ms
        + spread.last().copied().unwrap_or(0.0);
    // The left end of each step counts, so that the sum stays below the integral.
    let steps = 2000;
    let width = end / f64::from(steps);
    let mut mean = 0.0;
    for step in 1..=steps {
        let time = width * f64::from(step);
        mean += width * (1.0 - all_arrived(setting, custody, spread, time));
    }
    mean
}

/// The probability that a random set of `custody` columns has arrived by a time.
fn all_arrived(setting: &Setting, custody: u32, spread: &[f64], time: f64) -> f64 {
    // chosen[j]: the mean product of probabilities over sets of j columns out of those seen so far.
    let mut chosen = vec![0.0; custody as usize + 1];
    chosen[0] = 1.0;
    for position in 1..=setting.columns {
        let since = time - f64::from(position) * setting.publisher_ms - setting.latency_ms;
        let arrived = spread.partition_point(|delay| *delay <= since) as f64 / spread.len() as f64;
        let seen = f64::from(position);
        for j in (1..=custody.min(position) as usize).rev() {
            // A random set of j out of `seen` contains the newest column with probability j / seen.
            let with = j as f64 / seen;
            let without = if (j as f64) < seen { chosen[j] } else { 0.0 };
            chosen[j] = (1.0 - with) * without + with * chosen[j - 1] * arrived;
        }
    }
    chosen[custody as usize]
}

/// When, from the first arrival on, each of `served` nodes has a column that spreads optimally.
fn spread_ms(served: usize, fastest_ms: f64, publisher_ms: f64, latency_ms: f64) -> Vec<f64> {
    // Senders and when each sends its next copy; the copy arrives a latency after it has been sent.
    let mut arrivals = vec![0.0];
    let mut next: std::collections::BinaryHeap<std::cmp::Reverse<(u64, u64)>> =
        std::collections::BinaryHeap::new();
    // In picoseconds, so that times can be ordered exactly.
    let exact = |ms: f64| (ms * 1e9).round() as u64;
    let (step, publisher, latency) =
        (exact(fastest_ms).max(1), exact(publisher_ms).max(1), exact(latency_ms));
    next.push(std::cmp::Reverse((step + latency, step)));
    // The publisher's next copy left right behind the first one.
    next.push(std::cmp::Reverse((publisher, publisher)));
    while arrivals.len() < served {
        let Some(std::cmp::Reverse((at, pace))) = next.pop() else { break };
        arrivals.push(at as f64 / 1e9);
        next.push(std::cmp::Reverse((at + pace, pace)));
        next.push(std::cmp::Reverse((at + step + latency, step)));
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_spread_the_last_column_has_the_known_mean_position() {
        for (custody, columns) in [(1, 128), (16, 128), (128, 128), (8, 9)] {
            let setting = Setting {
                columns,
                custody: vec![custody],
                publisher_ms: 1.0,
                fastest_ms: 1.0,
                downlink_ms: vec![0.0],
                latency_ms: 0.0,
            };
            let (c, all) = (f64::from(custody), f64::from(columns));
            let (found, expected) = (mean_of_last_ms(&setting, custody, &[0.0]), c * (all + 1.0) / (c + 1.0));
            assert!(
                found <= expected && found > expected - all / 500.0,
                "{custody} of {columns}: {found}, {expected}"
            );
        }
    }

    #[test]
    fn the_postal_model_doubles_where_latency_is_nothing() {
        // One round of the telephone model a step: 1, 2, 4, 8 ... holders, and the publisher as one more sender.
        assert_eq!(spread_ms(7, 1.0, 1e9, 0.0), [0.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]);
        // Without bandwidth limits everybody has it a latency later at most.
        assert!(spread_ms(1000, 1e-6, 1e9, 50.0).iter().all(|delay| *delay < 50.01));
    }

    #[test]
    fn the_post_s_case_is_bounded_by_about_a_second() {
        let setting = Setting {
            columns: 128,
            custody: vec![16; 999],
            publisher_ms: 6.82,
            fastest_ms: 6.82,
            downlink_ms: vec![6.82; 999],
            latency_ms: 50.0,
        };
        let bound = mean_custody_ms(&setting);
        assert!((950.0..1050.0).contains(&bound), "{bound}");
    }

    #[test]
    fn a_slow_downlink_is_a_bound_of_its_own() {
        let setting = Setting {
            columns: 4,
            custody: vec![4, 4],
            publisher_ms: 1.0,
            fastest_ms: 1.0,
            downlink_ms: vec![1.0, 100.0],
            latency_ms: 10.0,
        };
        assert!(mean_custody_ms(&setting) > (410.0 + 14.0) / 2.0 - 1.0);
    }
}
