//! From values to places on an axis, and the values that are named there.

use crate::model::{Axis, Scale};
use crate::number;

/// An axis over a range of values and pixels.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    scale: Scale,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    /// What values are divided by, and the unit then.
    divisor: f64,
    unit: String,
    named: Vec<f64>,
}

/// Milliseconds from here on are shown as seconds.
const SECONDS_FROM_MS: f64 = 3000.0;

impl Placed {
    /// An axis that shows all these values, between these pixels.
    pub(crate) fn new(axis: &Axis, values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let usable = |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(usable) {
            (from, to) = (from.min(value), to.max(value));
        }
        if from > to {
            (from, to) = if axis.scale == Scale::Linear { (0.0, 1.0) } else { (1.0, 10.0) };
        }
        match axis.scale {
            Scale::Linear => {
                from = from.min(0.0);
                to = if to > from { to } else { from + 1.0 };
            }
            Scale::Log => {
                let margin = ((to / from).powf(0.04)).max(1.05);
                (from, to) = (from / margin, to * margin);
            }
        }
        let (divisor, unit) = match axis.unit.as_str() {
            "ms" if to >= SECONDS_FROM_MS => (1e3, "s"),
            unit => (1.0, unit),
        };
        let named = axis.ticks.iter().copied().filter(|tick| (from..=to).contains(tick)).collect();
        Self { scale: axis.scale, from, to, start, end, divisor, unit: unit.to_owned(), named }
    }

    /// The same with the largest value raised to that of a tick, where ticks are of even distance.
    pub(crate) fn rounded_up(mut self) -> Self {
        if self.scale == Scale::Linear {
            let step = step(self.from, self.to, 5);
            self.to = (self.to / step - 1e-9).ceil() * step;
        }
        self
    }

    /// Where a value is, in pixels.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln(),
        };
        self.start + part * (self.end - self.start)
    }

    /// The last value.
    pub(crate) fn to(&self) -> f64 {
        self.to
    }

    /// The first value.
    pub(crate) fn from(&self) -> f64 {
        self.from
    }

    /// The unit in which ticks are named.
    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    /// About so many values that are named, with their names.
    pub(crate) fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        let name = |value: f64| (value, number::tick(value / self.divisor));
        if !self.named.is_empty() {
            return self.named.iter().map(|value| name(*value)).collect();
        }
        match self.scale {
            Scale::Linear => {
                let step = step(self.from, self.to, about);
                let first = (self.from / step - 1e-9).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last).map(|index| name(index as f64 * step)).collect()
            }
            Scale::Log => log_ticks(self.from, self.to).into_iter().map(name).collect(),
        }
    }
}

/// The distance of about so many ticks over a range, in the unit that is shown: 1, 2 or 5 times a power of ten.
fn step(from: f64, to: f64, about: usize) -> f64 {
    let rough = (to - from).max(f64::MIN_POSITIVE) / about.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// 1, 2 and 5 times powers of ten; only powers over more than three of them.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let factors: &[f64] = if last - first > 4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|tick| (from..=to).contains(tick))
        .collect()
}
