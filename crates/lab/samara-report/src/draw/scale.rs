//! Scales of axes, the values of a sweep on them, and labels: round values, as many as there is
//! room for.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use super::{LABEL_SIZE, text_pixels};
use crate::words::{number, percent, short_ms, shown, three_digits};

/// Minimum pixels of a power of ten for lines between those with labels.
const LIGHT_PIXELS: f64 = 70.0;
/// Minimum ratio of the largest to the smallest value for a logarithmic scale. Others start at
/// zero, which is easier to read.
const POWERS_FROM: f64 = 20.0;

/// The range of an axis, its name and its unit.
#[derive(Clone, Debug)]
pub struct Scale {
    name: String,
    range: Range<f64>,
    by_powers: bool,
    /// The values with labels, or the unit of which round values get labels.
    ticks: Result<Vec<Tick>, Unit>,
}

impl Scale {
    pub fn linear(name: impl Into<String>, range: Range<f64>, unit: Unit) -> Self {
        Self { name: name.into(), range, by_powers: false, ticks: Err(unit) }
    }

    /// Creates a logarithmic scale. Both ends must be positive.
    pub fn powers(name: impl Into<String>, range: Range<f64>, unit: Unit) -> Self {
        Self { name: name.into(), range, by_powers: true, ticks: Err(unit) }
    }

    /// Creates a linear scale with lines at the given values, which must be sorted, and labels
    /// where they fit.
    pub fn at(name: impl Into<String>, range: Range<f64>, ticks: Vec<Tick>) -> Self {
        Self { name: name.into(), range, by_powers: false, ticks: Ok(ticks) }
    }

    /// Creates a scale for the values of a sweep.
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

    /// Creates a scale of shares from 0 to 1.
    pub fn share() -> Self {
        Self::linear("", 0.0..1.02, Unit::Share)
    }

    /// Creates a scale from zero to the largest value, or a logarithmic one if some values are much
    /// larger than others.
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

    /// The position of a value between the ends, from 0 to 1.
    pub fn share_of(&self, value: f64) -> f64 {
        let [start, end] = [self.range.start, self.range.end].map(|end| self.place(end));
        (self.place(value) - start) / (end - start)
    }

    pub fn value_at(&self, share: f64) -> f64 {
        let [start, end] = [self.range.start, self.range.end].map(|end| self.place(end));
        let place = start + share * (end - start);
        if self.by_powers { place.exp() } else { place }
    }

