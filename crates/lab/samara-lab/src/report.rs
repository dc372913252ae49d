//! Reports: the page of a scenario's results. Each family contributes its sections.

mod frame;
pub mod spread;

use std::collections::BTreeMap;

use samara_report::words::{MISSING, fixed, number, percent, plural, short_ms, signed_percent};
use samara_report::{
    Figure, Line, Lines, Look, Page, Part, Row, Section, Style, Summary, Swept, Table, Unit,
};
use samara_scenario::Loaded;
use serde_json::{Map, Value as Json};

use crate::expect::ExpectationResult;
use crate::explain;
use crate::family;
use crate::finding;
use crate::metric::unit;
use crate::reference::{Comparison, PublishedComparison};
use crate::results::{self, Data, Findings, Outcome, RealRun, ResultsDirectory, RivalFigures, Run};
use crate::statistics::{Spread, Statistics};

pub(crate) use frame::first_figure;
pub use frame::{Made, colours};

/// A family's part of a page of results.
#[derive(Debug)]
pub struct Body {
    /// Sentences on the results.
    pub findings: Vec<String>,
    /// The main figure. Without one, the page shows the first figure of the sections.
    pub figure: Option<Figure>,
    /// The text for the terminal.
    pub summary: Summary,
    /// The sections before published figures and expectations.
    pub sections: Vec<Section>,
    /// The sections after expectations.
    pub details: Vec<Section>,
}

impl Body {
    /// Creates a body whose terminal summary is the table with its legend and the key sentences.
    pub fn new(
        findings: Vec<String>,
        (legend, table): (&str, Table),
        sections: Vec<Section>,
        details: Vec<Section>,
    ) -> Self {
        let (legend, after) = (legend.to_owned(), findings.clone());
        let summary = Summary { legend, table, after, ..Summary::default() };
        Self { findings, figure: None, summary, sections, details }
    }
}

/// Returns the page of all results of a scenario.
pub fn page(loaded: &Loaded, findings: &Findings) -> Page {
    let Findings { summary, results, comparisons, checked, .. } = findings;
    let family = family::of(&loaded.scenario);
    let mut body = (family.report)(loaded, findings);
    let said = finding::sentences(loaded, results);
    body.findings.splice(..0, said.iter().cloned());
    body.summary.after.splice(..0, said);
    body.findings.extend(explain::difference(findings, loaded.scenario.scenario.explained.as_ref()));
    for remark in late_faults(results.iter().map(|result| &result.run.late_faults))
        .into_iter()
        .chain(absent_tables(summary))
    {
        body.findings.push(remark.clone());
        body.summary.after.push(remark);
    }
    body.summary.after.extend(left_out(loaded));
    let (measured, others) = (beside_measured(comparisons), beside_others(loaded, &summary.published));
    let rivals = rivals(loaded, &summary.runs);
    body.summary.more = [&rivals, &measured, &others].into_iter().flatten().cloned().collect();
    let measured = measured.map(|table| Section::new("Comparison with measurements", "", table));
    let text = agreement(&summary.published);
    let others = others.map(|table| Section::new("Comparison with published figures", text, table));
    let mut sections = body.sections;
    sections.extend(rivals.map(|table| Section::new("Rivals", RIVALS, table)));
    sections.extend(explain::section(findings));
    sections.extend(measured.into_iter().chain(others).chain(expectations(&labelled(loaded, checked))));
    sections.extend(real_nodes(findings));
    sections.extend(body.details);
    sections.push(again(loaded, findings));
    let is_incomplete = results.iter().any(|outcome| outcome.is_incomplete);
    let real = summary.runs.iter().any(|run| run.real.is_some());
    let made = Made {
        origin: summary.headline.origin.as_ref(),
        version: &summary.version,
        digest: (!real).then_some(&summary.digest),
        seeds: loaded.points.iter().map(|point| point.seed).collect(),
        files: &["summary.json", "scenario.toml", "runs/", "figures/"],
    };
    Page {
        kind: summary.scenario.clone(),
        is_bad: is_incomplete || checked.iter().any(ExpectationResult::fails),
        findings: with_failures(checked, body.findings),
        figure: body.figure.or_else(|| first_figure(&mut sections)),
        sections,
        summary: body.summary,
        ..made.frame(loaded, checked)
    }
}

