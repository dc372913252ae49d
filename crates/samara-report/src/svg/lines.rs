//! Lines through measured points, and distributions.

use std::fmt::Write;

use super::canvas::{Anchor, Canvas, Face, Stroke, short};
use super::frame::{self, Area, Sample};
use crate::model::{Axis, Cdf, Lines, Role, Scale, Series};
use crate::scale::Placed;

const HEIGHT: f64 = 340.0;
const LEFT: f64 = 76.0;

fn area(canvas: &Canvas) -> Area {
    Area {
        left: LEFT,
        right: canvas.width - 24.0,
        top: canvas.top + 10.0,
        bottom: canvas.top + 10.0 + HEIGHT,
    }
}

pub(super) fn draw(canvas: &mut Canvas, lines: &Lines) {
    let entries: Vec<(Sample, String)> = lines
        .series
        .iter()
        .map(|series| {
            let sample = if series.role == Role::Bound { Sample::Bound } else { Sample::Line(series.style) };
            (sample, series.name.clone())
        })
        .collect();
    frame::legend(canvas, LEFT, &entries);
    let area = area(canvas);
    let points = || lines.series.iter().flat_map(|series| &series.points);
    let x = Placed::new(&lines.x, points().map(|point| point.x), area.left, area.right);
    let y = Placed::new(
        &lines.y,
        points().flat_map(|point| [point.y, point.low, point.high]),
        area.bottom,
        area.top,
    )
    .rounded_up();
    frame::grid_y(canvas, area, &y, 6);
    frame::axis_x(canvas, area, &x, &frame::label(&lines.x, &x), false);
    canvas.upright_text(18.0, (area.top + area.bottom) / 2.0, Face::Soft, &frame::label(&lines.y, &y));
    if points().all(|point| !point.y.is_finite()) {
        let middle = (area.left + area.right) / 2.0;
        canvas.text(middle, (area.top + area.bottom) / 2.0, Anchor::Middle, Face::Soft, "no values");
    }
    for series in &lines.series {
        line(canvas, lines, series, &x, &y);
    }
    canvas.top = area.bottom + 44.0;
}

fn line(canvas: &mut Canvas, lines: &Lines, series: &Series, x: &Placed, y: &Placed) {
    let shown = |value: f64, scale: Scale| value.is_finite() && (scale == Scale::Linear || value > 0.0);
    let mut points: Vec<_> =
        series.points.iter().filter(|at| shown(at.x, lines.x.scale) && shown(at.y, lines.y.scale)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut d = String::new();
    for point in &points {
        let command = if d.is_empty() { 'M' } else { 'L' };
        let _ = write!(d, "{command}{} {}", short(x.at(point.x)), short(y.at(point.y)));
    }
    if series.role == Role::Bound {
        let ink = canvas.paint.ink.clone();
        return canvas.path(&d, &Stroke::new(&ink, 1.5).dashes(&[4, 4]));
    }
    let colour = canvas.paint.colour(series.style);
    canvas.path(&d, &Stroke::new(&colour, 2.5).dashes(series.style.dashes()));
    let bar = Stroke::new(&colour, 1.5);
    for point in points {
        let (at, low, high) = (x.at(point.x), y.at(point.low.max(y.from())), y.at(point.high));
        if point.high > point.low {
            canvas.line((at, low), (at, high), &bar);
            canvas.line((at - 4.0, low), (at + 4.0, low), &bar);
            canvas.line((at - 4.0, high), (at + 4.0, high), &bar);
        }
        canvas.dot((at, y.at(point.y)), 3.6, &colour);
    }
}

pub(super) fn draw_cdf(canvas: &mut Canvas, cdf: &Cdf) {
    let entries: Vec<(Sample, String)> =
        cdf.series.iter().map(|series| (Sample::Line(series.style), series.name.clone())).collect();
    frame::legend(canvas, LEFT, &entries);
    let area = area(canvas);
    let sorted: Vec<Vec<f64>> = cdf.series.iter().map(crate::model::Distribution::sorted).collect();
    let x = Placed::new(&cdf.x, sorted.iter().flatten().copied(), area.left, area.right);
    let y = Placed::new(&Axis::linear("", ""), [1.0], area.bottom, area.top);
    frame::grid_shares(canvas, area, &y);
    frame::axis_x(canvas, area, &x, &frame::label(&cdf.x, &x), false);
    canvas.upright_text(18.0, (area.top + area.bottom) / 2.0, Face::Soft, &cdf.y_label);
    if sorted.iter().all(Vec::is_empty) {
        let middle = (area.left + area.right) / 2.0;
        canvas.text(middle, (area.top + area.bottom) / 2.0, Anchor::Middle, Face::Soft, "no values");
    }
    for (series, values) in
        cdf.series.iter().zip(&sorted).filter(|(series, values)| series.of > 0 && !values.is_empty())
    {
        let start = if cdf.x.scale == Scale::Log { values[0] } else { 0.0 };
        let mut d = format!("M{} {}", short(x.at(start)), short(y.at(0.0)));
        let mut last = f64::NEG_INFINITY;
        for (index, value) in values.iter().enumerate() {
            let at = x.at(*value);
            // Steps of less than half a pixel are not seen.
            if at - last >= 0.5 || index + 1 == values.len() {
                let _ = write!(d, "H{}V{}", short(at), short(y.at(series.share(values, *value))));
                last = at;
            }
        }
        let _ = write!(d, "H{}", short(area.right));
        let colour = canvas.paint.colour(series.style);
        canvas.path(&d, &Stroke::new(&colour, 2.2).dashes(series.style.dashes()));
    }
    canvas.top = area.bottom + 44.0;
}
