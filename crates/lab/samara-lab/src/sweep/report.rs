//! The report of a sweep: means over seeds, based only on metrics.
//!
//! With axes, there is a line for each run over the last axis. Without axes, the runs are side by
//! side.

mod curve;

use std::collections::BTreeSet;

use samara_report::words::{MISSING, listed, plural};
use samara_report::{
    Bar, Bars, Figure, HUES, Page, Part, Scale, Section, Summary, Swept, Table, Unit, csv_line,
};
use samara_scenario::Loaded;

use super::{PointRecord, SweepSummary};
use crate::expect::ExpectationResult;
use crate::family::{self, Deadline, Family};
use crate::metric::{Better, better, declared, has_value, in_words, is_first, rank};
use crate::report::{
    Body, Grid, Item, Made, Runs, by_class, by_name, expectations, files_of, first_figure, grouped,
    late_faults, unit_of, with_failures,
};
use crate::results::Findings;
use crate::statistics::Spread;

pub use curve::Curve;

/// Maximum number of metrics with figures, unless the caller chooses metrics.
const METRICS_MAX: usize = 5;
/// Maximum number of figures. A sweep over many axes has figures of fewer metrics.
const FIGURES_MAX: usize = 24;
/// Maximum number of lines in a figure.
const LINES_MAX: usize = 9;
/// Marks values of only what made the deadline.
const MARK: &str = " *";
/// The lower bound of the first metric.
const BOUND: &str = "lower_bound_ms";
/// Metrics that count missing or wrong results. Tables always show the first if it exists, and the
/// others if they are not zero.
pub const LACKS: [&str; 3] = ["incomplete", "lost", "wrong"];
/// Maximum number of failed points in the list.
const FAILED_MAX: usize = 50;
/// Maximum number of points in a sentence.
const NAMES_MAX: usize = 6;

/// Checks the metrics that the figures and the table of a sweep are to have.
///
/// # Errors
/// Returns an error if the scenario's family has no such metric.
pub fn check_metrics(loaded: &Loaded, metrics: &[String]) -> Result<(), String> {
    metrics.iter().try_for_each(|metric| {
        declared(metric, Some(family::of(&loaded.scenario))).and_then(|()| has_value(metric))
    })
}