/// Returns a sentence on each fault that had no effect, since runs ended before, from the numbers of
/// these faults in each run.
pub fn late_faults<'a>(runs: impl ExactSizeIterator<Item = &'a Vec<usize>>) -> Vec<String> {
    let all = plural(runs.len() as f64, "run");
    let late = grouped(runs.flatten(), |fault| **fault);
    let sentence = |(fault, runs): (usize, Vec<&usize>)| {
        format!("fault.{fault} had no effect in {} of {all}: they ended before.", runs.len())
    };
    late.into_iter().map(sentence).collect()
}

/// Returns a sentence on tables that were not recorded: the first one, and the number of runs.
fn absent_tables(summary: &results::Summary) -> Option<String> {
    let mut runs = summary.runs.iter().filter(|run| !run.absent.is_empty());
    let run = runs.next()?;
    let (table, reason) = run.absent.first_key_value()?;
    let more = match runs.count() {
        0 => String::new(),
        more => format!(" In all, {} runs lack tables; see absent in summary.json.", more + 1),
    };
    Some(format!("{} has no {table}.parquet: {reason}.{more}", run.name))
}

/// Writes the page and its figures. Returns the figures that are left out, with the reasons.
pub fn write(page: &Page, directory: &ResultsDirectory) -> Result<Vec<String>, String> {
    let (files, failed) = page.files();
    let write = |(name, bytes): (String, Vec<u8>)| directory.bytes(&name, &bytes);
    files.into_iter().try_for_each(|file| write(file).map_err(|error| error.to_string()))?;
    Ok(failed)
}

/// Prepends a sentence on failed expectations to the key sentences.
pub(crate) fn with_failures(checked: &[ExpectationResult], findings: Vec<String>) -> Vec<String> {
    let missed = checked.iter().filter(|result| result.fails()).count();
    let counted = checked.iter().filter(|result| result.counts).count();
    let failure = (missed > 0).then(|| format!("{missed} of {counted} expectations fail."));
    failure.into_iter().chain(findings).collect()
}

/// The remark beside expectations that do not count.
pub const ADVISORY: &str =
    "They describe the built-in scenario; with changed keys they do not set the exit status (--strict does).";

/// The results with the labels of runs, which the tables of the page show.
fn labelled(loaded: &Loaded, checked: &[ExpectationResult]) -> Vec<ExpectationResult> {
    let label = |one: &ExpectationResult| label_of(loaded, &one.run).to_owned();
    checked.iter().map(|one| ExpectationResult { run: label(one), ..one.clone() }).collect()
}

/// The label of a run; its name if the scenario has no such run.
fn label_of<'a>(loaded: &'a Loaded, name: &'a str) -> &'a str {
    let point = loaded.points.iter().find(|point| point.run == name);
    point.map_or(name, |point| &point.label)
}

pub fn expectations(checked: &[ExpectationResult]) -> Option<Section> {
    let held = checked.iter().filter(|result| result.holds).count();
    let missed = ExpectationResult::lines(checked.iter().filter(|result| !result.holds));
    let mut text = format!("{held} of {} hold.", checked.len());
    if checked.iter().any(|result| !result.counts) {
        text += " ";
        text += ADVISORY;
    }
    let failures = (!missed.is_empty()).then(|| Part::Failures(String::new(), missed));
    let parts = failures.into_iter().collect();
    (!checked.is_empty()).then(|| Section { heading: "Expectations".to_owned(), text, parts })
}

fn beside_measured(comparisons: &[Comparison]) -> Option<Table> {
    let mut rows = Vec::new();
    for comparison in comparisons {
        let row = |cells: [String; 7], look| Row {
            label: comparison.label.clone(),
            look,
            ..Row::new(comparison.run.clone(), cells.to_vec())
        };
        for (side, statistics, copies, runs) in [
            ("measured", &comparison.reference_ms, comparison.copies.1, comparison.runs.1),
            ("simulated", &comparison.ours_ms, comparison.copies.0, comparison.runs.0),
        ] {
            let [mean, p50, p95, max] =
                [statistics.mean, statistics.p50, statistics.p95, statistics.max].map(|ms| fixed(ms, 0));
            let cells = [side.to_owned(), runs.to_string(), mean, p50, p95, max, fixed(copies, 2)];
            rows.push(row(cells, Look::Plain));
        }
        let none = String::new;
        let [mean, p95] = [comparison.mean_deviation(), comparison.p95_deviation()].map(signed_percent);
        let cells = ["difference".to_owned(), none(), mean, none(), p95, none(), none()];
        rows.push(row(cells, Look::Conclusion));
    }
    let headings = ["run", "", "runs", "mean ms", "p50", "p95", "max", "copies"];
    (!rows.is_empty()).then(|| Table::new(headings, 2, rows))
}

