//! The key of a figure, below the chart so that it covers nothing.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Drawn, Ink, LABEL_SIZE, shortened, text_pixels, write};

/// Height of a row, width of a mark with the gap to its text, and gap between two entries, in
/// pixels.
const ROW_PIXELS: u32 = 22;
const MARK_PIXELS: f64 = 28.0;
const GAP_PIXELS: f64 = 24.0;
/// Margins at both sides of all entries and below them, in pixels.
const SIDE_PIXELS: f64 = 20.0;
const BELOW_PIXELS: u32 = 12;

/// The look of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Line(Ink),
    /// A dashed line.
    Dashes(Ink),
    Bar(Ink),
    Dot(Ink),
    Ring(Ink),
}

/// The entries of a figure, row by row.
#[derive(Clone, Debug)]
pub(super) struct Key {
    rows: Vec<Vec<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    mark: Mark,
    label: String,
    /// Distance from the left in pixels.
    at: f64,
}

impl Key {
    /// Arranges entries in columns as wide as the widest entry, in a figure of this width in
    /// pixels. A single entry is omitted, since the title says as much.
    pub(super) fn new(entries: impl IntoIterator<Item = (Mark, String)>, width: u32) -> Self {
        let mut entries: Vec<(Mark, String)> = entries.into_iter().collect();
        let room = f64::from(width) - 2.0 * SIDE_PIXELS;
        for (_, label) in &mut entries {
            *label = shortened(label, room - MARK_PIXELS, LABEL_SIZE);
        }
        let widest =
            entries.iter().map(|(_, label)| text_pixels(label, LABEL_SIZE)).fold(0.0, f64::max) + MARK_PIXELS;
        let columns = (((room + GAP_PIXELS) / (widest + GAP_PIXELS)) as usize).clamp(1, entries.len().max(1));
        // Equally full rows look better than a last row with few entries.
        let columns = entries.len().div_ceil(entries.len().div_ceil(columns).max(1)).max(1);
        let step = if columns > 1 { (widest + GAP_PIXELS).max(0.0) } else { 0.0 };
        let entry = |(i, (mark, label)): (usize, (Mark, String))| Entry {
            mark,
            label,
            at: SIDE_PIXELS + i as f64 * step,
        };
        let mut rows = Vec::new();
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            rows.push(entries.by_ref().take(columns).enumerate().map(entry).collect());
        }
        Self { rows }
    }

    pub(super) fn height(&self) -> u32 {
        if self.rows.is_empty() { 0 } else { self.rows.len() as u32 * ROW_PIXELS + BELOW_PIXELS }
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        for (row, entries) in self.rows.iter().enumerate() {
            let y = (row as u32 * ROW_PIXELS + ROW_PIXELS / 2) as i32;
            for entry in entries {
                let x = entry.at as i32;
                draw_mark(area, entry.mark, (x, y))?;
                let at = (x + MARK_PIXELS as i32, y);
                write(area, &entry.label, at, (HPos::Left, LABEL_SIZE), &BLACK)?;
            }
        }
        Ok(())
    }

    /// The horizontal ranges of entries in pixels, row by row.
    #[cfg(test)]
    pub(super) fn spans(&self) -> Vec<Vec<(f64, f64)>> {
        let span = |entry: &Entry| (entry.at, entry.at + MARK_PIXELS + text_pixels(&entry.label, LABEL_SIZE));
        self.rows.iter().map(|row| row.iter().map(span).collect()).collect()
    }
}

fn draw_mark(area: &Area<'_>, mark: Mark, (x, y): (i32, i32)) -> Drawn {
    match mark {
        Mark::Line(colour) => {
            area.draw(&PathElement::new([(x, y), (x + 20, y)], colour.rgb().stroke_width(2)))?
        }
        Mark::Dashes(colour) => {
            for from in [x, x + 8, x + 16] {
                area.draw(&PathElement::new([(from, y), (from + 4, y)], colour.rgb().stroke_width(1)))?;
            }
        }
        Mark::Bar(colour) => {
            area.draw(&Rectangle::new([(x + 4, y - 6), (x + 16, y + 6)], colour.rgb().filled()))?
        }
        Mark::Dot(colour) => area.draw(&Circle::new((x + 10, y), 5, colour.rgb().filled()))?,
        Mark::Ring(colour) => area.draw(&Circle::new((x + 10, y), 6, colour.rgb().stroke_width(2)))?,
    }
    Ok(())
}
