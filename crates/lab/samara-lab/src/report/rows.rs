//! The runs of a page, and tables and figures of their metrics. A metric is named by its path, such as
//! `delivery_latency_ms.p95`, or as a sum of paths: `lost + duplicates`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use samara_report::words::{MISSING, listed, plural};
use samara_report::{
    Figure, Line, Lines, Map, MapLine, Maps, Part, Row, Style, Swept as Values, Table, Unit,
};
use samara_scenario::Loaded;
use serde_json::{Map as Object, Value as Json};

use super::{colours, label_of};
use crate::expect::figure_of;
use crate::metric::{declared, unit};
use crate::page::{Column, Swept};
use crate::results::{Data, Findings, Outcome, is_of_real};
use crate::statistics::{Spread, Test};

/// Maximum number of sentences on equal runs, and of runs in one of them.
const EQUAL_MAX: usize = 4;
const EQUAL_NAMES_MAX: usize = 6;

/// Label and metric of a bound, which is drawn if it is equal for all runs.
pub type Bound = (&'static str, &'static str);

/// The results of a scenario, by run and place in the sweep.
#[derive(Debug)]
pub struct Results<'a> {
    pub loaded: &'a Loaded,
    pub findings: &'a Findings,
    pub grid: Grid<'a>,
}

impl<'a> Deref for Results<'a> {
    type Target = Grid<'a>;

    fn deref(&self) -> &Grid<'a> {
        &self.grid
    }
}

impl<'a> Results<'a> {
    pub fn of(loaded: &'a Loaded, findings: &'a Findings) -> Self {
        let results = findings.results.iter();
        let items = results.map(|one| Item {
            run: &one.run.name,
            parameters: &one.run.parameters,
            metrics: &one.run.metrics,
            digest: &one.run.digest,
            outcome: Some(one),
        });
        Self { loaded, findings, grid: Grid::of(loaded, items) }
    }

    /// Returns the published values of a metric of a run.
    pub fn published(&self, row: &Runs<'_>, metric: &str) -> Vec<f64> {
        let run = [std::slice::from_ref(&row.run), &row.point].concat().join(", ");
        let published = self.findings.summary.published.iter();
        let own = published.filter(|known| known.run() == run && known.metric() == metric);
        own.map(|known| known.figure.value).collect()
    }
}

/// A finished point of a scenario, for a [`Grid`].
pub(crate) struct Item<'a> {
    pub run: &'a String,
    pub parameters: &'a Object<String, Json>,
    pub metrics: &'a Json,
    pub digest: &'a str,
    pub outcome: Option<&'a Outcome>,
}

/// Runs with the values of the sweep's axes.
#[derive(Debug)]
pub struct Grid<'a> {
    /// Key and label of each axis of the sweep.
    pub axes: Vec<(String, String)>,
    pub rows: Vec<Runs<'a>>,
}

/// Runs that differ only in their seeds; there is at least one.
#[derive(Debug)]
pub struct Runs<'a> {
    pub run: String,
    pub label: String,
    /// The number of the run's colour in all figures.
    pub colour: usize,
    /// Values of the sweep's axes, as written in the scenario.
    pub point: Vec<String>,
    /// The metrics of each seed.
    pub metrics: Vec<&'a Json>,
    seeds: Vec<Option<u64>>,
    /// The digest of each seed.
    digests: Vec<&'a str>,
    /// The outcome of each seed. A page of a sweep in a directory has only metrics.
    pub all: Vec<&'a Outcome>,
}

/// Returns a metric, or the sum of several; NaN if it has no value.
pub fn value(metrics: &Json, metric: &str) -> f64 {
    let one = |path: &str| {
        figure_of(metrics, path).unwrap_or_else(|| {
            debug_assert_eq!(declared(path, None), Ok(()));
            f64::NAN
        })
    };
    metric.split(" + ").map(one).sum()
}

