//! The report on blocks of columns.

use crate::section::Columns;
use samara_engine::units::Span;
use samara_report::words::{fixed, grouped, ms, number, percent, plural, signed_percent, times};
use samara_report::{
    Arrival, Bar, Bars, DEADLINE_MAX, Explorer, Figure, HUES, Ink, Line, Lines, Look, Mark, Panel, Part,
    Scale, Section, Style, Summary, Table, Unit,
};

use super::metrics::{CellMetrics, ColumnMetrics, ColumnsData};
use samara_lab::finding;
use samara_lab::report::{self, Body, Bound, Column, Results, Runs, Shown, of, spread};
use samara_lab::results::Outcome;
use samara_lab::statistics::{Spread, Statistics};

/// Maximum number of runs that a sentence names, and of sentences about incomplete runs.
const NAMES_MAX: usize = 4;
/// Maximum number of different curves of bounds in a figure.
const BOUNDS_MAX: usize = 4;
/// Maximum number of curves in a figure of a file. If there are more, every n-th is drawn; the page
/// has all.
const CURVES_MAX: usize = 350;

type Report<'a> = Results<'a, ColumnsData>;
type Row = Runs<ColumnsData>;

const SWEPT: [Shown<ColumnsData>; 1] = [Shown {
    name: "custody",
    title: "mean time to custody",
    unit: Unit::Milliseconds,
    caption: "",
    value: |m| of(m.time_to_custody_ms, |s| s.mean),
}];

/// The page's summary of a run.
trait OfColumns {
    fn custody(&self, value: fn(&Statistics) -> f64) -> f64;
    fn bound(&self) -> f64;
    fn incomplete(&self) -> f64;
    fn missed(&self) -> (usize, usize);
    fn over(&self, value: fn(&ColumnMetrics) -> Option<f64>) -> f64;
    fn by_deadline(&self) -> String;
    fn over_bound(&self) -> f64;
}

impl OfColumns for Row {
    fn custody(&self, value: fn(&Statistics) -> f64) -> f64 {
        self.mean(|m| of(m.time_to_custody_ms, value))
    }

    fn bound(&self) -> f64 {
        self.mean(|m| m.lower_bound_ms)
    }

    fn incomplete(&self) -> f64 {
        self.mean(|m| m.incomplete as f64)
    }

    /// Returns the number of nodes that missed the deadline, and of those that waited, over all
    /// slots and seeds.
    fn missed(&self) -> (usize, usize) {
        let waited = || self.all.iter().flat_map(|result| result.custody_ms.iter().flatten());
        (waited().filter(|(_, time)| time.is_none()).count(), waited().count())
    }

    /// Returns a percentile as a multiple of its bound; NaN without one.
    fn over(&self, value: fn(&ColumnMetrics) -> Option<f64>) -> f64 {
        self.mean(|m| value(m).unwrap_or(f64::NAN))
    }

    fn by_deadline(&self) -> String {
        percent(self.mean(|m| m.share_by_deadline), 1)
    }

    /// Returns the mean as a multiple of the bound; NaN if a node is incomplete.
    ///
    /// The bound is over all nodes, while the mean would be over the complete ones only.
    fn over_bound(&self) -> f64 {
        let over = times(self.custody(|s| s.mean), self.bound());
        over.filter(|_| self.incomplete() == 0.0).unwrap_or(f64::NAN)
    }
}

pub(super) fn body(report: &Report<'_>) -> Body {
    let mut sections = Vec::new();
    let mut details = Vec::new();
    if report.is_sweep() {
        let bound: Bound<ColumnsData> = ("lower bound", |m| m.lower_bound_ms);
        let seeds = report.rows.iter().map(|row| row.all.len()).max().unwrap_or(1);
        let text = match seeds {
            0 | 1 => String::new(),
            _ => format!("Means over {seeds} seeds, with 95 % confidence intervals."),
        };
        let mut section = Section::new("Over the sweep", text, report.over_sweep(&SWEPT, Some(bound)));
        section.parts.extend(report.pivots(&SWEPT[0]));
        sections.push(section);
    } else if !report.rows.is_empty() {
        details.push(explorer(report));
    }
    let text = "Time from the publication until a node has all its columns. The bound is a mean over all nodes that no \
                schedule can beat: one copy of every column through the publisher's uplink, the last of a node's columns, \
                and the fastest possible spread.";
    sections.push(Section::new("Time to custody", text, custody(report)));
    if !report.is_sweep() && !report.rows.is_empty() {
        sections.push(spread(report));
    }
    sections.extend(by_region(report));
    sections.extend(cells(report));
    details.push(cost(report));
    // Means over the nodes that happened to finish do not compare.
    let misses_many = |row: &Row| {
        let (missed, waited) = row.missed();
        missed as f64 > 0.05 * waited as f64
    };
    let figure = || if report.rows.iter().any(misses_many) { finished(report) } else { means(report) };
    let figure = (!report.is_sweep() && !report.rows.is_empty()).then(figure);
    Body { findings: findings(report), figure, summary: summary(report), sections, details }
}

