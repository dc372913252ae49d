//! Pages from declarations: a family lists the sections of its page, each by metrics and kinds of
//! charts.
//!
//! ```
//! use samara_lab::page::{Chart, Form, PageSpec, Section, Swept, mean};
//!
//! static PAGE: PageSpec = PageSpec {
//!     sections: &[
//!         Section::new("Deliveries")
//!             .about("Times from the start of an item until a node has it.")
//!             .tables(&[&[
//!                 mean("delivered", "delivery_ratio", Form::Percent(1)),
//!                 mean("p99", "delivery_latency_ms.p99", Form::ShortMs),
//!             ]]),
//!         Section::new("Over the sweep").in_sweep().charts(&[Chart::Lines(
//!             &[Swept::new("latency", "delivery_latency_ms.mean", "mean time until a node has an item")],
//!             None,
//!         )]),
//!     ],
//!     ..PageSpec::BASE
//! };
//! ```

use samara_report::words::{capitalised, fixed, millis, ms, number, percent, short_ms};
use samara_report::{Bar, Figure, Ink, Lines, Mark, Part, Scale, Summary, Table};

use crate::family::Family;
use crate::metric::{declared, in_words};
use crate::report::spread::{self as curves, Regions};
use crate::report::{Body, Bound, Grid, Results, Runs, unit_of};
use crate::results::{Outcome, Spread};

/// A family's part of a page of results. Without sections, a page shows the headlines of the metrics.
#[derive(Clone, Copy, Debug)]
pub struct PageSpec {
    /// The sections before published figures and expectations. The first figure of bars or lines is the
    /// main one. A terminal shows the first table, with the text of its section.
    pub sections: &'static [Section],
    /// The sections after expectations.
    pub details: &'static [Section],
    /// Returns sentences on the results.
    pub findings: fn(&Results<'_>) -> Vec<String>,
    /// Returns the text for a terminal, where it is not the first table.
    pub summary: Option<fn(&Results<'_>) -> Summary>,
}

impl PageSpec {
    pub const BASE: Self = Self { sections: &[], details: &[], findings: |_| Vec::new(), summary: None };

    fn all(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().chain(self.details)
    }

    /// Checks that the family declares all metrics of the page.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check(&self, family: &Family) {
        for section in self.all() {
            for path in section.all_metrics().into_iter().flat_map(|metrics| metrics.split(" + ")) {
                if let Err(error) = declared(path, Some(family)) {
                    panic!("section \"{}\" of the page: {error}", section.title);
                }
            }
        }
    }

    pub(crate) fn body(&self, results: &Results<'_>) -> Body {
        let Some(first) = self.sections.first() else {
            return crate::sweep::plain(results.loaded, results.findings);
        };
        let draw = |all: &[Section]| all.iter().flat_map(|section| section.draw(results)).collect();
        let findings = (self.findings)(results);
        let mut summary = self.summary.map(|summary| summary(results)).unwrap_or_else(|| {
            let tables = self.all().filter_map(|section| Some((section, section.tables.first()?)));
            let (section, columns) = tables.into_iter().next().unwrap_or((first, &EMPTY));
            let legend = section.about.to_owned();
            Summary { legend, table: results.table(columns), ..Summary::default() }
        });
        add_sentence(&mut summary.legend, &means(results));
        if summary.sentences.is_empty() {
            summary.sentences.clone_from(&findings);
        }
        Body { findings, summary, sections: draw(self.sections), details: draw(self.details) }
    }
}

const EMPTY: &[Column] = &[];

/// A section: charts, then tables with a row for each run.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    title: &'static str,
    about: &'static str,
    charts: &'static [Chart],
    tables: &'static [&'static [Column]],
    named: &'static [&'static str],
    /// Whether only sweeps have the section (`true`), or only others (`false`).
    sweeps: Option<bool>,
    needs: &'static str,
    special: Special,
}

