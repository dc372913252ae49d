//! Bundles of step curves, in panels side by side.

use std::fmt::Write;

use super::Use;
use super::canvas::{Anchor, Canvas, Face, Stroke, fitted, mapped, short, width};
use super::frame::{self, Area};
use crate::bundle::{Bundle, LEVELS};
use crate::model::{Axis, Colour, CurvePanel, Curves, Steps};
use crate::scale::Placed;

const HEIGHT: f64 = 190.0;
const GAP: f64 = 22.0;
const LEFT: f64 = 58.0;

pub(super) fn draw(canvas: &mut Canvas, curves: &Curves, purpose: Use) {
    let columns = match curves.panels.len() {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let bundles: Vec<Bundle> = curves.panels.iter().map(|panel| Bundle::new(&panel.curves)).collect();
    legend(canvas, curves, purpose);
    let width = (canvas.width - LEFT - 12.0 - GAP * (columns - 1) as f64) / columns as f64;
    let latest = |bundle: &Bundle| bundle.latest_ms();
    let shared = bundles.iter().map(latest).fold(0.0, f64::max);
    for (index, (panel, bundle)) in curves.panels.iter().zip(&bundles).enumerate() {
        let (row, column) = (index / columns, index % columns);
        let left = LEFT + column as f64 * (width + GAP);
        let top = canvas.top + row as f64 * (HEIGHT + 62.0) + 22.0;
        let area = Area { left, right: left + width, top, bottom: top + HEIGHT };
        let to = if curves.steps == Steps::Shared { shared } else { latest(bundle) };
        let x = Placed::new(&curves.x, [0.0, to * 1.02], area.left, area.right);
        draw_panel(canvas, curves, (panel, bundle), area, &x, (column == 0, purpose));
    }
    let rows = curves.panels.len().div_ceil(columns);
    canvas.top += rows as f64 * (HEIGHT + 62.0);
}

/// What lines and colours tell, above the panels.
fn legend(canvas: &mut Canvas, curves: &Curves, purpose: Use) {
    let y = canvas.top + 12.0;
    let ink = canvas.paint.ink.clone();
    let mut left = LEFT;
    for (name, stroke) in
        [("median", Stroke::new(&ink, 2.0)), ("first and last", Stroke::new(&ink, 1.2).dashes(&[4, 3]))]
    {
        canvas.line((left, y - 4.0), (left + 26.0, y - 4.0), &stroke);
        canvas.text(left + 32.0, y, Anchor::Start, Face::Soft, name);
        left += 32.0 + width(name) + 24.0;
    }
    if purpose == Use::File {
        map_key(canvas, curves, left, y);
    }
    canvas.top += 22.0;
}

/// What the colours of curves tell.
fn map_key(canvas: &mut Canvas, curves: &Curves, left: f64, y: f64) {
    let numbers = curves.panels.iter().flat_map(|panel| &panel.curves).map(|curve| curve.number);
    let (first, last) = match curves.colour {
        Colour::ByNumber => (
            format!("{} {}", curves.item, numbers.clone().min().unwrap_or(0)),
            format!("{}", numbers.max().unwrap_or(0)),
        ),
        Colour::ByRank => ("first to be complete".to_owned(), "last".to_owned()),
    };
    canvas.text(left, y, Anchor::Start, Face::Soft, &first);
    let start = left + width(&first) + 8.0;
    for part in 0..32 {
        let colour = mapped(f64::from(part) / 31.0);
        canvas.rect((start + f64::from(part) * 4.0, y - 9.0), (4.5, 9.0), &colour, "");
    }
    canvas.text(start + 136.0, y, Anchor::Start, Face::Soft, &last);
}

fn draw_panel(
    canvas: &mut Canvas,
    curves: &Curves,
    (panel, bundle): (&CurvePanel, &Bundle),
    area: Area,
    x: &Placed,
    (is_first, purpose): (bool, Use),
) {
    let y = Placed::new(&Axis::linear("", ""), [1.0], area.bottom, area.top);
    canvas.text(
        area.left,
        area.top - 8.0,
        Anchor::Start,
        Face::Strong,
        &fitted(&panel.title, area.right - area.left),
    );
    if is_first {
        frame::grid_shares(canvas, area, &y);
        canvas.upright_text(area.left - 46.0, (area.top + area.bottom) / 2.0, Face::Soft, &curves.y_label);
    } else {
        let grid = Stroke::new(&canvas.paint.grid, 1.0);
        for quarter in 0..=4 {
            let at = y.at(f64::from(quarter) / 4.0);
            canvas.line((area.left, at), (area.right, at), &grid);
        }
    }
    frame::axis_x(canvas, area, x, &frame::label(&curves.x, x), false);
    if bundle.is_empty() {
        let middle = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
        canvas.text(middle.0, middle.1, Anchor::Middle, Face::Soft, "nothing arrived");
        return;
    }
    canvas.clipped(area.corner(), area.size());
    if purpose == Use::File {
        every_curve(canvas, curves.colour, bundle, area, (x, &y));
    }
    envelope(canvas, bundle, (x, &y), purpose);
    for mark in &panel.marks {
        let at = x.at(mark.at);
        let soft = canvas.paint.soft.clone();
        canvas.line((at, area.top), (at, area.bottom), &Stroke::new(&soft, 1.2).dashes(&[2, 3]));
        let (anchor, shift) =
            if at > (area.left + area.right) / 2.0 { (Anchor::End, -5.0) } else { (Anchor::Start, 5.0) };
        canvas.text(at + shift, area.bottom - 7.0, anchor, Face::Soft, &mark.label);
    }
    canvas.end();
}

fn every_curve(canvas: &mut Canvas, colour: Colour, bundle: &Bundle, area: Area, (x, y): (&Placed, &Placed)) {
    let count = bundle.curves.len();
    let opacity = (6.0 / (count as f64).sqrt()).clamp(0.16, 0.9);
    canvas.strokes(&Stroke::new("", 0.9).opacity(opacity));
    for index in 0..count {
        let curve = &bundle.curves[index];
        // Relative steps in tenths of a pixel are a third as long as absolute coordinates.
        let tenth = |value: f64| (value * 10.0).round() as i64;
        // Only from the first arrival to the last: before and after, all curves lie on each other.
        let Some(first) = curve.arrivals.first() else { continue };
        let (mut x_now, mut y_now) = (tenth(x.at(*first)), tenth(y.at(0.0)));
        let mut d = format!("M{} {}", short(x_now as f64 / 10.0), short(y_now as f64 / 10.0));
        for (step, at) in curve.arrivals.iter().enumerate() {
            let (x_next, y_next) = (tenth(x.at(*at)), tenth(y.at((step + 1) as f64 / f64::from(curve.of))));
            if x_next > x_now {
                let _ = write!(d, "h{}", short((x_next - x_now) as f64 / 10.0));
            }
            if y_next < y_now {
                let _ = write!(d, "v{}", short((y_next - y_now) as f64 / 10.0));
            }
            (x_now, y_now) = (x_next, y_next);
        }
        if curve.arrivals.len() < curve.of as usize {
            let _ = write!(d, "H{}", short(area.right));
        }
        canvas.traced(&d, &mapped(bundle.shade(colour, index)));
    }
    canvas.end_strokes();
}

/// The first, the median and the last curve at each level. In pages, where curves are not drawn, with the area between.
fn envelope(canvas: &mut Canvas, bundle: &Bundle, (x, y): (&Placed, &Placed), purpose: Use) {
    let outline = |times: &[f64]| {
        let mut d = String::new();
        let mut before = y.at(0.0);
        for (level, at) in times.iter().enumerate().take_while(|(_, at)| at.is_finite()) {
            let (across, up) = (short(x.at(*at)), y.at((level + 1) as f64 / LEVELS as f64));
            let _ = match level {
                0 => write!(d, "M{across} {}V{}", short(before), short(up)),
                _ => write!(d, "H{across}V{}", short(up)),
            };
            before = up;
        }
        d
    };
    let envelope = bundle.envelope();
    if purpose == Use::Page {
        let mut d = outline(&envelope.first);
        let reached = envelope.last.iter().take_while(|at| at.is_finite()).count();
        if reached < LEVELS && !d.is_empty() {
            let _ = write!(d, "H{}V{}", short(x.at(x.to())), short(y.at(reached as f64 / LEVELS as f64)));
        }
        for (level, at) in envelope.last[..reached].iter().enumerate().rev() {
            let _ = write!(d, "H{}V{}", short(x.at(*at)), short(y.at(level as f64 / LEVELS as f64)));
        }
        let soft = canvas.paint.soft.clone();
        canvas.fill(&d, &soft, 0.25);
    }
    let (ink, ground) = (canvas.paint.ink.clone(), canvas.paint.ground.clone());
    for times in [&envelope.first, &envelope.last] {
        canvas.path(&outline(times), &Stroke::new(&ink, 1.2).dashes(&[4, 3]));
    }
    let median = outline(&envelope.median);
    canvas.path(&median, &Stroke::new(&ground, 5.0).opacity(0.7));
    canvas.path(&median, &Stroke::new(&ink, 2.0));
}