fn means(report: &Report<'_>) -> Figure {
    let bar = |row: &Row| {
        let (mean, bound) = (row.custody(|s| s.mean), row.bound());
        let (missed, waited) = row.missed();
        let text = match missed {
            0 => ms(mean),
            _ => format!(
                "{} ({} of {} nodes)",
                ms(mean),
                grouped((waited - missed) as f64),
                grouped(waited as f64)
            ),
        };
        let colour = if missed > 0 { 8 } else { row.colour % HUES };
        let parts = if mean.is_finite() { vec![(0.0, mean, colour)] } else { Vec::new() };
        Bar { name: row.label.clone(), parts, bounds: vec![bound], text, ..Bar::default() }
    };
    let rows: Vec<Bar> = report.rows.iter().map(bar).collect();
    let ends = report.rows.iter().flat_map(|row| [row.custody(|s| s.mean), row.bound()]);
    let most = ends.filter(|end| end.is_finite()).fold(1.0, f64::max);
    let key = vec![
        (Mark::Bar(Ink::GREY), "mean over nodes".to_owned()),
        (Mark::Dashes(Ink::BLACK), "lower bound: no schedule is faster".to_owned()),
    ];
    let scale = Scale::linear("", 0.0..most * 1.12, Unit::Milliseconds);
    let title = "mean time until a node has all its columns".to_owned();
    Figure::new("means", "", Bars { title, scale, rows, key })
}

/// The shares of the nodes that finished, if many did not.
fn finished(report: &Report<'_>) -> Figure {
    let bar = |row: &Row| {
        let (missed, waited) = row.missed();
        let done = (waited - missed) as f64;
        let text = format!("{} of {} nodes", grouped(done), grouped(waited as f64));
        let parts = vec![(0.0, done / waited.max(1) as f64, row.colour % HUES)];
        Bar { name: row.label.clone(), parts, text, ..Bar::default() }
    };
    let rows: Vec<Bar> = report.rows.iter().map(bar).collect();
    let mut deadlines: Vec<Span> = report.rows.iter().map(deadline).collect();
    deadlines.dedup();
    let by = if let [deadline] = deadlines[..] { deadline.to_string() } else { "the deadline".to_owned() };
    // The longest text has its place behind a full bar.
    let scale = Scale::linear("", 0.0..1.19, Unit::Share);
    let title = format!("nodes that have all their columns by {by}");
    Figure::new("finished", "", Bars { title, scale, rows, key: Vec::new() })
}

/// Returns true if a run is the fastest of several runs without incomplete nodes.
fn is_best(report: &Report<'_>, row: &Row) -> bool {
    let complete = report.rows.iter().filter(|row| row.incomplete() == 0.0);
    let least = complete.map(|row| row.custody(|s| s.mean)).fold(f64::INFINITY, f64::min);
    let is_least = row.incomplete() == 0.0 && row.custody(|s| s.mean) == least;
    is_least && !report.is_sweep() && report.rows.len() > 1
}

fn by_deadline(report: &Report<'_>) -> String {
    let mut deadlines: Vec<Span> = report.rows.iter().map(deadline).collect();
    deadlines.dedup();
    match deadlines.as_slice() {
        [one] => format!("by {one}"),
        _ => "by deadline".to_owned(),
    }
}

