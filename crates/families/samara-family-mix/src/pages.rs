//! The report on teams that mix batches.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::application::WorkSpan;
use samara_mix::{Half, Phase};
use samara_report::words::{
    MISSING, capitalised, fixed, grouped, number, percent, percent_range, plural, short_ms,
};
use samara_report::{Bar, Bars, Block, Boxes, Figure, Ink, Mark, Scale, Section, Tick, Unit};

use super::measure::{RoundRow, hop_times};
use super::metrics::HopParts;
use super::outcome::MixData;
use samara_lab::report::{self, Body, Column, Results, Runs, Shown, Value, agreement, of};
use samara_lab::results::Outcome;

type Report<'a> = Results<'a, MixData>;
type Row = Runs<MixData>;

/// Length of a timeline, in periods of the first run of a series.
const PERIODS: f64 = 1.1;
/// Height in pixels of a node in a timeline, of a round (minimum and maximum), and of all rounds.
const NODE_PIXELS: u32 = 40;
const ROUND_PIXELS: (f64, f64) = (2.5, 9.0);
const ROUNDS_PIXELS: f64 = 620.0;
/// The vertical extents of decryption and permutation in a row, relative to its middle.
const DECRYPT: (f64, f64) = (0.02, 0.38);
const PERMUTE: (f64, f64) = (-0.38, -0.02);
/// Gaps below this share of a timeline are not drawn.
const GAP: f64 = 0.002;
/// Maximum number of lines in a timeline; more would hide the work.
const WAYS_MAX: usize = 260;

const COLUMNS: [Column<MixData>; 13] = [
    ("slots/s", |row| number(row.mean(|m| m.slots_per_s))),
    ("gain", |row| fixed(row.gain(), 2)),
    ("formula", |row| if row.is_base() { MISSING.to_owned() } else { fixed(row.by_formula(), 2) }),
    ("bound", |row| number(row.mean(|m| m.upper_bound_slots_per_s))),
    ("share", |row| percent(row.mean(|m| m.share_of_bound), 0)),
    ("limit", |row| row.metrics().limit.to_owned()),
    ("latency", |row| short_ms(row.mean(|m| of(m.batch_latency_ms, |s| s.p50)))),
    ("c", |row| short_ms(row.mean(|m| m.compute_ms))),
    ("L", |row| short_ms(row.mean(|m| m.transfer_ms))),
    ("processors", |row| {
        percent_range(row.mean(|m| m.cpu_utilisation_min), row.mean(|m| m.cpu_utilisation_max))
    }),
    ("failed", |row| format!("{:.0} of {:.0}", row.mean(|m| m.failed as f64), row.mean(|m| m.rounds as f64))),
    ("wrong", |row| number(row.mean(|m| m.faults() as f64))),
    ("gap", |row| short_ms(row.mean(|m| m.longest_gap_ms))),
];

const LEGEND: &str = "Slots/s: payloads that come out, at full load. Gain: over the first run of the series. Formula: n + n L/c, over a first run of\n\
sequential unary rounds. Bound: maximum of the busiest processor or uplink. Latency: of a batch, from payloads in to payloads out at all nodes, median.\n\
c: work of a node on a pass; L: time until the next node has all of it. Processors: least and greatest utilisation. Failed: rounds. Wrong: payloads or orders. Gap: the longest time of a team between two rounds.";

