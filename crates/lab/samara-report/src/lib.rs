//! Renders results. A [`Page`] of sections becomes one self-contained HTML file, figures as SVG and
//! PNG, and tables for a terminal or in Markdown.

mod draw;
mod html;
mod section;
pub mod terminal;
pub mod words;

pub use draw::{
    Bar, Bars, Block, Boxes, HUES, Ink, Line, Lines, Map, MapLine, Maps, Mark, Scale, Style, Swept, Tick,
    Unit, png,
};
pub use html::DEADLINE_MAX;
pub use section::{
    Arrival, Card, Drawing, Explorer, Figure, Look, Page, Panel, Part, Row, Section, Summary, Table, code,
    csv_line, plain,
};