/// Returns a table in which the share of nodes that met the deadline is before the last column, unless
/// the deadline is the default and all met it.
fn with_deadline(report: &Report<'_>, columns: &[Column<ColumnsData>]) -> Table {
    let default = Columns::default().deadline;
    if report.rows.iter().all(|row| deadline(row) == default && row.incomplete() == 0.0) {
        return report.table(columns);
    }
    let at = columns.len() - 1;
    let mut headings: Vec<String> = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    headings.insert(at, by_deadline(report));
    report.table_of(headings, |row| {
        let mut cells: Vec<String> = columns.iter().map(|(_, cell)| cell(row)).collect();
        cells.insert(at, row.by_deadline());
        cells
    })
}

fn custody(report: &Report<'_>) -> Table {
    let mut table = with_deadline(
        report,
        &[
            ("Mean", |row| row.spread(|m| of(m.time_to_custody_ms, |s| s.mean), ms)),
            ("p50", |row| ms(row.custody(|s| s.p50))),
            ("p95", |row| ms(row.custody(|s| s.p95))),
            ("p99", |row| ms(row.custody(|s| s.p99))),
            ("Max", |row| ms(row.custody(|s| s.max))),
            ("× bound", |row| fixed(row.over_bound(), 2)),
            ("p50 × bound", |row| fixed(row.over(|m| m.p50_over_bound), 2)),
            ("p99 × bound", |row| fixed(row.over(|m| m.p99_over_bound), 2)),
            ("Last × bound", |row| fixed(row.over(|m| m.last_over_bound), 2)),
            ("Incomplete", |row| number(row.incomplete())),
        ],
    );
    table.bars = "Mean, bound (line), and 95th percentile (thin)".to_owned();
    for (shown, row) in table.rows.iter_mut().zip(&report.rows) {
        let values = [row.custody(|s| s.mean), row.custody(|s| s.p95), row.bound()];
        shown.bar = Some(values.map(|value| (value, ms(value))));
        let (missed, waited) = row.missed();
        if missed > 0 {
            // Otherwise a run with one fast node seems to be the fastest.
            let done = grouped((waited - missed) as f64);
            shown.remark = format!("{done} of {} nodes finished", grouped(waited as f64));
        }
        shown.look = if is_best(report, row) { Look::Good } else { Look::Plain };
    }
    table
}

/// Returns the medians by the publisher's region, if it differs between seeds.
fn by_region(report: &Report<'_>) -> Option<Section> {
    let region = |result: &Outcome<ColumnsData>| {
        let publisher = result.point.scenario.part::<Columns>().publisher;
        result.regions.1.get(publisher as usize).copied()
    };
    let (first, names) = report.rows.first().map(|row| (row, &row.first().regions.0))?;
    let seeds = |of: u16| first.all.iter().filter(|result| region(result) == Some(of)).count();
    let regions: Vec<u16> = (0..names.len() as u16).filter(|of| seeds(*of) > 0).collect();
    if regions.len() < 2 {
        return None;
    }
    let headings = regions.iter().map(|of| {
        let name = &names[usize::from(*of)];
        format!("{name} ({})", plural(seeds(*of) as f64, "seed"))
    });
    let table = report.table_of(headings, |row| {
        let median = |of: &u16| {
            let own = row.all.iter().filter(|result| region(result) == Some(*of));
            let medians: Vec<f64> =
                own.filter_map(|result| Some(result.metrics.time_to_custody_ms?.p50)).collect();
            Spread::of(&medians).map_or_else(|| ms(f64::NAN), |spread| spread.written(Unit::Milliseconds))
        };
        regions.iter().map(median).collect()
    });
    let text = "The median of the time to custody by the region of the publisher. Means over seeds, with 95 % confidence \
                intervals.";
    Some(Section::new("By the publisher's region", text, table))
}