#[derive(Clone, Copy, Debug)]
enum Special {
    None,
    Drawn(fn(&Results<'_>) -> Vec<samara_report::Section>),
    Items(&'static str, SpreadOf),
}

/// Returns how items spread in a run, and the regions of its nodes.
pub type SpreadOf = fn(&Outcome) -> (&Spread, &Regions);

impl Section {
    pub const fn new(title: &'static str) -> Self {
        Self {
            title,
            about: "",
            charts: &[],
            tables: &[],
            named: &[],
            sweeps: None,
            needs: "",
            special: Special::None,
        }
    }

    /// Creates sections that no declaration can express.
    pub const fn drawn(draw: fn(&Results<'_>) -> Vec<samara_report::Section>) -> Self {
        Self { special: Special::Drawn(draw), ..Self::new("") }
    }

    /// Creates a section with the curves of single items, such as messages, which readers can explore.
    pub const fn items(item: &'static str, of: SpreadOf) -> Self {
        Self { special: Special::Items(item, of), ..Self::new("") }
    }

    /// Sets the paragraph below the title.
    #[must_use]
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    #[must_use]
    pub const fn charts(self, charts: &'static [Chart]) -> Self {
        Self { charts, ..self }
    }

    /// Adds tables, each by its columns.
    #[must_use]
    pub const fn tables(self, tables: &'static [&'static [Column]]) -> Self {
        Self { tables, ..self }
    }

    /// Adds tables, each by the names of its metrics with spaces between them. Headings and units follow
    /// from the metrics' declarations.
    #[must_use]
    pub const fn metrics(self, named: &'static [&'static str]) -> Self {
        Self { named, ..self }
    }

    /// Leaves the section out unless a run has more than zero of a metric.
    #[must_use]
    pub const fn needs(self, needs: &'static str) -> Self {
        Self { needs, ..self }
    }

    /// Leaves the section out of pages without a sweep.
    #[must_use]
    pub const fn in_sweep(self) -> Self {
        Self { sweeps: Some(true), ..self }
    }

    /// Leaves the section out of pages of a sweep.
    #[must_use]
    pub const fn side_by_side(self) -> Self {
        Self { sweeps: Some(false), ..self }
    }

    fn all_metrics(&self) -> Vec<&'static str> {
        let columns = self.tables.iter().copied().flatten().filter_map(Column::metric);
        let needs = Some(self.needs).filter(|needs| !needs.is_empty());
        let shown = columns.chain(self.named.iter().flat_map(|names| names.split_whitespace()));
        shown.chain(self.charts.iter().flat_map(Chart::metrics)).chain(needs).collect()
    }

    fn draw(&self, results: &Results<'_>) -> Vec<samara_report::Section> {
        let has = |metric: &str| results.rows.iter().any(|row| row.mean(metric) > 0.0);
        if self.sweeps.is_some_and(|sweeps| sweeps != results.is_sweep())
            || !self.needs.is_empty() && !has(self.needs)
        {
            return Vec::new();
        }
        match self.special {
            Special::None => {}
            Special::Drawn(draw) => return draw(results),
            Special::Items(item, of) => return curves::section(results, item, of).into_iter().collect(),
        }
        let mut parts: Vec<Part> = Vec::new();
        for part in self.charts.iter().flat_map(|chart| chart.parts(results)) {
            match (parts.last_mut(), part) {
                (Some(Part::Figures(figures)), Part::Figures(more)) => figures.extend(more),
                (_, part) => parts.push(part),
            }
        }
        parts.retain(|part| !matches!(part, Part::Figures(figures) if figures.is_empty()));
        parts.extend(self.tables.iter().map(|columns| Part::Table(results.table(columns))));
        parts.extend(self.named.iter().map(|names| Part::Table(named(results, names))));
        let (heading, mut text) = (self.title.to_owned(), self.about.to_owned());
        let mut said = means(results);
        if !said.is_empty() && self.charts.iter().any(|chart| matches!(chart, Chart::Lines(..))) {
            said = said.replace('.', ", with 95 % confidence intervals.");
        }
        add_sentence(&mut text, &said);
        if parts.is_empty() { Vec::new() } else { vec![samara_report::Section { heading, text, parts }] }
    }
}

/// Returns what the figures of several seeds are; empty for one seed.
fn means(grid: &Grid<'_>) -> String {
    match grid.seeds() {
        0 | 1 => String::new(),
        seeds => format!("Means over {seeds} seeds."),
    }
}

fn add_sentence(text: &mut String, sentence: &str) {
    if !text.is_empty() && !sentence.is_empty() {
        text.push(' ');
    }
    *text += sentence;
}

/// Returns a table of the means of metrics, whose names are the headings.
fn named(grid: &Grid<'_>, names: &str) -> Table {
    let headings = names.split_whitespace().map(|metric| capitalised(&in_words(metric)));
    let cell = |row: &Runs<'_>, metric| unit_of(metric).written(row.mean(metric));
    grid.table_of(headings, |row| names.split_whitespace().map(|metric| cell(row, metric)).collect())
}

/// A column of a table. A terminal that is too narrow leaves out the last ones.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub heading: &'static str,
    cell: Cell,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Mean(&'static str, Form),
    Spread(&'static str, Form),
    Computed(fn(&Grid<'_>, &Runs<'_>) -> String),
}

/// Creates a column of the means of a metric over seeds.
pub const fn mean(heading: &'static str, metric: &'static str, form: Form) -> Column {
    Column { heading, cell: Cell::Mean(metric, form) }
}

/// Creates a column of the means of a metric over seeds, with their confidence intervals.
pub const fn spread(heading: &'static str, metric: &'static str, form: Form) -> Column {
    Column { heading, cell: Cell::Spread(metric, form) }
}

/// Creates a column by a function.
pub const fn computed(heading: &'static str, cell: fn(&Grid<'_>, &Runs<'_>) -> String) -> Column {
    Column { heading, cell: Cell::Computed(cell) }
}

impl Column {
    fn metric(&self) -> Option<&'static str> {
        match self.cell {
            Cell::Mean(metric, _) | Cell::Spread(metric, _) => Some(metric),
            Cell::Computed(_) => None,
        }
    }

    /// Returns the cell of a run.
    pub fn cell(&self, grid: &Grid<'_>, row: &Runs<'_>) -> String {
        match self.cell {
            Cell::Mean(metric, Form::Text) => row.text(metric).to_owned(),
            Cell::Mean(metric, form) => form.written(row.mean(metric)),
            Cell::Spread(metric, form) => match row.interval(metric) {
                (mean, half) if row.metrics.len() > 1 && mean.is_finite() => {
                    format!("{} ± {}", form.written(mean), form.written(half))
                }
                (mean, _) => form.written(mean),
            },
            Cell::Computed(cell) => cell(grid, row),
        }
    }
}

/// The way in which a column shows a metric.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// With as many digits as are significant.
    Number,
    /// With this number of decimals.
    Fixed(usize),
    /// In thousands, with this number of decimals.
    Kilo(usize),
    /// In millions, with this number of decimals.
    Mega(usize),
    /// A share in percent, with this number of decimals.
    Percent(usize),
    /// A time in whole milliseconds, or in seconds.
    Ms,
    /// A number of milliseconds without the unit, whole from 10 on.
    Millis,
    /// A time with three digits.
    ShortMs,
    /// The metric is a text.
    Text,
}

