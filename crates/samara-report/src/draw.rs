//! What all figures share: drawn by `plotters` and, for PNG, rendered by `resvg`.

use plotters::prelude::*;

/// Pixels of a figure.
pub(crate) const SIZE: (u32, u32) = (800, 500);
/// Colours that stay apart for most colour-blind readers, on white and on black: those of Okabe and Ito (2008) but yellow, and
/// three more.
pub(crate) const COLOURS: [&str; 9] =
    ["#d55e00", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#8c6bb1", "#66a61e", "#7f7f7f"];

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;
pub(crate) type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

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

/// The key of a chart.
pub(crate) fn draw_key<'a, 'b: 'a, X, Y>(
    chart: &mut Chart<'a, 'b, X, Y>,
    position: SeriesLabelPosition,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 14))
        .position(position)
        .draw()?;
    Ok(())
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

/// Where the values of an axis are placed: their numbers, or, where their units differ ("64 B", "4 kB"), multiples of the base unit.
pub(crate) fn places(values: &[&str]) -> Vec<f64> {
    let unit =
        |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit() || ".+-eE ".contains(c)).to_owned();
    let mut units: Vec<String> = values.iter().map(|value| unit(value)).collect();
    units.dedup();
    let differ = units.len() > 1;
    let factor = |unit: &str| match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3_600.0,
        _ if unit.starts_with("Ki") => 1_024.0,
        _ if unit.starts_with("Mi") => 1_048_576.0,
        _ if unit.starts_with('k') => 1e3,
        _ if unit.starts_with('M') => 1e6,
        _ if unit.starts_with('G') => 1e9,
        _ => 1.0,
    };
    values
        .iter()
        .map(|value| leading_number(value) * if differ { factor(&unit(value)) } else { 1.0 })
        .collect()
}

/// The number at the start of a value.
pub(crate) fn leading_number(text: &str) -> f64 {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn values_with_different_units_are_placed_by_their_size() {
        assert_eq!(places(&["64 B", "1 kB", "64 kB"]), [64.0, 1e3, 64e3]);
        assert_eq!(
            places(&["10 Mbit/s", "50 Mbit/s"]),
            [10.0, 50.0],
            "one unit: its numbers are on the axis"
        );
        assert_eq!(places(&["500 us", "1 ms", "2 s"]), [500e-6, 1e-3, 2.0]);
        assert_eq!(places(&["95", "1000"]), [95.0, 1000.0]);
    }
}