/// The page of a sweep, and its table of means as files.
#[derive(Debug)]
pub struct Rendered {
    pub page: Page,
    /// Names and contents: `means.csv` with numbers and half widths of confidence intervals in the units
    /// of the metrics, and `means.md` with the table of the page.
    pub tables: [(&'static str, String); 2],
}

/// Renders a sweep. The figures and the table have these `metrics`; without any, the headlines.
///
/// # Errors
/// Returns an error if no run measured one of the metrics.
pub fn render(
    loaded: &Loaded,
    summary: &SweepSummary,
    checked: &[ExpectationResult],
    metrics: &[String],
) -> Result<Rendered, String> {
    let is_measured =
        |metric: &&String| summary.aggregates.iter().any(|one| one.metrics.contains_key(*metric));
    if let Some(metric) =
        metrics.iter().find(|metric| !is_measured(metric)).filter(|_| !summary.runs.is_empty())
    {
        return Err(format!("--metric {metric}: no run measured it"));
    }
    let report = Report::with(loaded, summary, metrics);
    let tables = [("means.csv", report.csv()), ("means.md", report.table().markdown(usize::MAX))];
    Ok(Rendered { page: page(loaded, summary, checked, &report), tables })
}

fn page(loaded: &Loaded, summary: &SweepSummary, checked: &[ExpectationResult], report: &Report<'_>) -> Page {
    let mut sections = Vec::new();
    sections.extend(report.failed());
    let figures = report.figures();
    if !figures.is_empty() {
        let heading = if report.grid.axes.is_empty() { "Side by side" } else { "Over the sweep" };
        sections.push(Section::new(heading, "", figures));
    }
    let table = report.table();
    sections.push(Section::new("Means", "", table.clone()));
    sections.extend(by_class(&report.grid, family::of(&loaded.scenario)));
    sections.extend(expectations(checked));
    sections.push(again(loaded, summary));
    let made = Made {
        origin: summary.headline.origin.as_ref(),
        version: &summary.version,
        digest: Some(&summary.digest),
        seeds: summary.seeds.iter().copied().collect(),
        files: &["summary.json", "means.csv", "means.md", "sweep.parquet", "scenario.toml", "figures/"],
    };
    Page {
        kind: format!("{}, a sweep", summary.scenario),
        findings: with_failures(checked, report.findings()),
        is_bad: report.is_bad() || checked.iter().any(ExpectationResult::fails),
        figure: first_figure(&mut sections),
        sections,
        summary: Summary { sentences: by_name(loaded, report.findings()), table, ..Summary::default() },
        ..made.frame(loaded, checked)
    }
}

/// Returns a table of the headline metrics of finished runs, with intervals over seeds.
pub(crate) fn means(loaded: &Loaded, records: &[PointRecord]) -> Table {
    let summary = SweepSummary::new(loaded, records.to_vec(), Vec::new(), 0.0);
    Report::new(loaded, &summary).table()
}

/// Returns the body of a report for a family without sections of its own: headline metrics, as for
/// a sweep.
pub(crate) fn plain(loaded: &Loaded, findings: &Findings) -> Body {
    let points = findings.results.iter().map(|outcome| PointRecord::of(String::new(), &outcome.run));
    let summary = SweepSummary::new(loaded, points.collect(), Vec::new(), 0.0);
    let report = Report::new(loaded, &summary);
    let (figures, table) = (report.figures(), report.table());
    let findings: Vec<String> = report.best().into_iter().collect();
    let figures = (!figures.is_empty()).then(|| Section::new("Side by side", "", figures));
    let sections = figures.into_iter().chain([Section::new("Means", "", table.clone())]).collect();
    let legend = "Headline metrics, means over seeds.".to_owned();
    let summary = Summary { sentences: findings.clone(), legend, table, ..Summary::default() };
    Body { findings, summary, sections, details: Vec::new() }
}

struct Report<'a> {
    summary: &'a SweepSummary,
    grid: Grid<'a>,
    /// The metrics in figures, most important first, each by its first path.
    metrics: Vec<String>,
    /// The metrics in tables: all headlines, those of the most important one with its bound first.
    columns: Vec<String>,
    /// The metrics that fail the result if they are not zero.
    lacks: &'static [&'static str],
    /// The deadline of the family, if anything missed it.
    missed: Option<&'static Deadline>,
    /// Whether the caller chose the metrics.
    is_chosen: bool,
}

/// Moves the first metric of copies and the first one of bytes behind the most important metric: what a
/// run costs has a figure.
fn costs_second(metrics: &mut Vec<String>) {
    let is_cost: [fn(&str) -> bool; 2] =
        [|path| path == "duplication_factor", |path| unit_of(path) == Unit::Bytes];
    let mut place = 1;
    for is_cost in is_cost {
        if let Some(at) = metrics.iter().skip(1).position(|path| is_cost(path)) {
            let cost = metrics.remove(at + 1);
            metrics.insert(place, cost);
            place += 1;
        }
    }
}