impl<'a> Runs<'a> {
    pub fn first(&self) -> &'a Outcome {
        self.all[0]
    }

    /// Returns the data that a family retains from the first seed.
    ///
    /// # Panics
    /// If the run belongs to another family.
    pub fn data<D: Data>(&self) -> &'a D {
        self.first().data().expect("the runs of a page belong to its family")
    }

    /// Returns the metric of each seed; NaN where it has no value.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.metrics.iter().map(|metrics| value(metrics, metric)).collect()
    }

    /// Returns the mean over seeds; NaN if a seed has no value.
    pub fn mean(&self, metric: &str) -> f64 {
        self.values(metric).iter().sum::<f64>() / self.metrics.len() as f64
    }

    /// Returns the spread over the seeds that have a value; `None` if none has one.
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        let values = self.metrics.iter().filter_map(|metrics| figure_of(metrics, metric));
        Spread::of(&values.collect::<Vec<_>>())
    }

    /// Returns a metric of the first seed that is a text; empty if it is none.
    pub fn text(&self, metric: &str) -> &'a str {
        self.metrics[0].get(metric).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns the mean of a metric and half the width of its 95 % confidence interval; the latter
    /// is 0 for one seed.
    pub fn interval(&self, metric: &str) -> (f64, f64) {
        let spread = Spread::of(&self.values(metric));
        spread.map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.confidence_95))
    }

    /// Returns true if the means of a metric differ, by more than the spread over seeds if both runs have
    /// several.
    pub fn differs(&self, other: &Self, metric: &str) -> bool {
        let by_seed = |row: &Self| -> Vec<(Option<u64>, f64)> {
            row.seeds.iter().copied().zip(row.values(metric)).collect()
        };
        let (own, others) = (by_seed(self), by_seed(other));
        own != others && Test::of(&own, &others).is_none_or(|test| test.is_significant())
    }

    /// Returns a remark behind a sentence that ranks two runs by a metric, if the seeds of both do not
    /// decide which is first; empty for one seed.
    pub fn doubt(&self, other: &Self, metric: &str) -> &'static str {
        let is_known = self.metrics.len() > 1 && other.metrics.len() > 1;
        if is_known && !self.differs(other, metric) { " The seeds do not decide this order." } else { "" }
    }

    /// Returns the label with the values of the axes.
    pub fn named(&self) -> String {
        [std::slice::from_ref(&self.label), &self.point].concat().join(", ")
    }

    /// Returns the label in quotes with the values of the axes, for sentences.
    pub fn quoted(&self) -> String {
        [&[format!("\"{}\"", self.label)], self.point.as_slice()].concat().join(", ")
    }

    /// Returns the label behind the name of its series.
    pub fn titled(&self) -> String {
        match self.first().point.series.as_str() {
            "" => self.label.clone(),
            series => format!("{series}: {}", self.label),
        }
    }

    /// Returns a row of a table, with the values of the axes before the cells.
    pub fn row(&self, cells: Vec<String>) -> Row {
        let cells = [self.point.clone(), cells].concat();
        Row { label: self.label.clone(), ..Row::new(&self.run, cells) }
    }
}

impl<'a> Grid<'a> {
    /// Groups runs by name and place.
    pub(crate) fn of(loaded: &Loaded, items: impl Iterator<Item = Item<'a>>) -> Self {
        let axes = axes(loaded);
        let colours = colours(loaded);
        let groups = grouped(items, |item| (item.run, point(&axes, item.parameters)));
        let row = |((run, point), all): ((&String, _), Vec<Item<'a>>)| Runs {
            run: run.clone(),
            label: label_of(loaded, run).to_owned(),
            colour: colours.get(run).copied().unwrap_or(0),
            point,
            metrics: all.iter().map(|item| item.metrics).collect(),
            seeds: all.iter().map(|item| item.parameters.get("seed").and_then(Json::as_u64)).collect(),
            digests: all.iter().map(|item| item.digest).collect(),
            all: all.into_iter().filter_map(|item| item.outcome).collect(),
        };
        let rows = groups.into_iter().map(row).collect();
        Self { axes, rows }
    }

