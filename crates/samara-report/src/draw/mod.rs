//! What all figures share: drawn by `plotters` and, for PNG, rendered by `resvg`.

mod axis;
mod key;
mod rows;
mod swept;
#[cfg(test)]
mod tests;
mod ticks;

use plotters::prelude::*;

pub(crate) use axis::Axis;
pub(crate) use key::{Key, Mark};
pub(crate) use rows::{BAR, Rows};
pub(crate) use swept::Swept;
pub(crate) use ticks::{Room, Unit};

/// Pixels of a figure.
pub(crate) const SIZE: (u32, u32) = (800, 460);
/// The sizes of titles and of all other text, as `plotters` counts them.
pub(crate) const TITLE_SIZE: u32 = 20;
pub(crate) const LABEL_SIZE: u32 = 15;
/// Pixels around a chart, below it for the labels of its axis, and left of it.
pub(crate) const MARGIN: u32 = 12;
pub(crate) const BELOW: u32 = 46;
pub(crate) const LEFT: u32 = 74;
/// Colours that stay apart for most colour-blind readers, on white and on black: those of Okabe and Ito (2008) but yellow, and
/// three more.
pub(crate) const COLOURS: [&str; 9] =
    ["#d55e00", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#8c6bb1", "#66a61e", "#7f7f7f"];

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Renders an SVG figure as PNG.
///
/// # Errors
/// The SVG cannot be read or rendered.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    use resvg::{tiny_skia, usvg};
    let mut options = usvg::Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    // The only font there is stands for all families, so that figures look the same everywhere.
    let family = fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
    if let Some(family) = family {
        options.font_family.clone_from(&family);
        let fonts = options.fontdb_mut();
        fonts.set_sans_serif_family(&family);
        fonts.set_serif_family(&family);
    }
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| format!("figure: {error}"))?;
    let size = tree.size().to_int_size();
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("figure: it has no size")?;
    resvg::render(&tree, tiny_skia::Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| format!("figure: {error}"))
}

/// A figure of the usual size.
pub(crate) fn drawn(draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    drawn_at(SIZE, draw)
}

/// A figure of so many pixels.
pub(crate) fn drawn_at(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
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

/// A figure of the usual size with a key below it.
pub(crate) fn drawn_with(key: &Key, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    drawn_at_with(SIZE, key, draw)
}

/// A figure of so many pixels with a key below it.
pub(crate) fn drawn_at_with(
    (width, height): (u32, u32),
    key: &Key,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> String {
    drawn_at((width, height + key.height()), |area| {
        let (above, below) = area.split_vertically(height);
        draw(&above)?;
        key.draw(&below)
    })
}

/// The pixels that an axis has from left to right, and from bottom to top, in a figure of so many pixels with a title.
pub(crate) fn rooms((width, height): (u32, u32), left: u32) -> (Room, Room) {
    let title = TITLE_SIZE * 3 / 2;
    (
        Room::Across(width.saturating_sub(left + 2 * MARGIN).max(1)),
        Room::Upright(height.saturating_sub(BELOW + title + 2 * MARGIN).max(1)),
    )
}

/// A chart with its title, and lines at what is labelled.
pub(crate) fn chart<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    (x, x_name): (&Axis, &str),
    (y, y_name): (&Axis, &str),
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TITLE_SIZE))
        .margin(MARGIN)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(222, 222, 222))
        .x_desc(x_name)
        .y_desc(y_name)
        .label_style(("sans-serif", LABEL_SIZE))
        .draw()?;
    Ok(chart)
}

/// Pixels that a text takes in a wide font, so that it fits with others, too: 0.6 em on average in DejaVu Sans; `plotters` writes a size
/// as 1/1.24 of it.
pub(crate) fn text_pixels(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) / 1.24 * 0.6
}

/// A text that has so many pixels: cut where it is longer.
pub(crate) fn shortened(text: &str, pixels: f64, size: u32) -> String {
    if text_pixels(text, size) <= pixels {
        return text.to_owned();
    }
    let room = (pixels / text_pixels("x", size)).floor().max(1.0) as usize;
    let start: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// The lines of a text that has so many pixels; the last of at most so many lines is cut where there is more.
pub(crate) fn wrapped(text: &str, pixels: f64, size: u32, lines: usize) -> Vec<String> {
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

/// The corners of a step curve; what never arrives is left out, so that the curve ends below 1.
pub(crate) fn steps(times: &[f64]) -> Vec<(f64, f64)> {
    let count = times.len() as f64;
    let mut points = Vec::new();
    for (i, time) in times.iter().enumerate().filter(|(_, time)| time.is_finite()) {
        points.push((*time, i as f64 / count));
        points.push((*time, (i + 1) as f64 / count));
    }
    points
}

/// The colour of a curve by its number.
pub(crate) fn colour(index: usize) -> RGBColor {
    let hex = COLOURS[index % COLOURS.len()];
    let part = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap_or(0);
    RGBColor(part(1), part(3), part(5))
}
