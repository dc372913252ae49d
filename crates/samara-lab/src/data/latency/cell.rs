//! One value of a table of latencies.

use super::MISSING;
use crate::scenario::{LatencyFile, LatencyKind};
use samara_engine::units::Span;

/// How values are written and what they mean.
#[derive(Clone, Copy, Debug)]
pub(in crate::data) struct Cells {
    /// Nanoseconds of a plain number.
    unit_nanos: Option<f64>,
    /// 0.5 for round trips.
    share: f64,
}

/// What published tables have where there was no answer.
const NONE: [&str; 9] = ["", "-", "--", "na", "n/a", "nan", "null", "none", "inf"];

impl Cells {
    pub(super) fn new(spec: &LatencyFile) -> Self {
        let share = match spec.kind {
            LatencyKind::OneWay => 1.0,
            LatencyKind::RoundTrip => 0.5,
        };
        Self { unit_nanos: spec.unit.map(|unit| unit.nanos()), share }
    }

    /// One-way nanoseconds of a value; `None` if it says that there is none: nothing, `-`, `nan`, or a negative number.
    pub(in crate::data) fn read(&self, text: &str) -> Result<Option<f64>, String> {
        let text = text.trim();
        if let Ok(number) = text.parse::<f64>() {
            return self.number(number);
        }
        if NONE.contains(&text.to_ascii_lowercase().as_str()) {
            return Ok(None);
        }
        match Span::parse(text) {
            Ok(span) => Ok(Some(span.nanos() as f64 * self.share)),
            Err(why) => Err(format!("found \"{text}\", which is no latency: {why}")),
        }
    }

    /// The same of a plain number.
    pub(in crate::data) fn number(&self, number: f64) -> Result<Option<f64>, String> {
        if !number.is_finite() || number < 0.0 {
            return Ok(None);
        }
        match self.unit_nanos {
            Some(nanos) => Ok(Some(number * nanos * self.share)),
            None => Err(format!(
                "found {number}, which has no unit; say which with unit = \"ms\" (or \"s\", \"us\", \"ns\") in network.latency_file"
            )),
        }
    }

    /// The same of a number whose unit is known.
    pub(in crate::data) fn nanos(&self, nanos: f64) -> Option<f64> {
        (nanos.is_finite() && nanos >= 0.0).then_some(nanos * self.share)
    }

    /// Whole nanoseconds.
    pub(in crate::data) fn whole(nanos: Option<f64>) -> Result<Option<u32>, String> {
        let Some(nanos) = nanos.map(f64::round) else { return Ok(None) };
        if nanos < f64::from(MISSING) {
            Ok(Some(nanos as u32))
        } else {
            Err(format!("a one-way latency of {:.1} s; at most 4.29 s, is the unit right?", nanos / 1e9))
        }
    }

    /// Whether this is no name, but a latency or the mark of a missing one.
    pub(super) fn is_value(text: &str) -> bool {
        text.parse::<f64>().is_ok()
            || NONE.contains(&text.to_ascii_lowercase().as_str())
            || Span::parse(text).is_ok()
    }
}
