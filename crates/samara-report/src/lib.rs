//! From results to something to look at: a table for the terminal, figures as SVG and PNG, and one self-contained HTML
//! file.

mod figures;
mod html;
mod model;
mod words;

pub mod terminal;

pub use figures::png;
pub use model::Report;