const SHOWN: [Shown<MixData>; 6] = [
    Shown {
        name: "throughput",
        title: "payloads per second",
        unit: Unit::Number,
        caption: "With the maximum number of rounds in flight.",
        value: |m| m.slots_per_s,
    },
    Shown {
        name: "gain",
        title: "throughput over that of the first run",
        unit: Unit::Number,
        caption: "In the same series, with the same values of the sweep.",
        value: |m| m.gain.unwrap_or(f64::NAN),
    },
    Shown {
        name: "share",
        title: "throughput as a share of its bound",
        unit: Unit::Share,
        caption: "The busiest processor or uplink determines the bound.",
        value: |m| m.share_of_bound,
    },
    Shown {
        name: "latency",
        title: "median latency of a batch",
        unit: Unit::Milliseconds,
        caption: "From payloads in to payloads out at all nodes.",
        value: |m| of(m.batch_latency_ms, |s| s.p50),
    },
    Shown {
        name: "service",
        title: "mean time from the arrival of a payload to its exit",
        unit: Unit::Milliseconds,
        caption: "With the wait for the next batch of any team.",
        value: |m| of(m.service_ms, |s| s.mean),
    },
    Shown {
        name: "precomputation",
        title: "slots precomputed per second",
        unit: Unit::Number,
        caption: "In the steady state, without real-time work.",
        value: |m| m.precomputation_slots_per_s.unwrap_or(f64::NAN),
    },
];

const COUNTERS: [Column<MixData>; 16] = [
    ("Rounds", |row| number(row.mean(|m| m.rounds as f64))),
    ("Completed", |row| number(row.mean(|m| m.completed as f64))),
    ("Failed", |row| number(row.mean(|m| m.failed as f64))),
    ("Failed without a fault", |row| number(row.mean(|m| m.failed_unharmed as f64))),
    ("Unresolved", |row| number(row.mean(|m| m.unresolved as f64))),
    ("Wrong payloads", |row| number(row.mean(|m| m.wrong as f64))),
    ("Different orders", |row| number(row.mean(|m| m.disagreements as f64))),
    ("Not mixed", |row| number(row.mean(|m| m.unmixed as f64))),
    ("Teams drawn", |row| number(row.mean(|m| m.draws as f64))),
    ("Frames retransmitted", |row| number(row.mean(|m| m.resent_frames as f64))),
    ("Packets retransmitted", |row| number(row.mean(|m| m.losses.retransmissions as f64))),
    ("Latency, p95", |row| short_ms(row.mean(|m| of(m.batch_latency_ms, |s| s.p95)))),
    ("Maximum", |row| short_ms(row.mean(|m| of(m.batch_latency_ms, |s| s.max)))),
    ("Service", |row| short_ms(row.mean(|m| of(m.service_ms, |s| s.mean)))),
    ("Loop", |row| short_ms(row.mean(|m| of(m.loop_ms, |s| s.p50)))),
    ("Gap of all teams", |row| short_ms(row.mean(|m| m.service_gap_ms))),
];

/// The page's summary of a run.
trait OfMix {
    fn is_base(&self) -> bool;
    fn gain(&self) -> f64;
    fn by_formula(&self) -> f64;
    fn limit(&self) -> String;
}

impl OfMix for Row {
    /// Returns true for the first run of a series, the base of the others' gains.
    fn is_base(&self) -> bool {
        self.metrics().gain.is_some_and(|gain| gain == 1.0)
    }

    fn gain(&self) -> f64 {
        self.mean(|m| m.gain.unwrap_or(f64::NAN))
    }

    fn by_formula(&self) -> f64 {
        self.mean(|m| m.gain_by_formula.unwrap_or(f64::NAN))
    }

    fn limit(&self) -> String {
        let first = self.metrics();
        let share = self.mean(|m| m.share_of_bound) * 100.0;
        let [least, most] = [self.mean(|m| m.cpu_utilisation_min), self.mean(|m| m.cpu_utilisation_max)]
            .map(|busy| busy * 100.0);
        match first.limit {
            "latency" => {
                let wait = self.mean(|m| 1.0 - m.cpu_utilisation) * 100.0;
                format!(
                    "The number of rounds in flight is the limit: {share:.0} % of the bound by the busiest processor or uplink; processors wait {wait:.0} % of the time for slots in transit."
                )
            }
            "uplink" => format!(
                "The uplink of node {} is the limit; slots use {share:.0} % of it.",
                first.slowest_node
            ),
            _ if most > 1.15 * least => format!(
                "The processor of node {} is the limit: it is busy for {most:.0} % of the time, the least busy one for {least:.0} %.",
                first.slowest_node
            ),
            _ => format!("Processors are the limit: all are busy for at least {least:.0} % of the time."),
        }
    }
}

