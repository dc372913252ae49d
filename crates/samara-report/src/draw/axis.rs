//! An axis that labels only what fits.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::ticks::{self, Room, Tick, Unit};

/// Lines between those with labels are drawn from so many pixels of a power of ten on.
const LIGHT_PIXELS: f64 = 70.0;

/// An axis: linear, or by powers of ten.
#[derive(Clone)]
pub(crate) struct Axis {
    range: Range<f64>,
    by_powers: bool,
    /// Values that are labelled, and lines without labels.
    labels: Vec<Tick>,
    light: Vec<f64>,
    inner: RangedCoordf64,
}

impl Axis {
    /// An axis on which equal steps are equally long.
    pub(crate) fn linear(range: Range<f64>, unit: Unit, room: Room) -> Self {
        let mut axis = Self::bare(range, false);
        axis.labels = ticks::linear(axis.range.start, axis.range.end, unit, &|v| axis.share(v), room);
        axis
    }

    /// An axis on which equal ratios are equally long. Both ends are more than 0.
    pub(crate) fn powers(range: Range<f64>, unit: Unit, room: Room) -> Self {
        let mut axis = Self::bare(range, true);
        let Range { start, end } = axis.range;
        axis.labels = ticks::powers(start, end, unit, &|v| axis.share(v), room);
        let pixels = match room {
            Room::Across(pixels) | Room::Upright(pixels) => f64::from(pixels),
        };
        if pixels / (end / start).log10() >= LIGHT_PIXELS {
            let powers = (start.log10().floor() as i32)..=(end.log10().ceil() as i32);
            let lines =
                powers.flat_map(|power| (1..10).map(move |digit| f64::from(digit) * 10_f64.powi(power)));
            axis.light = lines.filter(|value| axis.range.contains(value)).collect();
        }
        axis
    }

    /// An axis with labels at given values, sorted, where they fit; lines are at all of them.
    pub(crate) fn at(range: Range<f64>, by_powers: bool, values: &[Tick], room: Room) -> Self {
        let mut axis = Self::bare(range, by_powers);
        axis.labels = ticks::thinned(values, &|v| axis.share(v), room);
        axis.light = values.iter().map(|(value, _)| *value).collect();
        axis
    }

    fn bare(range: Range<f64>, by_powers: bool) -> Self {
        let ends = if by_powers { range.start.ln()..range.end.ln() } else { range.clone() };
        Self { range, by_powers, labels: Vec::new(), light: Vec::new(), inner: ends.into() }
    }

    /// Where a value is between the ends: 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let ends = self.inner.range();
        (self.place(value) - ends.start) / (ends.end - ends.start)
    }

    /// The value at a share of the axis.
    pub(crate) fn value(&self, share: f64) -> f64 {
        let ends = self.inner.range();
        let place = ends.start + share * (ends.end - ends.start);
        if self.by_powers { place.exp() } else { place }
    }

    fn place(&self, value: f64) -> f64 {
        if self.by_powers { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    /// The first and the last value.
    pub(crate) fn ends(&self) -> Range<f64> {
        self.range.clone()
    }

    /// What is labelled.
    #[cfg(test)]
    pub(crate) fn labels(&self) -> Vec<&str> {
        self.labels.iter().map(|(_, label)| label.as_str()).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        // What lies outside is drawn at the edge.
        self.inner.map(&self.place(value.clamp(self.range.start, self.range.end)), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.light.clone()
        } else {
            self.labels.iter().map(|(value, _)| *value).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.labels.iter().find(|(at, _)| at == value).map_or_else(String::new, |(_, label)| label.clone())
    }
}
