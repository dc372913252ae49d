//! Heat maps: tables of numbers whose colours have one scale in all maps of a figure.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Drawn, Ink, LABEL_SIZE, ON_DARK, SIZE, TITLE_SIZE, drawn, shortened, text_pixels, write};
use crate::words::{percent, shown, three_digits};

/// Sizes in pixels: a field, the gap between two maps, the outer margin, and a line of text.
const CELL: (i32, i32) = (58, 30);
const GAP: i32 = 28;
const MARGIN: i32 = 16;
const LINE: i32 = 24;
/// Maximum width of row names in pixels.
const NAME_PIXELS: f64 = 320.0;
/// Number of steps in the scale below all maps.
const SCALE: i32 = 6;
/// Minimum share that is written as a number.
const SHARE_MIN: f64 = 0.005;
const GREY: RGBColor = RGBColor(90, 100, 112);

#[derive(Clone, Debug)]
pub struct Maps {
    pub title: String,
    /// The horizontal axis: its name and its values.
    pub across: (String, Vec<String>),
    /// The vertical axis: its name and its values, from the bottom.
    pub upright: (String, Vec<String>),
    /// The lines of maps, from top to bottom.
    pub lines: Vec<MapLine>,
    /// Whether the numbers are shares of 1. Other numbers have a logarithmic scale.
    pub is_share: bool,
}

/// Maps side by side.
#[derive(Clone, Debug)]
pub struct MapLine {
    /// The common heading of the maps.
    pub heading: String,
    pub maps: Vec<Map>,
}

#[derive(Clone, Debug)]
pub struct Map {
    pub heading: String,
    /// The numbers by row from the bottom, and from left to right. `None` is left blank.
    pub fields: Vec<Vec<Option<f64>>>,
}

impl Maps {
    /// Returns true if the figure needs the whole width of a page.
    pub(crate) fn is_wide(&self) -> bool {
        self.size().0 > SIZE.0
    }

    pub(crate) fn svg(&self) -> String {
        drawn(self.size(), |area| self.draw(area))
    }

    fn left(&self) -> i32 {
        let names = self.upright.1.iter().chain([&self.upright.0]);
        let widest = names.map(|name| text_pixels(name, LABEL_SIZE)).fold(0.0, f64::max);
        MARGIN + widest.min(NAME_PIXELS) as i32 + 12
    }

    fn map_size(&self) -> (i32, i32) {
        (CELL.0 * self.across.1.len() as i32, CELL.1 * self.upright.1.len() as i32)
    }

    fn headings(line: &MapLine) -> (bool, bool) {
        (!line.heading.is_empty(), line.maps.iter().any(|map| !map.heading.is_empty()))
    }

