//! Renders figures as PNG. Supports only the part of SVG that `plotters` writes.

use roxmltree::{Document, Node};
use tiny_skia::{FillRule, Paint, PathBuilder, Pixmap, Rect, Stroke, Transform};

use super::Ink;
use super::glyphs::Font;

/// Maximum width and height of a PNG in pixels.
const PIXELS_MAX: f32 = 16_384.0;
/// The only font. It replaces all families, so that figures look the same everywhere.
const FONT: Font = Font(epaint_default_fonts::UBUNTU_LIGHT);
/// Attributes of the elements in figures. All others are rejected.
const ATTRIBUTES: &str = "cx cy dy fill font-family font-size height opacity points r stroke stroke-width text-anchor \
    transform viewBox width x x1 x2 y y1 y2";

/// Renders an SVG figure as PNG.
///
/// # Errors
/// The SVG cannot be read, has an element or attribute that figures do not have, or is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let too_large = || format!("figure: too large for PNG: more than {PIXELS_MAX} pixels wide or high");
    small_png(svg)?.ok_or_else(too_large)
}

/// Renders an SVG figure as PNG. Returns `None` if the figure is too large.
pub(crate) fn small_png(svg: &str) -> Result<Option<Vec<u8>>, String> {
    render(svg).map_err(|error| format!("figure: {error}"))
}

fn render(svg: &str) -> Result<Option<Vec<u8>>, String> {
    let document = Document::parse(svg).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let (width, height) = (number(root, "width")?, number(root, "height")?);
    if width.max(height) > PIXELS_MAX {
        return Ok(None);
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or("it has no size")?;
    root.descendants().filter(Node::is_element).try_for_each(|node| draw(node, &mut pixels))?;
    pixels.encode_png().map(Some).map_err(|error| error.to_string())
}

fn draw(node: Node<'_, '_>, pixels: &mut Pixmap) -> Result<(), String> {
    let name = node.tag_name().name();
    let at = |name| number(node, name);
    let mut path = PathBuilder::new();
    match name {
        "svg" if node.parent_element().is_none() => {}
        "rect" => {
            let corners = Rect::from_xywh(at("x")?, at("y")?, at("width")?, at("height")?);
            corners.into_iter().for_each(|corners| path.push_rect(corners));
        }
        "circle" => path.push_circle(at("cx")?, at("cy")?, at("r")?),
        "line" => {
            path.move_to(at("x1")?, at("y1")?);
            path.line_to(at("x2")?, at("y2")?);
        }
        "polyline" | "polygon" => {
            for (i, point) in numbers(node, "points")?.chunks_exact(2).enumerate() {
                if i == 0 { path.move_to(point[0], point[1]) } else { path.line_to(point[0], point[1]) }
            }
            if name == "polygon" {
                path.close();
            }
        }
        "text" => write(node, &mut path)?,
        _ => return Err(format!("unsupported element <{name}>")),
    }
    if let Some(other) =
        node.attributes().find(|other| ATTRIBUTES.split(' ').all(|known| known != other.name()))
    {
        return Err(format!("<{name}> has the unsupported attribute {}", other.name()));
    }
    let turn = match node.has_attribute("transform") {
        false => Transform::identity(),
        true => match numbers(node, "transform")?[..] {
            [angle, x, y] => Transform::from_rotate_at(angle, x, y),
            _ => return Err(unclear(node, "transform")),
        },
    };
    let Some(path) = path.finish() else { return Ok(()) };
    let or = |name, other| if node.has_attribute(name) { at(name) } else { Ok(other) };
    let opacity = (or("opacity", 1.0)? * 255.0).round() as u8;
    let paint = |name, other| -> Result<Option<Paint<'_>>, String> {
        let hex = node.attribute(name).unwrap_or(other);
        if hex == "none" {
            return Ok(None);
        }
        let Ink(red, green, blue) = Ink::hex(hex).ok_or_else(|| unclear(node, name))?;
        let mut paint = Paint::default();
        paint.set_color_rgba8(red, green, blue, opacity);
        Ok(Some(paint))
    };
    if name != "line"
        && let Some(paint) = paint("fill", "#000000")?
    {
        pixels.fill_path(&path, &paint, FillRule::Winding, turn, None);
    }
    if let Some(paint) = paint("stroke", "none")? {
        let stroke = Stroke { width: or("stroke-width", 1.0)?, ..Stroke::default() };
        pixels.stroke_path(&path, &paint, &stroke, turn, None);
    }
    Ok(())
}

fn write(node: Node<'_, '_>, path: &mut PathBuilder) -> Result<(), String> {
    let (x, y, size) = (number(node, "x")?, number(node, "y")?, number(node, "font-size")?);
    let words: Vec<&str> = node.text().unwrap_or_default().split_ascii_whitespace().collect();
    let glyphs: Vec<usize> = words.join(" ").chars().map(|character| FONT.glyph(character)).collect();
    let width: f32 = glyphs.iter().map(|glyph| FONT.advance(*glyph) * size).sum();
    let before = match node.attribute("text-anchor") {
        None | Some("start") => 0.0,
        Some("middle") => width / 2.0,
        Some("end") => width,
        Some(_) => return Err(unclear(node, "text-anchor")),
    };
    let down = match node.attribute("dy") {
        None => 0.0,
        Some("0.76em") => 0.76,
        // An ex is half an em.
        Some("0.5ex") => 0.25,
        Some("-0.5ex") => -0.25,
        Some(_) => return Err(unclear(node, "dy")),
    };
    let mut x = x - before;
    for glyph in glyphs {
        FONT.outline(glyph, (x, y + down * size), size, path);
        x += FONT.advance(glyph) * size;
    }
    Ok(())
}

fn unclear(node: Node<'_, '_>, name: &str) -> String {
    let value = node.attribute(name).unwrap_or("nothing");
    format!("<{}> has {value:?} as {name}", node.tag_name().name())
}

fn number(node: Node<'_, '_>, name: &str) -> Result<f32, String> {
    let number = node.attribute(name).and_then(|text| text.parse().ok());
    number.filter(|number: &f32| number.is_finite()).ok_or_else(|| unclear(node, name))
}

/// Reads numbers separated by spaces and commas, also within a rotation.
fn numbers(node: Node<'_, '_>, name: &str) -> Result<Vec<f32>, String> {
    let text = node.attribute(name).unwrap_or_default();
    let text = text.strip_prefix("rotate(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let numbers = text.split([' ', ',']).filter(|number| !number.is_empty()).map(str::parse);
    numbers.collect::<Result<_, _>>().map_err(|_| unclear(node, name))
}
