//! Figures as data: the page's script draws them for the width and the colours of a reader.

use serde_json::{Value, json};

use super::{Bar, Bars, Boxes, Ink, Line, Lines, Maps, Mark, Scale, Style};
use crate::section::{Drawing, Figure};

/// Significant digits of coordinates: more than a screen can show.
const DIGITS: i32 = 5;

impl Figure {
    pub(crate) fn data(&self) -> Value {
        let mut data = match &self.drawing {
            Drawing::Lines(lines) => lines.data(),
            Drawing::Bars(bars) => bars.data(),
            Drawing::Boxes(boxes) => boxes.data(),
            Drawing::Maps(maps) => maps.data(),
        };
        data["name"] = self.name.clone().into();
        data
    }

    pub fn title(&self) -> &str {
        match &self.drawing {
            Drawing::Lines(lines) => &lines.title,
            Drawing::Bars(bars) => &bars.title,
            Drawing::Boxes(boxes) => &boxes.title,
            Drawing::Maps(maps) => &maps.title,
        }
    }
}

impl Lines {
    fn data(&self) -> Value {
        let direct = !self.direct_labels().is_empty();
        let line = |(at, line): (usize, &Line)| {
            let (style, ink, opacity) = match line.style {
                Style::Dots => ("dots", None, None),
                Style::Plain => ("plain", None, None),
                Style::Shares => ("shares", None, None),
                Style::Bound => ("bound", None, None),
                Style::Area => ("area", None, None),
                Style::Thin(ink, opacity) => ("plain", Some(ink.css()), Some(opacity)),
            };
            let mut data = json!({
                "label": line.label,
                "points": pairs(&line.points),
                "style": style,
                "colour": line.colour.unwrap_or(at),
            });
            if line.confidence.iter().any(|half| *half > 0.0) {
                data["half"] = line.confidence.iter().map(|half| rounded(*half)).collect();
            }
            if let (Some(ink), Some(opacity)) = (ink, opacity) {
                data["ink"] = ink.into();
                data["opacity"] = opacity.into();
            }
            data
        };
        let lines = self.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty());
        json!({
            "kind": "lines",
            "x": self.scales.0.data(),
            "y": self.scales.1.data(),
            "lines": lines.map(line).collect::<Vec<_>>(),
            "rings": pairs(&self.rings),
            "ring": self.ring,
            "key": self.has_key,
            "direct": direct,
            "apart": !self.is_joined,
        })
    }
}

impl Bars {
    fn data(&self) -> Value {
        let row = |row: &Bar| {
            let parts: Vec<Value> = row
                .parts
                .iter()
                .map(|(from, until, colour)| json!([rounded(*from), rounded(*until), colour]))
                .collect();
            json!({
                "name": row.name,
                "parts": parts,
                "bounds": all(&row.bounds),
                "rings": all(&row.rings),
                "values": all(&row.values),
                "interval": row.interval.map(|ends| all(&ends)),
                "dot": row.dot.map(rounded),
                "colour": row.colour,
                "text": row.text,
            })
        };
        json!({
            "kind": "bars",
            "x": self.scale.data(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "marks": marks(&self.key),
        })
    }
}

impl Boxes {
    fn data(&self) -> Value {
        let boxes = self.boxes.iter().map(|block| {
            let [(left, low), (right, high)] = block.corners;
            let [left, low, right, high] = [left, low, right, high].map(rounded);
            json!([left, low, right, high, block.ink.css(), block.text])
        });
        let lines = self.lines.iter().map(|(ends, colour)| json!([pairs(ends), colour]));
        json!({
            "kind": "boxes",
            "x": self.scales.0.data(),
            "y": self.scales.1.data(),
            "height": self.height,
            "boxes": boxes.collect::<Vec<_>>(),
            "lines": lines.collect::<Vec<_>>(),
            "marks": marks(&self.key),
        })
    }
}

impl Maps {
    fn data(&self) -> Value {
        let (low, high) = self.range();
        let lines = self.lines.iter().map(|line| {
            let maps = line.maps.iter().map(|map| {
                let fields = map.fields.iter().map(|row| {
                    row.iter().map(|field| field.map_or(Value::Null, rounded)).collect::<Vec<_>>()
                });
                json!({ "heading": map.heading, "fields": fields.collect::<Vec<_>>() })
            });
            json!({ "heading": line.heading, "maps": maps.collect::<Vec<_>>() })
        });
        json!({
            "kind": "maps",
            "across": self.across,
            "upright": self.upright,
            "lines": lines.collect::<Vec<_>>(),
            "share": self.is_share,
            "range": [rounded(low), rounded(high)],
        })
    }
}

impl Scale {
    fn data(&self) -> Value {
        let ends = self.ends();
        let mut data = json!({ "name": self.name(), "ends": all(&[ends.start, ends.end]), "log": self.is_logarithmic() });
        match self.ticks() {
            Ok(ticks) => {
                data["ticks"] = ticks.iter().map(|(value, label)| json!([rounded(*value), label])).collect();
            }
            Err(unit) => data["unit"] = unit.name().into(),
        }
        data
    }
}

impl Ink {
    /// The colour in CSS. Colours with a meaning are variables of the page's style sheet.
    fn css(self) -> String {
        let place = super::COLOURS.iter().position(|colour| Self::hex(colour) == Some(self));
        match (place, self) {
            (Some(place), _) => format!("var(--c{place})"),
            (None, Self::BLACK) => "var(--ink)".to_owned(),
            (None, Self::GREY) => "var(--grey)".to_owned(),
            (None, Self::LIGHT) => "var(--pale)".to_owned(),
            (None, Self::WARM) => "var(--warm)".to_owned(),
            (None, Self(red, green, blue)) => format!("#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

fn marks(key: &[(Mark, String)]) -> Vec<Value> {
    let mark = |(mark, label): &(Mark, String)| {
        let (kind, ink) = match mark {
            Mark::Line(ink) => ("line", ink),
            Mark::Dashes(ink) => ("dashes", ink),
            Mark::Bar(ink) => ("bar", ink),
            Mark::Dot(ink) => ("dot", ink),
            Mark::Ring(ink) => ("ring", ink),
        };
        json!([kind, ink.css(), label])
    };
    key.iter().map(mark).collect()
}

fn pairs(points: &[(f64, f64)]) -> Vec<Value> {
    points.iter().flat_map(|(x, y)| [rounded(*x), rounded(*y)]).collect()
}

fn all(values: &[f64]) -> Vec<Value> {
    values.iter().map(|value| rounded(*value)).collect()
}

/// The number with [`DIGITS`] digits; null if it is not finite.
fn rounded(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    if value == 0.0 || value.fract() == 0.0 && value.abs() < 1e9 {
        return (value as i64).into();
    }
    let factor = 10_f64.powi(DIGITS - 1 - value.abs().log10().floor() as i32);
    json!((value * factor).round() / factor)
}