fn spread(report: &Report<'_>) -> Section {
    let line = |row: &Row| {
        let spreads = &row.first().metrics.custody_spread_ms;
        let point = |step: u32| spreads.get(&format!("k{step}")).map(|ms| (f64::from(step), *ms));
        Line {
            label: row.label.clone(),
            points: (1..).map_while(point).collect(),
            style: Style::Plain,
            colour: Some(row.colour),
            ..Line::default()
        }
    };
    let lines: Vec<Line> = report.rows.iter().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|(step, _)| *step).fold(1.0, f64::max);
    let most = points().map(|(_, ms)| *ms).fold(1.0, f64::max) * 1.03;
    let x = Scale::linear("columns of a node that have arrived", 1.0..last.max(2.0), Unit::Count);
    let y = Scale::linear("", 0.0..most, Unit::Milliseconds);
    let title = "Time between the first and the last node with so many of its columns";
    let figure = Figure::new("spread", "", Lines::new(title, (x, y), lines));
    let table = report.table(&[
        ("Spread before the last column", |row| {
            ms(row.mean(|m| m.custody_spread_ms.get("before_last").copied().unwrap_or(f64::NAN)))
        }),
        ("p99: all columns", |row| ms(row.mean(|m| of(m.custody_tail_ms.all, |s| s.p99)))),
        ("all but 1", |row| ms(row.mean(|m| of(m.custody_tail_ms.all_but_1, |s| s.p99)))),
        ("all but 2", |row| ms(row.mean(|m| of(m.custody_tail_ms.all_but_2, |s| s.p99)))),
    ]);
    let text = "How far apart nodes are while their columns arrive, and the tail that a node cuts if it needs fewer columns.";
    let mut section = Section::new("Spread over nodes", text, Part::Figures(vec![figure]));
    section.parts.push(Part::Table(table));
    section
}

fn cost(report: &Report<'_>) -> Section {
    let table = report.table(&[
        ("Copies", |row| fixed(row.mean(copies), 2)),
        ("MB up per node", |row| fixed(row.mean(|m| m.bytes.bytes_up_per_node) / 1e6, 2)),
        ("Withdrawn copies", |row| fixed(row.mean(|m| m.withdrawn_copies as f64), 0)),
        ("Sent again", |row| fixed(row.mean(|m| m.losses.retransmissions as f64), 0)),
        ("Queue drops", |row| fixed(row.mean(|m| m.queue_drops as f64), 0)),
    ]);
    let text = "Copies: number of copies of each column that a node received, including the first. Bytes are on the wire.";
    Section::new("Cost", text, table)
}

/// Returns the copies of a column that a node received, of the payload with pieces, or of a missing cell
/// if all nodes exchange cells.
fn copies(metrics: &ColumnMetrics) -> f64 {
    if let Some(copies) = metrics.payload_copies {
        return copies;
    }
    let cells = metrics.cells.as_ref().filter(|cells| cells.old.time_to_custody_ms.is_none());
    cells.map_or(metrics.deliveries.duplication_factor, |cells| cells.copies_per_missing)
}

/// Returns the exchange of cells, if there is any.
fn cells(report: &Report<'_>) -> Option<Section> {
    fn of_cells(row: &Row, value: impl Fn(&CellMetrics) -> Option<f64>) -> f64 {
        row.mean(|m| m.cells.as_ref().and_then(&value).unwrap_or(f64::NAN))
    }
    report.rows.iter().find(|row| row.first().metrics.cells.is_some())?;
    let table = report.table(&[
        ("Copies of a missing cell", |row| fixed(of_cells(row, |m| Some(m.copies_per_missing)), 2)),
        ("Headers", |row| fixed(of_cells(row, |m| Some(m.headers_per_node)), 1)),
        ("Metadata", |row| fixed(of_cells(row, |m| Some(m.metadata_per_node)), 0)),
        ("Mean time, upgraded", |row| ms(of_cells(row, |m| m.upgraded.time_to_custody_ms))),
        ("old", |row| ms(of_cells(row, |m| m.old.time_to_custody_ms))),
        ("MB received, upgraded", |row| fixed(of_cells(row, |m| m.upgraded.bytes_down_per_node) / 1e6, 2)),
        ("old", |row| fixed(of_cells(row, |m| m.old.bytes_down_per_node) / 1e6, 2)),
    ]);
    let text = "Cells, headers and messages with metadata that a node received. Upgraded nodes exchange cells, old ones only whole columns.";
    Some(Section::new("Cells", text, table))
}

