//! Who works on what when, and what is on its way: the nodes of a team below each other.

use std::collections::BTreeMap;

use plotters::prelude::*;
use samara_lab::mix::measure::{PhaseTimes, RoundRow, WorkSpan};
use samara_lab::results::{MixData, Outcome};
use samara_mix::{Half, Phase};

use crate::draw::{Axis, Key, Mark, Rows, SIZE, Unit, colour, drawn_at_with};

/// The parts of a row that decryption and permutation take, from its middle.
const DECRYPT: (f64, f64) = (0.02, 0.38);
const PERMUTE: (f64, f64) = (-0.38, -0.02);
/// Gaps that are a smaller part of the window are not drawn.
const GAP: f64 = 0.002;
/// More lines than this hide the work.
const WAYS_MAX: usize = 260;
/// Precomputation is grey.
const GREY: RGBColor = RGBColor(190, 190, 190);

/// A stretch of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) nanos: u64,
}

/// From the moment on in which a round enters in the middle of a run: the first node works on it then.
pub(super) fn middle(result: &Outcome<MixData>, nanos: u64) -> Option<Stretch> {
    let mut entered: Vec<u64> =
        result.rounds.iter().filter_map(|row| row.latency().and(row.entered)).collect();
    entered.sort_unstable();
    let from = *entered.get(entered.len() / 2)?;
    Some(Stretch { from, nanos })
}

/// The figure of a stretch of a run.
pub(super) fn drawing(result: &Outcome<MixData>, title: &str, stretch: Stretch) -> String {
    let end = stretch.from + stretch.nanos;
    let nodes = order(result, stretch.from);
    let names: Vec<String> = nodes.iter().map(|node| format!("node {node}")).collect();
    let frame = Rows::new(names.iter().map(String::as_str));
    let place: BTreeMap<u32, usize> = nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
    let ms = |at: u64| (at.clamp(stretch.from, end) - stretch.from) as f64 / 1e6;
    let x = Axis::linear(0.0..stretch.nanos as f64 / 1e6, Unit::Milliseconds, frame.room());
    let work = merged(result, stretch);
    let mut ways = ways(result);
    ways.retain(|(_, (_, left), (_, came))| *left < end && *came > stretch.from);
    let mut key = vec![(
        Mark::Bar(colour(1)),
        "decryption (upper half), permutation (lower); a colour for each round".to_owned(),
    )];
    if ways.len() <= WAYS_MAX {
        key.push((Mark::Line(colour(1)), "the last slots on their way".to_owned()));
    } else {
        ways.clear();
    }
    let is_ahead = |span: &WorkSpan| span.phase.is_none_or(|phase| phase.half() == Half::Precomputation);
    if work.iter().any(is_ahead) {
        key.push((Mark::Bar(GREY), "precomputation".to_owned()));
    }
    drawn_at_with(frame.size(), &Key::new(key, SIZE.0), |area| {
        let mut chart = frame.chart(area, title, (&x, ""))?;
        for span in &work {
            let Some(place) = place.get(&span.host) else { continue };
            let middle = frame.middle(*place);
            let (low, high) = match span.phase {
                Some(Phase::Decrypt) => DECRYPT,
                Some(Phase::Permute) => PERMUTE,
                _ => (PERMUTE.0, DECRYPT.1),
            };
            let fill = if is_ahead(span) { GREY } else { colour(span.round as usize) };
            let corners = [(ms(span.from), middle + low), (ms(span.to), middle + high)];
            chart.draw_series([Rectangle::new(corners, fill.filled())])?;
        }
        for (round, (from, left), (to, came)) in ways {
            let ends = [place.get(&from), place.get(&to)];
            let [Some(from), Some(to)] = ends else { continue };
            let line = clipped(stretch, (left, frame.middle(*from)), (came, frame.middle(*to)));
            chart.draw_series([PathElement::new(line, colour(round as usize).stroke_width(1))])?;
        }
        Ok(())
    })
}

/// The nodes in the order of the team that works at a time, and then those that do not.
fn order(result: &Outcome<MixData>, at: u64) -> Vec<u32> {
    let at_work = |row: &&RoundRow| row.entered.is_some_and(|entered| entered >= at);
    let mut nodes = result.rounds.iter().find(at_work).map(|row| row.nodes.clone()).unwrap_or_default();
    let others = (0..result.metrics.pool).filter(|node| !nodes.contains(node)).collect::<Vec<_>>();
    nodes.extend(others);
    nodes
}

/// The work in a stretch, without gaps that cannot be seen.
fn merged(result: &Outcome<MixData>, stretch: Stretch) -> Vec<WorkSpan> {
    let gap = (stretch.nanos as f64 * GAP) as u64;
    let mut all: Vec<WorkSpan> = Vec::new();
    let mut last: BTreeMap<(u32, u64, Option<Phase>), usize> = BTreeMap::new();
    let is_inside = |span: &&WorkSpan| span.from < stretch.from + stretch.nanos && span.to > stretch.from;
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

/// A node, and when slots left it or came there.
type End = (u32, u64);

/// From when the last slots of a pass were ready at a node until they were at the next one: round, and both ends.
fn ways(result: &Outcome<MixData>) -> Vec<(u64, End, End)> {
    let phases: BTreeMap<(u64, u32, Phase), PhaseTimes> = result.phases.iter().copied().collect();
    let mut ways = Vec::new();
    for row in result.rounds.iter().filter(|row| row.entered.is_some()) {
        let mut hop = |(from, one): (u32, Phase), (to, other): (u32, Phase)| {
            let left = phases.get(&(row.round, from, one)).and_then(|times| times.last_finished);
            let came = phases.get(&(row.round, to, other)).and_then(|times| times.last_received);
            if let (Some(left), Some(came)) = (left, came) {
                ways.push((row.round, (from, left), (to, came)));
            }
        };
        for phase in [Phase::Decrypt, Phase::Permute] {
            row.nodes.windows(2).for_each(|pair| hop((pair[0], phase), (pair[1], phase)));
        }
        if let (Some(first), Some(last)) = (row.nodes.first(), row.nodes.last()) {
            hop((*last, Phase::Decrypt), (*first, Phase::Permute));
        }
    }
    ways
}

/// The part of a line that lies in a stretch: milliseconds, and heights.
fn clipped(stretch: Stretch, (left, from): (u64, f64), (came, to): (u64, f64)) -> [(f64, f64); 2] {
    let whole = (came - left).max(1) as f64;
    [left, came].map(|at| {
        let at = at.clamp(stretch.from, stretch.from + stretch.nanos);
        let share = (at as f64 - left as f64) / whole;
        ((at - stretch.from) as f64 / 1e6, from + (to - from) * share)
    })
}
