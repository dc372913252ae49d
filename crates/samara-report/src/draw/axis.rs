//! Scales, and axes that label only what fits.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::swept::Swept;
use super::ticks::{self, Room, Tick, Unit};

/// Lines between those with labels are drawn from so many pixels of a power of ten on.
const LIGHT_PIXELS: f64 = 70.0;
/// Scales go by powers of ten where the largest value is so many times the smallest; others are easier to read from zero on.
const POWERS_FROM: f64 = 20.0;

/// What an axis shows, and from where to where.
#[derive(Clone, Debug)]
pub struct Scale {
    name: String,
    range: Range<f64>,
    by_powers: bool,
    /// Values that are labelled; round ones of this unit otherwise.
    ticks: Result<Vec<Tick>, Unit>,
}

impl Scale {
    /// A scale on which equal steps are equally long.
    pub fn linear(name: impl Into<String>, range: Range<f64>, unit: Unit) -> Self {
        Self { name: name.into(), range, by_powers: false, ticks: Err(unit) }
    }

    /// A scale on which equal ratios are equally long. Both ends are more than 0.
    pub fn powers(name: impl Into<String>, range: Range<f64>, unit: Unit) -> Self {
        Self { name: name.into(), range, by_powers: true, ticks: Err(unit) }
    }

    /// A linear scale with labels at given values, sorted, where they fit; lines are at all of them.
    pub fn at(name: impl Into<String>, range: Range<f64>, ticks: Vec<Tick>) -> Self {
        Self { name: name.into(), range, by_powers: false, ticks: Ok(ticks) }
    }

    /// The values of a sweep.
    pub fn swept(name: impl Into<String>, swept: &Swept) -> Self {
        let ends = swept.ticks.first().zip(swept.ticks.last());
        let (low, high) = ends.map_or((0.0, 1.0), |(first, last)| (first.0, last.0));
        let range = if swept.by_powers {
            let room = (high / low).powf(0.04);
            low / room..high * room
        } else {
            let room = if high > low { (high - low) * 0.04 } else { 1.0 };
            low - room..high + room
        };
        Self { name: name.into(), range, by_powers: swept.by_powers, ticks: Ok(swept.ticks.clone()) }
    }

    /// From nothing to all.
    pub fn share() -> Self {
        Self::linear("", 0.0..1.02, Unit::Share)
    }

    /// From zero to the largest of some values; by powers of ten where some are much larger than others.
    pub fn fitting(name: impl Into<String>, values: impl Iterator<Item = f64>, unit: Unit) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, 1e-3_f64), |(least, most), value| (least.min(value), most.max(value)));
        if least > 0.0 && most / least >= POWERS_FROM {
            Self::powers(name, least / 1.3..most * 1.3, unit)
        } else {
            Self::linear(name, 0.0..most * 1.08, unit)
        }
    }

    /// Where a value is between the ends: 0 to 1.
    pub fn share_of(&self, value: f64) -> f64 {
        let [start, end] = [self.range.start, self.range.end].map(|end| self.place(end));
        (self.place(value) - start) / (end - start)
    }

    /// The value at a share of the scale.
    pub fn value_at(&self, share: f64) -> f64 {
        let [start, end] = [self.range.start, self.range.end].map(|end| self.place(end));
        let place = start + share * (end - start);
        if self.by_powers { place.exp() } else { place }
    }

    /// The first and the last value.
    pub fn ends(&self) -> Range<f64> {
        self.range.clone()
    }

    fn place(&self, value: f64) -> f64 {
        if self.by_powers { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    /// The scale on paper.
    pub(super) fn axis(&self, room: Room) -> Axis {
        let Range { start, end } = self.range;
        let place = |value| self.share_of(value);
        let mut light = Vec::new();
        let labels = match (&self.ticks, self.by_powers) {
            (Ok(ticks), _) => {
                light.extend(ticks.iter().map(|(value, _)| *value));
                ticks::thinned(ticks, &place, room)
            }
            (Err(unit), false) => ticks::linear(start, end, *unit, &place, room),
            (Err(unit), true) => {
                if room.pixels() / (end / start).log10() >= LIGHT_PIXELS {
                    let powers = (start.log10().floor() as i32)..=(end.log10().ceil() as i32);
                    let lines = powers
                        .flat_map(|power| (1..10).map(move |digit| f64::from(digit) * 10_f64.powi(power)));
                    light.extend(lines.filter(|value| self.range.contains(value)));
                }
                ticks::powers(start, end, *unit, &place, room)
            }
        };
        let inner = (self.place(start)..self.place(end)).into();
        Axis { scale: self.clone(), labels, light, inner }
    }
}

/// A scale with the labels that fit.
#[derive(Clone)]
pub(crate) struct Axis {
    scale: Scale,
    /// Values that are labelled, and lines without labels.
    labels: Vec<Tick>,
    light: Vec<f64>,
    inner: RangedCoordf64,
}

impl Axis {
    /// What the axis shows.
    pub(super) fn name(&self) -> &str {
        &self.scale.name
    }

    #[cfg(test)]
    pub(super) fn scale(&self) -> &Scale {
        &self.scale
    }

    /// What is labelled.
    #[cfg(test)]
    pub(super) fn labels(&self) -> Vec<&str> {
        self.labels.iter().map(|(_, label)| label.as_str()).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        // What lies outside is drawn at the edge.
        let Range { start, end } = self.scale.range;
        self.inner.map(&self.scale.place(value.clamp(start, end)), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.light.clone()
        } else {
            self.labels.iter().map(|(value, _)| *value).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.scale.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.labels.iter().find(|(at, _)| at == value).map_or_else(String::new, |(_, label)| label.clone())
    }
}
