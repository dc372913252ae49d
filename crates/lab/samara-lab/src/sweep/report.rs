//! The report of a sweep: means over seeds, based only on metrics.
//!
//! With axes, there is a line for each run over the last axis. Without axes, the runs are side by
//! side.

use std::collections::BTreeSet;

use samara_report::words::{MISSING, plural};
use samara_report::{
    Bar, Bars, Figure, HUES, Line, Lines, Page, Part, Row as TableRow, Scale, Section, Summary, Swept, Table,
};
use samara_scenario::Loaded;

use super::{Aggregate, PointRecord, SweepSummary};
use crate::expect::{ExpectationResult, figure_of};
use crate::family;
use crate::metric::{Better, better, in_words, is_first, rank};
use crate::report::{
    Body, Made, axes, colours, expectations, first_figure, grouped, late_faults, point, unit_of,
    with_failures,
};
use crate::results::Findings;
use crate::statistics::Spread;

/// Maximum number of metric columns in tables of the page; `TERMINAL_COLUMNS_MAX` is that of the
/// terminal.
const COLUMNS_MAX: usize = 6;
const TERMINAL_COLUMNS_MAX: usize = 4;
/// Maximum number of metrics with figures.
const METRICS_MAX: usize = 4;
/// Maximum number of figures. A sweep over many axes has figures of fewer metrics.
const FIGURES_MAX: usize = 24;
/// Maximum number of lines in a figure.
const LINES_MAX: usize = 9;
/// The lower bound of the first metric.
const BOUND: &str = "lower_bound_ms";
/// The share of nodes that were complete in time. Tables show it if some were not.
const BY_DEADLINE: &str = "share_by_deadline";
/// Metrics that count missing or wrong results. Tables always show the first if it exists, and the
/// others if they are not zero.
pub const LACKS: [&str; 3] = ["incomplete", "lost", "wrong"];
/// Maximum number of failed points in the list.
const FAILED_MAX: usize = 50;

pub fn page(loaded: &Loaded, summary: &SweepSummary, checked: &[ExpectationResult]) -> Page {
    let report = Report::new(loaded, summary);
    let mut sections = Vec::new();
    sections.extend(report.failed());
    let figures = report.figures();
    if !figures.is_empty() {
        let heading = if report.axes.is_empty() { "Side by side" } else { "Over the sweep" };
        sections.push(Section::new(heading, "", figures));
    }
    sections.push(Section::new("Means", "", report.table(COLUMNS_MAX)));
    sections.extend(expectations(checked));
    sections.push(again(loaded, summary));
    let made = Made {
        origin: summary.headline.origin.as_ref(),
        version: &summary.version,
        digest: Some(&summary.digest),
        seeds: summary.seeds.iter().copied().collect(),
        files: &["summary.json", "sweep.parquet", "scenario.toml", "figures/"],
    };
    Page {
        kind: format!("{}, a sweep", summary.scenario),
        findings: with_failures(checked, report.findings()),
        is_bad: report.is_bad() || checked.iter().any(ExpectationResult::fails),
        figure: first_figure(&mut sections),
        sections,
        summary: Summary { table: report.table(TERMINAL_COLUMNS_MAX), ..Summary::default() },
        ..made.frame(loaded, checked)
    }
}

/// Returns the body of a report for a family without sections of its own: headline metrics, as for
/// a sweep.
pub fn plain(loaded: &Loaded, findings: &Findings) -> Body {
    let points = findings.results.iter().map(|outcome| PointRecord::of(String::new(), &outcome.run));
    let summary = SweepSummary::new(loaded, points.collect(), Vec::new(), 0.0);
    let report = Report::new(loaded, &summary);
    let (figures, table) = (report.figures(), report.table(COLUMNS_MAX));
    let figures = (!figures.is_empty()).then(|| Section::new("Side by side", "", figures));
    let sections = figures.into_iter().chain([Section::new("Means", "", table)]).collect();
    let legend = "Headline metrics, means over seeds.";
    Body::new(Vec::new(), (legend, report.table(TERMINAL_COLUMNS_MAX)), sections, Vec::new())
}

struct Report<'a> {
    summary: &'a SweepSummary,
    /// Key and label of each axis.
    axes: Vec<(String, String)>,
    rows: Vec<Row<'a>>,
    /// The metrics in figures, most important first, each by its first path.
    metrics: Vec<String>,
    /// The metrics in tables: all headlines of the most important one and its bound, then the
    /// others.
    columns: Vec<String>,
    /// The metrics that fail the result if they are not zero.
    lacks: &'static [&'static str],
}

