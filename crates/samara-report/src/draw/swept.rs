//! The values of a sweep's axis on paper.

use super::ticks::Tick;
use crate::words::MISSING;

/// Axes whose last value is this much more than the first go by ratios: sizes of networks and of messages.
const POWERS_FROM: f64 = 12.0;

/// The values of a sweep's axis: where each is, and what is written there.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// The values and what the scenario calls them, sorted.
    pub ticks: Vec<Tick>,
    /// Whether equal ratios are to be equally long.
    pub by_powers: bool,
    /// Whether the places are numbers, so that what lies between two of them means something.
    pub numbers: bool,
}

impl Swept {
    /// An axis with these values, and the place of each.
    pub fn new(values: &[&str]) -> (Self, Vec<f64>) {
        let numbers = values.iter().all(|value| value.starts_with(|c: char| c.is_ascii_digit()));
        let all = if numbers { places(values) } else { by_order(values) };
        let mut ticks: Vec<Tick> = Vec::new();
        for (place, value) in all.iter().zip(values) {
            if !ticks.iter().any(|(other, _)| other == place) {
                ticks.push((*place, (*value).to_owned()));
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends = ticks.first().zip(ticks.last()).map_or((0.0, 0.0), |(first, last)| (first.0, last.0));
        let by_powers = numbers && ends.0 > 0.0 && ends.1 / ends.0 >= POWERS_FROM;
        (Self { ticks, by_powers, numbers }, all)
    }

    /// What is written at a place: the value that is there, or a number in the unit of the next smaller one.
    pub fn label(&self, place: f64) -> String {
        if !place.is_finite() {
            return MISSING.to_owned();
        }
        if let Some((_, text)) = self.ticks.iter().find(|(at, _)| *at == place) {
            return text.clone();
        }
        let near = self.ticks.iter().rev().find(|(at, _)| *at <= place && *at > 0.0).or(self.ticks.first());
        let Some((at, text)) = near else { return String::new() };
        let written = leading_number(text);
        let value = if *at == 0.0 { place } else { place / at * written };
        let digits = match value {
            _ if value >= 100.0 => format!("{value:.0}"),
            _ if value >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        format!("{digits}{}", unit(text))
    }
}

/// What follows the number of a value, with the space between them.
fn unit(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-eE".contains(c))
}

/// Where the values of an axis are placed: their numbers, or, where their units differ ("64 B", "4 kB"), multiples of the base unit.
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

/// Values that are no numbers stand side by side in the order in which they come.
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

/// The number at the start of a value.
fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}
