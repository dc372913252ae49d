//! Figures.

use crate::style::Style;

/// A figure with its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What its files and its place in the page are called: letters, digits and "-".
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it, and what is to be seen.
    pub caption: String,
    /// What is drawn.
    pub kind: FigureKind,
}

/// What a figure draws.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureKind {
    /// Many step curves over time, in panels side by side.
    Curves(Curves),
    /// Lines through measured points.
    Lines(Lines),
    /// Shares of nodes that are done, over time.
    Cdf(Cdf),
    /// Horizontal bars, perhaps stacked.
    Bars(Bars),
    /// How often values occur.
    Histogram(Histogram),
    /// A value for each pair of two things.
    Heat(HeatMap),
}

/// What an axis counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// "Time since the publication".
    pub label: String,
    /// "ms"; empty for none. Milliseconds are shown as seconds where there are many.
    pub unit: String,
    /// How values are spread over it.
    pub scale: Scale,
    /// Values to be named; those that suit the scale if empty.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// A linear axis with the ticks that suit it.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), scale: Scale::Linear, ticks: Vec::new() }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// The same, with these values named.
    #[must_use]
    pub fn ticks(self, ticks: Vec<f64>) -> Self {
        Self { ticks, ..self }
    }
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long; the axis begins at 0.
    #[default]
    Linear,
    /// Equal ratios are equally long. Values that are not positive are not shown.
    Log,
}

/// Whether panels have the same scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steps {
    /// All of them: times can be compared by eye.
    #[default]
    Shared,
    /// Each its own: shapes can be compared.
    Own,
}

/// Many step curves over time: how far each of many things got, when. There is a panel for each of the compared runs; the
/// curve of one thing can be followed through all panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// The time in ms.
    pub x: Axis,
    /// What a share of 1 is: "Subscribers reached".
    pub y_label: String,
    /// What a curve is about: "column", "node".
    pub item: String,
    /// What the colours tell.
    pub colour: Colour,
    /// The scale that is shown first.
    pub steps: Steps,
    /// The panels.
    pub panels: Vec<CurvePanel>,
}

/// What the colours of many curves tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The number of what the curve is about.
    ByNumber,
    /// Who was complete first and who last.
    ByRank,
}

/// A panel of curves.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePanel {
    /// The run.
    pub title: String,
    /// How it looks in other figures.
    pub style: Style,
    /// The curves.
    pub curves: Vec<StepCurve>,
    /// Times to be named.
    pub marks: Vec<Mark>,
}

/// A value of an axis with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// "mean".
    pub label: String,
    /// Where it is.
    pub at: f64,
}

/// A curve that goes one step up with each arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCurve {
    /// The number of what it is about.
    pub number: u32,
    /// Arrivals that make it complete.
    pub of: u32,
    /// When they came, in ms, in any order. What did not come is not in it; neither is what is not finite or negative.
    pub arrivals_ms: Vec<f64>,
}

impl StepCurve {
    /// The arrivals in order, without those that are none.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> =
            self.arrivals_ms.iter().copied().filter(|at| at.is_finite() && *at >= 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.truncate(self.of as usize);
        sorted
    }
}

/// Lines through measured points.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// What was varied.
    pub x: Axis,
    /// What was measured.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// "Batch".
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// What it is.
    pub role: Role,
    /// Its points.
    pub points: Vec<Point>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A result.
    #[default]
    Measured,
    /// What no result can pass: dashed, in the colour of text.
    Bound,
}

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What was set.
    pub x: f64,
    /// What came out.
    pub y: f64,
    /// The least that it may be, with 95 % confidence; `y` if unknown.
    pub low: f64,
    /// The most that it may be; `y` if unknown.
    pub high: f64,
}

impl Point {
    /// A point that is known exactly.
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// Shares of nodes that are done, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// What is measured.
    pub x: Axis,
    /// What the share is of: "Share of nodes".
    pub y_label: String,
    /// The distributions.
    pub series: Vec<Distribution>,
}

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// "Batch".
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// The values, in any order; those that are not finite count as never.
    pub values: Vec<f64>,
    /// How many there should be.
    pub of: usize,
}

impl Distribution {
    /// The values that there are, in order.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }

    /// The share that is not above a value; 0 if there should be none.
    pub(crate) fn share(&self, sorted: &[f64], value: f64) -> f64 {
        match self.of {
            0 => 0.0,
            of => sorted.partition_point(|other| *other <= value) as f64 / of as f64,
        }
    }
}

/// Horizontal bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What the bars measure.
    pub x: Axis,
    /// The parts of each bar, from the left; a single one has no legend.
    pub parts: Vec<String>,
    /// What the tick of a row stands for: "lower bound".
    pub bound_label: String,
    /// The bars.
    pub rows: Vec<BarRow>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct BarRow {
    /// "Batch".
    pub label: String,
    /// How it looks; rows of several parts take the colours of the parts.
    pub style: Style,
    /// A value for each part.
    pub values: Vec<f64>,
    /// Where 95 % of repetitions fall, around the end of the bar.
    pub spread: Option<(f64, f64)>,
    /// What the bar could be at best.
    pub bound: Option<f64>,
    /// What is written after it: "1.34 times the bound".
    pub note: String,
}

/// How often values occur.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// What is counted.
    pub x: Axis,
    /// "Nodes".
    pub y_label: String,
    /// How many classes the range of all values is cut into.
    pub classes: usize,
    /// The distributions.
    pub series: Vec<Distribution>,
}

/// A value for each pair of two things.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// What columns are: "Bandwidth, Mbit/s".
    pub x_label: String,
    /// Names of columns.
    pub columns: Vec<String>,
    /// What rows are.
    pub y_label: String,
    /// Names of rows.
    pub rows: Vec<String>,
    /// What a value is: "mean time to custody".
    pub value: Axis,
    /// Row by row; what is not finite is missing.
    pub values: Vec<Vec<f64>>,
    /// A value that is too much (a deadline): cells above are marked.
    pub limit: Option<f64>,
}