fn summary(report: &Report<'_>) -> Summary {
    let mut table = with_deadline(
        report,
        &[
            ("mean ms", |row| row.spread(|m| of(m.time_to_custody_ms, |s| s.mean), |ms| fixed(ms, 0))),
            ("p50", |row| fixed(row.custody(|s| s.p50), 0)),
            ("p95", |row| fixed(row.custody(|s| s.p95), 0)),
            ("max", |row| fixed(row.custody(|s| s.max), 0)),
            ("bound ms", |row| fixed(row.bound(), 0)),
            ("x bound", |row| fixed(row.over_bound(), 2)),
            ("copies", |row| fixed(row.mean(copies), 2)),
            ("MB up", |row| fixed(row.mean(|m| m.bytes.bytes_up_per_node) / 1e6, 2)),
            ("incomplete", |row| number(row.incomplete())),
        ],
    );
    let mut legend = "Time to custody: from the publication until a node has all its columns.".to_owned();
    let best = table.rows.iter_mut().zip(&report.rows).find(|(_, row)| is_best(report, row));
    if let Some((shown, _)) = best {
        shown.name += " *";
        legend += " * is the least mean of the runs without incomplete nodes.";
    }
    let (before, after) = (missed(report, |row| row.run.clone()), caveats(report));
    Summary { before, legend, table, after, ..Summary::default() }
}

fn first_seeds<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a Outcome<ColumnsData>> {
    first_rows(report).map(Row::first)
}

fn first_rows<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a Row> {
    report::grouped(&report.rows, |row| row.run.as_str()).into_iter().map(|(_, rows)| rows[0])
}

fn explorer(report: &Report<'_>) -> Section {
    let panels: Vec<Panel> = first_rows(report).map(panel).collect();
    let (comparison, hidden) = comparison(report, &panels);
    let mut figures = vec![comparison];
    for (panel, result) in panels.iter().zip(first_seeds(report)) {
        figures.extend([false, true].map(|is_of_nodes| curves(panel, &result.run.name, is_of_nodes)));
    }
    let text = "Left, a curve for each column: the share of its subscribers that have it. Right, a curve for each node: \
                the share of its columns that it has. The curves show the first slot of the first seed.";
    let explorer = Explorer {
        axis: AXIS.to_owned(),
        deadline: only_deadline(report).map(|deadline| (deadline.millis_f64(), named(deadline))),
        panels_heading: ("How columns spread, and how custody fills".to_owned(), text.to_owned()),
        each: [("column", "Columns: share of their subscribers"), ("node", "Nodes: share of their columns")]
            .map(|(name, caption)| (name.to_owned(), caption.to_owned())),
        panels,
        bounds: lower_bounds(&first_rows(report).collect::<Vec<_>>()),
        regions: first_seeds(report).next().map(|result| result.regions.clone()).unwrap_or_default(),
        figures,
    };
    let text = format!(
        "The share of nodes that have all their columns, for each run. Point at a curve to identify it; click to keep it \
         selected. Keyboard: arrows, Enter and Escape.{hidden}"
    );
    Section::new("When nodes are done", text, Part::Explorer(Box::new(explorer)))
}

/// Returns the arrivals of the first slot of a run's first seed.
fn panel(row: &Row) -> Panel {
    let result = row.first();
    let mut first: Vec<_> = result.deliveries.iter().filter(|delivery| delivery.slot == 0).collect();
    if let Some(needed) = result.point.scenario.part::<Columns>().needed() {
        // A node is done with its first columns; the others do not matter.
        first.sort_by_key(|delivery| (delivery.host, delivery.at));
        let nodes = first.chunk_by(|a, b| a.host == b.host);
        first = nodes.flat_map(|own| own.iter().take(needed as usize)).copied().collect();
        first.sort_by_key(|delivery| (delivery.host, delivery.segment));
    }
    let publisher = result.point.scenario.part::<Columns>().publisher;
    let arrivals = first.into_iter().map(|delivery| Arrival {
        node: delivery.host,
        item: delivery.segment as u16,
        nanos: delivery.delivered().then(|| delivery.at - result.published[0]),
        from: delivery.from,
        hops: delivery.hops,
    });
    Panel {
        label: result.point.label.clone(),
        description: result.point.description.clone(),
        colour: row.colour,
        arrivals: arrivals.collect(),
        publishers: (0..result.point.scenario.part::<Columns>().segments())
            .map(|item| (item as u16, publisher))
            .collect(),
    }
}

const AXIS: &str = "after the publication";

