//! Elements of SVG, colours, widths of texts.

use std::fmt::Write;

use crate::escape;
use crate::style::{COLOURS, GROUND, Style, map};

/// Colours: of a file, or of the page around.
#[derive(Clone, Debug)]
pub(super) struct Paint {
    in_page: bool,
    pub(super) ground: String,
    pub(super) ink: String,
    pub(super) soft: String,
    pub(super) grid: String,
}

impl Paint {
    pub(super) fn file() -> Self {
        let own = str::to_owned;
        Self {
            in_page: false,
            ground: own(GROUND.0),
            ink: own("#1c2128"),
            soft: own("#57606a"),
            grid: own("#dfe3e8"),
        }
    }

    pub(super) fn page() -> Self {
        let of = |name: &str| format!("var(--{name})");
        Self { in_page: true, ground: of("ground"), ink: of("ink"), soft: of("soft"), grid: of("grid") }
    }

    pub(super) fn colour(&self, style: Style) -> String {
        match self.in_page {
            true => format!("var(--c{})", style.colour_index()),
            false => COLOURS[style.colour_index()].0.to_owned(),
        }
    }
}

/// Where a text is relative to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    Title,
    Strong,
    Plain,
    Soft,
}

/// A stroke.
#[derive(Clone, Debug)]
pub(super) struct Stroke {
    pub(super) colour: String,
    pub(super) width: f64,
    pub(super) opacity: f64,
    pub(super) dashes: &'static [u8],
}

impl Stroke {
    pub(super) fn new(colour: &str, width: f64) -> Self {
        Self { colour: colour.to_owned(), width, opacity: 1.0, dashes: &[] }
    }

    pub(super) fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }

    pub(super) fn dashes(self, dashes: &'static [u8]) -> Self {
        Self { dashes, ..self }
    }

    fn attributes(&self) -> String {
        let mut out =
            format!(" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"", self.colour, short(self.width));
        if self.opacity < 1.0 {
            let _ = write!(out, " stroke-opacity=\"{}\"", short(self.opacity));
        }
        if !self.dashes.is_empty() {
            let lengths: Vec<String> = self.dashes.iter().map(u8::to_string).collect();
            let _ = write!(out, " stroke-dasharray=\"{}\"", lengths.join(" "));
        }
        out
    }
}

/// A drawing that grows downwards.
pub(super) struct Canvas {
    pub(super) paint: Paint,
    pub(super) width: f64,
    /// Where the next thing begins.
    pub(super) top: f64,
    body: String,
}

/// The size of texts.
pub(super) const TEXT: f64 = 12.0;

impl Canvas {
    pub(super) fn new(paint: Paint, width: f64) -> Self {
        Self { paint, width, top: 8.0, body: String::new() }
    }

