//! Summarises several runs in one figure.

use std::fmt;
use std::time::Duration;

/// A time, with its standard error if it is a mean.
pub(crate) struct Summary {
    pub(crate) time: Duration,
    standard_error: Option<Duration>,
}

impl Summary {
    /// Returns the median of the last transfer of each run.
    pub(crate) fn median(runs: &[Vec<Duration>]) -> Self {
        let mut times: Vec<_> = runs.iter().filter_map(|run| run.iter().max().copied()).collect();
        times.sort();
        Self { time: times[times.len() / 2], standard_error: None }
    }

    /// Returns the mean of all transfers.
    pub(crate) fn mean(runs: &[Vec<Duration>]) -> Self {
        let times: Vec<f64> = runs.iter().flatten().map(Duration::as_secs_f64).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Self {
            time: Duration::from_secs_f64(mean),
            standard_error: Some(Duration::from_secs_f64((variance / count).sqrt())),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.standard_error {
            None => f.write_str(&ms(self.time)),
            Some(error) => {
                write!(f, "{:.0} ± {:.0} ms", self.time.as_secs_f64() * 1e3, error.as_secs_f64() * 1e3)
            }
        }
    }
}

pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