pub(super) fn body(report: &Report<'_>) -> Body {
    let table = report.table(&COLUMNS);
    let mut sections = figures(report);
    sections.push(Section::new("Throughput and its bounds", LEGEND, table.clone()));
    if !report.is_sweep() {
        let term =
            |row: &Row| (row.label.clone(), format!("{} {}", row.limit(), row.first().point.description));
        let terms: Vec<(String, String)> = report.rows.iter().map(term).collect();
        sections.push(Section::new("Limits", "", terms));
    }
    sections.push(precomputation(report));
    sections.extend(first_hop(report));
    let mut details = vec![counters(report)];
    details.extend(report.causes(
        "Failed rounds and ignored frames",
        &[("failed rounds", |m| &m.failed_by_cause), ("ignored", |m| &m.ignored)],
    ));
    details.extend(costs(report));
    Body::new(findings(report), (LEGEND, table), sections, details)
}

fn precomputation(report: &Report<'_>) -> Section {
    let table = report.table(&[
        ("Slots/s", |row| number(row.mean(|m| m.precomputation_slots_per_s.unwrap_or(f64::NAN)))),
        ("Share of bound", |row| {
            percent(row.mean(|m| m.precomputation_share_of_bound.unwrap_or(f64::NAN)), 0)
        }),
        ("Long-term bound", |row| number(row.mean(|m| m.sustained_bound_slots_per_s))),
    ]);
    let text = "Slots precomputed per second in the steady state, without real-time work, and as a share of the bound by the busiest \
                processor or uplink. Every slot needs both halves: the last column is the bound of the pool in the long term.";
    Section::new("Precomputation", text, table)
}

/// Draws the causes of the first hop's duration, if the scenario requests them.
fn first_hop(report: &Report<'_>) -> Option<Section> {
    let rows: Vec<(&Row, HopParts)> =
        report.rows.iter().filter_map(|row| Some((row, row.metrics().first_hop_parts?))).collect();
    let names = rows.first()?.1.named().map(|(name, _)| name);
    let mut figures = Vec::new();
    for (batch, rows) in report::grouped(rows, |(row, _)| row.metrics().batch) {
        let mut most: f64 = 1.0;
        let bar = |(row, parts): &(&Row, HopParts)| {
            let mut end = 0.0;
            let part = |(at, (_, ms)): (usize, (_, f64))| {
                let start = end;
                // Without one cause, another can cost slightly more.
                end += ms.max(0.0);
                (start, end, at)
            };
            let parts: Vec<_> = parts.named().into_iter().enumerate().map(part).collect();
            let run = [std::slice::from_ref(&row.run), &row.point].concat().join(", ");
            let known = report.findings.summary.published.iter();
            let known = known.filter(|known| known.run() == run && known.metric() == "first_hop_ms");
            let rings: Vec<f64> = known.map(|known| known.figure.value).collect();
            most = rings.iter().copied().fold(most.max(end), f64::max);
            let text = short_ms(row.mean(|m| m.first_hop_ms));
            Bar { name: row.label.clone(), rings, text, parts, ..Bar::default() }
        };
        let bars: Vec<Bar> = rows.iter().map(bar).collect();
        let inks = names.iter().enumerate();
        let mut key: Vec<(Mark, String)> =
            inks.map(|(at, name)| (Mark::Bar(Ink::of(at)), (*name).to_owned())).collect();
        if bars.iter().any(|bar| !bar.rings.is_empty()) {
            key.push((Mark::Ring(Ink::BLACK), "measured by others".to_owned()));
        }
        let drawn = Bars {
            title: format!("{batch} payloads: from the first node to the second"),
            scale: Scale::linear("", 0.0..most * 1.14, Unit::Milliseconds),
            rows: bars,
            key,
        };
        let caption = "The first hop of a batch by cause: the time saved without each cause. Rings: measurements by others.";
        figures.push(Figure::new(format!("first-hop-{batch}"), caption, drawn));
    }
    Some(Section::new("Causes of the first hop", "", figures))
}