    /// Writes the title at the top.
    pub(super) fn title(&mut self, title: &str) {
        self.top += 16.0;
        self.text(16.0, self.top, Anchor::Start, Face::Title, title);
        self.top += 16.0;
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &Stroke) {
        let attributes = stroke.attributes();
        let (x1, y1, x2, y2) = (short(from.0), short(from.1), short(to.0), short(to.1));
        let _ = writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"{attributes}/>");
    }

    /// A path in the language of the attribute `d`.
    pub(super) fn path(&mut self, d: &str, stroke: &Stroke) {
        if !d.is_empty() {
            let attributes = stroke.attributes();
            let _ = writeln!(self.body, "<path d=\"{d}\"{attributes} stroke-linejoin=\"round\"/>");
        }
    }

    /// Begins a group of many paths that differ in colour only; [`Canvas::end_strokes`] ends it.
    pub(super) fn strokes(&mut self, stroke: &Stroke) {
        let _ = writeln!(self.body, "<g{}>", stroke.attributes());
    }

    /// A path of such a group.
    pub(super) fn traced(&mut self, d: &str, colour: &str) {
        let _ = writeln!(self.body, "<path d=\"{d}\" stroke=\"{colour}\"/>");
    }

    pub(super) fn end_strokes(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// A filled path.
    pub(super) fn fill(&mut self, d: &str, colour: &str, opacity: f64) {
        if !d.is_empty() {
            let opacity = short(opacity);
            let _ = writeln!(self.body, "<path d=\"{d}\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>");
        }
    }

    /// A filled rectangle; what it stands for is told when it is pointed at.
    pub(super) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str, tip: &str) {
        let (x, y, w, h) = (short(corner.0), short(corner.1), short(size.0.max(0.0)), short(size.1.max(0.0)));
        let tip =
            if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape::text(tip)) };
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{colour}\">{tip}</rect>"
        );
    }

    pub(super) fn dot(&mut self, at: (f64, f64), radius: f64, colour: &str) {
        let ground = &self.paint.ground;
        let (x, y, radius) = (short(at.0), short(at.1), short(radius));
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\" stroke=\"{ground}\"/>"
        );
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, face: Face, text: &str) {
        let colour = if face == Face::Soft { self.paint.soft.clone() } else { self.paint.ink.clone() };
        self.coloured_text((x, y), anchor, face, &colour, text);
    }

    pub(super) fn coloured_text(
        &mut self,
        at: (f64, f64),
        anchor: Anchor,
        face: Face,
        colour: &str,
        text: &str,
    ) {
        let attributes = text_attributes(anchor, face);
        let (x, y, text) = (short(at.0), short(at.1), escape::text(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\"{attributes}>{text}</text>");
    }

    /// A text that reads upwards, around this place.
    pub(super) fn upright_text(&mut self, x: f64, y: f64, face: Face, text: &str) {
        let colour = if face == Face::Soft { &self.paint.soft } else { &self.paint.ink };
        let attributes = text_attributes(Anchor::Middle, face);
        let (x, y, text) = (short(x), short(y), escape::text(text));
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({x} {y}) rotate(-90)\" fill=\"{colour}\"{attributes}>{text}</text>"
        );
    }

    /// Begins a group whose content is cut at this rectangle; [`Canvas::end`] ends it. A nested `svg` element does that
    /// without a name, which would have to be unique in the page.
    pub(super) fn clipped(&mut self, corner: (f64, f64), size: (f64, f64)) {
        let (x, y, w, h) = (short(corner.0), short(corner.1), short(size.0), short(size.1));
        let _ = writeln!(
            self.body,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"
        );
    }

    pub(super) fn end(&mut self) {
        self.body.push_str("</svg>\n");
    }

    /// The drawing as a document.
    pub(super) fn finish(self, title: &str, description: &str) -> String {
        let (width, height) = (short(self.width), short((self.top + 8.0).ceil()));
        let (title, description) = (escape::text(title), escape::text(description));
        let mut out = String::with_capacity(self.body.len() + 1000);
        out.push_str("<svg ");
        if !self.paint.in_page {
            out.push_str("xmlns=\"http://www.w3.org/2000/svg\" ");
            let _ = write!(out, "width=\"{width}\" height=\"{height}\" ");
        }
        let _ = writeln!(
            out,
            "viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\" \
             font-family=\"Inter, system-ui, 'Segoe UI', Roboto, sans-serif\" font-size=\"{TEXT}\">"
        );
        if !self.paint.in_page {
            // A title in the page would be a tip over the whole figure.
            let _ = writeln!(out, "<title>{title}</title>\n<desc>{description}</desc>");
            let _ =
                writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>", self.paint.ground);
        }
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }
}

fn text_attributes(anchor: Anchor, face: Face) -> String {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let face = match face {
        Face::Title => " font-size=\"16\" font-weight=\"600\"",
        Face::Strong => " font-weight=\"600\"",
        Face::Plain | Face::Soft => "",
    };
    format!("{anchor}{face}")
}

/// A coordinate with a hundredth of a pixel.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// About how wide a text is: enough to place legends and margins.
pub(super) fn width(text: &str) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.30,
        ' ' | 'f' | 'r' | 't' | '(' | ')' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.90,
        c if c.is_ascii_uppercase() => 0.70,
        c if c.is_ascii_digit() => 0.64,
        _ => 0.58,
    };
    text.chars().map(of).sum::<f64>() * TEXT
}

/// A text cut where it gets too wide.
pub(super) fn fitted(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if width(&out) + 2.0 * TEXT * 0.6 > most {
            break;
        }
        out.push(c);
    }
    out.trim_end().to_owned() + "…"
}

/// A colour of the continuous map, on white ground. In the page, too: pages show their own maps where they can.
pub(super) fn mapped(value: f64) -> String {
    let [r, g, b] = map(value);
    format!("#{r:02x}{g:02x}{b:02x}")
}
