//! Horizontal bars.

use super::canvas::{Anchor, Canvas, Face, Stroke, fitted, width};
use super::frame::{self, Area, Sample};
use crate::model::{BarRow, Bars};
use crate::number;
use crate::scale::Placed;
use crate::style::Style;

const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
/// The widest that names of rows get.
const NAMES: f64 = 250.0;

pub(super) fn draw(canvas: &mut Canvas, bars: &Bars) {
    let names = bars.rows.iter().map(|row| width(&row.label)).fold(60.0, f64::max).min(NAMES);
    let notes = bars.rows.iter().map(|row| width(&text_of(bars, row))).fold(0.0, f64::max);
    let left = 16.0 + names + 12.0;
    draw_legend(canvas, bars, left);
    let top = canvas.top + 4.0;
    let area = Area {
        left,
        right: canvas.width - notes - 24.0,
        top,
        bottom: top + ROW * bars.rows.len() as f64 + 4.0,
    };
    let ends = bars
        .rows
        .iter()
        .flat_map(|row| [end(row), row.bound.unwrap_or(0.0), row.spread.map_or(0.0, |s| s.1)]);
    let x = Placed::new(&bars.x, ends, area.left, area.right);
    frame::axis_x(canvas, area, &x, &frame::label(&bars.x, &x), true);
    for (index, row) in bars.rows.iter().enumerate() {
        draw_row(canvas, bars, row, top + ROW * (index as f64 + 0.5), area, &x);
    }
    if bars.rows.is_empty() {
        canvas.text((area.left + area.right) / 2.0, top + 2.0, Anchor::Middle, Face::Soft, "no values");
    }
    canvas.top = area.bottom + 42.0;
}

fn draw_legend(canvas: &mut Canvas, bars: &Bars, left: f64) {
    let mut entries: Vec<(Sample, String)> = Vec::new();
    if bars.parts.len() > 1 {
        let part = |(index, name): (usize, &String)| {
            (Sample::Block(canvas.paint.colour(Style::nth(index))), name.clone())
        };
        entries.extend(bars.parts.iter().enumerate().map(part));
    }
    if bars.rows.iter().any(|row| row.bound.is_some()) {
        entries.push((Sample::Bound, bars.bound_label.clone()));
    }
    if !entries.is_empty() {
        frame::legend(canvas, left, &entries);
    }
}

fn draw_row(canvas: &mut Canvas, bars: &Bars, row: &BarRow, middle: f64, area: Area, x: &Placed) {
    let ink = canvas.paint.ink.clone();
    canvas.text(area.left - 10.0, middle + 4.0, Anchor::End, Face::Plain, &fitted(&row.label, NAMES));
    let mut from = 0.0;
    for (index, value) in
        row.values.iter().enumerate().filter(|(_, value)| value.is_finite() && **value > 0.0)
    {
        let style = if bars.parts.len() > 1 { Style::nth(index) } else { row.style };
        let part = bars.parts.get(index).map_or("", String::as_str);
        let tip = format!("{}: {part} {}", row.label, with_unit(bars, *value));
        let colour = canvas.paint.colour(style);
        let size = (x.at(from + value) - x.at(from), BAR);
        canvas.rect((x.at(from), middle - BAR / 2.0), size, &colour, &tip);
        from += value;
    }
    if let Some((low, high)) = row.spread.filter(|(low, high)| high > low) {
        canvas.line((x.at(low), middle), (x.at(high), middle), &Stroke::new(&ink, 1.5));
        for value in [low, high] {
            canvas.line((x.at(value), middle - 4.0), (x.at(value), middle + 4.0), &Stroke::new(&ink, 1.5));
        }
    }
    if let Some(bound) = row.bound.filter(|bound| bound.is_finite()) {
        let at = x.at(bound);
        let (above, below) = ((at, middle - ROW / 2.0 + 1.0), (at, middle + ROW / 2.0 - 1.0));
        // On a ground of its own, the tick is seen on every bar.
        let ground = canvas.paint.ground.clone();
        canvas.line(above, below, &Stroke::new(&ground, 4.0));
        canvas.line(above, below, &Stroke::new(&ink, 2.0).dashes(&[4, 4]));
    }
    let after = x.at(end(row).max(row.spread.map_or(0.0, |spread| spread.1)).max(row.bound.unwrap_or(0.0)));
    canvas.text(after + 8.0, middle + 4.0, Anchor::Start, Face::Plain, &text_of(bars, row));
}

/// Where a bar ends.
fn end(row: &BarRow) -> f64 {
    row.values.iter().copied().filter(|value| value.is_finite() && *value > 0.0).sum()
}

fn text_of(bars: &Bars, row: &BarRow) -> String {
    let value = if row.values.iter().any(|value| value.is_finite()) {
        with_unit(bars, end(row))
    } else {
        "–".to_owned()
    };
    if row.note.is_empty() { value } else { format!("{value} · {}", row.note) }
}

fn with_unit(bars: &Bars, value: f64) -> String {
    match bars.x.unit.as_str() {
        "ms" => number::millis(value),
        "" => number::short(value),
        unit => format!("{} {unit}", number::short(value)),
    }
}