fn counters(report: &Report<'_>) -> Section {
    let text = "Failed without a fault: failed rounds whose nodes had no fault. Unresolved: rounds, or nodes of a round, that never \
                reported an end; nodes with a fault do not count. Service: mean time from the arrival of a payload to its exit, with the wait \
                for a batch. Loop: median of the pings around a team.";
    Section::new("Counters", text, report.table(&COUNTERS))
}

fn costs(report: &Report<'_>) -> Option<Section> {
    let names: Vec<&str> = report.rows.first()?.metrics().cost_us.keys().copied().collect();
    let table = report.table_of(names.iter().map(|name| name.replace('_', " ")), |row| {
        let cost = |name: &&str| row.metrics().cost_us.get(name).map_or_else(String::new, |us| number(*us));
        names.iter().map(cost).collect()
    });
    let text = "Microseconds on one core, per slot; per round for drawing its secrets (generate) and raising a part of its key (share).";
    Some(Section::new("Time of each kind of work", text, table))
}

fn figures(report: &Report<'_>) -> Vec<Section> {
    if report.is_sweep() {
        let mut section = Section::new(report.figures_heading(), "", report.over_sweep(&SHOWN, None));
        section.parts.extend(report.pivots(&SHOWN[0]));
        return vec![section];
    }
    let section = |(series, rows): (&str, Vec<&Row>)| {
        let heading =
            if series.is_empty() { report.figures_heading().to_owned() } else { capitalised(series) };
        let figures = if rows.iter().all(|row| row.first().harm.is_empty()) {
            let caption = "With the maximum number of rounds in flight, and the gain over the first run.";
            let name = report::slug(&format!("throughput-{series}"));
            let throughput = Figure::new(name, caption, throughput(&rows));
            [throughput].into_iter().chain(timelines(&rows)).collect()
        } else {
            rows.iter().map(|row| rounds(row)).collect::<Vec<_>>()
        };
        Section::new(heading, "", figures)
    };
    series(report).into_iter().map(section).collect()
}

fn series<'a>(report: &'a Report<'_>) -> Vec<(&'a str, Vec<&'a Row>)> {
    report::grouped(&report.rows, |row| row.first().point.series.as_str())
}

fn throughput(rows: &[&Row]) -> Bars {
    let bar = |row: &&Row| {
        let (ours, gain) = (row.mean(|m| m.slots_per_s), row.gain());
        let gain = if row.is_base() || !gain.is_finite() { String::new() } else { format!(", {gain:.1} x") };
        Bar {
            name: row.label.clone(),
            parts: vec![(0.0, ours, 1)],
            bounds: vec![row.mean(|m| m.upper_bound_slots_per_s)],
            text: format!("{}{gain}", grouped(ours)),
            ..Bar::default()
        }
    };
    let rows: Vec<Bar> = rows.iter().map(bar).collect();
    let most = rows.iter().flat_map(|row| [row.parts[0].1, row.bounds[0]]).fold(1e-3, f64::max);
    Bars {
        title: SHOWN[0].title.to_owned(),
        // Leave room for the numbers behind bars and bounds.
        scale: Scale::linear("", 0.0..most * 1.3, Unit::Number),
        rows,
        key: vec![
            (Mark::Bar(Ink::of(1)), "payloads per second".to_owned()),
            (Mark::Dashes(Ink::BLACK), "bound by the busiest processor or uplink".to_owned()),
        ],
    }
}

