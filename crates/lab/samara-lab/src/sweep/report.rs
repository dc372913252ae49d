//! The report of a sweep: means over seeds, based only on metrics.
//!
//! With axes, there is a line for each run over the last axis. Without axes, the runs are side by
//! side.

use std::collections::BTreeSet;

use samara_report::words::{MISSING, plural};
use samara_report::{Bar, Bars, Figure, HUES, Page, Part, Scale, Section, Summary, Table};
use samara_scenario::Loaded;

use super::{PointRecord, SweepSummary};
use crate::expect::ExpectationResult;
use crate::family;
use crate::metric::{Better, better, in_words, is_first, rank};
use crate::report::{
    Body, Grid, Made, Runs, expectations, first_figure, grouped, late_faults, unit_of, with_failures,
};
use crate::results::Findings;

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
        let heading = if report.grid.axes.is_empty() { "Side by side" } else { "Over the sweep" };
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
pub(crate) fn plain(loaded: &Loaded, findings: &Findings) -> Body {
    let points = findings.results.iter().map(|outcome| PointRecord::of(String::new(), &outcome.run));
    let summary = SweepSummary::new(loaded, points.collect(), Vec::new(), 0.0);
    let report = Report::new(loaded, &summary);
    let (figures, table) = (report.figures(), report.table(COLUMNS_MAX));
    let figures = (!figures.is_empty()).then(|| Section::new("Side by side", "", figures));
    let sections = figures.into_iter().chain([Section::new("Means", "", table)]).collect();
    let legend = "Headline metrics, means over seeds.".to_owned();
    let summary = Summary { legend, table: report.table(TERMINAL_COLUMNS_MAX), ..Summary::default() };
    Body { findings: Vec::new(), summary, sections, details: Vec::new() }
}

struct Report<'a> {
    summary: &'a SweepSummary,
    grid: Grid<'a>,
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

impl<'a> Report<'a> {
    fn new(loaded: &Loaded, summary: &'a SweepSummary) -> Self {
        let items = summary.runs.iter().map(|run| (&run.name, &run.parameters, &run.metrics, None));
        let grid = Grid::of(loaded, items);
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
        Self { columns: columns.collect(), summary, grid, metrics, lacks }
    }

