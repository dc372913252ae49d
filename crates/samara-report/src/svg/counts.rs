//! Histograms and heat maps.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Face, Stroke, fitted, mapped, short, width};
use super::frame::{self, Area, Sample};
use crate::model::{Axis, Distribution, HeatMap, Histogram};
use crate::number;
use crate::scale::Placed;
use crate::style::{contrast, map};

const LEFT: f64 = 76.0;

pub(super) fn draw_histogram(canvas: &mut Canvas, histogram: &Histogram) {
    let entries: Vec<(Sample, String)> =
        histogram.series.iter().map(|series| (Sample::Line(series.style), series.name.clone())).collect();
    frame::legend(canvas, LEFT, &entries);
    let top = canvas.top + 10.0;
    let area = Area { left: LEFT, right: canvas.width - 24.0, top, bottom: top + 280.0 };
    let sorted: Vec<Vec<f64>> = histogram.series.iter().map(Distribution::sorted).collect();
    let x = Placed::new(&histogram.x, sorted.iter().flatten().copied(), area.left, area.right).rounded_up();
    let classes = histogram.classes.max(1);
    let width = (x.to() - x.from()) / classes as f64;
    let class = |value: f64| (((value - x.from()) / width) as usize).min(classes - 1);
    let counts: Vec<Vec<usize>> = sorted
        .iter()
        .map(|values| {
            let mut counts = vec![0; classes];
            values.iter().for_each(|value| counts[class(*value)] += 1);
            counts
        })
        .collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1) as f64;
    let y = Placed::new(&Axis::linear("", ""), [most], area.bottom, area.top).rounded_up();
    frame::grid_y(canvas, area, &y, 5);
    frame::axis_x(canvas, area, &x, &frame::label(&histogram.x, &x), false);
    canvas.upright_text(18.0, (area.top + area.bottom) / 2.0, Face::Soft, &histogram.y_label);
    for (series, counts) in histogram.series.iter().zip(&counts) {
        let mut d = format!("M{} {}", short(area.left), short(area.bottom));
        for (index, count) in counts.iter().enumerate() {
            let to = x.at(x.from() + width * (index + 1) as f64);
            let _ = write!(d, "V{}H{}", short(y.at(*count as f64)), short(to));
        }
        let _ = write!(d, "V{}", short(area.bottom));
        let colour = canvas.paint.colour(series.style);
        canvas.fill(&d, &colour, 0.12);
        canvas.path(&d, &Stroke::new(&colour, 1.8).dashes(series.style.dashes()));
    }
    canvas.top = area.bottom + 44.0;
}

pub(super) fn draw_heat(canvas: &mut Canvas, heat: &HeatMap) {
    const ROW: f64 = 34.0;
    let names = heat.rows.iter().map(|row| width(row)).fold(30.0, f64::max).min(220.0);
    let left = 44.0 + names;
    let top = canvas.top + 8.0;
    let cell = ((canvas.width - left - 24.0) / heat.columns.len().max(1) as f64).min(130.0);
    let finite = || heat.values.iter().flatten().copied().filter(|value| value.is_finite() && *value > 0.0);
    let (least, most) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
    let bottom = top + ROW * heat.rows.len() as f64;
    canvas.upright_text(18.0, (top + bottom) / 2.0, Face::Soft, &heat.y_label);
    for (index, name) in heat.rows.iter().enumerate() {
        let y = top + ROW * index as f64;
        canvas.text(left - 8.0, y + ROW / 2.0 + 4.0, Anchor::End, Face::Soft, &fitted(name, 220.0));
        for (column, column_name) in heat.columns.iter().enumerate() {
            let value = heat.values.get(index).and_then(|row| row.get(column)).copied().unwrap_or(f64::NAN);
            let place = (left + cell * column as f64, y);
            let tip = format!("{}, {column_name}: {}", name, with_unit(heat, value));
            draw_cell(canvas, heat, place, (cell, ROW), value, (least, most), &tip);
        }
    }
    for (column, name) in heat.columns.iter().enumerate() {
        let middle = left + cell * (column as f64 + 0.5);
        canvas.text(middle, bottom + 17.0, Anchor::Middle, Face::Soft, &fitted(name, cell - 4.0));
    }
    let middle = left + cell * heat.columns.len() as f64 / 2.0;
    canvas.text(middle, bottom + 36.0, Anchor::Middle, Face::Soft, &heat.x_label);
    canvas.top = bottom + 44.0;
    if let Some(limit) = heat.limit {
        let text = format!("struck out: above {}", with_unit(heat, limit));
        canvas.text(left, canvas.top + 12.0, Anchor::Start, Face::Soft, &text);
        canvas.top += 20.0;
    }
}

fn draw_cell(
    canvas: &mut Canvas,
    heat: &HeatMap,
    (x, y): (f64, f64),
    (w, h): (f64, f64),
    value: f64,
    (least, most): (f64, f64),
    tip: &str,
) {
    let middle = (x + w / 2.0, y + h / 2.0 + 4.0);
    if !value.is_finite() {
        return canvas.text(middle.0, middle.1, Anchor::Middle, Face::Soft, "–");
    }
    // Ratios count: twice as long is a step of the same size everywhere.
    let span = (most / least).ln();
    let shade = if span > 0.0 { 1.0 - (value.max(least) / least).ln() / span } else { 1.0 };
    canvas.rect((x + 1.0, y + 1.0), (w - 2.0, h - 2.0), &mapped(shade), tip);
    let dark = [0x10, 0x14, 0x1a];
    let is_better = contrast(map(shade), dark) > contrast(map(shade), [0xff; 3]);
    let colour = if is_better { "#10141a" } else { "#ffffff" };
    canvas.coloured_text(middle, Anchor::Middle, Face::Plain, colour, &with_unit(heat, value));
    if heat.limit.is_some_and(|limit| value > limit) {
        let half = width(&with_unit(heat, value)) / 2.0;
        canvas.line(
            (middle.0 - half, middle.1 - 4.0),
            (middle.0 + half, middle.1 - 4.0),
            &Stroke::new(colour, 1.2),
        );
    }
}

fn with_unit(heat: &HeatMap, value: f64) -> String {
    match heat.value.unit.as_str() {
        _ if !value.is_finite() => "–".to_owned(),
        "ms" => number::millis(value),
        "" => number::short(value),
        unit => format!("{} {unit}", number::short(value)),
    }
}