fn timelines(rows: &[&Row]) -> Vec<Figure> {
    let Some(base) = rows.first() else { return Vec::new() };
    let nanos = (base.metrics().period_ms * PERIODS * 1e6) as u64;
    if nanos == 0 {
        return Vec::new();
    }
    let caption = format!(
        "Work of each node and slots in transit to the next one, for {}: slightly more than a round of \"{}\".",
        short_ms(nanos as f64 / 1e6),
        base.label
    );
    let figure = |row: &&Row| {
        let drawn = timeline(row.first(), &row.label, &stretch(row.first(), nanos)?);
        Some(Figure::new(format!("timeline-{}", row.run), caption.clone(), drawn))
    };
    rows.iter().filter_map(figure).collect()
}

/// Returns the time range of a timeline, in nanoseconds.
///
/// It starts when a round enters in the middle of the run: the first node works on that round then.
fn stretch(result: &MixData, nanos: u64) -> Option<Range<u64>> {
    let entered = result.rounds.iter().filter_map(|row| row.latency().and(row.entered));
    let mut entered: Vec<u64> = entered.collect();
    entered.sort_unstable();
    let from = *entered.get(entered.len() / 2)?;
    Some(from..from + nanos)
}

/// Draws the work of each node and the slots in transit, with the nodes of a team below each other.
fn timeline(result: &Outcome<MixData>, title: &str, stretch: &Range<u64>) -> Boxes {
    let nodes = order(result, stretch.start);
    let ms = |at: u64| (at.clamp(stretch.start, stretch.end) - stretch.start) as f64 / 1e6;
    let middle = |at: usize| (nodes.len() - at) as f64 - 0.5;
    let place: BTreeMap<u32, f64> = nodes.iter().enumerate().map(|(at, node)| (*node, middle(at))).collect();
    let work = merged(result, stretch);
    let is_ahead = |span: &WorkSpan| span.phase.is_none_or(|phase| phase.half() == Half::Precomputation);
    let block = |span: &WorkSpan| {
        let middle = place.get(&span.host)?;
        let (low, high) = match span.phase {
            Some(Phase::Decrypt) => DECRYPT,
            Some(Phase::Permute) => PERMUTE,
            _ => (PERMUTE.0, DECRYPT.1),
        };
        let ink = if is_ahead(span) { Ink::GREY } else { Ink::of(span.round as usize) };
        let corners = [(ms(span.from), middle + low), (ms(span.to), middle + high)];
        Some(Block::new(corners, ink))
    };
    let mut ways = ways(result);
    ways.retain(|(_, (_, left), (_, came))| *left < stretch.end && *came > stretch.start);
    let way = |(round, (from, left), (to, came)): &(u64, End, End)| {
        let (from, to) = (place.get(from)?, place.get(to)?);
        // The part of the line within the timeline.
        let ends = [*left, *came].map(|at| {
            let at = at.clamp(stretch.start, stretch.end);
            let share = (at as f64 - *left as f64) / (came - left).max(1) as f64;
            (ms(at), from + (to - from) * share)
        });
        Some((ends, *round as usize))
    };
    let work_key = "decryption (upper half), permutation (lower); a colour for each round";
    let mut key = vec![(Mark::Bar(Ink::of(1)), work_key.to_owned())];
    if ways.len() <= WAYS_MAX {
        key.push((Mark::Line(Ink::of(1)), "the last slots in transit".to_owned()));
    } else {
        ways.clear();
    }
    if work.iter().any(is_ahead) {
        key.push((Mark::Bar(Ink::GREY), "precomputation".to_owned()));
    }
    let names: Vec<Tick> =
        nodes.iter().enumerate().rev().map(|(at, node)| (middle(at), format!("node {node}"))).collect();
    Boxes {
        title: title.to_owned(),
        scales: (
            Scale::linear("", 0.0..ms(stretch.end), Unit::Milliseconds),
            Scale::at("", 0.0..nodes.len() as f64, names),
        ),
        height: NODE_PIXELS * nodes.len() as u32,
        boxes: work.iter().filter_map(block).collect(),
        lines: ways.iter().filter_map(way).collect(),
        key,
    }
}

