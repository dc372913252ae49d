//! Drawings of the page that no declaration expresses: work and rounds over time.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::application::WorkSpan;
use samara_lab::report::Runs;
use samara_mix::{Half, Phase};
use samara_report::words::short_ms;
use samara_report::{Block, Boxes, Figure, Ink, Mark, Scale, Tick, Unit};

use super::measure::{RoundRow, hop_times};
use super::outcome::MixData;

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

pub(super) fn timelines(rows: &[&Runs<'_>]) -> Vec<Figure> {
    let Some(base) = rows.first() else { return Vec::new() };
    let nanos = (base.data::<MixData>().metrics.period_ms * PERIODS * 1e6) as u64;
    if nanos == 0 {
        return Vec::new();
    }
    let caption = format!(
        "Work of each node and slots in transit to the next one, for {}: slightly more than a round of \"{}\".",
        short_ms(nanos as f64 / 1e6),
        base.label
    );
    let figure = |row: &&Runs<'_>| {
        let drawn = timeline(row.data(), &row.label, &stretch(row.data(), nanos)?);
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
fn timeline(result: &MixData, title: &str, stretch: &Range<u64>) -> Boxes {
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
fn order(result: &MixData, at: u64) -> Vec<u32> {
    let at_work = |row: &&RoundRow| row.entered.is_some_and(|entered| entered >= at);
    let mut nodes = result.rounds.iter().find(at_work).map(|row| row.nodes.clone()).unwrap_or_default();
    let others = (0..result.metrics.pool).filter(|node| !nodes.contains(node)).collect::<Vec<_>>();
    nodes.extend(others);
    nodes
}

/// Returns the work in a time range, without gaps too small to see.
fn merged(result: &MixData, stretch: &Range<u64>) -> Vec<WorkSpan> {
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
fn ways(result: &MixData) -> Vec<(u64, End, End)> {
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
pub(super) fn rounds(row: &Runs<'_>) -> Figure {
    let result: &MixData = row.data();
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