    /// The first and the last value.
    pub fn ends(&self) -> Range<f64> {
        self.range.clone()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub fn is_logarithmic(&self) -> bool {
        self.by_powers
    }

    /// The values with labels, or the unit of which round values get labels.
    pub(super) fn ticks(&self) -> Result<&[Tick], Unit> {
        self.ticks.as_deref().map_err(|unit| *unit)
    }

    fn place(&self, value: f64) -> f64 {
        if self.by_powers { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    pub(crate) fn axis(&self, room: Room) -> Axis {
        let Range { start, end } = self.range;
        let place = |value| self.share_of(value);
        let mut light = Vec::new();
        let labels = match (&self.ticks, self.by_powers) {
            (Ok(ticks), _) => {
                light.extend(ticks.iter().map(|(value, _)| *value));
                thinned(ticks, &place, room)
            }
            (Err(unit), false) => linear(start, end, *unit, &place, room),
            (Err(unit), true) => {
                if room.pixels() / (end / start).log10() >= LIGHT_PIXELS {
                    let powers = (start.log10().floor() as i32)..=(end.log10().ceil() as i32);
                    let lines = powers
                        .flat_map(|power| (1..10).map(move |digit| f64::from(digit) * 10_f64.powi(power)));
                    light.extend(lines.filter(|value| self.range.contains(value)));
                }
                powers(start, end, *unit, &place, room)
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
    /// The values with labels, and the values of further lines.
    labels: Vec<Tick>,
    light: Vec<f64>,
    inner: RangedCoordf64,
}

impl Axis {
    pub(super) fn name(&self) -> &str {
        &self.scale.name
    }

    #[cfg(test)]
    pub(super) fn scale(&self) -> &Scale {
        &self.scale
    }

    #[cfg(test)]
    pub(super) fn labels(&self) -> Vec<&str> {
        self.labels.iter().map(|(_, label)| label.as_str()).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        // Values outside of the range are drawn at the edge.
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

/// Minimum ratio of the last to the first value for a logarithmic axis, as for sizes of networks
/// and messages.
const RATIOS_FROM: f64 = 9.0;

/// The values of a sweep's axis, with their positions and labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// The sorted positions, with the labels from the scenario.
    pub ticks: Vec<Tick>,
    /// Whether the axis is logarithmic.
    pub by_powers: bool,
    /// Whether the values are numbers, so that positions between two of them have a meaning.
    pub numbers: bool,
}

impl Swept {
    /// Creates an axis for these values, and returns it with the position of each.
    pub fn new(values: &[&str]) -> (Self, Vec<f64>) {
        let numbers = values.iter().all(|value| value.starts_with(|c: char| c.is_ascii_digit()));
        let all = if numbers { places(values) } else { by_order(values) };
        let mut ticks: Vec<Tick> = Vec::new();
        for (place, value) in all.iter().zip(values) {
            if !ticks.iter().any(|(other, _)| other == place) {
                // A list of one value is shown as that value.
                let only = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
                ticks.push((*place, only.filter(|only| !only.contains(',')).unwrap_or(value).to_owned()));
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends = ticks.first().zip(ticks.last()).map_or((0.0, 0.0), |(first, last)| (first.0, last.0));
        let by_powers = numbers && ends.0 > 0.0 && ends.1 / ends.0 >= RATIOS_FROM;
        (Self { ticks, by_powers, numbers }, all)
    }

    /// The label of a position: the value there, or a number in the unit of the next smaller value.
    pub fn label(&self, place: f64) -> String {
        shown(place, || self.label_of(place))
    }

    fn label_of(&self, place: f64) -> String {
        if let Some((_, text)) = self.ticks.iter().find(|(at, _)| *at == place) {
            return text.clone();
        }
        let near = self.ticks.iter().rev().find(|(at, _)| *at <= place && *at > 0.0).or(self.ticks.first());
        let Some((at, text)) = near else { return String::new() };
        let written = leading_number(text);
        let value = if *at == 0.0 { place } else { place / at * written };
        format!("{}{}", three_digits(value), unit(text))
    }
}

/// The unit behind the number of a value, with the space before it.
fn unit(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-eE".contains(c))
}

/// The positions of values: their numbers, or multiples of the base unit if their units differ ("64
/// B", "4 kB").
fn places(values: &[&str]) -> Vec<f64> {
    let differ = values.iter().any(|value| unit(value) != unit(values[0]));
    let factor = |unit: &str| match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3_600.0,
        _ if unit.starts_with("Ki") => 1_024.0,
        _ if unit.starts_with("Mi") => 1_048_576.0,
        _ if unit.starts_with('k') => 1e3,
        _ if unit.starts_with('M') => 1e6,
        _ if unit.starts_with('G') => 1e9,
        _ => 1.0,
    };
    values
        .iter()
        .map(|value| leading_number(value) * if differ { factor(unit(value).trim()) } else { 1.0 })
        .collect()
}

/// Positions of values that are not numbers: equally spaced, in the order of their appearance.
fn by_order(values: &[&str]) -> Vec<f64> {
    let mut known: Vec<&str> = Vec::new();
    let mut places = Vec::new();
    for value in values {
        let at = known.iter().position(|other| other == value).unwrap_or(known.len());
        if at == known.len() {
            known.push(value);
        }
        places.push(at as f64);
    }
    places
}

fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

/// Height of a label, and gap between two labels side by side, in pixels.
const LABEL_PIXELS: f64 = 24.0;
const GAP_PIXELS: f64 = 12.0;
/// Maximum number of labels on a linear axis.
const LINEAR_MAX: usize = 9;
/// Minimum number of labels. Fewer do not describe an axis.
const LABELS_MIN: usize = 3;
/// Round multiples of a power of ten, in the order of preference.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

/// Units of the numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Number,
    /// Whole numbers without a unit.
    Count,
    Milliseconds,
    /// Bytes, with decimal prefixes.
    Bytes,
    /// Shares of 1, shown in percent.
    Share,
}

impl Unit {
    /// The name of the unit for the page's script.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Count => "count",
            Self::Milliseconds => "ms",
            Self::Bytes => "bytes",
            Self::Share => "share",
        }
    }

    /// Formats a value with its unit, as short as it is exact.
    pub fn label(self, value: f64) -> String {
        let with = |parts: &[(f64, &str)]| {
            let part = parts.iter().find(|(factor, _)| value.abs() >= *factor * 0.999_999);
            let (factor, unit) = part.or(parts.last()).copied().unwrap_or((1.0, ""));
            if value == 0.0 { "0".to_owned() } else { format!("{}{unit}", digits(value / factor)) }
        };
        shown(value, || match self {
            Self::Number | Self::Count => with(&[(1e9, " G"), (1e6, " M"), (1.0, "")]),
            Self::Milliseconds => with(&[(1e3, " s"), (1.0, " ms"), (1e-3, " µs")]),
            Self::Bytes => with(&[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")]),
            Self::Share => format!("{} %", digits(value * 100.0)),
        })
    }

    pub fn written(self, value: f64) -> String {
        shown(value, || match self {
            Self::Milliseconds => short_ms(value),
            Self::Bytes if value.abs() >= 1e6 => format!("{:.2} MB", value / 1e6),
            Self::Bytes if value.abs() >= 1e3 => format!("{:.2} kB", value / 1e3),
            Self::Share if (value * 100.0).fract() == 0.0 => percent(value, 0),
            Self::Share => percent(value, 1),
            _ => number(value),
        })
    }
}

/// Formats a number with at most six decimals and without trailing zeros.
fn digits(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The room for labels on an axis, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// A horizontal axis, where labels need their width.
    Across(u32),
    /// A vertical axis, where labels need their height.
    Upright(u32),
}

impl Room {
    fn pixels(self) -> f64 {
        match self {
            Self::Across(pixels) | Self::Upright(pixels) => f64::from(pixels),
        }
    }

    /// Half of the size of a label and its gap.
    fn half(self, label: &str) -> f64 {
        match self {
            Self::Across(_) => (text_pixels(label, LABEL_SIZE) + GAP_PIXELS) / 2.0,
            Self::Upright(_) => LABEL_PIXELS / 2.0,
        }
    }
}

/// A labelled value: its position and its text.
pub type Tick = (f64, String);

type Place<'a> = &'a dyn Fn(f64) -> f64;

/// Returns true if labels that are sorted by value do not touch.
pub(crate) fn fit(ticks: &[Tick], place: Place<'_>, room: Room) -> bool {
    ticks.windows(2).all(|pair| apart(&pair[0], &pair[1], place, room))
}

fn apart(one: &Tick, other: &Tick, place: Place<'_>, room: Room) -> bool {
    (place(other.0) - place(one.0)).abs() * room.pixels() >= room.half(&one.1) + room.half(&other.1)
}

/// Selects the values that have room, from a sorted list. The first and the last take precedence.
pub(crate) fn thinned(values: &[Tick], place: Place<'_>, room: Room) -> Vec<Tick> {
    let [first, between @ .., last] = values else { return values.to_vec() };
    let mut kept = vec![first.clone()];
    for value in between {
        if kept.last().is_some_and(|before| apart(before, value, place, room))
            && apart(value, last, place, room)
        {
            kept.push(value.clone());
        }
    }
    if apart(first, last, place, room) {
        kept.push(last.clone());
    }
    kept
}

/// Returns round values at equal distances.
pub(crate) fn linear(from: f64, until: f64, unit: Unit, place: Place<'_>, room: Room) -> Vec<Tick> {
    let span = until - from;
    if span <= 0.0 || !span.is_finite() {
        return vec![(from, unit.label(from))];
    }
    let least = (span / LINEAR_MAX as f64).log10().floor() as i32;
    let steps = (least..=least + 3).flat_map(|power| ROUND.map(|round| round * 10_f64.powi(power)));
    let whole = |step: &f64| unit != Unit::Count || *step >= 1.0;
    let multiples = |step: f64| -> Vec<Tick> {
        let (first, last) = ((from / step - 1e-9).ceil() as i64, (until / step + 1e-9).floor() as i64);
        (first..=last).map(|i| i as f64 * step).map(|value| (value, unit.label(value))).collect()
    };
    let mut fewest = Vec::new();
    for step in steps.filter(whole) {
        // On an axis without room, the smallest steps may be thousands: skip them.
        if span / step > 4.0 * LINEAR_MAX as f64 {
            continue;
        }
        let ticks = multiples(step);
        if ticks.len() <= LINEAR_MAX + 1 && fit(&ticks, place, room) {
            return ticks;
        }
        fewest = ticks;
    }
    fewest.truncate(1);
    fewest
}

/// Returns labels at 1, 2 and 5 times the powers of ten. Without enough room, returns the powers
/// only, or some of them. Short ranges that have hardly any of these get equal steps.
pub(crate) fn powers(from: f64, until: f64, unit: Unit, place: Place<'_>, room: Room) -> Vec<Tick> {
    let decades = (from.log10().floor() as i32)..=(until.log10().ceil() as i32);
    let of = |rounds: &[f64], every: usize| -> Vec<Tick> {
        let powers = decades.clone().filter(|power| power.rem_euclid(every as i32) == 0);
        let values = powers
            .flat_map(|power| rounds.iter().map(|round| round * 10_f64.powi(power)).collect::<Vec<_>>());
        let inside = values.filter(|value| (from * 0.999_999..=until * 1.000_001).contains(value));
        inside.map(|value| (value, unit.label(value))).collect()
    };
    let all = of(&ROUND, 1);
    if all.len() < LABELS_MIN {
        let steps = linear(from, until, unit, place, room);
        return if steps.len() > all.len() || !fit(&all, place, room) { steps } else { all };
    }
    if fit(&all, place, room) {
        return all;
    }
    let fewer = (1..=8).map(|every| of(&ROUND[..1], every));
    let mut fewer = fewer.filter(|ticks| fit(ticks, place, room));
    fewer.next().filter(|ticks| ticks.len() >= 2).unwrap_or_else(|| thinned(&all, place, room))
}