/// Draws a curve for each column (share of its subscribers reached) or each node (share of its
/// columns received).
fn curves(panel: &Panel, run: &str, is_of_nodes: bool) -> Figure {
    let groups = spread::times(panel, is_of_nodes);
    let every = groups.len().div_ceil(CURVES_MAX).max(1);
    let groups: Vec<Vec<f64>> = groups.into_iter().step_by(every).collect();
    let (count, opacity) = (groups.len() as f64, if groups.len() > 200 { 0.25 } else { 0.4 });
    let line = |(i, times): (usize, &Vec<f64>)| Line {
        points: spread::steps(times),
        style: Style::Thin(Ink::ramp(i as f64 / count), opacity),
        ..Line::default()
    };
    let (name, what) = match is_of_nodes {
        false => ("columns", "share of subscribers reached, a curve for each column"),
        true => ("custody", "share of own columns received, a curve for each node"),
    };
    let scales = spread::scales(AXIS, groups.iter().flatten().copied());
    let lines =
        Lines::new(format!("{}: {what}", panel.label), scales, groups.iter().enumerate().map(line).collect());
    Figure::new(format!("{run}-{name}"), "", Lines { has_key: false, ..lines })
}

/// Returns the deadline of all runs; `None` if they differ.
fn only_deadline(report: &Report<'_>) -> Option<Span> {
    let first = deadline(report.rows.first()?);
    report.rows.iter().all(|row| deadline(row) == first).then_some(first)
}

fn named(deadline: Span) -> String {
    format!("deadline {deadline}")
}

/// Draws the share of nodes that have all their columns, for each run, and the deadline unless it is
/// far behind the last arrival. Returns also a sentence about curves that others cover.
fn comparison(report: &Report<'_>, panels: &[Panel]) -> (Figure, String) {
    let rows: Vec<&Row> = first_rows(report).collect();
    let runs: Vec<(&Panel, Vec<f64>)> = panels.iter().map(|panel| (panel, spread::complete(panel))).collect();
    let times = || runs.iter().flat_map(|(_, times)| times).copied();
    let last = times().filter(|time| time.is_finite()).max_by(f64::total_cmp).unwrap_or(f64::INFINITY);
    let deadline = only_deadline(report).filter(|deadline| deadline.millis_f64() <= DEADLINE_MAX * last);
    let bound = deadline.map(|deadline| Line {
        label: named(deadline),
        points: [0.0, 1.0].map(|share| (deadline.millis_f64(), share)).to_vec(),
        style: Style::Bound,
        ..Line::default()
    });
    let scales = spread::scales(AXIS, times().chain(deadline.map(Span::millis_f64)));
    let mut lines =
        Lines::new("", scales, runs.iter().map(|(panel, times)| spread::line(panel, times)).collect());
    let hidden = lines.hidden();
    lines.title = "Share of nodes that have all their columns".to_owned();
    lines.lines.extend(lower_bounds(&rows).into_iter().map(|(label, bounds)| Line {
        label,
        points: spread::steps(&bounds),
        style: Style::Bound,
        ..Line::default()
    }));
    lines.lines.extend(bound);
    (Figure::new("custody", hidden.trim_start(), lines), hidden)
}

/// Returns the names and times of the curves of the shares of nodes that can be complete: one for each
/// of a few runs, or one that holds for all.
fn lower_bounds(rows: &[&Row]) -> Vec<(String, Vec<f64>)> {
    let mut curves: Vec<(&str, &[f64])> = Vec::new();
    for row in rows {
        let bounds = row.first().bounds_ms.as_slice();
        if !bounds.is_empty() && curves.iter().all(|(_, known)| *known != bounds) {
            curves.push((row.label.as_str(), bounds));
        }
    }
    if curves.len() > BOUNDS_MAX {
        let nodes = curves.iter().map(|(_, bounds)| bounds.len()).min().unwrap_or(0);
        let least =
            |place: usize| curves.iter().map(|(_, bounds)| bounds[place]).fold(f64::INFINITY, f64::min);
        let is_same = curves.iter().all(|(_, bounds)| bounds.len() == nodes);
        let all = is_same.then(|| ("lower bound of all runs".to_owned(), (0..nodes).map(least).collect()));
        return all.into_iter().collect();
    }
    let is_single = curves.len() == 1;
    let named = |(label, bounds): (&str, &[f64])| {
        let name = if is_single { "lower bound".to_owned() } else { format!("lower bound of {label}") };
        (name, bounds.to_vec())
    };
    curves.into_iter().map(named).collect()
}