fn name_of(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

/// Points that differ only in their seeds.
struct Row<'a> {
    aggregate: &'a Aggregate,
    /// The number of the run's colour in all figures.
    colour: usize,
    point: Vec<String>,
}

impl Row<'_> {
    /// Returns the mean of a metric over seeds, and half the width of its confidence interval.
    fn mean(&self, metric: &str) -> Option<(f64, f64)> {
        self.aggregate.metrics.get(metric).map(|spread| (spread.mean, spread.confidence_95))
    }

    fn cell(&self, metric: &str) -> String {
        let written = |spread: &Spread| spread.written(unit_of(metric));
        self.aggregate.metrics.get(metric).map_or_else(|| MISSING.to_owned(), written)
    }
}

impl<'a> Report<'a> {
    fn new(loaded: &Loaded, summary: &'a SweepSummary) -> Self {
        let axes = axes(loaded);
        let colours = colours(loaded);
        let row = |aggregate: &'a Aggregate| Row {
            aggregate,
            colour: colours.get(&aggregate.name).copied().unwrap_or(0),
            point: point(&axes, &aggregate.parameters),
        };
        let rows = summary.aggregates.iter().map(row).collect();
        let paths = summary.aggregates.iter().flat_map(|aggregate| aggregate.metrics.keys());
        let paths: BTreeSet<&String> = paths.filter(|path| is_first(path)).collect();
        let mut all: Vec<String> = paths.into_iter().cloned().collect();
        all.sort_by_key(|path| rank(path));
        let mut metrics = all.clone();
        metrics.dedup_by_key(|path| name_of(path).to_owned());
        let first = metrics.first().map(|path| name_of(path)).unwrap_or_default();
        let bound = summary.aggregates.iter().any(|aggregate| aggregate.metrics.contains_key(BOUND));
        let columns = all.iter().filter(|path| name_of(path) == first).cloned();
        let others = metrics.iter().skip(1).filter(|path| *path != BOUND).cloned();
        let columns = columns.chain(bound.then(|| BOUND.to_owned())).chain(others);
        let lacks = family::of(&loaded.scenario).lacks;
        Self { columns: columns.collect(), summary, axes, rows, metrics, lacks }
    }

    /// Returns a table of missing results and of the first `most` other metrics.
    fn table(&self, most: usize) -> Table {
        let is_shown = |metric: &&str| *metric == LACKS[0] && self.has(metric, 0.0) || self.has(metric, 1e-9);
        let lacks = LACKS.into_iter().filter(is_shown);
        let is_late = |row: &Row<'_>| row.mean(BY_DEADLINE).is_some_and(|(share, _)| share < 1.0);
        let lacks = lacks.chain(self.rows.iter().any(is_late).then_some(BY_DEADLINE));
        let metrics = self.columns.iter().map(String::as_str).take(most);
        let metrics: Vec<&str> = lacks.chain(metrics.filter(|metric| !LACKS.contains(metric))).collect();
        let labels = self.axes.iter().map(|(_, label)| label.as_str());
        let headings = std::iter::once("run").chain(labels).chain(["seeds"]);
        let row = |row: &Row<'_>| {
            let mut cells = row.point.clone();
            cells.push(row.aggregate.seeds.to_string());
            cells.extend(metrics.iter().map(|metric| row.cell(metric)));
            let label = row.aggregate.label.clone();
            TableRow { label, ..TableRow::new(&row.aggregate.name, cells) }
        };
        // Further paths of a metric stand beside its first one.
        let heading = |at: usize| match metrics[at].split_once('.') {
            Some((name, rest)) if at > 0 && name_of(metrics[at - 1]) == name => rest,
            _ => metrics[at],
        };
        let headings = headings.chain((0..metrics.len()).map(heading));
        Table::new(headings, 1 + self.axes.len(), self.rows.iter().map(row).collect())
    }

    fn is_bad(&self) -> bool {
        !self.summary.failed.is_empty() || self.lacks.iter().any(|metric| self.has(metric, 1e-9))
    }

    fn has(&self, metric: &str, least: f64) -> bool {
        self.rows.iter().filter_map(|row| row.mean(metric)).any(|(mean, _)| mean >= least)
    }

    fn seeds(&self) -> usize {
        self.rows.iter().map(|row| row.aggregate.seeds).max().unwrap_or(0)
    }

    fn findings(&self) -> Vec<String> {
        let summary = self.summary;
        let count = |all: Vec<&str>| grouped(all, |value| value.to_owned()).len() as f64;
        let names = self.rows.iter().map(|row| row.aggregate.name.as_str()).collect();
        let mut parts = vec![plural(count(names), "run")];
        for (at, (_, label)) in self.axes.iter().enumerate() {
            let values = self.rows.iter().map(|row| row.point[at].as_str()).collect();
            parts.push(format!("{} of {label}", plural(count(values), "value")));
        }
        parts.push(plural(summary.seeds.len() as f64, "seed"));
        let finished = plural(summary.runs.len() as f64, "finished point");
        let mut sentences: Vec<String> = self.best().into_iter().collect();
        sentences.push(format!("{finished} of {}: {}.", summary.points, parts.join(", ")));
        sentences.extend(late_faults(summary.runs.iter().map(|run| &run.late_faults)));
        if self.seeds() > 1 {
            sentences.push(
                "Means are over seeds; ± and bands are Student's 95 % confidence intervals of the mean."
                    .to_owned(),
            );
        }
        sentences.push(
            "All metrics of all points are in sweep.parquet, a row for each point; means over seeds are in summary.json."
                .to_owned(),
        );
        sentences
    }

    /// Returns a sentence on the best and the worst mean of the first metric.
    fn best(&self) -> Option<String> {
        let metric = self.metrics.iter().find(|metric| better(metric).is_some() && self.differs(metric))?;
        let is_less = better(metric) == Some(Better::Less);
        let complete =
            |row: &&Row<'_>| LACKS.iter().all(|lack| row.mean(lack).is_none_or(|(mean, _)| mean == 0.0));
        let mean = |row: &Row<'_>| row.mean(metric).map(|(mean, _)| mean);
        let mut rows: Vec<(f64, &Row<'_>)> =
            self.rows.iter().filter(complete).filter_map(|row| Some((mean(row)?, row))).collect();
        rows.sort_by(|a, b| if is_less { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) });
        let [(first, best), .., (last, worst)] = rows.as_slice() else { return None };
        let named = |row: &Row<'_>| {
            let values =
                self.axes.iter().zip(&row.point).map(|((_, label), value)| format!(", {label} {value}"));
            format!("\"{}\"{}", row.aggregate.label, values.collect::<String>())
        };
        let unit = unit_of(metric);
        let words = in_words(metric);
        Some(format!(
            "Best {words}: {} with {}; worst: {} with {}.",
            unit.written(*first),
            named(best),
            unit.written(*last),
            named(worst)
        ))
    }

    fn failed(&self) -> Option<Section> {
        let failed = &self.summary.failed;
        let lines = failed.iter().take(FAILED_MAX);
        let lines =
            lines.map(|point| format!("{}, seed {}: {}", point.name, point.seed, point.why)).collect();
        let text = format!(
            "{} failed and are in no figure. Run the sweep again to retry them.",
            plural(failed.len() as f64, "point")
        );
        let part = Part::Failures(String::new(), lines);
        (!failed.is_empty()).then(|| Section::new("Failed", text, part))
    }

    fn figures(&self) -> Vec<Figure> {
        let panels = self.panels();
        let most = (FIGURES_MAX / panels.len().max(1)).clamp(1, METRICS_MAX);
        let mut figures = Vec::new();
        for metric in self.metrics.iter().filter(|metric| self.differs(metric)).take(most) {
            if self.axes.is_empty() {
                figures.push(self.side_by_side(metric));
            } else {
                figures.extend(panels.iter().map(|panel| self.over_axis(metric, panel)));
            }
        }
        figures
    }

    fn differs(&self, metric: &str) -> bool {
        let spreads = || self.rows.iter().filter_map(|row| row.aggregate.metrics.get(metric));
        let first = spreads().next().map(|spread| spread.mean);
        spreads().any(|spread| Some(spread.mean) != first || spread.min < spread.max)
    }

    /// Returns the values of all axes except the last for which there are separate figures.
    ///
    /// There is a single figure if the number of its lines is small enough.
    fn panels(&self) -> Vec<&[String]> {
        let Some(last) = self.axes.len().checked_sub(1) else { return vec![&[]] };
        let lines = grouped(&self.rows, |row| (&row.aggregate.name, &row.point[..last]));
        if lines.len() <= LINES_MAX {
            return vec![&[]];
        }
        grouped(&self.rows, |row| &row.point[..last]).into_iter().map(|(panel, _)| panel).collect()
    }

    /// Draws a metric over the last axis, for the points of a panel.
    fn over_axis(&self, metric: &str, panel: &[String]) -> Figure {
        let last = self.axes.len() - 1;
        let rows: Vec<&Row<'_>> = self.rows.iter().filter(|row| row.point.starts_with(panel)).collect();
        let (swept, xs) = Swept::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
        let named = |axes: &[(String, String)], values: &[String]| -> String {
            axes.iter().zip(values).map(|((_, label), value)| format!(", {label} {value}")).collect()
        };
        // The values that distinguish a line from others in this figure.
        let key = |(row, _): &(&&Row<'a>, &f64)| (&row.aggregate.name, row.point[panel.len()..last].to_vec());
        let line = |((_, others), mut rows): ((_, Vec<String>), Vec<(&&Row<'_>, &f64)>)| {
            // Lines go from left to right, independent of the order of values in the scenario.
            rows.sort_by(|a, b| a.1.total_cmp(b.1));
            let means = rows.iter().map(|(row, _)| row.mean(metric).unwrap_or((f64::NAN, 0.0)));
            let (means, confidence): (Vec<f64>, Vec<f64>) = means.unzip();
            Line {
                label: format!(
                    "{}{}",
                    rows[0].0.aggregate.label,
                    named(&self.axes[panel.len()..last], &others)
                ),
                points: rows.iter().map(|(_, x)| **x).zip(means).collect(),
                confidence,
                // Lines of one run at several places differ by their places only.
                colour: (panel.len() == last).then_some(rows[0].0.colour),
                ..Line::default()
            }
        };
        let lines = grouped(rows.iter().zip(&xs), key).into_iter().map(line).collect();
        let title = format!("{}{}", in_words(metric), named(&self.axes, panel));
        let drawn = Lines::over(title, (&self.axes[last].1, &swept), unit_of(metric), lines);
        let name = panel.iter().fold(format!("sweep-{metric}"), |name, value| format!("{name}-{value}"));
        Figure::new(name, self.caption(), drawn)
    }

    fn side_by_side(&self, metric: &str) -> Figure {
        let row = |row: &Row<'_>| {
            let colour = row.colour % HUES;
            let of_row = self.summary.runs.iter().filter(|run| run.name == row.aggregate.name);
            let (mean, half) = row.mean(metric).unwrap_or((f64::NAN, 0.0));
            Bar {
                name: row.aggregate.label.clone(),
                values: of_row.filter_map(|run| figure_of(&run.metrics, metric)).collect(),
                interval: (half > 0.0).then_some([(mean - half).max(0.0), mean + half]),
                dot: Some(mean),
                colour,
                text: if mean.is_finite() { String::new() } else { "not measured".to_owned() },
                ..Bar::default()
            }
        };
        let rows: Vec<Bar> = self.rows.iter().map(row).collect();
        let ends = rows.iter().flat_map(|row| {
            row.values.iter().copied().chain(row.interval.into_iter().flatten()).chain(row.dot)
        });
        let most = ends.filter(|value| value.is_finite()).fold(1e-6, f64::max);
        let scale = Scale::linear("", 0.0..most * 1.06, unit_of(metric));
        let caption = format!("{} Pale dots: single seeds.", self.caption());
        let drawn = Bars { title: in_words(metric), scale, rows, key: Vec::new() };
        Figure::new(format!("sweep-{metric}"), caption, drawn)
    }

    fn caption(&self) -> String {
        match self.seeds() {
            0 | 1 => "One seed, so the spread is unknown.".to_owned(),
            seeds => {
                let what = if self.axes.is_empty() { "bars" } else { "bands" };
                format!("Means over {seeds} seeds; {what}: Student's 95 % confidence intervals of the mean.")
            }
        }
    }
}

fn again(loaded: &Loaded, summary: &SweepSummary) -> Section {
    let text = format!(
        "`samara sweep scenario.toml --out again` in the folder of this file, with Samara {}. Digest `{}`: the same scenario, seeds \
         and version give the same digest, on any machine. It took {:.0} s of processor time.",
        summary.version, summary.digest, summary.cpu_s
    );
    Section::new("Reproduce this result", text, Part::Source(loaded.source.clone(), loaded.text.clone()))
}
