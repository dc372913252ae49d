//! Sweeps over several axes: fields of numbers, the darker the more, all of a figure on one scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Row, TransactionsReport, Value};
use crate::draw::{Area, Drawn, LABEL_SIZE, TITLE_SIZE, colour, drawn_at, shortened, text_pixels};
use crate::words::MISSING;

/// Pixels of a field.
const CELL: (i32, i32) = (58, 30);
/// Pixels between maps beside each other, and around all.
const GAP: i32 = 28;
const MARGIN: i32 = 16;
/// Pixels of a line of text.
const LINE: i32 = 24;
/// Steps of the scale below all maps.
const SCALE: i32 = 6;

/// All runs over the last two axes; the values of the other axes are columns.
struct Grid<'a> {
    report: &'a TransactionsReport,
    value: Value,
    /// The values of the axis to the right, and of the one upwards.
    across: Vec<&'a str>,
    upright: Vec<&'a str>,
    /// Row by row and column by column: the heading and the runs of a map.
    lines: Vec<Line<'a>>,
    columns: Vec<String>,
    range: (f64, f64),
    left: i32,
}

/// Maps beside each other.
struct Line<'a> {
    heading: &'a str,
    maps: Vec<Vec<&'a Row>>,
}

/// A figure of all runs; its pixels, too.
pub(super) fn figure(report: &TransactionsReport, title: &str, value: Value) -> (String, u32) {
    let grid = Grid::new(report, value);
    let size = grid.size(title);
    (drawn_at(size, |area| grid.draw(area, title, size)), size.0)
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

impl<'a> Grid<'a> {
    fn new(report: &'a TransactionsReport, value: Value) -> Self {
        let others = report.axes.len() - 2;
        let values = |axis: usize| distinct(report.rows.iter().map(|row| row.point[axis].as_str()));
        let (upright, across) = (values(others), values(others + 1));
        let runs = distinct(report.rows.iter().map(|row| row.run.as_str()));
        let mut columns: Vec<&[String]> = Vec::new();
        for row in &report.rows {
            if !columns.contains(&&row.point[..others]) {
                columns.push(&row.point[..others]);
            }
        }
        let map = |run: &str, column: &[String]| -> Vec<&'a Row> {
            report.rows.iter().filter(|row| row.run == run && row.point[..others] == *column).collect()
        };
        let label =
            |run: &str| report.rows.iter().find(|row| row.run == run).map_or("", |row| row.label.as_str());
        let (lines, columns) = if others == 0 {
            // Without other axes there is one map for each run: side by side.
            let maps = runs.iter().map(|run| map(run, &[])).collect();
            let names = runs.iter().map(|run| label(run).to_owned()).collect();
            (vec![Line { heading: "", maps }], names)
        } else {
            let line = |run: &&str| Line {
                heading: label(run),
                maps: columns.iter().map(|column| map(run, column)).collect(),
            };
            let name = |column: &&[String]| {
                let fixed = report.axes.iter().zip(*column).map(|((_, label), at)| format!("{label} {at}"));
                fixed.collect::<Vec<_>>().join(", ")
            };
            (runs.iter().map(line).collect(), columns.iter().map(name).collect())
        };
        let all = report.rows.iter().map(|row| row.mean(&value));
        let range = all
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let name = report.axes[others].1.as_str();
        let names = upright.iter().copied().chain([name]).map(|text| text_pixels(text, LABEL_SIZE));
        let left = MARGIN + names.fold(0.0, f64::max) as i32 + 12;
        Self { report, value, across, upright, lines, columns, range, left }
    }

    fn map_size(&self) -> (i32, i32) {
        (CELL.0 * self.across.len() as i32, CELL.1 * self.upright.len() as i32)
    }

    /// Pixels of a line of maps: its heading, the maps, and what is written below.
    fn line_height(&self) -> i32 {
        self.map_size().1 + 2 * LINE + if self.lines.len() > 1 { LINE } else { 0 }
    }

    fn size(&self, title: &str) -> (u32, u32) {
        let columns = self.columns.len() as i32;
        let maps = self.left + columns * self.map_size().0 + (columns - 1) * GAP + MARGIN;
        let width = maps.max(text_pixels(title, TITLE_SIZE) as i32 + 2 * MARGIN).max(420);
        let height = MARGIN + 2 * LINE + self.lines.len() as i32 * self.line_height() + 2 * LINE + MARGIN;
        (width as u32, height as u32)
    }

    fn draw(&self, area: &Area<'_>, title: &str, (width, height): (u32, u32)) -> Drawn {
        text(area, title, (width as i32 / 2, MARGIN + 8), (HPos::Center, TITLE_SIZE), &BLACK)?;
        let map = self.map_size();
        let lefts = (0..).map(|column| self.left + column * (map.0 + GAP));
        let mut y = MARGIN + LINE;
        for (name, left) in self.columns.iter().zip(lefts.clone()) {
            let name = shortened(name, f64::from(map.0 + GAP - 8), LABEL_SIZE);
            text(area, &name, (left + map.0 / 2, y + LINE / 2 + 4), (HPos::Center, LABEL_SIZE), &BLACK)?;
        }
        y += LINE;
        for line in &self.lines {
            if self.lines.len() > 1 {
                text(area, line.heading, (self.left, y + LINE / 2), (HPos::Left, LABEL_SIZE + 2), &BLACK)?;
                y += LINE;
            } else {
                y += 4;
            }
            for (place, name) in (0..).zip(&self.upright) {
                // The first value is at the bottom, as on any axis.
                let middle = y + map.1 - CELL.1 * place - CELL.1 / 2;
                text(area, name, (self.left - 8, middle), (HPos::Right, LABEL_SIZE), &BLACK)?;
            }
            let [.., (_, upright), (_, across)] = self.report.axes.as_slice() else { return Ok(()) };
            let below = y + map.1 + LINE / 2;
            text(area, upright, (self.left - 8, below), (HPos::Right, LABEL_SIZE), &GREY)?;
            for (rows, left) in line.maps.iter().zip(lefts.clone()) {
                self.draw_map(area, rows, (left, y))?;
                for (place, name) in (0..).zip(&self.across) {
                    let middle = left + CELL.0 * place + CELL.0 / 2;
                    text(area, name, (middle, below), (HPos::Center, LABEL_SIZE), &BLACK)?;
                }
                let middle = (left + map.0 / 2, below + LINE - 5);
                text(area, across, middle, (HPos::Center, LABEL_SIZE), &GREY)?;
            }
            y += map.1 + 2 * LINE;
        }
        self.draw_scale(area, height as i32 - MARGIN - CELL.1)
    }

    fn draw_map(&self, area: &Area<'_>, rows: &[&Row], (left, top): (i32, i32)) -> Drawn {
        let others = self.report.axes.len() - 2;
        for row in rows {
            let place = |values: &[&str], axis: usize| values.iter().position(|at| row.point[axis] == *at);
            let (Some(x), Some(y)) = (place(&self.across, others + 1), place(&self.upright, others)) else {
                continue;
            };
            let upwards = self.upright.len() - 1 - y;
            let corner = (left + CELL.0 * x as i32, top + CELL.1 * upwards as i32);
            self.draw_field(area, corner, row.mean(&self.value))?;
        }
        Ok(())
    }

    /// A number on its colour, by powers since some are ten times others.
    fn draw_field(&self, area: &Area<'_>, (x, y): (i32, i32), number: f64) -> Drawn {
        let (low, high) = self.range;
        let share = if high > low { (number / low).ln() / (high / low).ln() } else { 0.0 };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let field = Rectangle::new(
            [(x + 1, y + 1), (x + CELL.0 - 1, y + CELL.1 - 1)],
            colour(1).mix(0.06 + 0.84 * share).filled(),
        );
        area.draw(&field)?;
        let ink = if share > 0.7 { &WHITE } else { &BLACK };
        let shown = written(number);
        text(area, &shown, (x + CELL.0 / 2, y + CELL.1 / 2), (HPos::Center, LABEL_SIZE), ink)
    }

    fn draw_scale(&self, area: &Area<'_>, top: i32) -> Drawn {
        let (low, high) = self.range;
        if high <= low {
            return Ok(());
        }
        text(area, "scale", (self.left - 8, top + CELL.1 / 2), (HPos::Right, LABEL_SIZE), &GREY)?;
        for step in 0..SCALE {
            let number = low * (high / low).powf(f64::from(step) / f64::from(SCALE - 1));
            self.draw_field(area, (self.left + step * CELL.0, top), number)?;
        }
        Ok(())
    }
}

const GREY: RGBColor = RGBColor(90, 100, 112);

/// Three digits.
fn written(number: f64) -> String {
    match number {
        _ if !number.is_finite() => MISSING.to_owned(),
        _ if number >= 100.0 => format!("{number:.0}"),
        _ if number >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), (side, size): (HPos, u32), ink: &RGBColor) -> Drawn {
    let style = ("sans-serif", size).into_text_style(area).pos(Pos::new(side, VPos::Center)).color(ink);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}
