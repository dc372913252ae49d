//! Rows of bars, dots and intervals with names at the left, and boxes on a plane: timelines,
//! schedules, histograms.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{
    AROUND, Area, Chart, Drawn, Ink, LABEL_SIZE, LEFT, Mark, ON_LIGHT, SIZE, Scale, chart, drawn_with,
    text_pixels, wrapped, write,
};

const ROW_PIXELS: u32 = 40;
/// Maximum width of names before they are wrapped, and maximum number of their lines.
const NAME_PIXELS: f64 = 230.0;
const NAME_LINES: usize = 2;
const LINE_PIXELS: i32 = 15;
/// Half of the height of a bar, of a bound and of the ends of an interval, as parts of a row's
/// height.
const BAR: f64 = 0.33;
const BOUND: f64 = 0.45;
const END: f64 = 0.14;
/// Width of a number beside a dot.
const NUMBER_PIXELS: i32 = 56;

#[derive(Clone, Debug)]
pub struct Bars {
    pub title: String,
    /// The scale of the horizontal axis.
    pub scale: Scale,
    /// The rows, from top to bottom.
    pub rows: Vec<Bar>,
    /// The key: marks and their meanings.
    pub key: Vec<(Mark, String)>,
}

/// A row. Its contents are drawn in the order of the fields.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    pub name: String,
    /// The parts of a bar: start, end, and the number of the colour.
    pub parts: Vec<(f64, f64, usize)>,
    /// Values marked by dashes across the row.
    pub bounds: Vec<f64>,
    pub rings: Vec<f64>,
    /// Values shown as pale dots.
    pub values: Vec<f64>,
    pub interval: Option<[f64; 2]>,
    pub dot: Option<f64>,
    /// The number of the colour of the dots and the interval.
    pub colour: usize,
    /// A text behind all marks of a bar, or beside the dot.
    pub text: String,
}

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let names: Vec<Vec<String>> =
            self.rows.iter().map(|row| wrapped(&row.name, NAME_PIXELS, LABEL_SIZE, NAME_LINES)).collect();
        let widest = names.iter().flatten().map(|line| text_pixels(line, LABEL_SIZE)).fold(40.0, f64::max);
        let count = self.rows.len();
        let size = (SIZE.0, AROUND + ROW_PIXELS * count as u32);
        let upright = Scale::at("", 0.0..count as f64, Vec::new());
        drawn_with(size, self.key.iter().cloned(), |area| {
            let mut chart = chart(area, &self.title, (&self.scale, &upright), widest as u32 + 20)?;
            let ends = self.scale.ends();
            let right = chart.plotting_area().get_pixel_range().0.start - 10;
            if ends.start < 0.0 {
                let zero = [(0.0, 0.0), (0.0, count as f64)];
                chart.draw_series(LineSeries::new(zero, BLACK.mix(0.6).stroke_width(1)))?;
            }
            for (at, (row, name)) in self.rows.iter().zip(&names).enumerate() {
                let middle = (count - at) as f64 - 0.5;
                let top = chart.backend_coord(&(ends.start, middle)).1;
                let top = top - (name.len() as i32 - 1) * LINE_PIXELS / 2;
                for (line, text) in (0..).zip(name) {
                    write(area, text, (right, top + line * LINE_PIXELS), (HPos::Right, LABEL_SIZE), &BLACK)?;
                }
                row.draw(&mut chart, middle)?;
                row.label(area, &chart, middle)?;
            }
            Ok(())
        })
    }
}

impl Bar {
    fn draw(&self, chart: &mut Chart<'_, '_>, middle: f64) -> Drawn {
        let ink = Ink::of(self.colour).rgb();
        chart.draw_series(self.parts.iter().map(|(from, until, colour)| {
            let corners = [(*from, middle - BAR), (*until, middle + BAR)];
            Rectangle::new(corners, Ink::of(*colour).rgb().filled())
        }))?;
        for bound in self.bounds.iter().filter(|bound| bound.is_finite()) {
            let line = [(*bound, middle - BOUND), (*bound, middle + BOUND)];
            chart.draw_series(DashedLineSeries::new(line, 4, 3, BLACK.stroke_width(1)))?;
        }
        chart
            .draw_series(self.rings.iter().map(|at| Circle::new((*at, middle), 7, BLACK.stroke_width(2))))?;
        let values = self.values.iter().filter(|value| value.is_finite());
        chart.draw_series(values.map(|value| Circle::new((*value, middle), 3, ink.mix(0.3).filled())))?;
        if let Some([low, high]) = self.interval {
            let lines = [
                [(low, middle), (high, middle)],
                [(low, middle - END), (low, middle + END)],
                [(high, middle - END), (high, middle + END)],
            ];
            chart.draw_series(lines.map(|line| PathElement::new(line, ink.stroke_width(2))))?;
        }
        let dot = self.dot.filter(|dot| dot.is_finite());
        chart.draw_series(dot.map(|dot| Circle::new((dot, middle), 5, ink.filled())))?;
        Ok(())
    }

