//! How fast it could be: a lower bound for the mean time to custody.
//!
//! Three things cannot be avoided, whatever the schedule:
//!
//! 1. **The publisher's uplink.** One copy of every column has to pass it. With `s` the time that a copy takes there
//!    (frame, framing and headers over the rate), the first copy of the `k`-th column is out no earlier than `k s`.
//! 2. **The last of a node's columns.** A schedule does not know who keeps what. Of `C` columns in any such order, the
//!    last of a node's `c` has position `k` with probability `binom(k-1, c-1) / binom(C, c)`; its mean is
//!    `c (C + 1) / (c + 1)`.
//! 3. **The spread.** From its first copy on, a column spreads at best as in the postal model (Bar-Noy and Kipnis 1992):
//!    everybody who has it sends a copy every `s'`, the fastest uplink's time, and a copy arrives the least latency of
//!    the network later. The publisher is granted to help every column all the time, which no real one can.
//!
//! A schedule that does not know who keeps what does not know for whom a column is the last one either, so that the mean of
//! the spread over all subscribers counts. A node's own downlink adds that it cannot have its columns before they fit
//! through it. Nothing else counts: no slow start, no duplicates, no control traffic, no validation.
//!
//! The bound is one for the expectation over custody sets. A single run's sets move the second part by a fraction of a
//! column's time (its standard deviation over a thousand nodes is a quarter of `s`).

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
    let spread = mean_spread_ms(subscribers, setting.fastest_ms, setting.publisher_ms, setting.latency_ms);
    let mut nodes = 0;
    for (custody, downlinks) in &by_custody {
        if *custody == 0 {
            continue;
        }
        let last = mean_last_position(*custody, setting.columns);
        let published = last * setting.publisher_ms + setting.latency_ms + spread;
        for downlink in downlinks {
            total += published.max(f64::from(*custody) * downlink + setting.latency_ms);
            nodes += 1;
        }
    }
    if nodes == 0 { 0.0 } else { total / f64::from(nodes) }
}

/// The expected position (from 1) of the last of `custody` columns among `columns` in random order.
fn mean_last_position(custody: u32, columns: u32) -> f64 {
    let (c, all) = (f64::from(custody), f64::from(columns));
    c * (all + 1.0) / (c + 1.0)
}

/// The mean time, from the first arrival on, until each of the first `served` nodes has a column that spreads optimally.
fn mean_spread_ms(served: usize, fastest_ms: f64, publisher_ms: f64, latency_ms: f64) -> f64 {
    // Senders and when each sends its next copy; the copy arrives a latency after it has been sent.
    let mut arrivals = vec![0.0];
    let mut next: std::collections::BinaryHeap<std::cmp::Reverse<(u64, u64)>> = std::collections::BinaryHeap::new();
    // In picoseconds, so that times can be ordered exactly.
    let exact = |ms: f64| (ms * 1e9).round() as u64;
    let (step, publisher, latency) = (exact(fastest_ms).max(1), exact(publisher_ms).max(1), exact(latency_ms));
    next.push(std::cmp::Reverse((step + latency, step)));
    // The publisher's next copy left right behind the first one.
    next.push(std::cmp::Reverse((publisher, publisher)));
    while arrivals.len() < served {
        let Some(std::cmp::Reverse((at, pace))) = next.pop() else { break };
        arrivals.push(at as f64 / 1e9);
        next.push(std::cmp::Reverse((at + pace, pace)));
        next.push(std::cmp::Reverse((at + step + latency, step)));
    }
    arrivals.iter().sum::<f64>() / arrivals.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability that the last of `custody` columns, drawn from `columns`, is at `position` (from 1).
    fn last_position(position: u32, custody: u32, columns: u32) -> f64 {
        // binom(position - 1, custody - 1) / binom(columns, custody), without large numbers.
        let (k, c, all) = (f64::from(position), f64::from(custody), f64::from(columns));
        (1..custody).fold(c / all, |probability, i| probability * (k - f64::from(i)) / (all - f64::from(i)))
    }

    #[test]
    fn positions_add_up_and_have_the_known_mean() {
        for (custody, columns) in [(1, 128), (16, 128), (128, 128), (8, 9)] {
            let probabilities: Vec<f64> =
                (custody..=columns).map(|position| last_position(position, custody, columns)).collect();
            let sum: f64 = probabilities.iter().sum();
            let mean: f64 = probabilities.iter().zip(custody..).map(|(p, position)| p * f64::from(position)).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{custody} of {columns}: {sum}");
            assert!((mean - mean_last_position(custody, columns)).abs() < 1e-6, "{custody} of {columns}: {mean}");
        }
    }

    #[test]
    fn the_postal_model_doubles_where_latency_is_nothing() {
        // One round of the telephone model a step: 1, 2, 4, 8 ... holders, and the publisher as one more sender.
        let mean = mean_spread_ms(2, 1.0, 1.0, 0.0);
        assert!((mean - 0.5).abs() < 1e-9, "{mean}");
        // Without bandwidth limits everybody has it a latency later at most.
        assert!(mean_spread_ms(1000, 1e-6, 1e-6, 50.0) < 50.0);
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
        assert!((900.0..1050.0).contains(&bound), "{bound}");
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
