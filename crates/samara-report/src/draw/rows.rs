//! Runs below each other, with their names at the left.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{
    Area, Axis, BELOW, Chart, LABEL_SIZE, MARGIN, Room, SIZE, TITLE_SIZE, rooms, text_pixels, wrapped,
};

/// Pixels of a row, and of what is above and below all of them.
const ROW_PIXELS: u32 = 40;
const AROUND_PIXELS: u32 = BELOW + TITLE_SIZE * 3 / 2 + 2 * MARGIN;
/// The widest that names of runs become before they are wrapped, and their lines.
const NAME_PIXELS: f64 = 230.0;
const NAME_LINES: usize = 2;
const LINE_PIXELS: i32 = 15;
/// The part of a row that a bar takes.
pub(crate) const BAR: f64 = 0.66;

/// Rows of a chart.
pub(crate) struct Rows {
    names: Vec<Vec<String>>,
    left: u32,
}

impl Rows {
    /// A row for each name.
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<Vec<String>> =
            names.map(|name| wrapped(name, NAME_PIXELS, LABEL_SIZE, NAME_LINES)).collect();
        let widest = names.iter().flatten().map(|line| text_pixels(line, LABEL_SIZE)).fold(40.0, f64::max);
        Self { names, left: widest as u32 + 20 }
    }

    /// Pixels of a figure of them.
    pub(crate) fn size(&self) -> (u32, u32) {
        (SIZE.0, AROUND_PIXELS + ROW_PIXELS * self.names.len() as u32)
    }

    /// What the axis from left to right has.
    pub(crate) fn room(&self) -> Room {
        rooms(self.size(), self.left).0
    }

    /// The middle of a row on an axis that has 1 for each, from bottom to top.
    pub(crate) fn middle(&self, place: usize) -> f64 {
        self.names.len() as f64 - place as f64 - 0.5
    }

    /// A chart of them over an axis with a name.
    pub(crate) fn chart<'b, 'c>(
        &self,
        area: &'b Area<'c>,
        title: &str,
        (x, name): (&Axis, &str),
    ) -> Result<Chart<'b, 'c>, Box<dyn std::error::Error>> {
        let y = Axis::at(0.0..self.names.len() as f64, false, &[], rooms(self.size(), self.left).1);
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", TITLE_SIZE))
            .margin(MARGIN)
            .x_label_area_size(BELOW)
            .y_label_area_size(self.left)
            .build_cartesian_2d(x.clone(), y)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .bold_line_style(RGBColor(222, 222, 222))
            .x_desc(name)
            .label_style(("sans-serif", LABEL_SIZE))
            .draw()?;
        let right = chart.plotting_area().get_pixel_range().0.start - 10;
        let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
        for (place, lines) in self.names.iter().enumerate() {
            let middle = chart.backend_coord(&(x.ends().start, self.middle(place))).1;
            let top = middle - (lines.len() as i32 - 1) * LINE_PIXELS / 2;
            for (line, text) in (0..).zip(lines) {
                area.draw(&Text::new(text.clone(), (right, top + line * LINE_PIXELS), style.clone()))?;
            }
        }
        Ok(chart)
    }
}
