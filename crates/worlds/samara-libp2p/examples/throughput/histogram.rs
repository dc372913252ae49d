//! A histogram of microseconds in buckets that are 1.6 % wide, with a text form that the Go program
//! writes too.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Number of bits kept below the highest bit of a value: 64 buckets to an octave.
const MANTISSA_BITS: u32 = 6;

/// The count of each bucket. The text form is `bucket:count` for every bucket that is not empty.
#[derive(Debug, Default)]
pub(crate) struct Histogram(BTreeMap<u64, u64>);

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        *self.0.entry(bucket(value)).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// Returns the lower end of the bucket that contains the value of this rank (0 to 1); `None` if
    /// there are no values.
    pub(crate) fn quantile(&self, rank: f64) -> Option<u64> {
        let all: u64 = self.0.values().sum();
        let wanted = ((all as f64 * rank).ceil() as u64).max(1);
        let mut below = 0;
        self.0.iter().find_map(|(bucket, count)| {
            below += count;
            (below >= wanted).then(|| lower_end(*bucket))
        })
    }
}

/// The middle value, the upper one of two middle values, or 0 for no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn bucket(value: u64) -> u64 {
    if value < 2 << MANTISSA_BITS {
        return value;
    }
    let shift = value.ilog2() - MANTISSA_BITS;
    (u64::from(shift) << MANTISSA_BITS) + (value >> shift)
}

fn lower_end(bucket: u64) -> u64 {
    if bucket < 2 << MANTISSA_BITS {
        return bucket;
    }
    let shift = (bucket >> MANTISSA_BITS) - 1;
    (bucket - (shift << MANTISSA_BITS)) << shift
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(bucket, count)| write!(f, " {bucket}:{count}"))
    }
}

impl FromStr for Histogram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |word: &str| {
            let (bucket, count) = word.split_once(':')?;
            Some((bucket.parse().ok()?, count.parse().ok()?))
        };
        let wrong = |word| format!("{word:?} is not part of a histogram, expected bucket:count");
        text.split_whitespace()
            .map(|word| entry(word).ok_or_else(|| wrong(word)))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for value in (0..100_000).chain([u64::MAX / 2, u64::MAX]) {
            let at = bucket(value);
            assert!(at >= last && lower_end(at) <= value);
            assert!(value - lower_end(at) <= value / 64, "{value}");
            last = at;
        }
    }

    #[test]
    fn quantiles_survive_the_text_form() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.add(value));
        let read: Histogram = histogram.to_string().parse().unwrap();
        assert_eq!(
            (read.quantile(0.5), read.quantile(0.99), read.quantile(1.0)),
            (Some(50), Some(99), Some(100))
        );
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert!("1:2 3".parse::<Histogram>().is_err());
    }
}