fn name_of(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

impl<'a> Report<'a> {
    fn new(loaded: &Loaded, summary: &'a SweepSummary) -> Self {
        Self::with(loaded, summary, &[])
    }

    /// Creates a report with figures and columns of these metrics; without any, of the headlines.
    fn with(loaded: &Loaded, summary: &'a SweepSummary, chosen: &[String]) -> Self {
        let items = summary.runs.iter().map(|run| Item {
            run: &run.name,
            parameters: &run.parameters,
            metrics: &run.metrics,
            digest: &run.digest,
            outcome: None,
        });
        let grid = Grid::of(loaded, items);
        let paths = summary.aggregates.iter().flat_map(|aggregate| aggregate.metrics.keys());
        let paths: BTreeSet<&String> = paths.filter(|path| is_first(path)).collect();
        let mut all: Vec<String> = paths.into_iter().cloned().collect();
        all.sort_by_key(|path| rank(path));
        if !chosen.is_empty() {
            all = chosen.to_vec();
        }
        let mut metrics = all.clone();
        if chosen.is_empty() {
            metrics.dedup_by_key(|path| name_of(path).to_owned());
            costs_second(&mut metrics);
        }
        let first = metrics.first().map(|path| name_of(path)).unwrap_or_default();
        let bound = summary.aggregates.iter().any(|aggregate| aggregate.metrics.contains_key(BOUND));
        let bound = bound && chosen.is_empty();
        let columns = all.iter().filter(|path| name_of(path) == first).cloned();
        let others = all.iter().filter(|path| name_of(path) != first && *path != BOUND).cloned();
        let columns = columns.chain(bound.then(|| BOUND.to_owned())).chain(others).collect();
        let Family { lacks, deadline, .. } = family::of(&loaded.scenario);
        let is_late = |row: &Runs<'_>, share| row.spread(share).is_some_and(|spread| spread.mean < 1.0);
        let missed = deadline.as_ref();
        let missed = missed.filter(|deadline| grid.rows.iter().any(|row| is_late(row, deadline.share)));
        if let Some(deadline) = missed.filter(|deadline| deadline.leads) {
            // Times of the fastest nodes say less than how many there are.
            metrics.retain(|metric| metric != deadline.share);
            metrics.insert(0, deadline.share.to_owned());
        }
        Self { columns, summary, grid, metrics, lacks, missed, is_chosen: !chosen.is_empty() }
    }

    /// Returns the deadline if a metric of these runs covers only what made it.
    fn survivors(&self, row: &Runs<'_>, metric: &str) -> Option<&'static Deadline> {
        let deadline = self.missed.filter(|deadline| deadline.survivors.contains(&name_of(metric)))?;
        row.spread(deadline.share).is_some_and(|share| share.mean < 1.0).then_some(deadline)
    }

    /// Returns a table of missing results and of the headline metrics.
    fn table(&self) -> Table {
        let share = self.missed.map(|deadline| deadline.share);
        let metrics = self.columns.iter().map(String::as_str);
        let metrics = metrics.filter(|metric| !LACKS.contains(metric) && Some(*metric) != share);
        let metrics: Vec<&str> = self.lacking().into_iter().chain(share).chain(metrics).collect();
        let cell = |row: &Runs<'_>, metric: &&str| {
            let Some(spread) = row.spread(metric) else { return MISSING.to_owned() };
            let mark = self.survivors(row, metric).map_or("", |_| MARK);
            spread.written(unit_of(metric)) + mark
        };
        // Further statistics of a metric stand beside its first one, unless the caller chose both.
        let of = |at: usize| metrics[at].rsplit_once('.').map_or(metrics[at], |(of, _)| of);
        let heading = |at: usize| match metrics[at].rsplit_once('.') {
            Some((name, rest)) if at > 0 && !self.is_chosen && of(at - 1) == name => rest,
            _ => metrics[at],
        };
        let headings = std::iter::once("seeds").chain((0..metrics.len()).map(heading));
        self.grid.table_of(headings, |row| {
            let seeds = row.metrics.len().to_string();
            std::iter::once(seeds).chain(metrics.iter().map(|metric| cell(row, metric))).collect()
        })
    }

    /// Returns the table of means for programs: a row for each run and place, with the mean of each metric
    /// and half the width of its confidence interval, which is empty for one seed.
    fn csv(&self) -> String {
        let axes = self.grid.axes.iter().map(|(key, _)| key.clone());
        let others = || self.columns.iter().map(String::as_str).filter(|metric| !LACKS.contains(metric));
        let metrics = || self.lacking().into_iter().chain(others());
        let of_metrics = metrics().flat_map(|metric| [metric.to_owned(), format!("{metric}.confidence_95")]);
        let headings = std::iter::once("run".to_owned()).chain(axes).chain(["seeds".to_owned()]);
        let mut text = csv_line(headings.chain(of_metrics));
        for row in &self.grid.rows {
            let cells = metrics().flat_map(|metric| match row.spread(metric) {
                None => [String::new(), String::new()],
                Some(Spread { mean, seeds: 1, .. }) => [mean.to_string(), String::new()],
                Some(Spread { mean, confidence_95, .. }) => [mean.to_string(), confidence_95.to_string()],
            });
            let place = std::iter::once(row.run.clone()).chain(row.point.iter().cloned());
            text += &csv_line(place.chain([row.metrics.len().to_string()]).chain(cells));
        }
        text
    }

    /// Returns the counts of missing results that tables show.
    fn lacking(&self) -> Vec<&'static str> {
        let is_shown = |metric: &&str| *metric == LACKS[0] && self.has(metric, 0.0) || self.has(metric, 1e-9);
        let is_wanted = |metric: &&str| self.is_chosen && self.columns.iter().any(|column| column == *metric);
        LACKS.into_iter().filter(|metric| is_shown(metric) || is_wanted(metric)).collect()
    }

    fn is_bad(&self) -> bool {
        !self.summary.failed.is_empty() || self.lacks.iter().any(|metric| self.has(metric, 1e-9))
    }

    fn has(&self, metric: &str, least: f64) -> bool {
        self.grid.rows.iter().filter_map(|row| row.spread(metric)).any(|spread| spread.mean >= least)
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
        let best = self.best().into_iter().chain(self.late());
        let mut sentences: Vec<String> = self.grid.equal_runs().into_iter().chain(best).collect();
        sentences.push(format!("{finished} of {}: {}.", summary.points, parts.join(", ")));
        sentences.extend(late_faults(summary.runs.iter().map(|run| &run.late_faults)));
        if self.grid.seeds() > 1 {
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
        if self.missed.is_some_and(|deadline| deadline.share == metric) {
            return self.ranked(metric, self.grid.rows.iter().collect());
        }
        self.ranked(metric, self.complete())
    }

    /// Returns the runs in which nothing is missing: means over different nodes do not compare.
    fn complete(&self) -> Vec<&Runs<'a>> {
        let lacks = |row: &Runs<'_>, lack: &str| row.spread(lack).is_some_and(|spread| spread.mean != 0.0);
        self.grid.rows.iter().filter(|row| !LACKS.iter().any(|lack| lacks(row, lack))).collect()
    }

    /// Returns a sentence on the best and the worst mean of a metric among these runs.
    fn ranked(&self, metric: &str, rows: Vec<&Runs<'_>>) -> Option<String> {
        let is_less = better(metric) == Some(Better::Less);
        let mean = |row: &Runs<'_>| row.spread(metric).map(|spread| spread.mean);
        let mut rows: Vec<(f64, &Runs<'_>)> =
            rows.into_iter().filter_map(|row| Some((mean(row)?, row))).collect();
        rows.sort_by(|a, b| if is_less { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) });
        let [(first, best), .., (last, worst)] = rows.as_slice() else { return None };
        let named = |value: f64, row: &Runs<'_>| {
            let equal = rows.iter().filter(|(other, _)| *other == value);
            let names: BTreeSet<String> = equal.map(|(_, row)| self.placed(row, metric)).collect();
            let more = match names.len() {
                0 | 1 => String::new(),
                names => format!(" and {} more", names - 1),
            };
            format!("{} with {}{more}", unit_of(metric).written(value), self.placed(row, metric))
        };
        let (words, doubt) = (in_words(metric), best.doubt(worst, metric));
        Some(format!("Best {words}: {}; worst: {}.{doubt}", named(*first, best), named(*last, worst)))
    }

    /// Returns the name of a run with its values on the axes over which a metric differs, and the other
    /// axes.
    fn placed(&self, row: &Runs<'_>, metric: &str) -> String {
        let is_beside = |other: &Runs<'_>, axis: usize| {
            let mut axes = 0..self.grid.axes.len();
            other.run == row.run && axes.all(|at| (other.point[at] == row.point[at]) == (at != axis))
        };
        let beside = |axis: usize| self.grid.rows.iter().filter(move |other| is_beside(other, axis));
        let over = |is: &dyn Fn(&Runs<'_>) -> bool| -> Vec<usize> {
            let axes = 0..self.grid.axes.len();
            axes.filter(|axis| beside(*axis).next().is_some() && beside(*axis).all(is)).collect()
        };
        let is_equal = |other: &Runs<'_>| row.values(metric) == other.values(metric);
        let (equal, mut undecided) = (over(&is_equal), over(&|other| !row.differs(other, metric)));
        undecided.retain(|axis| !equal.contains(axis));
        let place =
            self.grid.place_without(&row.point, |axis| equal.contains(&axis) || undecided.contains(&axis));
        let labels = |axes: &[usize]| {
            listed(&axes.iter().map(|axis| self.grid.axes[*axis].1.clone()).collect::<Vec<_>>())
        };
        let mut remarks = Vec::new();
        if !equal.is_empty() {
            remarks.push(format!("no difference over {}", labels(&equal)));
        }
        if !undecided.is_empty() {
            let seeds = plural(row.metrics.len() as f64, "seed");
            remarks.push(format!("{seeds} decide no difference over {}", labels(&undecided)));
        }
        let remark = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
        format!("\"{}\"{place}{remark}", row.label)
    }

    fn named(&self, row: &Runs<'_>) -> String {
        format!("\"{}\"{}", row.label, self.grid.place(0, &row.point))
    }

    /// Returns sentences on what a deadline leaves out of other metrics, and on their best means
    /// where it leaves out nothing.
    fn late(&self) -> Vec<String> {
        let Some(Deadline { items, made, covered, share, leads, .. }) = self.missed else {
            return Vec::new();
        };
        let marked = format!("Values with{MARK}, and rings in figures, cover only {covered}.");
        if !leads {
            return vec![marked];
        }
        let none = self.without(|row| row.spread(share).is_some_and(|share| share.mean == 0.0));
        let none = none.map(|rows| format!("None of the {items} was in time: {rows}."));
        let time = self.metrics.iter().skip(1).find(|metric| better(metric).is_some());
        let complete = self.complete();
        let whole = time.and_then(|time| self.ranked(time, complete));
        let whole = whole.map(|sentence| format!("Where all {items} {made}: {sentence}"));
        none.into_iter().chain(whole).chain([marked]).collect()
    }

    /// Returns the names of the runs with a property; `None` if there are none.
    fn without(&self, is: impl Fn(&Runs<'_>) -> bool) -> Option<String> {
        let rows: Vec<&Runs<'_>> = self.grid.rows.iter().filter(|row| is(row)).collect();
        let names: Vec<String> = rows.iter().take(NAMES_MAX).map(|row| self.named(row)).collect();
        let more = rows.len() - names.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| names.join("; ") + &more)
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
        let most = if self.is_chosen { self.metrics.len().max(1) } else { METRICS_MAX };
        let most = (FIGURES_MAX / panels.len().max(1)).clamp(1, most);
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
        let title = format!("{}{}", in_words(metric), self.grid.short_place(0, panel));
        let mut drawn = self.grid.over(title, metric, &rows, panel.len(), None);
        if self.missed.is_some_and(|deadline| deadline.share == metric) {
            drawn.scales.1 = Scale::share();
        }
        let last = self.grid.axes.len() - 1;
        let (_, xs) = Swept::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
        let partial = rows.iter().zip(xs).filter(|(row, _)| self.survivors(row, metric).is_some());
        let rings = partial.map(|(row, x)| (x, row.mean(metric)));
        drawn.rings = rings.filter(|(_, mean)| mean.is_finite()).collect();
        let name = panel.iter().fold(format!("sweep-{metric}"), |name, value| format!("{name}-{value}"));
        let mut caption = self.caption();
        if let Some(deadline) = rows.iter().find_map(|row| self.survivors(row, metric)) {
            drawn.ring = format!("only {}", deadline.covered);
            let is_absent = |row: &Runs<'_>| row.point.starts_with(panel) && !row.mean(metric).is_finite();
            let absent = self.without(|row| self.survivors(row, metric).is_some() && is_absent(row));
            let Deadline { items, made, .. } = deadline;
            let absent = absent.map(|rows| format!(" No value, as no {items} {made}: {rows}."));
            caption += &absent.unwrap_or_default();
        }
        Figure::new(name, caption, drawn)
    }

    fn side_by_side(&self, metric: &str) -> Figure {
        let row = |row: &Runs<'_>| {
            let colour = row.colour % HUES;
            let (mean, half) =
                row.spread(metric).map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.confidence_95));
            Bar {
                name: row.label.clone() + self.survivors(row, metric).map_or("", |_| MARK),
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
        match self.grid.seeds() {
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
        "`samara sweep scenario.toml --out again` in the folder of this file, with Samara {}. {}Digest `{}`: the same scenario, seeds \
         and version give the same digest, on any machine. It took {:.0} s of processor time.",
        summary.version,
        files_of(loaded),
        summary.digest,
        summary.cpu_s
    );
    Section::new("Reproduce this result", text, Part::Source(loaded.source.clone(), loaded.text.clone()))
}