/// Returns what times mean if nodes are incomplete, and whether all nodes can be complete.
fn caveats(report: &Report<'_>) -> Vec<String> {
    let is_part = |row: &Row| row.missed().0 > 0 && row.missed().0 < row.missed().1;
    let parts: Vec<String> =
        report.rows.iter().filter(|row| is_part(row)).map(|row| format!("\"{}\"", row.label)).collect();
    let names =
        if parts.len() > NAMES_MAX { "runs with incomplete nodes".to_owned() } else { parts.join(", ") };
    let times = (!parts.is_empty()).then(|| {
        format!("Times of {names} are those of the complete nodes, so the mean can be less than the bound.")
    });
    let all = report.rows.iter().filter(|row| row.missed().0 > 0).find_map(impossible);
    times.into_iter().chain(all).collect()
}

fn findings(report: &Report<'_>) -> Vec<String> {
    let missed = missed(report, |row| format!("\"{}\"", row.label));
    let mut sentences: Vec<String> = met(report).into_iter().collect();
    sentences.extend(missed.iter().map(|sentence| format!("{sentence}.")));
    sentences.extend(caveats(report));
    match report.is_sweep() {
        false if finding::sentences(report.loaded, &report.findings.results).is_empty() => {
            sentences.extend(fastest(report))
        }
        false => {}
        true => sentences.extend(fastest_at_ends(report)),
    }
    sentences.extend(first_seeds(report).filter_map(slow_start));
    sentences.extend(report.findings.comparisons.iter().map(|comparison| {
        format!(
            "{}: the mean differs by {}, the 95th percentile by {} from the measured values.",
            comparison.label,
            signed_percent(comparison.mean_deviation()),
            signed_percent(comparison.p95_deviation())
        )
    }));
    sentences
}

/// Returns sentences on the nodes that missed the deadline, by run. `name` returns the name of a
/// run.
fn missed(report: &Report<'_>, name: impl Fn(&Row) -> String) -> Vec<String> {
    let named = |row: &Row| [vec![name(row)], row.point.clone()].concat().join(" ");
    let rows = report.rows.iter().filter(|row| row.missed().0 > 0);
    let mut groups = report::grouped(rows, |row| (row.missed(), deadline(row).nanos()));
    // The best runs first: there may be more runs than names.
    groups.sort_by_key(|(((missed, _), _), _)| *missed);
    let slots = report.all().map(|result| result.published.len()).max().unwrap_or(0);
    let sentence = |((missed, nanos), rows): &((_, u64), Vec<&Row>)| {
        let deadline = Span::from_nanos(*nanos);
        let (missed, waited): &(usize, usize) = missed;
        // If all runs are alike, none is a better one to name.
        let is_all = rows.len() > NAMES_MAX && rows.len() == report.rows.len();
        let names = if is_all { format!("all {} runs", rows.len()) } else { some_names(rows, named) };
        let [missed, waited] = [missed, waited].map(|count| grouped(*count as f64));
        let over = [(slots, "slot"), (rows[0].all.len(), "seed")].map(|(count, thing)| match count {
            0 | 1 => String::new(),
            _ => format!(", over {}", plural(count as f64, thing)),
        });
        format!("{names}: {missed} of {waited} nodes did not finish in {deadline}{}", over.concat())
    };
    // A sentence on the number of others is as long as one that names the last.
    let named = if groups.len() == NAMES_MAX + 1 { groups.len() } else { NAMES_MAX };
    let mut sentences: Vec<String> = groups.iter().take(named).map(sentence).collect();
    let more: usize = groups.iter().skip(named).map(|(_, rows)| rows.len()).sum();
    if more > 0 {
        sentences.push(format!("{}: some nodes did not finish", plural(more as f64, "more run")));
    }
    sentences
}

/// Returns the names of the first runs, and the number of the others.
fn some_names(rows: &[&Row], name: impl Fn(&Row) -> String) -> String {
    let names: Vec<String> = rows.iter().take(NAMES_MAX).map(|row| name(row)).collect();
    match rows.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {}", names.join(", "), plural(more as f64, "more run")),
    }
}

/// Returns a sentence on the runs in which all nodes meet the deadline, if other runs miss it.
fn met(report: &Report<'_>) -> Option<String> {
    let is_met = |row: &&Row| row.missed().0 == 0;
    let mut rows: Vec<&Row> = report.rows.iter().filter(is_met).collect();
    if rows.len() == report.rows.len() || rows.is_empty() || report.is_sweep() {
        return None;
    }
    rows.sort_by(|a, b| a.custody(|s| s.mean).total_cmp(&b.custody(|s| s.mean)));
    let names = some_names(&rows, |row| format!("\"{}\"", row.label));
    Some(format!("All nodes finish in {} with {names}.", deadline(rows[0])))
}