impl Form {
    fn written(self, value: f64) -> String {
        match self {
            Self::Number | Self::Text => number(value),
            Self::Fixed(decimals) => fixed(value, decimals),
            Self::Kilo(decimals) => fixed(value / 1e3, decimals),
            Self::Mega(decimals) => fixed(value / 1e6, decimals),
            Self::Percent(decimals) => percent(value, decimals),
            Self::Ms => ms(value),
            Self::Millis => millis(value),
            Self::ShortMs => short_ms(value),
        }
    }
}

/// A kind of chart.
#[derive(Clone, Copy, Debug)]
pub enum Chart {
    /// A bar for each run.
    Bars(Bars),
    /// The cumulative distribution of a time: a curve for the first seed of each run.
    Ecdf(Ecdf),
    /// Lines over the last axis of a sweep and a table of the first metric, with its bound. The others
    /// are drawn only if their values differ.
    Lines(&'static [Swept], Option<Bound>),
    /// A table of counts by cause: names and metrics that are maps.
    Causes(&'static [(&'static str, &'static str)]),
    /// Any other figures.
    Figures(fn(&Results<'_>) -> Vec<Figure>),
    /// Any other parts.
    Parts(fn(&Results<'_>) -> Vec<Part>),
}

impl Chart {
    fn metrics(&self) -> Vec<&'static str> {
        match self {
            Self::Bars(bars) => {
                let parts = bars.parts.iter().map(|(_, metric)| *metric);
                parts.chain(bars.bounds.iter().copied()).chain([bars.metric]).collect()
            }
            Self::Lines(shown, bound) => {
                shown.iter().map(|shown| shown.metric).chain(bound.map(|(_, metric)| metric)).collect()
            }
            Self::Causes(kinds) => kinds.iter().map(|(_, metric)| *metric).collect(),
            Self::Ecdf(_) | Self::Figures(_) | Self::Parts(_) => Vec::new(),
        }
    }

    fn parts(&self, results: &Results<'_>) -> Vec<Part> {
        let rows: Vec<&Runs<'_>> = results.rows.iter().collect();
        let figures = match self {
            Self::Bars(bars) => {
                let shown = &rows[..rows.len().min(bars.rows_max)];
                let caption = match rows.len() - shown.len() {
                    0 => bars.caption.to_owned(),
                    more => format!("{}{more} more runs are in the table.", bars.caption),
                };
                vec![Figure::new(bars.name, caption, bars.draw(results, shown))]
            }
            Self::Ecdf(ecdf) if rows.len() > ecdf.curves_max => Vec::new(),
            Self::Ecdf(ecdf) => vec![ecdf.draw(&rows)],
            Self::Lines(shown, bound) => {
                let figures = Part::Figures(results.over_sweep(shown, *bound));
                let pivots = shown.first().map(|shown| results.pivots(shown));
                return [figures].into_iter().chain(pivots.into_iter().flatten()).collect();
            }
            Self::Causes(kinds) => return results.causes(kinds).map(Part::Table).into_iter().collect(),
            Self::Figures(draw) => draw(results),
            Self::Parts(draw) => return draw(results),
        };
        vec![Part::Figures(figures)]
    }
}

/// A figure of a metric over the last axis of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Swept {
    pub name: &'static str,
    pub metric: &'static str,
    pub title: &'static str,
    pub caption: &'static str,
}

impl Swept {
    pub const fn new(name: &'static str, metric: &'static str, title: &'static str) -> Self {
        Self { name, metric, title, caption: "" }
    }

    #[must_use]
    pub const fn caption(self, caption: &'static str) -> Self {
        Self { caption, ..self }
    }
}

/// The range of the axis of bars.
#[derive(Clone, Copy, Debug)]
pub enum Range {
    /// From zero, with this factor as room for texts behind the bars.
    Linear(f64),
    /// From zero to a value.
    Until(f64),
    /// Logarithmic if the values are very different.
    Fitting,
    /// Logarithmic, around 1.
    Powers,
}

/// A bar for each run, or a dot on a logarithmic axis, with bounds and published values.
#[derive(Clone, Copy, Debug)]
pub struct Bars {
    pub name: &'static str,
    pub title: &'static str,
    pub caption: &'static str,
    pub metric: &'static str,
    /// The meaning of a bar.
    pub mark: &'static str,
    /// Name and metric of each part of a bar, in stacking order: negative parts count as zero, and bars
    /// end at the metric. Without parts, bars have one colour.
    pub parts: &'static [(&'static str, &'static str)],
    /// The metrics of its bounds, and their meaning.
    pub bounds: &'static [&'static str],
    pub bound: &'static str,
    pub range: Range,
    /// Maximum number of runs.
    pub rows_max: usize,
    /// Returns the text behind a bar.
    pub text: fn(&Runs<'_>) -> String,
    /// Returns the name of a run.
    pub label: fn(&Runs<'_>) -> String,
}

impl Bars {
    pub const BASE: Self = Self {
        name: "",
        title: "",
        caption: "",
        metric: "",
        mark: "this run",
        parts: &[],
        bounds: &[],
        bound: "",
        range: Range::Linear(1.14),
        rows_max: usize::MAX,
        text: |_| String::new(),
        label: |row| row.label.clone(),
    };

    /// Draws these runs.
    pub fn draw(&self, results: &Results<'_>, rows: &[&Runs<'_>]) -> samara_report::Bars {
        let bar = |row: &&Runs<'_>| Bar {
            name: (self.label)(row),
            parts: self.stack(row),
            bounds: self.bounds.iter().map(|bound| row.mean(bound)).collect(),
            rings: results.published(row, self.metric),
            dot: Some(row.mean(self.metric)).filter(|value| value.is_finite() && self.parts.is_empty()),
            colour: 1,
            text: (self.text)(row),
            ..Bar::default()
        };
        let mut rows: Vec<Bar> = rows.iter().map(bar).collect();
        let ends = rows.iter().flat_map(|row| {
            let parts = row.parts.iter().map(|part| part.1);
            row.rings.iter().chain(&row.bounds).copied().chain(row.dot).chain(parts)
        });
        let ends: Vec<f64> = ends.filter(|end| *end > 0.0).collect();
        let range =
            |from: f64| ends.iter().fold((from, from), |(low, high), end| (low.min(*end), high.max(*end)));
        let unit = unit_of(self.metric);
        let scale = match self.range {
            Range::Linear(room) => Scale::linear("", 0.0..range(1e-3).1 * room, unit),
            Range::Until(end) => Scale::linear("", 0.0..end, unit),
            Range::Fitting => Scale::fitting("", ends.iter().copied(), unit),
            Range::Powers => Scale::powers("", range(1.0).0 * 0.85..range(1.0).1 * 1.25, unit),
        };
        let is_seen = |part: &(f64, f64, usize)| part.1 - part.0 > range(1e-3).1 * 1e-4;
        rows.iter_mut().for_each(|row| row.parts.retain(is_seen));
        let is_shown = |at: &usize| rows.iter().flat_map(|row| &row.parts).any(|part| part.2 == *at);
        let shown = (0..self.parts.len()).filter(is_shown);
        let mut key: Vec<(Mark, String)> =
            shown.map(|at| (Mark::Bar(Ink::of(at)), self.parts[at].0.to_owned())).collect();
        if self.parts.is_empty() {
            let mark = if scale.is_logarithmic() { Mark::Dot } else { Mark::Bar };
            key.push((mark(Ink::of(1)), self.mark.to_owned()));
        }
        if !self.bounds.is_empty() {
            key.push((Mark::Dashes(Ink::BLACK), self.bound.to_owned()));
        }
        if rows.iter().any(|row| !row.rings.is_empty()) {
            key.push((Mark::Ring(Ink::BLACK), "published or measured by others".to_owned()));
        }
        if !scale.is_logarithmic() {
            rows.iter_mut().for_each(|row| row.parts.extend(row.dot.take().map(|value| (0.0, value, 1))));
        }
        samara_report::Bars { title: self.title.to_owned(), scale, rows, key }
    }

    fn stack(&self, row: &Runs<'_>) -> Vec<(f64, f64, usize)> {
        let (mut end, most) = (0.0, row.mean(self.metric));
        let part = |(at, (_, metric)): (usize, &(_, &str))| {
            let start = end;
            end = f64::min(end + row.mean(metric).max(0.0), most);
            (start, end, at)
        };
        self.parts.iter().enumerate().map(part).collect()
    }
}

/// The cumulative distribution of the times of deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Ecdf {
    pub caption: &'static str,
    /// The label of the axis.
    pub axis: &'static str,
    /// Returns times in milliseconds with shares of the deliveries.
    pub points: fn(&Outcome) -> &[(f64, f64)],
    /// Maximum number of curves. A page of more runs has no figure.
    pub curves_max: usize,
}

impl Ecdf {
    fn draw(&self, rows: &[&Runs<'_>]) -> Figure {
        let curve = |row: &&Runs<'_>| (row.label.clone(), (self.points)(row.first()).to_vec());
        let mut lines = Lines::shares("share of deliveries made", self.axis, rows.iter().map(curve));
        for (line, row) in lines.lines.iter_mut().zip(rows) {
            line.colour = Some(row.colour);
        }
        let caption = format!("{}; dots at 50 % and 99 %.{}", self.caption, lines.hidden());
        Figure::new("latency", caption, lines)
    }
}

#[cfg(test)]
mod tests;
