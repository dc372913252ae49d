//! Which values of an axis are labelled: round ones, and no more than there is room for.

use crate::words::{MISSING, number, percent, short_ms};

/// Pixels of a label's height, and of the gap between two labels beside each other.
const LABEL_PIXELS: f64 = 24.0;
const GAP_PIXELS: f64 = 12.0;
/// A linear axis has at most so many labels.
const LINEAR_MAX: usize = 9;
/// Fewer labels than this tell nothing about an axis.
const LABELS_MIN: usize = 3;
/// Multiples of a power of ten that are round, from the best.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers.
    Number,
    /// Whole numbers.
    Count,
    /// Milliseconds.
    Milliseconds,
    /// Bytes, with decimal prefixes.
    Bytes,
    /// Shares of 1, shown in percent.
    Share,
}

impl Unit {
    /// A value with its unit, as short as it is exact.
    pub fn label(self, value: f64) -> String {
        if !value.is_finite() {
            return MISSING.to_owned();
        }
        let with = |parts: &[(f64, &str)]| {
            let part = parts.iter().find(|(factor, _)| value.abs() >= *factor * 0.999_999);
            let (factor, unit) = part.or(parts.last()).copied().unwrap_or((1.0, ""));
            if value == 0.0 { "0".to_owned() } else { format!("{}{unit}", digits(value / factor)) }
        };
        match self {
            Self::Number | Self::Count => with(&[(1e9, " G"), (1e6, " M"), (1.0, "")]),
            Self::Milliseconds => with(&[(1e3, " s"), (1.0, " ms"), (1e-3, " µs")]),
            Self::Bytes => with(&[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")]),
            Self::Share => format!("{} %", digits(value * 100.0)),
        }
    }

    /// A value as people write it in a table.
    pub fn written(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => MISSING.to_owned(),
            Self::Milliseconds => short_ms(value),
            Self::Bytes if value.abs() >= 1e6 => format!("{:.2} MB", value / 1e6),
            Self::Bytes if value.abs() >= 1e3 => format!("{:.2} kB", value / 1e3),
            Self::Share if (value * 100.0).fract() == 0.0 => percent(value, 0),
            Self::Share => percent(value, 1),
            _ => number(value),
        }
    }
}

/// At most six decimals, and none that say nothing.
fn digits(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The pixels that labels of an axis have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// Of an axis from left to right: labels take their width.
    Across(u32),
    /// Of an axis from bottom to top: labels take their height.
    Upright(u32),
}

impl Room {
    pub(super) fn pixels(self) -> f64 {
        match self {
            Self::Across(pixels) | Self::Upright(pixels) => f64::from(pixels),
        }
    }

    /// Half of what a label takes, with half of the gap beside it.
    fn half(self, label: &str) -> f64 {
        match self {
            Self::Across(_) => (super::text_pixels(label, super::LABEL_SIZE) + GAP_PIXELS) / 2.0,
            Self::Upright(_) => LABEL_PIXELS / 2.0,
        }
    }
}

/// Where labels stand: the value, and what is written there.
pub type Tick = (f64, String);

/// Places of values as shares of an axis.
type Place<'a> = &'a dyn Fn(f64) -> f64;

/// Whether labels that are sorted by value do not touch.
pub(crate) fn fit(ticks: &[Tick], place: Place<'_>, room: Room) -> bool {
    ticks.windows(2).all(|pair| apart(&pair[0], &pair[1], place, room))
}

fn apart(one: &Tick, other: &Tick, place: Place<'_>, room: Room) -> bool {
    (place(other.0) - place(one.0)).abs() * room.pixels() >= room.half(&one.1) + room.half(&other.1)
}

/// Of given values (sorted) those that have room: the first and the last before others.
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

/// Round values at the same distance from each other.
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
        // The smallest steps may be thousands on an axis that has no room: do not even write them.
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

/// 1, 2 and 5 times the powers of ten; only the powers, or only some of them, where there is no room for more; equal steps where a range
/// is so short that it has hardly any of these.
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
