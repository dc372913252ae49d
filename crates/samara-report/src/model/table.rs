//! Tables.

use super::figure::Series;
use crate::style::Style;

/// A table: a row for each thing that is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows. Neighbours with the same `group` stand under one heading, and the best of a column is looked for among them.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// "mean".
    pub title: String,
    /// "ms"; empty for none.
    pub unit: String,
    /// What the figures mean, shown on request.
    pub help: String,
    /// Where texts stand; numbers always end at the right.
    pub align: Align,
    /// Digits after the point of its numbers.
    pub digits: usize,
    /// Which numbers are good ones; the best are marked.
    pub better: Better,
    /// Draws its numbers as bars, that begin at this value (the optimum).
    pub bar_from: Option<f64>,
}

/// Where a text stands in its cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// At the left.
    #[default]
    Left,
    /// At the right.
    Right,
}

/// Which numbers of a column are good ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Better {
    /// That is not for the report to say.
    #[default]
    Neither,
    /// Small ones.
    Lower,
    /// Large ones.
    Higher,
}

impl Column {
    /// A column of texts.
    pub fn text(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            unit: String::new(),
            help: String::new(),
            align: Align::Left,
            digits: 0,
            better: Better::Neither,
            bar_from: None,
        }
    }

    /// A column of numbers.
    pub fn number(title: impl Into<String>, unit: impl Into<String>, digits: usize) -> Self {
        Self { unit: unit.into(), digits, align: Align::Right, ..Self::text(title) }
    }

    /// The same, with an explanation.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: help.into(), ..self }
    }

    /// The same, with the best marked.
    #[must_use]
    pub fn better(self, better: Better) -> Self {
        Self { better, ..self }
    }

    /// The same, drawn as bars from this value on.
    #[must_use]
    pub fn bar_from(self, optimum: f64) -> Self {
        Self { bar_from: Some(optimum), ..self }
    }
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// A heading that it stands under together with its neighbours; empty for none.
    pub group: String,
    /// How what it tells of looks in figures.
    pub style: Option<Style>,
    /// More about it, shown below its first cell; empty for none.
    pub note: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// There is no such figure.
    #[default]
    Missing,
    /// A text.
    Text(String),
    /// A number; one that is not finite counts as missing.
    Number(f64),
    /// A mean and half the width of its confidence interval.
    Interval(f64, f64),
}

impl Cell {
    /// Its number, if it has a finite one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Interval(value, _) => value.is_finite().then_some(*value),
            Self::Text(_) | Self::Missing => None,
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Number)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Table {
    /// Whether a cell holds the best of its column within its group: all that print the same as the best do. Nothing is best
    /// where all print the same.
    pub fn is_best(&self, row: usize, column: usize) -> bool {
        let about = &self.columns[column];
        let own_group = &self.rows[row].group;
        let shown = |value: f64| crate::number::fixed(value, about.digits);
        let peers: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.group == *own_group)
            .filter_map(|row| row.cells.get(column)?.number())
            .collect();
        let best = match about.better {
            Better::Neither => None,
            Better::Lower => peers.iter().copied().reduce(f64::min),
            Better::Higher => peers.iter().copied().reduce(f64::max),
        };
        let (Some(best), Some(own)) = (best, self.rows[row].cells.get(column).and_then(Cell::number)) else {
            return false;
        };
        shown(own) == shown(best) && peers.iter().any(|value| shown(*value) != shown(best))
    }

    /// The points of lines as a table: a row for each x, a column for each series.
    pub(crate) fn of_series(
        caption: &str,
        x: &Column,
        y_unit: &str,
        digits: usize,
        series: &[Series],
    ) -> Self {
        let mut columns = vec![x.clone()];
        columns.extend(series.iter().map(|series| Column::number(&series.name, y_unit, digits)));
        let mut xs: Vec<f64> = series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.x)
            .filter(|x| x.is_finite())
            .collect();
        xs.sort_unstable_by(f64::total_cmp);
        xs.dedup();
        let row = |x: f64| {
            let cell = |series: &Series| match series.points.iter().find(|point| point.x == x) {
                Some(point) if point.high > point.low => {
                    Cell::Interval(point.y, (point.high - point.low) / 2.0)
                }
                Some(point) => Cell::Number(point.y),
                None => Cell::Missing,
            };
            let cells = std::iter::once(Cell::Number(x)).chain(series.iter().map(cell)).collect();
            Row { cells, ..Row::default() }
        };
        Self { caption: caption.to_owned(), columns, rows: xs.into_iter().map(row).collect() }
    }
}
