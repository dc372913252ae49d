//! Latencies in the form that files have: counts in buckets, with an exact mean.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, Serializer};

/// The longest distinguished latency, in nanoseconds: one hour. Longer ones count as this value,
/// except in the mean.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Number of significant digits. With two, values in a bucket differ by less than 1 %.
const DIGITS: u8 = 2;
/// Maximum number of buckets in the input. A histogram of this precision has fewer.
const BUCKETS_MAX: usize = 1 << 13;

/// Latencies of many slots, in nanoseconds. Mean, minimum and maximum are exact; quantiles are
/// within 1 %.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        // Cannot fail: the bounds are 1 ns and one hour.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constant bounds");
        Self { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Latencies {
    pub fn add(&mut self, latency_ns: u64, slots: u64) {
        if slots == 0 {
            return;
        }
        self.histogram.saturating_record_n(latency_ns.max(1), slots);
        self.sum_ns += u128::from(latency_ns) * u128::from(slots);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    pub fn merge(&mut self, other: &Self) {
        // Cannot fail: both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean, or `None` without values.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min_ns)
    }

    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// The latency that a share of the slots (0 to 1) does not exceed.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(share).clamp(self.min_ns, self.max_ns))
    }

    /// The buckets that are not empty: the highest value of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

/// The form of latencies in a file.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Sum of all latencies. Saturates at 584 years.
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sum_ns = u64::try_from(self.sum_ns).unwrap_or(u64::MAX);
        let buckets = self.buckets().collect();
        Written { sum_ns, min_ns: self.min_ns, max_ns: self.max_ns, buckets }.serialize(serializer)
    }
}

impl TryFrom<Written> for Latencies {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { sum_ns, min_ns, max_ns, buckets } = written;
        if buckets.len() > BUCKETS_MAX {
            return Err("too many buckets for a histogram");
        }
        let total = buckets.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let Some(total) = total else { return Err("the number of slots overflows") };
        let mut latencies = Self::default();
        for (value, count) in buckets {
            latencies.histogram.saturating_record_n(value.max(1), count);
        }
        if total > 0 {
            let (count, sum) = (u128::from(latencies.count()), u128::from(sum_ns));
            let possible = u128::from(min_ns) * count..=u128::from(max_ns) * count;
            if min_ns > max_ns || !(possible.contains(&sum) || sum_ns == u64::MAX) {
                return Err("sum_ns, min_ns and max_ns contradict each other");
            }
            (latencies.sum_ns, latencies.min_ns, latencies.max_ns) = (sum, min_ns, max_ns);
        }
        Ok(latencies)
    }
}