/// Returns the nodes of the team working at a time, in their order, then all other nodes.
fn order(result: &Outcome<MixData>, at: u64) -> Vec<u32> {
    let at_work = |row: &&RoundRow| row.entered.is_some_and(|entered| entered >= at);
    let mut nodes = result.rounds.iter().find(at_work).map(|row| row.nodes.clone()).unwrap_or_default();
    let others = (0..result.metrics.pool).filter(|node| !nodes.contains(node)).collect::<Vec<_>>();
    nodes.extend(others);
    nodes
}

/// Returns the work in a time range, without gaps too small to see.
fn merged(result: &Outcome<MixData>, stretch: &Range<u64>) -> Vec<WorkSpan> {
    let gap = ((stretch.end - stretch.start) as f64 * GAP) as u64;
    let mut all: Vec<WorkSpan> = Vec::new();
    let mut last: BTreeMap<(u32, u64, Option<Phase>), usize> = BTreeMap::new();
    let is_inside = |span: &&WorkSpan| span.from < stretch.end && span.to > stretch.start;
    for span in result.work.iter().filter(is_inside) {
        let place = (span.host, span.round, span.phase);
        match last.get(&place).map(|index| &mut all[*index]) {
            Some(before) if span.from <= before.to + gap => before.to = before.to.max(span.to),
            _ => {
                last.insert(place, all.len());
                all.push(*span);
            }
        }
    }
    all
}

/// A node, and the time at which slots left or reached it.
type End = (u32, u64);

/// Returns the transfers of the last slots of a pass between nodes: the round, and both ends.
fn ways(result: &Outcome<MixData>) -> Vec<(u64, End, End)> {
    let rounds = result.rounds.iter().filter(|row| row.entered.is_some());
    let of_round = |row: &RoundRow| {
        let way = |hop: [(u32, Phase); 2]| {
            let (left, came) = hop_times(&result.phases, row.round, hop)?;
            Some((row.round, (hop[0].0, left), (hop[1].0, came)))
        };
        row.hops().filter_map(way).collect::<Vec<_>>()
    };
    rounds.flat_map(of_round).collect()
}

/// Draws the phases and outcome of every round and the faults of nodes, with the rounds of a team
/// below each other.
fn rounds(row: &Row) -> Figure {
    let result = row.first();
    let mut rows: Vec<&RoundRow> = result.rounds.iter().collect();
    rows.sort_by_key(|row| (row.team, row.round));
    let count = rows.len().max(1) as f64;
    let seconds = |at: u64| at as f64 / 1e6;
    let harm = |(from, until): (u64, u64)| {
        Block::new([(seconds(from), 0.0), (seconds(until.min(result.over)), count)], Ink::WARM)
    };
    let mut boxes: Vec<Block> = result.harm.iter().map(|harm| (harm.from, harm.until)).map(harm).collect();
    for (place, row) in rows.iter().enumerate() {
        let top = count - place as f64;
        let end = row.ended.unwrap_or(result.over);
        let is_failed = row.cause.is_some() || row.ended.is_none();
        let opened = row.opened.unwrap_or(end).min(end);
        let entered = row.entered.unwrap_or(end).min(end);
        let parts = [
            (row.made, opened, Ink::GREY),
            (opened, entered, Ink::LIGHT),
            (entered, row.exit().unwrap_or(end), Ink::of(1)),
        ];
        boxes.extend(parts.map(|(from, to, ink)| {
            let corners = [(seconds(from), top - 0.88), (seconds(to.max(from)), top - 0.12)];
            Block::new(corners, if is_failed { Ink::of(0) } else { ink })
        }));
    }
    let key = [
        (Ink::GREY, "precomputation"),
        (Ink::LIGHT, "waits for payloads"),
        (Ink::of(1), "real time"),
        (Ink::of(0), "failed"),
        (Ink::WARM, "a node has a fault"),
    ];
    let drawn = Boxes {
        title: row.label.clone(),
        scales: (
            Scale::linear("", 0.0..seconds(result.over), Unit::Milliseconds),
            Scale::at("", 0.0..count, teams(&rows)),
        ),
        height: ((ROUNDS_PIXELS / count).clamp(ROUND_PIXELS.0, ROUND_PIXELS.1) * count) as u32,
        boxes,
        lines: Vec::new(),
        key: key.map(|(ink, what)| (Mark::Bar(ink), what.to_owned())).to_vec(),
    };
    let caption =
        "Every round from its creation to its end, by team. The scheduler draws a new team after a failure.";
    Figure::new(format!("rounds-{}", row.run), caption, drawn)
}

