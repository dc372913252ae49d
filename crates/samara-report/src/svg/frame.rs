//! Axes, grids and legends.

use super::canvas::{Anchor, Canvas, Face, Stroke, width};
use crate::model::Axis;
use crate::scale::Placed;
use crate::style::Style;

/// The place of a plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn corner(&self) -> (f64, f64) {
        (self.left, self.top)
    }

    pub(super) fn size(&self) -> (f64, f64) {
        (self.right - self.left, self.bottom - self.top)
    }
}

/// Draws horizontal lines with their names at the left.
pub(super) fn grid_y(canvas: &mut Canvas, area: Area, y: &Placed, about: usize) {
    let grid = Stroke::new(&canvas.paint.grid, 1.0);
    for (value, name) in y.ticks(about) {
        canvas.line((area.left, y.at(value)), (area.right, y.at(value)), &grid);
        canvas.text(area.left - 6.0, y.at(value) + 4.0, Anchor::End, Face::Soft, &name);
    }
}

/// Draws horizontal lines for shares, with their names in percent.
pub(super) fn grid_shares(canvas: &mut Canvas, area: Area, y: &Placed) {
    let grid = Stroke::new(&canvas.paint.grid, 1.0);
    for quarter in 0..=4 {
        let at = y.at(f64::from(quarter) / 4.0);
        canvas.line((area.left, at), (area.right, at), &grid);
        canvas.text(area.left - 6.0, at + 4.0, Anchor::End, Face::Soft, &format!("{} %", quarter * 25));
    }
}

/// Draws the horizontal axis with its ticks and, unless it is empty, its label below.
pub(super) fn axis_x(canvas: &mut Canvas, area: Area, x: &Placed, label: &str, with_grid: bool) {
    let line = Stroke::new(&canvas.paint.soft, 1.0);
    let grid = Stroke::new(&canvas.paint.grid, 1.0);
    let ticks = x.ticks(((area.right - area.left) / 70.0).max(4.0) as usize);
    let mut free_from = f64::NEG_INFINITY;
    for (value, name) in ticks {
        let at = x.at(value);
        if with_grid {
            canvas.line((at, area.top), (at, area.bottom), &grid);
        }
        canvas.line((at, area.bottom), (at, area.bottom + 4.0), &line);
        let half = width(&name) / 2.0;
        if at - half >= free_from {
            canvas.text(at, area.bottom + 17.0, Anchor::Middle, Face::Soft, &name);
            free_from = at + half + 6.0;
        }
    }
    canvas.line((area.left, area.bottom), (area.right, area.bottom), &line);
    if !label.is_empty() {
        let middle = (area.left + area.right) / 2.0;
        canvas.text(middle, area.bottom + 35.0, Anchor::Middle, Face::Soft, label);
    }
}

/// The label of an axis with the unit of its ticks.
pub(super) fn label(axis: &Axis, placed: &Placed) -> String {
    match placed.unit() {
        "" => axis.label.clone(),
        unit => format!("{}, {unit}", axis.label),
    }
}

/// What a sample in a legend shows.
pub(super) enum Sample {
    Line(Style),
    Bound,
    Block(String),
}

/// Draws a legend from the left to the right in as many lines as it takes; the canvas goes on below.
pub(super) fn legend(canvas: &mut Canvas, left: f64, entries: &[(Sample, String)]) {
    let (mut x, mut y) = (left, canvas.top + 12.0);
    for (sample, name) in entries {
        let length = 34.0 + width(name) + 20.0;
        if x + length > canvas.width && x > left {
            (x, y) = (left, y + 20.0);
        }
        let (start, end) = ((x, y - 4.0), (x + 26.0, y - 4.0));
        match sample {
            Sample::Line(style) => {
                let colour = canvas.paint.colour(*style);
                canvas.line(start, end, &Stroke::new(&colour, 2.5).dashes(style.dashes()));
            }
            Sample::Bound => {
                let colour = canvas.paint.ink.clone();
                canvas.line(start, end, &Stroke::new(&colour, 1.5).dashes(&[4, 4]));
            }
            Sample::Block(colour) => canvas.rect((x + 10.0, y - 10.0), (14.0, 12.0), colour, ""),
        }
        canvas.text(x + 32.0, y, Anchor::Start, Face::Plain, name);
        x += length;
    }
    canvas.top = y + 12.0;
}
