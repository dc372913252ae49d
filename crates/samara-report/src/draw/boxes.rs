//! Boxes on a plane: timelines, schedules, histograms of few values.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{AROUND, Ink, LABEL_SIZE, LEFT, Mark, SIZE, Scale, chart, drawn_with};

/// A figure of boxes.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// What is shown.
    pub title: String,
    /// The axis from left to right, and the one upwards.
    pub scales: (Scale, Scale),
    /// Pixels of the axis upwards.
    pub height: u32,
    /// The boxes, from the lowest layer.
    pub boxes: Vec<Block>,
    /// Thin lines above all boxes, with the numbers of their colours.
    pub lines: Vec<([(f64, f64); 2], usize)>,
    /// What colours mean.
    pub key: Vec<(Mark, String)>,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Block {
    /// Two opposite corners.
    pub corners: [(f64, f64); 2],
    /// Its colour.
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
                // Numbers have to be read on it.
                let opacity = if block.text.is_empty() { 1.0 } else { 0.75 };
                Rectangle::new(block.corners, block.ink.rgb().mix(opacity).filled())
            }))?;
            let centre = Pos::new(HPos::Center, VPos::Center);
            let style = ("sans-serif", LABEL_SIZE - 4).into_text_style(area).pos(centre);
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