    pub fn all(&self) -> impl Iterator<Item = &'a Outcome> {
        self.rows.iter().flat_map(|row| row.all.iter().copied())
    }

    pub fn is_sweep(&self) -> bool {
        !self.axes.is_empty()
    }

    /// Returns the sum of a metric over all runs and seeds.
    pub fn sum(&self, metric: &str) -> f64 {
        self.rows.iter().flat_map(|row| row.values(metric)).sum()
    }

    /// Returns the number of runs and of their seeds in words, such as "2 runs of 10 seeds each".
    pub fn counted(&self) -> String {
        let runs = plural(self.rows.len() as f64, "run");
        let seeds: BTreeSet<usize> = self.rows.iter().map(|row| row.metrics.len()).collect();
        match seeds.iter().copied().collect::<Vec<_>>().as_slice() {
            [] | [0 | 1] => runs,
            [seeds] if self.rows.len() == 1 => format!("{runs} of {seeds} seeds"),
            [seeds] => format!("{runs} of {seeds} seeds each"),
            [least, .., most] => format!("{runs} of {least} to {most} seeds"),
        }
    }

    /// Returns the largest number of seeds of a run.
    pub fn seeds(&self) -> usize {
        self.rows.iter().map(|row| row.metrics.len()).max().unwrap_or(0)
    }

    /// Returns sentences on runs whose results are equal: a key that they differ in has no effect.
    pub fn equal_runs(&self) -> Vec<String> {
        let simulated = self.rows.iter().filter(|row| !row.digests.iter().any(|digest| is_of_real(digest)));
        let mut groups = grouped(simulated, |row| row.digests.clone());
        groups.retain(|(_, rows)| rows.len() > 1);
        let mut sentences: Vec<String> =
            groups.iter().take(EQUAL_MAX).map(|(_, rows)| self.equal(rows)).collect();
        if let Some(more) = groups.len().checked_sub(EQUAL_MAX).filter(|more| *more > 0) {
            sentences.push(format!("{} of runs have equal results each.", plural(more as f64, "more group")));
        }
        sentences
    }

    fn equal(&self, rows: &[&Runs<'a>]) -> String {
        let first = rows[0];
        let varying: Vec<usize> = (0..self.axes.len())
            .filter(|axis| rows.iter().any(|row| row.point[*axis] != first.point[*axis]))
            .collect();
        if let ([axis], true) = (varying.as_slice(), rows.iter().all(|row| row.run == first.run)) {
            let values: BTreeSet<&str> =
                self.rows.iter().filter(|row| row.run == first.run).map(|row| &*row.point[*axis]).collect();
            if values.len() == rows.len() {
                let others = self.place_without(&first.point, |at| at == *axis);
                let label = &self.axes[*axis].1;
                return format!("\"{}\"{others} has equal results at all values of {label}.", first.label);
            }
        }
        let name = |row: &&Runs<'a>| format!("\"{}\"{}", row.label, self.place(0, &row.point));
        let mut names: Vec<String> = rows.iter().take(EQUAL_NAMES_MAX).map(name).collect();
        if rows.len() > names.len() {
            names.push(format!("{} more", rows.len() - names.len()));
        }
        format!("Equal results, packet by packet: {}.", listed(&names))
    }

    /// Returns values of axes in words, without some axes.
    pub(crate) fn place_without(&self, values: &[String], is_left_out: impl Fn(usize) -> bool) -> String {
        let named = self.axes.iter().zip(values).enumerate().filter(|(at, _)| !is_left_out(*at));
        named.map(|(_, ((_, label), value))| format!(", {label} {value}")).collect()
    }

    /// Returns a table with a row for each run. The values of the axes are the first columns.
    pub fn table(&self, columns: &[Column]) -> Table {
        let headings = columns.iter().map(|column| column.heading);
        self.table_of(headings, |row| columns.iter().map(|column| column.cell(self, row)).collect())
    }

    /// Returns a table like [`table`](Self::table), with computed headings and cells.
    pub fn table_of<H: Into<String>>(
        &self,
        headings: impl IntoIterator<Item = H>,
        cells: impl Fn(&Runs<'a>) -> Vec<String>,
    ) -> Table {
        let labels = self.axes.iter().map(|(_, label)| label.clone());
        let headings = headings.into_iter().map(Into::into);
        let all = std::iter::once("run".to_owned()).chain(labels).chain(headings);
        Table::new(all, 1 + self.axes.len(), self.rows.iter().map(|row| row.row(cells(row))).collect())
    }

    /// Returns tables of a metric with the values of the last axis side by side: one for each
    /// combination of the others.
    pub fn pivots(&self, shown: &Swept) -> Vec<Part> {
        let Some((_, axis)) = self.axes.last() else { return Vec::new() };
        let last = self.axes.len() - 1;
        let unit = unit_of(shown.metric);
        let table = |(place, _, rows): (String, String, Vec<&Runs<'_>>)| {
            let values = grouped(&rows, |row| row.point[last].as_str());
            let values: Vec<&str> = values.into_iter().map(|(value, _)| value).collect();
            let headings = std::iter::once(format!("{}{place}, by {axis}", shown.title));
            let headings = headings.chain(values.iter().map(|value| (*value).to_owned()));
            let row = |(run, rows): (&str, Vec<&Runs<'_>>)| {
                let cell = |value: &&str| {
                    let row = rows.iter().find(|row| row.point[last] == *value);
                    row.map_or_else(|| MISSING.to_owned(), |row| unit.written(row.mean(shown.metric)))
                };
                let label = rows[0].label.clone();
                Row { label, ..Row::new(run, values.iter().map(cell).collect()) }
            };
            let rows = grouped(rows, |row| row.run.as_str()).into_iter().map(row).collect();
            Part::Table(Table { fold: None, ..Table::new(headings, 1, rows) })
        };
        self.panels().into_iter().map(table).collect()
    }

    /// Returns a table of counts by cause, of metrics that are maps; `None` if all are zero.
    pub fn causes(&self, kinds: &[(&str, &str)]) -> Option<Table> {
        let mut rows = Vec::new();
        for row in &self.rows {
            for (kind, metric) in kinds {
                let mut all: BTreeMap<&str, u64> = BTreeMap::new();
                let counts = row.metrics.iter().filter_map(|metrics| metrics.get(metric)?.as_object());
                for (cause, count) in counts.flatten() {
                    *all.entry(cause).or_default() += count.as_u64().unwrap_or_default();
                }
                for (cause, count) in all {
                    let count = samara_report::words::grouped(count as f64);
                    rows.push(row.row(vec![(*kind).to_owned(), cause.replace('_', " "), count]));
                }
            }
        }
        if rows.is_empty() {
            return None;
        }
        let labels = self.axes.iter().map(|(_, label)| label.as_str());
        let count = match self.seeds() {
            0 | 1 => "count".to_owned(),
            seeds => format!("count, over {seeds} seeds"),
        };
        let headings = std::iter::once("run").chain(labels).chain(["kind", "cause", &count]);
        Some(Table::new(headings, 3 + self.axes.len(), rows).folded("By run and cause", false))
    }

    /// Groups runs by the values of all axes except the last. Returns these values in words and in
    /// parts of file names.
    pub fn panels(&self) -> Vec<(String, String, Vec<&Runs<'a>>)> {
        let last = self.axes.len().saturating_sub(1);
        let panels = grouped(&self.rows, |row| &row.point[..last]).into_iter();
        let panels = panels.map(|(others, rows)| {
            let values = others.iter().map(|value| format!("-{value}"));
            (self.short_place(0, others), values.collect(), rows)
        });
        panels.collect()
    }

    /// Returns values of axes in words, from the axis `from` on.
    pub(crate) fn place(&self, from: usize, values: &[String]) -> String {
        let named = self.axes[from..].iter().zip(values);
        named.map(|((_, label), value)| format!(", {label} {value}")).collect()
    }

    /// Returns the same for a figure, which has little room: keys without their sections, if no two axes
    /// then have the same name.
    pub(crate) fn short_place(&self, from: usize, values: &[String]) -> String {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let short = |(key, label): &(String, String)| match last(key) {
            name if label == key && self.axes.iter().filter(|(key, _)| last(key) == name).count() == 1 => {
                name
            }
            _ => label.clone(),
        };
        let named = self.axes[from..].iter().zip(values);
        named.map(|(axis, value)| format!(", {} {value}", short(axis))).collect()
    }

    /// Draws lines over the last axis, with a figure for each combination of the others.
    ///
    /// The first of `shown` is always drawn, with the bound. The others are drawn only if their
    /// values differ.
    pub fn over_sweep(&self, shown: &[Swept], bound: Option<Bound>) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (place, suffix, rows) in self.panels().into_iter().filter(|_| self.is_sweep()) {
            for (at, shown) in shown.iter().enumerate() {
                let title = format!("{}{place}", shown.title);
                let fixed = self.axes.len() - 1;
                let drawn = self.over(title, shown.metric, &rows, fixed, bound.filter(|_| at == 0));
                let mut found = drawn.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
                let Some(first) = found.find(|value| value.is_finite()) else { continue };
                let differs = |value: f64| (value - first).abs() > first.abs() * 1e-3;
                if at > 0 && !found.any(differs) {
                    continue;
                }
                figures.push(Figure::new(format!("sweep-{}{suffix}", shown.name), shown.caption, drawn));
            }
        }
        figures
    }

    /// Draws a metric over the last axis, for runs whose first `fixed` values are equal: a line for each
    /// run and combination of the values between, from left to right.
    pub(crate) fn over(
        &self,
        title: String,
        metric: &str,
        rows: &[&Runs<'a>],
        fixed: usize,
        bound: Option<Bound>,
    ) -> Lines {
        let last = self.axes.len() - 1;
        let (swept, xs) = Values::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
        let line = |between: &[String], mut all: Vec<(&Runs<'a>, f64)>| {
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            let intervals = all.iter().map(|(row, _)| row.interval(metric));
            let (means, confidence): (Vec<f64>, Vec<f64>) = intervals.unzip();
            Line {
                label: format!("{}{}", all[0].0.label, self.short_place(fixed, between)),
                points: all.iter().map(|(_, x)| *x).zip(means).collect(),
                confidence,
                // Lines of one run at several places differ by their places only.
                colour: (fixed == last).then_some(all[0].0.colour),
                ..Line::default()
            }
        };
        let groups = grouped(rows.iter().copied().zip(xs.iter().copied()), |(row, _)| {
            (&row.run, &row.point[fixed..last])
        });
        let mut lines: Vec<Line> = groups.into_iter().map(|((_, between), all)| line(between, all)).collect();
        if let Some((label, metric)) = bound {
            let points = rows.iter().zip(&xs).map(|(row, x)| (*x, row.mean(metric)));
            let mut points: Vec<(f64, f64)> = points.filter(|(_, bound)| *bound > 0.0).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let is_one = points
                .windows(2)
                .all(|two| two[0].0 < two[1].0 || (two[0].1 - two[1].1).abs() <= two[0].1 * 1e-3);
            points.dedup_by_key(|(x, _)| *x);
            if is_one {
                lines.push(Line { label: label.to_owned(), points, style: Style::Bound, ..Line::default() });
            }
        }
        Lines::over(title, (&self.axes[last].1, &swept), unit_of(metric), lines)
    }

    /// Draws maps of metrics over the last two axes, for all runs; columns are the values of the other
    /// axes.
    pub fn maps(&self, shown: &[Swept]) -> Vec<Figure> {
        let figure = |shown: &Swept| {
            let unit = if unit_of(shown.metric) == Unit::Milliseconds { ", in milliseconds" } else { "" };
            let scale = match unit_of(shown.metric) {
                Unit::Share => "Fields without a number are below half a percent.",
                _ => "All fields share one logarithmic scale.",
            };
            let caption = format!("{} {scale}", shown.caption);
            let drawn = self.map(format!("{}{unit}", shown.title), shown.metric);
            Figure::new(format!("map-{}", shown.name), caption, drawn)
        };
        shown.iter().map(figure).collect()
    }

    fn map(&self, title: String, metric: &str) -> Maps {
        let others = self.axes.len() - 2;
        let values = |axis: usize| -> Vec<String> {
            let groups = grouped(&self.rows, |row| &row.point[axis]);
            groups.into_iter().map(|(value, _)| value.clone()).collect()
        };
        let (upright, across) = (values(others), values(others + 1));
        let map = |heading: String, rows: &[&Runs<'_>]| {
            let field = |up: &String, right: &String| {
                let at = |row: &&&Runs<'_>| row.point[others] == *up && row.point[others + 1] == *right;
                rows.iter().find(at).map(|row| row.mean(metric))
            };
            let line = |up| across.iter().map(|right| field(up, right)).collect();
            Map { heading, fields: upright.iter().map(line).collect() }
        };
        let runs = grouped(&self.rows, |row| row.run.as_str());
        let lines = if others == 0 {
            // Without other axes there is one map for each run, side by side.
            let maps = runs.iter().map(|(_, rows)| map(rows[0].label.clone(), rows)).collect();
            vec![MapLine { heading: String::new(), maps }]
        } else {
            let line = |(at, (_, rows)): (usize, &(&str, Vec<&Runs<'_>>))| {
                let columns = grouped(rows.iter().copied(), |row| &row.point[..others]);
                // The headings of the first line apply to all lines.
                let named = |column: &[String]| match at {
                    0 => self.short_place(0, column).trim_start_matches(", ").to_owned(),
                    _ => String::new(),
                };
                let maps = columns.iter().map(|(column, rows)| map(named(column), rows)).collect();
                MapLine { heading: rows[0].label.clone(), maps }
            };
            runs.iter().enumerate().map(line).collect()
        };
        let [across, upright] = [(others + 1, across), (others, upright)]
            .map(|(axis, values)| (self.axes[axis].1.clone(), values));
        Maps { title, across, upright, lines, is_share: unit_of(metric) == Unit::Share }
    }
}

/// Returns the key and label of each axis of a sweep.
fn axes(loaded: &Loaded) -> Vec<(String, String)> {
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    let label = |key: &str, label: &str| if label.is_empty() { key.to_owned() } else { label.to_owned() };
    axes.map(|axis| (axis.key.clone(), label(&axis.key, &axis.label))).collect()
}

/// Returns the values of a sweep's axes as the scenario writes them.
fn point(axes: &[(String, String)], parameters: &Object<String, Json>) -> Vec<String> {
    let value = |key: &String| match parameters.get(key) {
        Some(Json::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    axes.iter().map(|(key, _)| value(key)).collect()
}

/// Groups items by a key, in the order of the first occurrences.
pub fn grouped<T, K: Ord + Clone>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for item in items {
        let key = key(&item);
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Converts a name into a part of a file name.
pub fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

pub(crate) fn unit_of(metric: &str) -> Unit {
    match unit(metric) {
        "ms" => Unit::Milliseconds,
        "bytes" => Unit::Bytes,
        "share" => Unit::Share,
        _ => Unit::Number,
    }
}
