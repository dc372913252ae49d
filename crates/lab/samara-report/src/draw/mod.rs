//! Figures, drawn by `plotters`, and rendered as PNG by `tiny-skia`.

mod bars;
mod data;
mod glyphs;
mod key;
mod lines;
mod maps;
mod png;
mod scale;
#[cfg(test)]
mod tests;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use bars::{Bar, Bars, Block, Boxes};
use key::Key;
pub use key::Mark;
pub use lines::{Line, Lines, Style};
pub use maps::{Map, MapLine, Maps};
pub use png::png;
pub(crate) use png::small_png;
use scale::{Axis, Room};
pub use scale::{Scale, Swept, Tick, Unit};

/// Width and height of a figure in pixels.
const SIZE: (u32, u32) = (800, 460);
/// Font sizes of titles and of all other text, in the unit of `plotters`.
const TITLE_SIZE: u32 = 20;
const LABEL_SIZE: u32 = 15;
/// Pixels around a chart, below it for the labels of its axis, and left of it.
const MARGIN: u32 = 12;
const BELOW: u32 = 46;
const LEFT: u32 = 74;
/// Pixels above and below the chart of a figure.
const AROUND: u32 = BELOW + TITLE_SIZE * 3 / 2 + 2 * MARGIN;
/// Colours of series: the first [`HUES`] are those of lines, the others are for figures with more kinds
/// of boxes.
///
/// The first six follow Okabe and Ito (2008), with a contrast of 2.8 or more on white and 3.1 or more
/// on the page's dark background. Their least distance in CIELAB is 18 for readers with protanopia or
/// deuteranopia (simulated after Machado et al. 2009), which lines of further series do not share:
/// these have dashes.
pub(crate) const COLOURS: [&str; 9] =
    ["#b84a00", "#0068b0", "#3f98d3", "#007a5a", "#c28400", "#c46aa0", "#7b5bb0", "#5d8f1c", "#7f7f7f"];
/// Number of colours of lines. Further lines have the same colours, and dashes.
pub const HUES: usize = 6;

/// Colours of text on coloured fields. Pages in dark colours exchange black and white, but not these.
const ON_LIGHT: RGBColor = RGBColor(1, 1, 1);
const ON_DARK: RGBColor = RGBColor(254, 254, 254);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// A colour by its red, green and blue parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink(u8, u8, u8);

impl Ink {
    /// Colour of bounds and rings.
    pub const BLACK: Self = Self(0, 0, 0);
    /// Colour of values in the background.
    pub const GREY: Self = Self(178, 184, 190);
    /// Colour of waiting times.
    pub const LIGHT: Self = Self(226, 230, 234);
    /// Colour of times with a fault.
    pub const WARM: Self = Self(255, 237, 218);

    /// The colour of a series by its number.
    pub fn of(number: usize) -> Self {
        Self::hex(COLOURS[number % COLOURS.len()]).unwrap_or(Self::BLACK)
    }

    pub(crate) fn line(number: usize) -> Self {
        Self::of(number % HUES)
    }

    /// Reads a colour such as `#0072B2`.
    fn hex(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self(red, green, blue))
    }

    /// Returns a colour between violet and yellow for a share: an approximation of the colour map
    /// viridis.
    pub fn ramp(share: f64) -> Self {
        const STOPS: [[f64; 3]; 5] = [
            [68.0, 1.0, 84.0],
            [59.0, 82.0, 139.0],
            [33.0, 145.0, 140.0],
            [94.0, 201.0, 98.0],
            [210.0, 200.0, 30.0],
        ];
        let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let at = (place as usize).min(STOPS.len() - 2);
        let mixed = |i: usize| (STOPS[at][i] + (STOPS[at + 1][i] - STOPS[at][i]) * (place - at as f64)) as u8;
        Self(mixed(0), mixed(1), mixed(2))
    }

    fn rgb(self) -> RGBColor {
        RGBColor(self.0, self.1, self.2)
    }
}

/// Draws a figure of this size in pixels, as SVG.
fn drawn(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        // Drawing into a string cannot fail.
        let _ = area.fill(&WHITE);
        let _ = draw(&area);
        let _ = area.present();
    }
    svg
}

/// Draws a figure of this size with a key below it.
fn drawn_with(
    (width, height): (u32, u32),
    key: impl IntoIterator<Item = (Mark, String)>,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> String {
    let key = Key::new(key, width);
    drawn((width, height + key.height()), |area| {
        let (above, below) = area.split_vertically(height);
        draw(&above)?;
        key.draw(&below)
    })
}

/// The room of the horizontal and the vertical axis, in a figure of this size with a title.
fn rooms((width, height): (u32, u32), left: u32) -> (Room, Room) {
    (
        Room::Across(width.saturating_sub(left + 2 * MARGIN).max(1)),
        Room::Upright(height.saturating_sub(AROUND).max(1)),
    )
}

/// Creates a chart with its title, and grid lines at the labels.
fn chart<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    (x, y): (&Scale, &Scale),
    left: u32,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let (across, upright) = rooms(area.dim_in_pixel(), left);
    let (x, y) = (x.axis(across), y.axis(upright));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE_SIZE))
        .margin(MARGIN)
        .x_label_area_size(BELOW)
        .y_label_area_size(left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(222, 222, 222))
        .x_desc(x.name())
        .y_desc(y.name())
        .label_style(("sans-serif", LABEL_SIZE))
        .draw()?;
    Ok(chart)
}

/// Writes a text left of a position, right of it or centred on it.
fn write(area: &Area<'_>, text: &str, at: (i32, i32), (side, size): (HPos, u32), ink: &RGBColor) -> Drawn {
    let style = ("sans-serif", size).into_text_style(area).pos(Pos::new(side, VPos::Center)).color(ink);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// Width of a text in pixels, in a wide font so that other fonts fit as well: on average 0.6 em in
/// DejaVu Sans. `plotters` writes a size as 1/1.24 of it.
fn text_pixels(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) / 1.24 * 0.6
}

fn shortened(text: &str, pixels: f64, size: u32) -> String {
    if text_pixels(text, size) <= pixels {
        return text.to_owned();
    }
    let room = (pixels / text_pixels("x", size)).floor().max(1.0) as usize;
    let start: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// Wraps a text at a width in pixels, and shortens the last of at most `lines` lines.
fn wrapped(text: &str, pixels: f64, size: u32, lines: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let full = rows.len() == lines;
        match rows.last_mut() {
            Some(row) if full || text_pixels(&format!("{row} {word}"), size) <= pixels => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows.iter().map(|row| shortened(row, pixels, size)).collect()
}
