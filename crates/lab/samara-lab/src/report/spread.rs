//! How items spread over the nodes of a run: the curves that readers explore, and the same as
//! figures.

use std::collections::BTreeMap;

use samara_report::words::plural;
use samara_report::{Explorer, Figure, Line, Lines, Panel, Part, Scale, Section, Style, Unit};

use super::{Results, Runs};
use crate::page::SpreadOf;

/// Maximum number of runs with curves: the page of 1,000 nodes stays below 2 MB.
const PANELS_MAX: usize = 9;

/// The names of regions, and the region of each node.
pub type Regions = (Vec<String>, Vec<u16>);

/// Returns the sorted arrival times of each item or of each node in milliseconds, in the order of
/// completion.
pub fn times(panel: &Panel, is_of_nodes: bool) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for arrival in &panel.arrivals {
        let key = if is_of_nodes { arrival.node } else { u32::from(arrival.item) };
        let at = arrival.nanos.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e6);
        groups.entry(key).or_default().push(at);
    }
    let mut groups: Vec<Vec<f64>> = groups.into_values().collect();
    groups.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    groups.sort_by(|a, b| a[a.len() - 1].total_cmp(&b[b.len() - 1]));
    groups
}

/// Returns the sorted times at which nodes have everything.
pub fn complete(panel: &Panel) -> Vec<f64> {
    times(panel, true).iter().map(|times| times[times.len() - 1]).collect()
}

/// Returns the corners of a step curve. It omits missing deliveries, so that the curve ends below
/// 1.
pub fn steps(times: &[f64]) -> Vec<(f64, f64)> {
    let share = |count: usize| count as f64 / times.len() as f64;
    let arrived = times.iter().enumerate().filter(|(_, time)| time.is_finite());
    arrived.flat_map(|(i, time)| [(*time, share(i)), (*time, share(i + 1))]).collect()
}

/// Returns scales from the publication to the last of `times`, and from 0 to 1.
pub fn scales(axis: &str, times: impl Iterator<Item = f64>) -> (Scale, Scale) {
    let last = times.filter(|time| time.is_finite()).fold(1.0, f64::max) * 1.03;
    let x = Scale::linear(axis, 0.0..last, Unit::Milliseconds);
    (x, Scale::linear("", 0.0..1.0, Unit::Share))
}

/// Draws the share of nodes that have everything, for each run, at least until a time. Returns also a
/// sentence about curves that others cover.
pub fn comparison(title: String, axis: &str, panels: &[Panel], until: Option<f64>) -> (Lines, String) {
    let all: Vec<Vec<f64>> = panels.iter().map(complete).collect();
    let line = |(panel, times): (&Panel, &Vec<f64>)| Line {
        label: panel.label.clone(),
        points: steps(times),
        style: Style::Plain,
        colour: Some(panel.colour),
        ..Line::default()
    };
    let scales = scales(axis, all.iter().flatten().copied().chain(until));
    let lines = Lines::new(title, scales, panels.iter().zip(&all).map(line).collect());
    let hidden = lines.hidden();
    (lines, hidden)
}

/// Returns the curves of single items, such as messages; `None` for a sweep, or if no run kept its
/// deliveries.
pub fn section(results: &Results<'_>, item: &str, of: SpreadOf) -> Option<Section> {
    let shown: Vec<&Runs<'_>> =
        results.rows.iter().filter(|row| !of(row.first()).0.arrivals.is_empty()).take(PANELS_MAX).collect();
    if results.is_sweep() || shown.is_empty() {
        return None;
    }
    let panel = |row: &&Runs<'_>| Panel {
        label: row.titled(),
        description: row.first().point.description.clone(),
        colour: row.colour,
        arrivals: of(row.first()).0.arrivals.clone(),
        publishers: of(row.first()).0.publishers.clone(),
    };
    let panels: Vec<Panel> = shown.iter().map(panel).collect();
    let count = panels.iter().map(|panel| panel.publishers.len()).max().unwrap_or(0);
    let axis = format!("after the publication of each {item}");
    let title = format!("Share of nodes that have all of {count} {item}s");
    let (lines, hidden) = comparison(title, &axis, &panels, None);
    let more = match results.rows.len() - shown.len() {
        0 => String::new(),
        more => format!(" Without curves: {}.", plural(more as f64, "run")),
    };
    let text = format!(
        "The share of nodes that have the last of {count} {item}s, spread evenly over the first seed of each run; each \
         {item} counts from its own publication. Point at a curve to identify it; click to keep it selected. Keyboard: \
         arrows, Enter and Escape.{hidden}{more}"
    );
    let panels_text = format!(
        "Left, a curve for each {item}: the share of nodes that have it. Right, a curve for each node: the share of the \
         {item}s that it has."
    );
    let explorer = Explorer {
        axis,
        deadline: None,
        panels_heading: (format!("How {item}s spread"), panels_text),
        each: [
            (item.to_owned(), format!("A curve for each {item}: share of nodes")),
            ("node".to_owned(), format!("Nodes: share of the {item}s")),
        ],
        panels,
        bounds: Vec::new(),
        regions: of(shown[0].first()).1.clone(),
        figures: vec![Figure::new("spread-of-items", "", lines)],
    };
    Some(Section::new(format!("Single {item}s"), text, Part::Explorer(Box::new(explorer))))
}