/// Returns a sentence on published figures that describe the scenario without the changed keys.
fn left_out(loaded: &Loaded) -> Option<String> {
    let all = &loaded.scenario.published;
    let count = all.iter().filter(|figure| !loaded.meets_conditions(figure)).count();
    let figures = plural(count as f64, "published figure");
    (count > 0).then(|| format!("{figures} left out: they describe the scenario without the changed keys."))
}

/// Returns a sentence on how many published figures ours agree with, and on the mean difference.
pub fn agreement(published: &[PublishedComparison]) -> String {
    let within = published.iter().filter(|known| known.figure.holds(known.ours.mean)).count();
    let mean = published.iter().map(PublishedComparison::deviation).sum::<f64>() / published.len() as f64;
    let (count, mean) = (published.len(), signed_percent(mean));
    format!(
        "{within} of {count} published figures are within their tolerances. The mean difference is {mean}."
    )
}

/// Published figures beside ours. A refuted figure has its cause.
fn beside_others(loaded: &Loaded, published: &[PublishedComparison]) -> Option<Table> {
    let row = |known: &PublishedComparison| {
        let figure = &known.figure;
        let theirs = format!("{}{}", figure.relation.words(), number(figure.value));
        let verdict = match &figure.refuted {
            Some(cause) => format!("{}: {cause}", known.verdict.name()),
            None => known.verdict.name().to_owned(),
        };
        let place = [&figure.source, &figure.place].map(String::as_str);
        let source = place.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let [ours, difference] = [number(known.ours.mean), signed_percent(known.deviation())];
        let name = known.run();
        let label = name.replacen(&figure.run, label_of(loaded, &figure.run), 1);
        let cells = vec![known.metric(), source, theirs, ours, difference, verdict];
        Row { label, ..Row::new(name, cells) }
    };
    let headings = ["run", "metric", "source", "theirs", "ours", "difference", "verdict"];
    let table = Table { fold: None, ..Table::new(headings, 3, published.iter().map(row).collect()) };
    (!published.is_empty()).then_some(table)
}

const RIVALS: &str = "Uploads, calls and second nodes in the houses of nodes, through the same queues. Rates are on the wire, of a rival \
                      and of the node beside it while the rival was there, with their shares of the uplink. Delay: how much \
                      longer a packet of a call was on the way than on an empty path.";

/// Returns a row for each run and kind of rivals.
fn rivals(loaded: &Loaded, runs: &[Run]) -> Option<Table> {
    let row = |run: &Run, rival: &RivalFigures| {
        let rate = |bps: f64, share: f64| format!("{} ({})", fixed(bps / 1e6, 2), percent(share, 1));
        let delay = |value: fn(&Statistics) -> f64| {
            rival.delay_ms.as_ref().map_or_else(String::new, |delay| short_ms(value(delay)))
        };
        let cells = vec![
            run.parameters.get("seed").map_or_else(String::new, ToString::to_string),
            rival.kind.to_owned(),
            fixed(rival.seconds, 1),
            rate(rival.bps, rival.share),
            rate(rival.node_bps, rival.node_share),
            number(rival.packets as f64),
            number(rival.lost as f64),
            delay(|delay| delay.mean),
            delay(|delay| delay.p95),
            delay(|delay| delay.max),
        ];
        Row { label: label_of(loaded, &run.name).to_owned(), ..Row::new(run.name.clone(), cells) }
    };
    let rows = runs.iter().flat_map(|run| run.rivals.iter().map(move |rival| row(run, rival)));
    let rows: Vec<Row> = rows.collect();
    let headings = [
        "run",
        "seed",
        "rival",
        "s",
        "Mbit/s",
        "node's Mbit/s",
        "packets",
        "lost",
        "mean delay",
        "p95",
        "max",
    ];
    (!rows.is_empty()).then(|| Table::new(headings, 3, rows))
}