    fn size(&self) -> (u32, u32) {
        let map = self.map_size();
        let columns = self.lines.iter().map(|line| line.maps.len()).max().unwrap_or(0) as i32;
        let maps = self.left() + columns * map.0 + (columns - 1) * GAP + MARGIN;
        let width = maps.max(text_pixels(&self.title, TITLE_SIZE) as i32 + 2 * MARGIN).max(420);
        let line = |line: &MapLine| {
            let (own, maps) = Self::headings(line);
            map.1 + 2 * LINE + 4 + LINE * (i32::from(own) + i32::from(maps))
        };
        let scale = if self.is_share { 0 } else { 2 * LINE };
        let height = MARGIN + LINE + self.lines.iter().map(line).sum::<i32>() + scale + MARGIN;
        (width as u32, height as u32)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let (width, height) = self.size();
        let title = (HPos::Center, TITLE_SIZE);
        write(area, &self.title, (width as i32 / 2, MARGIN + 8), title, &BLACK)?;
        let (map, left) = (self.map_size(), self.left());
        let lefts = || (0..).map(|column| left + column * (map.0 + GAP));
        let label = |text: &str, at, side, ink| write(area, text, at, (side, LABEL_SIZE), ink);
        let mut y = MARGIN + LINE;
        for line in &self.lines {
            let (own, maps) = Self::headings(line);
            if own {
                let size = (HPos::Left, LABEL_SIZE + 2);
                write(area, &line.heading, (left, y + LINE / 2), size, &BLACK)?;
                y += LINE;
            }
            if maps {
                for (one, left) in line.maps.iter().zip(lefts()) {
                    let name = shortened(&one.heading, f64::from(map.0 + GAP - 8), LABEL_SIZE);
                    label(&name, (left + map.0 / 2, y + LINE / 2 + 4), HPos::Center, &BLACK)?;
                }
                y += LINE;
            }
            y += 4;
            for (place, name) in (0..).zip(&self.upright.1) {
                // The first value is at the bottom, as on all axes.
                let middle = y + map.1 - CELL.1 * place - CELL.1 / 2;
                let name = shortened(name, NAME_PIXELS, LABEL_SIZE);
                label(&name, (left - 8, middle), HPos::Right, &BLACK)?;
            }
            let below = y + map.1 + LINE / 2;
            label(&self.upright.0, (left - 8, below), HPos::Right, &GREY)?;
            for (one, left) in line.maps.iter().zip(lefts()) {
                for (row, fields) in (1..).zip(&one.fields) {
                    for (column, number) in (0..).zip(fields) {
                        let corner = (left + CELL.0 * column, y + map.1 - CELL.1 * row);
                        number.map_or(Ok(()), |number| self.draw_field(area, corner, number))?;
                    }
                }
                for (place, name) in (0..).zip(&self.across.1) {
                    label(name, (left + CELL.0 * place + CELL.0 / 2, below), HPos::Center, &BLACK)?;
                }
                label(&self.across.0, (left + map.0 / 2, below + LINE - 5), HPos::Center, &GREY)?;
            }
            y += map.1 + 2 * LINE;
        }
        self.draw_scale(area, (left, height as i32 - MARGIN - CELL.1))
    }

    /// The minimum and maximum of all numbers, or 0 and 1 for shares.
    pub(super) fn range(&self) -> (f64, f64) {
        if self.is_share {
            return (0.0, 1.0);
        }
        let maps = self.lines.iter().flat_map(|line| &line.maps);
        let numbers = maps.flat_map(|map| map.fields.iter().flatten().flatten().copied());
        numbers
            .filter(|number| number.is_finite() && *number > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), number| (low.min(number), high.max(number)))
    }

    /// Draws a number on its colour, by a logarithmic scale since some numbers are ten times
    /// others.
    fn draw_field(&self, area: &Area<'_>, (x, y): (i32, i32), number: f64) -> Drawn {
        let (low, high) = self.range();
        let share = match self.is_share {
            true => number,
            false if high > low => (number / low).ln() / (high / low).ln(),
            false => 0.0,
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let fill = Ink::of(1).rgb().mix(0.06 + 0.84 * share).filled();
        area.draw(&Rectangle::new([(x + 1, y + 1), (x + CELL.0 - 1, y + CELL.1 - 1)], fill))?;
        let ink = if share > 0.6 { &ON_DARK } else { &BLACK };
        let middle = (x + CELL.0 / 2, y + CELL.1 / 2);
        write(area, &self.written(number), middle, (HPos::Center, LABEL_SIZE), ink)
    }

    fn written(&self, number: f64) -> String {
        shown(number, || match self.is_share {
            true if number < SHARE_MIN => String::new(),
            true => percent(number, 0),
            false => three_digits(number),
        })
    }

    fn draw_scale(&self, area: &Area<'_>, (left, top): (i32, i32)) -> Drawn {
        let (low, high) = self.range();
        if self.is_share || high <= low {
            return Ok(());
        }
        write(area, "scale", (left - 8, top + CELL.1 / 2), (HPos::Right, LABEL_SIZE), &GREY)?;
        for step in 0..SCALE {
            let number = low * (high / low).powf(f64::from(step) / f64::from(SCALE - 1));
            self.draw_field(area, (left + step * CELL.0, top), number)?;
        }
        Ok(())
    }
}
