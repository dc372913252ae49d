//! What a report says, without how it looks: plain data.
//!
//! Texts may mark `code` with backticks and **strong words** with two asterisks; everything else is taken literally, in
//! every output.

mod figure;
mod table;

pub use figure::{
    Axis, BarRow, Bars, Cdf, Colour, CurvePanel, Curves, Distribution, Figure, FigureKind, HeatMap,
    Histogram, Lines, Mark, Point, Role, Scale, Series, StepCurve, Steps,
};
pub use table::{Align, Better, Cell, Column, Row, Table};

/// A report: what came out, of what, and how to get it again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What it is about, in a line.
    pub title: String,
    /// What was done, in a few sentences.
    pub subtitle: String,
    /// What came out, each in a figure and a sentence.
    pub headline: Vec<Headline>,
    /// Where the results come from: scenario, seed, version, digest, machine, command.
    pub facts: Vec<Fact>,
    /// The results.
    pub sections: Vec<Section>,
}

/// A figure that says most, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// "4.9 times".
    pub value: String,
    /// "as fast as sequential publishing, on average over nodes".
    pub text: String,
}

/// A line of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// "Seed".
    pub name: String,
    /// "1".
    pub value: String,
    /// Whether it is to be typed or compared letter by letter.
    pub literal: bool,
}

impl Fact {
    /// A line to be read.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), literal: false }
    }

    /// A line to be typed or compared letter by letter.
    pub fn literal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { literal: true, ..Self::new(name, value) }
    }
}

/// A part of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Paragraphs under the heading.
    pub text: Vec<String>,
    /// What follows.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
    /// A paragraph.
    Text(String),
    /// A paragraph that is set apart: an answer, a warning, a missed expectation.
    Note(Note),
}

/// A paragraph that is set apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What kind of thing it says.
    pub tone: Tone,
    /// Its first words.
    pub title: String,
    /// The paragraph.
    pub text: String,
}

/// What kind of thing a note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An answer or an explanation.
    Plain,
    /// Something that was expected came true.
    Good,
    /// Something to be careful about.
    Bad,
}

impl Report {
    /// All figures, in the order in which they are shown.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            _ => None,
        })
    }

    /// All tables, in the order in which they are shown.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }
}