/// Returns a section on real nodes: their use of resources, their accuracy, and reasons to doubt
/// the figures.
fn real_nodes(findings: &Findings) -> Option<Section> {
    let real = || findings.summary.runs.iter().filter_map(|run| Some((run, run.real.as_ref()?)));
    let time = |ms: Option<f64>| ms.map_or_else(|| MISSING.to_owned(), short_ms);
    let two = |statistics: &Option<Statistics>, first: fn(&Statistics) -> f64, shown: fn(f64) -> String| {
        let both = |s: &Statistics| format!("{}, {}", shown(first(s)), shown(s.max));
        statistics.as_ref().map_or_else(|| MISSING.to_owned(), both)
    };
    let cells = |real: &RealRun| {
        let emulation = |share| format!("{}, {}", percent(share, 0), time(real.relay_late_p99_ms));
        vec![
            real.programs.join(", "),
            short_ms(real.ready_s * 1e3),
            two(&real.publish_error_ms, |s| s.p50, short_ms),
            two(&real.node_cpu_s, |s| s.mean, |seconds| short_ms(seconds * 1e3)),
            two(&real.node_cpu_share_mean, |s| s.mean, |share| percent(share, 1)),
            two(&real.node_cpu_share_max, |s| s.mean, |share| percent(share, 0)),
            two(&real.node_io_bytes, |s| s.mean, |bytes| format!("{:.1} MB", bytes / 1e6)),
            two(&real.node_peak_rss_bytes, |s| s.mean, |bytes| format!("{:.1} MB", bytes / 1e6)),
            two(&real.node_open_fds, |s| s.mean, |files| format!("{files:.0}")),
            real.relay_cpu_share.map_or_else(|| "none".to_owned(), emulation),
        ]
    };
    let rows: Vec<Row> = real()
        .map(|(run, real)| {
            let seed = run.parameters.get("seed").map_or_else(String::new, ToString::to_string);
            Row::new(format!("{}, seed {seed}", run.name), cells(real))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let doubts: Vec<String> = real()
        .flat_map(|(run, real)| real.doubts.iter().map(|doubt| format!("{}: {doubt}", run.name)))
        .collect();
    let headings = [
        "Run",
        "Programs",
        "Ready",
        "Late: p50, max",
        "Processor per node",
        "Share of a processor",
        "Highest share",
        "Read and written",
        "Memory per node",
        "Open files",
        "Emulation: processor share, late p99",
    ];
    let text = "Every node is a separate process. Ready: time until links and meshes exist. Late: delay of publications \
                after their planned times. Figures of nodes: the mean and the maximum.";
    let mut section = Section::new("Real nodes", text, Table::new(headings, 2, rows));
    if !doubts.is_empty() {
        section.parts.push(Part::Failures("Reasons to doubt these figures:".to_owned(), doubts));
    }
    Some(section)
}

fn again(loaded: &Loaded, findings: &Findings) -> Section {
    let summary = &findings.summary;
    let all = &loaded.scenario.runs;
    let is_done = |name: &str| findings.results.iter().any(|result| result.run.name == name);
    let chosen: Vec<&str> = all.iter().map(|run| run.name.as_str()).filter(|name| is_done(name)).collect();
    let only = if chosen.len() < all.len() { chosen } else { Vec::new() };
    let only: String = only.iter().map(|run| format!(" --only {run}")).collect();
    let (verb, same) = if summary.runs.iter().any(|run| run.real.is_some()) {
        ("testbed", "Runs with real nodes are not exactly reproducible.".to_owned())
    } else {
        let digest = &summary.digest;
        let same = format!(
            "Digest `{digest}`: the same scenario, seed and version give the same digest on any number of threads."
        );
        ("run", same)
    };
    // The file may need an experiment of the program that wrote it.
    let command = summary.headline.origin.as_ref().map_or("", |origin| &origin.command);
    let program = command.split_once(&format!(" {verb} ")).map_or("samara", |(program, _)| program);
    let text = format!(
        "`{program} {verb} scenario.toml{only} --out again` in the folder of this file, with Samara {}. {same}",
        summary.version
    );
    Section::new("Reproduce this result", text, Part::Source(loaded.source.clone(), loaded.text.clone()))
}

/// Returns the key and label of each axis of a sweep.
pub fn axes(loaded: &Loaded) -> Vec<(String, String)> {
    let axes = loaded.scenario.sweep.iter().flat_map(|sweep| &sweep.axis);
    let label = |key: &str, label: &str| if label.is_empty() { key.to_owned() } else { label.to_owned() };
    axes.map(|axis| (axis.key.clone(), label(&axis.key, &axis.label))).collect()
}

/// Returns the values of a sweep's axes as the scenario writes them.
pub fn point(axes: &[(String, String)], parameters: &Map<String, Json>) -> Vec<String> {
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

/// Returns a statistic; NaN without measurements.
pub fn of(statistics: Option<Statistics>, value: fn(&Statistics) -> f64) -> f64 {
    statistics.as_ref().map_or(f64::NAN, value)
}

pub type Value<D> = fn(&<D as Data>::Metrics) -> f64;
/// Heading and cell of a table column.
pub type Column<D> = (&'static str, fn(&Runs<D>) -> String);
/// Label and value of a bound that is drawn if it is equal for all runs.
pub type Bound<D> = (&'static str, Value<D>);
pub type Causes<D> = fn(&<D as Data>::Metrics) -> &BTreeMap<&'static str, u64>;

pub struct Results<'a, D: Data> {
    pub loaded: &'a Loaded,
    pub findings: &'a Findings,
    /// Key and label of each axis of the sweep.
    pub axes: Vec<(String, String)>,
    pub rows: Vec<Runs<D>>,
}

/// Runs that differ only in their seeds; there is at least one.
pub struct Runs<D> {
    pub run: String,
    pub label: String,
    /// The number of the run's colour in all figures.
    pub colour: usize,
    /// Values of the sweep's axes, as written in the scenario.
    pub point: Vec<String>,
    pub all: Vec<Outcome<D>>,
}

impl<D: Data> Runs<D> {
    pub fn first(&self) -> &Outcome<D> {
        &self.all[0]
    }

    pub fn metrics(&self) -> &D::Metrics {
        self.first().metrics()
    }

    pub fn mean(&self, value: impl Fn(&D::Metrics) -> f64) -> f64 {
        self.all.iter().map(|outcome| value(outcome.metrics())).sum::<f64>() / self.all.len() as f64
    }

    /// Returns the mean of a figure and half the width of its 95 % confidence interval; the latter
    /// is 0 for one seed.
    pub fn interval(&self, value: impl Fn(&D::Metrics) -> f64) -> (f64, f64) {
        let values: Vec<f64> = self.all.iter().map(|outcome| value(outcome.metrics())).collect();
        Spread::of(&values).map_or((f64::NAN, 0.0), |spread| (spread.mean, spread.confidence_95))
    }

    pub fn spread(&self, value: impl Fn(&D::Metrics) -> f64, shown: fn(f64) -> String) -> String {
        match self.interval(value) {
            (mean, half) if self.all.len() > 1 && mean.is_finite() => {
                format!("{} ± {}", shown(mean), shown(half))
            }
            (mean, _) => shown(mean),
        }
    }

    pub fn named(&self) -> String {
        [std::slice::from_ref(&self.label), &self.point].concat().join(", ")
    }

    fn row(&self, cells: Vec<String>) -> Row {
        Row {
            label: self.label.clone(),
            name: self.run.clone(),
            cells: [self.point.clone(), cells].concat(),
            ..Row::default()
        }
    }
}

/// A figure drawn over the last axis of a sweep.
pub struct Shown<D: Data> {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub caption: &'static str,
    pub value: Value<D>,
}

impl<'a, D: Data> Results<'a, D> {
    pub fn of(loaded: &'a Loaded, findings: &'a Findings) -> Self {
        let axes = axes(loaded);
        let results = findings.results.iter().filter_map(Outcome::typed::<D>);
        let key = |result: &Outcome<D>| (result.run.name.clone(), point(&axes, &result.run.parameters));
        let colours = colours(loaded);
        let runs = |((run, point), all): ((String, Vec<String>), Vec<Outcome<D>>)| Runs {
            colour: colours.get(&run).copied().unwrap_or(0),
            run,
            label: all[0].point.label.clone(),
            point,
            all,
        };
        let rows = grouped(results, key).into_iter().map(runs).collect();
        Self { loaded, findings, axes, rows }
    }

    pub fn all(&self) -> impl Iterator<Item = &Outcome<D>> {
        self.rows.iter().flat_map(|row| &row.all)
    }

    pub fn is_sweep(&self) -> bool {
        !self.axes.is_empty()
    }

    pub fn figures_heading(&self) -> &'static str {
        if self.is_sweep() { "Over the sweep" } else { "Side by side" }
    }

    /// Returns a table with a row for each run. The values of the axes are the first columns.
    pub fn table(&self, columns: &[Column<D>]) -> Table {
        let headings = columns.iter().map(|(heading, _)| *heading);
        self.table_of(headings, |row| columns.iter().map(|(_, cell)| cell(row)).collect())
    }

    /// Returns a table like [`table`](Self::table), with computed headings and cells.
    pub fn table_of<H: Into<String>>(
        &self,
        headings: impl IntoIterator<Item = H>,
        cells: impl Fn(&Runs<D>) -> Vec<String>,
    ) -> Table {
        let labels = self.axes.iter().map(|(_, label)| label.clone());
        let headings = headings.into_iter().map(Into::into);
        let all = std::iter::once("run".to_owned()).chain(labels).chain(headings);
        Table::new(all, 1 + self.axes.len(), self.rows.iter().map(|row| row.row(cells(row))).collect())
    }

    /// Returns tables of a figure with the values of the last axis side by side: one for each
    /// combination of the others.
    pub fn pivots(&self, shown: &Shown<D>) -> Vec<Part> {
        let Some((_, axis)) = self.axes.last() else { return Vec::new() };
        let last = self.axes.len() - 1;
        let unit = shown.unit;
        let table = |(place, _, rows): (String, String, Vec<&Runs<D>>)| {
            let values = grouped(&rows, |row| row.point[last].as_str());
            let values: Vec<&str> = values.into_iter().map(|(value, _)| value).collect();
            let headings = std::iter::once(format!("{}{place}, by {axis}", shown.title));
            let headings = headings.chain(values.iter().map(|value| (*value).to_owned()));
            let row = |(run, rows): (&str, Vec<&&Runs<D>>)| {
                let cell = |value: &&str| {
                    let row = rows.iter().find(|row| row.point[last] == *value);
                    row.map_or_else(|| MISSING.to_owned(), |row| unit.written(row.mean(shown.value)))
                };
                let label = rows[0].label.clone();
                Row { label, ..Row::new(run, values.iter().map(cell).collect()) }
            };
            let rows = grouped(rows, |row| row.run.as_str());
            let rows = rows.into_iter().map(|(run, rows)| row((run, rows.iter().collect()))).collect();
            Part::Table(Table { fold: None, ..Table::new(headings, 1, rows) })
        };
        self.panels().into_iter().map(table).collect()
    }

    pub fn means(&self, figures: &[(&'static str, Value<D>)], shown: impl Fn(f64) -> String) -> Table {
        let headings = figures.iter().map(|(heading, _)| *heading);
        self.table_of(headings, |row| figures.iter().map(|(_, value)| shown(row.mean(value))).collect())
    }

    /// Returns a section with counts by cause; `None` if all are zero.
    pub fn causes(&self, heading: &str, kinds: &[(&str, Causes<D>)]) -> Option<Section> {
        let mut rows = Vec::new();
        for row in &self.rows {
            for (kind, counts) in kinds {
                let mut all: BTreeMap<&str, u64> = BTreeMap::new();
                for outcome in &row.all {
                    counts(outcome.metrics())
                        .iter()
                        .for_each(|(cause, n)| *all.entry(cause).or_default() += n);
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
        let headings = std::iter::once("run").chain(labels).chain(["kind", "cause", "count"]);
        let table = Table::new(headings, 3 + self.axes.len(), rows).folded("By run and cause", false);
        Some(Section::new(heading, "", table))
    }

    pub fn published(&self, run: &Runs<D>, metric: &str) -> Vec<f64> {
        let published = self.findings.summary.published.iter().map(|known| &known.figure);
        let of_run =
            published.filter(|known| known.run == run.run && known.metric == metric && known.over.is_none());
        of_run.map(|known| known.value).collect()
    }

    pub fn distribution(&self, caption: &str, axis: &str, points: fn(&D) -> &[(f64, f64)]) -> Figure {
        let curve = |row: &Runs<D>| (row.label.clone(), points(row.first()).to_vec());
        let mut lines = Lines::shares("share of deliveries made", axis, self.rows.iter().map(curve));
        for (line, row) in lines.lines.iter_mut().zip(&self.rows) {
            line.colour = Some(row.colour);
        }
        let caption = format!("{caption}; dots at 50 % and 99 %.{}", lines.hidden());
        Figure::new("latency", caption, lines)
    }

    /// Groups runs by the values of all axes except the last. Returns these values in words and in
    /// parts of file names.
    pub fn panels(&self) -> Vec<(String, String, Vec<&Runs<D>>)> {
        let last = self.axes.len().saturating_sub(1);
        let panels = grouped(&self.rows, |row| &row.point[..last]).into_iter();
        let panels = panels.map(|(others, rows)| {
            let named = self.axes.iter().zip(others).map(|((_, label), value)| format!(", {label} {value}"));
            let values = others.iter().map(|value| format!("-{value}"));
            (named.collect(), values.collect(), rows)
        });
        panels.collect()
    }

    /// Draws lines over the last axis, with a figure for each combination of the others.
    ///
    /// The first of `shown` is always drawn, with the bound. The others are drawn only if their
    /// values differ.
    pub fn over_sweep(&self, shown: &[Shown<D>], bound: Option<Bound<D>>) -> Vec<Figure> {
        let Some((_, axis)) = self.axes.last() else { return Vec::new() };
        let mut figures = Vec::new();
        for (place, suffix, rows) in self.panels() {
            let values: Vec<&str> =
                rows.iter().filter_map(|row| row.point.last()).map(String::as_str).collect();
            let (swept, xs) = Swept::new(&values);
            for (at, shown) in shown.iter().enumerate() {
                let lines = lines(&rows, &xs, shown.value, bound.filter(|_| at == 0));
                let mut found = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
                let Some(first) = found.find(|value| value.is_finite()) else { continue };
                let differs = |value: f64| (value - first).abs() > first.abs() * 1e-3;
                if at > 0 && !found.any(differs) {
                    continue;
                }
                let title = format!("{}{place}", shown.title);
                let drawn = Lines::over(title, (axis, &swept), shown.unit, lines);
                figures.push(Figure::new(format!("sweep-{}{suffix}", shown.name), shown.caption, drawn));
            }
        }
        figures
    }
}

/// Returns a line for each run over the positions of its values, and the bound.
fn lines<D: Data>(rows: &[&Runs<D>], xs: &[f64], value: Value<D>, bound: Option<Bound<D>>) -> Vec<Line> {
    let line = |(_, rows): (&String, Vec<(&&Runs<D>, &f64)>)| {
        let intervals = rows.iter().map(|(row, _)| row.interval(value));
        let (means, confidence): (Vec<f64>, Vec<f64>) = intervals.unzip();
        let points = rows.iter().map(|(_, x)| **x).zip(means).collect();
        Line {
            label: rows[0].0.label.clone(),
            points,
            confidence,
            colour: Some(rows[0].0.colour),
            ..Line::default()
        }
    };
    let mut lines: Vec<Line> =
        grouped(rows.iter().zip(xs), |(row, _)| &row.run).into_iter().map(line).collect();
    if let Some((label, value)) = bound {
        let mut points: Vec<(f64, f64)> = rows
            .iter()
            .zip(xs)
            .map(|(row, x)| (*x, row.mean(value)))
            .filter(|(_, bound)| *bound > 0.0)
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_one = points
            .windows(2)
            .all(|two| two[0].0 < two[1].0 || (two[0].1 - two[1].1).abs() <= two[0].1 * 1e-3);
        points.dedup_by_key(|(x, _)| *x);
        if is_one {
            lines.push(Line { label: label.to_owned(), points, style: Style::Bound, ..Line::default() });
        }
    }
    lines
}

pub(crate) fn unit_of(metric: &str) -> Unit {
    match unit(metric) {
        "ms" => Unit::Milliseconds,
        "bytes" => Unit::Bytes,
        "share" => Unit::Share,
        _ => Unit::Number,
    }
}
