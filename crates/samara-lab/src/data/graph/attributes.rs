//! What nodes and edges of a graph say beside being there.

use crate::data::latency::Cells;
use crate::data::table::Quantity;
use samara_engine::units::{Rate, Span};

/// Attributes of a node or an edge that count here, by their names in lower case.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attributes(Vec<(String, String)>);

const UPLINK: [&str; 3] = ["uplink", "host_bandwidth_up", "bandwidth_up"];
const DOWNLINK: [&str; 3] = ["downlink", "host_bandwidth_down", "bandwidth_down"];
const VALIDATION: [&str; 1] = ["validation_time"];
const LATENCY: [&str; 3] = ["latency", "delay", "rtt"];
const REVERSE: [&str; 1] = ["latency_reverse"];

impl Attributes {
    /// Keeps an attribute if it is one that counts.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        let begins = |known: &str| name.starts_with(known);
        let counts = name == "region"
            || UPLINK.into_iter().chain(DOWNLINK).chain(VALIDATION).chain(LATENCY).any(begins);
        if counts {
            self.0.push((name, value.trim().to_owned()));
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of the first of these names that is there, and the factor of a unit at the end of its name.
    fn find(&self, names: &[&str], units: &[(&str, f64)]) -> Option<(&str, Option<f64>)> {
        names.iter().find_map(|name| {
            if let Some(value) = self.get(name) {
                return Some((value, None));
            }
            units.iter().find_map(|(unit, factor)| {
                self.get(&format!("{name}_{unit}")).map(|value| (value, Some(*factor)))
            })
        })
    }

    fn quantity<Q: Quantity>(&self, names: &[&str]) -> Result<Option<Q>, String> {
        let Some((text, factor)) = self.find(names, Q::UNITS) else { return Ok(None) };
        let Some(factor) = factor else {
            let text = shadow_rate(text).unwrap_or_else(|| text.to_owned());
            return Q::from_text(&text).map(Some).map_err(|why| format!("{}: {why}", names[0]));
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(Q::from_number(number * factor))),
            _ => Err(format!("{} is \"{text}\"; expected a number", names[0])),
        }
    }

    pub(super) fn uplink(&self) -> Result<Option<Rate>, String> {
        self.rate(&UPLINK)
    }

    pub(super) fn downlink(&self) -> Result<Option<Rate>, String> {
        self.rate(&DOWNLINK)
    }

    fn rate(&self, names: &[&str]) -> Result<Option<Rate>, String> {
        let rate = self.quantity::<Rate>(names)?;
        match rate.filter(|rate| rate.bps() == 0) {
            Some(_) => Err(format!("{} is 0 bit/s; a host needs a positive rate", names[0])),
            None => Ok(rate),
        }
    }

    pub(super) fn validation(&self) -> Result<Option<Span>, String> {
        self.quantity(&VALIDATION)
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.get("region").filter(|region| !region.is_empty())
    }

    pub(super) fn has_rates(&self) -> bool {
        [UPLINK, DOWNLINK].iter().any(|names| self.find(names, Rate::UNITS).is_some())
    }

    pub(super) fn has_latency(&self) -> bool {
        self.find(&LATENCY, Span::UNITS).is_some()
    }

    /// One-way nanoseconds.
    pub(super) fn latency(&self, cells: &Cells) -> Result<Option<f64>, String> {
        self.time(&LATENCY, cells)
    }

    /// The same on the way back, where that takes another time.
    pub(super) fn reverse_latency(&self, cells: &Cells) -> Result<Option<f64>, String> {
        self.time(&REVERSE, cells)
    }

    fn time(&self, names: &[&str], cells: &Cells) -> Result<Option<f64>, String> {
        match self.find(names, Span::UNITS) {
            None => Ok(None),
            Some((text, None)) => cells.read(text),
            Some((text, Some(factor))) => match text.parse::<f64>() {
                Ok(number) => Ok(cells.nanos(number * factor)),
                Err(_) => Err(format!("latency is \"{text}\"; expected a number")),
            },
        }
    }
}

/// A rate as Shadow writes it ("10 Mbit", "1 Gibit") in bits per second.
fn shadow_rate(text: &str) -> Option<String> {
    let units = [
        ("Kibit", 1024.0),
        ("Mibit", 1_048_576.0),
        ("Gibit", 1_073_741_824.0),
        ("Kbit", 1e3),
        ("kbit", 1e3),
        ("Mbit", 1e6),
        ("Gbit", 1e9),
        ("bit", 1.0),
    ];
    let (unit, factor) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().ok()?;
    Some(format!("{} bit/s", number * factor))
}