    fn label(&self, area: &Area<'_>, chart: &Chart<'_, '_>, middle: f64) -> Drawn {
        if self.text.is_empty() {
            return Ok(());
        }
        let pixel = |value: f64| chart.backend_coord(&(value, middle)).0;
        let range = chart.plotting_area().get_pixel_range().0;
        let mut rings: Vec<i32> = self.rings.iter().map(|ring| pixel(*ring)).collect();
        rings.sort_unstable();
        let x = match self.dot {
            // Behind rings that would cover the number.
            Some(dot) if dot.is_finite() => {
                let behind = |x, ring| if (x..x + NUMBER_PIXELS).contains(&ring) { ring } else { x };
                rings.into_iter().fold(pixel(dot), behind)
            }
            _ => {
                let ends = self.parts.iter().map(|(_, until, _)| *until).chain(self.bounds.iter().copied());
                ends.map(pixel).chain(rings).fold(range.start, i32::max)
            }
        };
        let y = chart.backend_coord(&(chart.x_range().start, middle)).1;
        let width = text_pixels(&self.text, LABEL_SIZE) as i32;
        let (side, at) =
            if x + 12 + width < range.end { (HPos::Left, x + 12) } else { (HPos::Right, x - 12) };
        // The background hides lines that cross the label.
        let from = if at > x { at - 2 } else { at - width - 2 };
        let back = Rectangle::new([(from, y - 8), (from + width + 4, y + 8)], WHITE.mix(0.8).filled());
        area.draw(&back)?;
        write(area, &self.text, (at, y), (side, LABEL_SIZE), &BLACK)
    }
}

#[derive(Clone, Debug)]
pub struct Boxes {
    pub title: String,
    /// The horizontal and the vertical axis.
    pub scales: (Scale, Scale),
    /// Height of the vertical axis in pixels.
    pub height: u32,
    /// The boxes, from the lowest layer to the highest.
    pub boxes: Vec<Block>,
    /// Thin lines above all boxes, with the numbers of their colours.
    pub lines: Vec<([(f64, f64); 2], usize)>,
    /// The key: marks of the colours and their meanings.
    pub key: Vec<(Mark, String)>,
}

/// A box with an optional text.
#[derive(Clone, Debug)]
pub struct Block {
    /// Two opposite corners.
    pub corners: [(f64, f64); 2],
    /// The fill colour of the box.
    pub ink: Ink,
    /// A text in its middle.
    pub text: String,
}

impl Block {
    /// A box without a text.
    pub fn new(corners: [(f64, f64); 2], ink: Ink) -> Self {
        Self { corners, ink, text: String::new() }
    }
}

impl Boxes {
    pub(crate) fn svg(&self) -> String {
        drawn_with((SIZE.0, AROUND + self.height), self.key.iter().cloned(), |area| {
            let mut chart = chart(area, &self.title, (&self.scales.0, &self.scales.1), LEFT)?;
            chart.draw_series(self.boxes.iter().map(|block| {
                // Numbers must stay readable on the box.
                let opacity = if block.text.is_empty() { 1.0 } else { 0.75 };
                Rectangle::new(block.corners, block.ink.rgb().mix(opacity).filled())
            }))?;
            let centre = Pos::new(HPos::Center, VPos::Center);
            let style = ("sans-serif", LABEL_SIZE - 4).into_text_style(area).pos(centre).color(&ON_LIGHT);
            for block in self.boxes.iter().filter(|block| !block.text.is_empty()) {
                let [(left, low), (right, high)] = block.corners;
                let middle = (left.midpoint(right), low.midpoint(high));
                chart.draw_series([Text::new(block.text.clone(), middle, style.clone())])?;
            }
            let line = |(ends, colour): &([(f64, f64); 2], usize)| {
                PathElement::new(*ends, Ink::of(*colour).rgb().stroke_width(1))
            };
            chart.draw_series(self.lines.iter().map(line))?;
            Ok(())
        })
    }
}