/// Returns the names of teams and their positions, in the middle of their rounds.
fn teams(rows: &[&RoundRow]) -> Vec<Tick> {
    let most = rows.iter().map(|row| row.team).max().unwrap_or(0);
    let name = |team: usize| {
        let mut places = rows.iter().enumerate().filter(|(_, row)| row.team == team).map(|(place, _)| place);
        let first = places.next()?;
        let last = places.next_back().unwrap_or(first);
        Some((rows.len() as f64 - (first + last + 1) as f64 / 2.0, format!("team {team}")))
    };
    (0..=most).rev().filter_map(name).collect()
}

fn findings(report: &Report<'_>) -> Vec<String> {
    let known = &report.findings.summary.published;
    let known = (!known.is_empty()).then(|| agreement(known));
    let all = |value: Value<MixData>| report.rows.iter().map(|row| row.mean(value)).sum::<f64>();
    let (rounds, failed) = (all(|m| m.rounds as f64), all(|m| m.failed as f64));
    let bad = all(|m| m.faults() as f64) + all(|m| m.unresolved as f64);
    let mut sentences = vec![if bad == 0.0 {
        let failed = if failed == 0.0 { "none".to_owned() } else { number(failed) };
        let verb = if failed == "none" { "failed" } else { "reported as failed" };
        format!(
            "{}: {failed} {verb}; all others came out complete, in the same order at all nodes.",
            plural(rounds, "round")
        )
    } else {
        format!("{} rounds: {} payloads, orders or ends were wrong.", number(rounds), number(bad))
    }];
    let gains = series(report);
    let gains = gains.iter().filter_map(|(_, rows)| best(rows));
    // The result of the runs comes first, unless something is wrong.
    sentences = if bad == 0.0 {
        gains.chain(sentences).collect()
    } else {
        sentences.into_iter().chain(gains).collect()
    };
    sentences.extend(faults(report));
    sentences.extend(known);
    sentences
}

fn best(rows: &[&Row]) -> Option<String> {
    let gains = rows.iter().filter(|row| row.gain() > 1.05);
    let best = gains.max_by(|a, b| a.gain().total_cmp(&b.gain()))?;
    let point: String = best.point.iter().map(|value| format!(" ({value})")).collect();
    let by_formula = best.by_formula();
    let formula = if by_formula.is_finite() && best.metrics().limit == "processor" {
        format!(", {by_formula:.1} by formula")
    } else {
        String::new()
    };
    Some(format!(
        "{}{point}: {} payloads/s, {:.1} times as many as the first run{formula}. {}",
        best.label,
        grouped(best.mean(|m| m.slots_per_s)),
        best.gain(),
        best.limit()
    ))
}

fn faults(report: &Report<'_>) -> Option<String> {
    let hit: Vec<&Row> = report.rows.iter().filter(|row| !row.first().harm.is_empty()).collect();
    let gap = hit.iter().map(|row| row.mean(|m| m.longest_gap_ms)).reduce(f64::max)?;
    let service = hit.iter().map(|row| row.mean(|m| m.service_gap_ms)).fold(0.0, f64::max);
    let others: f64 = hit.iter().map(|row| row.mean(|m| m.failed_unharmed as f64)).sum();
    Some(format!(
        "With faults, the longest gap was {} for a team and {} for all teams; {} of teams without a fault failed.",
        short_ms(gap),
        short_ms(service),
        plural(others, "round")
    ))
}