    /// Returns a table of missing results and of the first `most` other metrics.
    fn table(&self, most: usize) -> Table {
        let is_shown = |metric: &&str| *metric == LACKS[0] && self.has(metric, 0.0) || self.has(metric, 1e-9);
        let lacks = LACKS.into_iter().filter(is_shown);
        let is_late = |row: &Runs<'_>| row.spread(BY_DEADLINE).is_some_and(|spread| spread.mean < 1.0);
        let lacks = lacks.chain(self.grid.rows.iter().any(is_late).then_some(BY_DEADLINE));
        let metrics = self.columns.iter().map(String::as_str).take(most);
        let metrics: Vec<&str> = lacks.chain(metrics.filter(|metric| !LACKS.contains(metric))).collect();
        let cell = |row: &Runs<'_>, metric: &&str| {
            let spread = row.spread(metric);
            spread.map_or_else(|| MISSING.to_owned(), |spread| spread.written(unit_of(metric)))
        };
        // Further paths of a metric stand beside its first one.
        let heading = |at: usize| match metrics[at].split_once('.') {
            Some((name, rest)) if at > 0 && name_of(metrics[at - 1]) == name => rest,
            _ => metrics[at],
        };
        let headings = std::iter::once("seeds").chain((0..metrics.len()).map(heading));
        self.grid.table_of(headings, |row| {
            let seeds = row.metrics.len().to_string();
            std::iter::once(seeds).chain(metrics.iter().map(|metric| cell(row, metric))).collect()
        })
    }

    fn is_bad(&self) -> bool {
        !self.summary.failed.is_empty() || self.lacks.iter().any(|metric| self.has(metric, 1e-9))
    }

    fn has(&self, metric: &str, least: f64) -> bool {
        self.grid.rows.iter().filter_map(|row| row.spread(metric)).any(|spread| spread.mean >= least)
    }

    fn seeds(&self) -> usize {
        self.grid.rows.iter().map(|row| row.metrics.len()).max().unwrap_or(0)
    }

    fn findings(&self) -> Vec<String> {
        let summary = self.summary;
        let count = |all: Vec<&str>| grouped(all, |value| value.to_owned()).len() as f64;
        let names = self.grid.rows.iter().map(|row| row.run.as_str()).collect();
        let mut parts = vec![plural(count(names), "run")];
        for (at, (_, label)) in self.grid.axes.iter().enumerate() {
            let values = self.grid.rows.iter().map(|row| row.point[at].as_str()).collect();
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
        let mean = |row: &Runs<'_>, metric: &str| row.spread(metric).map(|spread| spread.mean);
        let complete =
            |row: &&Runs<'_>| LACKS.iter().all(|lack| mean(row, lack).is_none_or(|mean| mean == 0.0));
        let complete = self.grid.rows.iter().filter(complete);
        let mut rows: Vec<(f64, &Runs<'_>)> =
            complete.filter_map(|row| Some((mean(row, metric)?, row))).collect();
        rows.sort_by(|a, b| if is_less { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) });
        let [(first, best), .., (last, worst)] = rows.as_slice() else { return None };
        let named = |row: &Runs<'_>| format!("\"{}\"{}", row.label, self.grid.place(0, &row.point));
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
            if self.grid.axes.is_empty() {
                figures.push(self.side_by_side(metric));
            } else {
                figures.extend(panels.iter().map(|panel| self.over_axis(metric, panel)));
            }
        }
        figures
    }

    fn differs(&self, metric: &str) -> bool {
        let spreads = || self.grid.rows.iter().filter_map(|row| row.spread(metric));
        let first = spreads().next().map(|spread| spread.mean);
        spreads().any(|spread| Some(spread.mean) != first || spread.min < spread.max)
    }

    /// Returns the values of all axes except the last for which there are separate figures.
    ///
    /// There is a single figure if the number of its lines is small enough.
    fn panels(&self) -> Vec<&[String]> {
        let Some(last) = self.grid.axes.len().checked_sub(1) else { return vec![&[]] };
        let lines = grouped(&self.grid.rows, |row| (&row.run, &row.point[..last]));
        if lines.len() <= LINES_MAX {
            return vec![&[]];
        }
        grouped(&self.grid.rows, |row| &row.point[..last]).into_iter().map(|(panel, _)| panel).collect()
    }

    /// Draws a metric over the last axis, for the points of a panel.
    fn over_axis(&self, metric: &str, panel: &[String]) -> Figure {
        let rows: Vec<&Runs<'_>> = self.grid.rows.iter().filter(|row| row.point.starts_with(panel)).collect();
        let title = format!("{}{}", in_words(metric), self.grid.place(0, panel));
        let drawn = self.grid.over(title, metric, &rows, panel.len(), None);
        let name = panel.iter().fold(format!("sweep-{metric}"), |name, value| format!("{name}-{value}"));
        Figure::new(name, self.caption(), drawn)
    }

    fn side_by_side(&self, metric: &str) -> Figure {
        let row = |row: &Runs<'_>| {
            let colour = row.colour % HUES;
            let (mean, half) =
                row.spread(metric).map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.confidence_95));
            Bar {
                name: row.label.clone(),
                values: row.values(metric).into_iter().filter(|value| value.is_finite()).collect(),
                interval: (half > 0.0).then_some([(mean - half).max(0.0), mean + half]),
                dot: Some(mean),
                colour,
                text: if mean.is_finite() { String::new() } else { "not measured".to_owned() },
                ..Bar::default()
            }
        };
        let rows: Vec<Bar> = self.grid.rows.iter().map(row).collect();
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
                let what = if self.grid.axes.is_empty() { "bars" } else { "bands" };
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