fn deadline(row: &Row) -> Span {
    row.first().point.scenario.part::<Columns>().deadline
}

/// Returns a sentence if no schedule can bring all nodes of a run to their columns in time: if the
/// publisher sends too few pieces, or the bound of the mean time is beyond the deadline.
fn impossible(row: &Row) -> Option<String> {
    let workload = row.first().point.scenario.part::<Columns>();
    let (sent, needed) = (workload.sent(), workload.needed().unwrap_or_else(|| workload.segments()));
    if workload.pieces.is_some() && sent < needed {
        let label = &row.label;
        return Some(format!(
            "The publisher of \"{label}\" sends {sent} pieces, and a node needs {needed}, so none can be done."
        ));
    }
    let (bound, deadline) = (row.mean(|m| m.lower_bound_ms), deadline(row));
    (bound > deadline.millis_f64()).then(|| {
        let bound = ms(bound);
        format!("The mean cannot be less than {bound}, so no schedule meets the deadline of {deadline} at all nodes.")
    })
}

/// Returns a sentence on the fastest runs at both ends of the last axis of a sweep.
fn fastest_at_ends(report: &Report<'_>) -> Option<String> {
    let (_, axis) = report.axes.last()?;
    let values = report::grouped(&report.rows, |row| row.point.last());
    let mean = |row: &&Row| row.custody(|s| s.mean);
    let best = |(value, rows): &(Option<&String>, Vec<&Row>)| {
        let complete = rows.iter().copied().filter(|row| row.incomplete() == 0.0 && mean(row).is_finite());
        let best = complete.min_by(|a, b| mean(a).total_cmp(&mean(b)))?;
        Some((best.label.clone(), ms(mean(&best)), (*value)?.clone()))
    };
    let [first, .., last] = values.as_slice() else { return None };
    let ((label, time, value), (other, other_time, other_value)) = (best(first)?, best(last)?);
    Some(match label == other {
        true => format!(
            "\"{label}\" has the least mean time to custody at both ends: {time} at {axis} {value}, {other_time} at {other_value}."
        ),
        false => format!(
            "The least mean time to custody has \"{label}\" at {axis} {value} ({time}), and \"{other}\" at {other_value} \
             ({other_time})."
        ),
    })
}

/// Returns a sentence on the fastest run, without runs with incomplete nodes: means over different
/// nodes do not compare.
fn fastest(report: &Report<'_>) -> Option<String> {
    let mean = |row: &Row| row.custody(|s| s.mean);
    let complete = report.rows.iter().filter(|row| row.incomplete() == 0.0 && mean(row).is_finite());
    let best = complete.min_by(|a, b| mean(a).total_cmp(&mean(b)))?;
    Some(format!("The fastest run is \"{}\": {} on average.", best.label, ms(mean(best))))
}

/// Returns a sentence on the effect of TCP slow start.
///
/// The first slot uses cold connections; later slots use connections that have carried a block.
fn slow_start(result: &Outcome<ColumnsData>) -> Option<String> {
    let slots = &result.metrics.slots;
    let times: Vec<f64> =
        slots.iter().filter_map(|slot| slot.time_to_custody_ms.as_ref().map(|times| times.mean)).collect();
    // Real nodes do not report their windows. Means over different nodes say nothing about slow
    // start.
    if times.len() < 2 || result.metrics.incomplete > 0 || result.run.real.is_some() {
        return None;
    }
    let later = times[1..].iter().sum::<f64>() / (times.len() - 1) as f64;
    let verdict = match (1.0 - later / times[0]) * 100.0 {
        gain if gain > 5.0 => format!("slow start costs {gain:.0} %"),
        gain if gain < -5.0 => format!("later slots are {:.0} % slower", -gain),
        _ => "they differ by 5 % or less, so slow start has no effect here".to_owned(),
    };
    Some(format!(
        "{}: {} in the first slot (windows of {:.0} packets at the publisher), {} in later ones ({:.0} packets): {verdict}.",
        result.point.label,
        ms(times[0]),
        slots[0].publisher_window_packets,
        ms(later),
        slots[slots.len() - 1].publisher_window_packets
    ))
}
