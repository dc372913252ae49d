//! Drawings of the page that no declaration expresses: the curves of columns and nodes, which readers can
//! explore.

use samara_engine::units::Span;
use samara_lab::report::{self, Results, Runs, spread};
use samara_report::{Arrival, DEADLINE_MAX, Explorer, Figure, Ink, Line, Lines, Panel, Part, Section, Style};

use super::metrics::ColumnsData;
use crate::section::Columns;

/// Maximum number of different curves of bounds in a figure.
const BOUNDS_MAX: usize = 4;
/// Maximum number of curves in a figure of a file. If there are more, every n-th is drawn; the page
/// has all.
const CURVES_MAX: usize = 350;

pub(super) fn first_rows<'b, 'a>(results: &'b Results<'a>) -> impl Iterator<Item = &'b Runs<'a>> {
    report::grouped(&results.rows, |row| row.run.as_str()).into_iter().map(|(_, rows)| rows[0])
}

pub(super) fn explorer(results: &Results<'_>) -> Vec<Section> {
    if results.rows.is_empty() {
        return Vec::new();
    }
    let panels: Vec<Panel> = first_rows(results).map(panel).collect();
    let (comparison, hidden) = comparison(results, &panels);
    let mut figures = vec![comparison];
    for (panel, row) in panels.iter().zip(first_rows(results)) {
        figures.extend([false, true].map(|is_of_nodes| curves(panel, &row.run, is_of_nodes)));
    }
    let text = "Left, a curve for each column: the share of its subscribers that have it. Right, a curve for each node: \
                the share of its columns that it has. The curves show the first slot of the first seed.";
    let explorer = Explorer {
        axis: AXIS.to_owned(),
        deadline: only_deadline(results).map(|deadline| (deadline.millis_f64(), named(deadline))),
        panels_heading: ("How columns spread, and how custody fills".to_owned(), text.to_owned()),
        each: [("column", "Columns: share of their subscribers"), ("node", "Nodes: share of their columns")]
            .map(|(name, caption)| (name.to_owned(), caption.to_owned())),
        panels,
        bounds: lower_bounds(&first_rows(results).collect::<Vec<_>>()),
        regions: results.rows[0].first().own::<ColumnsData>().regions.clone(),
        figures,
    };
    let text = format!(
        "The share of nodes that have all their columns, for each run. Point at a curve to identify it; click to keep it \
         selected. Keyboard: arrows, Enter and Escape.{hidden}"
    );
    vec![Section::new("When nodes are done", text, Part::Explorer(Box::new(explorer)))]
}

/// Returns the arrivals of the first slot of a run's first seed.
fn panel(row: &Runs<'_>) -> Panel {
    let (workload, point) = (row.first().point.scenario.part::<Columns>(), &row.first().point);
    let result = row.first().own::<ColumnsData>();
    let mut first: Vec<_> = result.deliveries.iter().filter(|delivery| delivery.slot == 0).collect();
    if let Some(needed) = workload.needed() {
        // A node is done with its first columns; the others do not matter.
        first.sort_by_key(|delivery| (delivery.host, delivery.at));
        let nodes = first.chunk_by(|a, b| a.host == b.host);
        first = nodes.flat_map(|own| own.iter().take(needed as usize)).copied().collect();
        first.sort_by_key(|delivery| (delivery.host, delivery.segment));
    }
    let arrivals = first.into_iter().map(|delivery| Arrival {
        node: delivery.host,
        item: delivery.segment as u16,
        nanos: delivery.delivered().then(|| delivery.at - result.published[0]),
        from: delivery.from,
        hops: delivery.hops,
    });
    Panel {
        label: row.label.clone(),
        description: point.description.clone(),
        colour: row.colour,
        arrivals: arrivals.collect(),
        publishers: (0..workload.segments()).map(|item| (item as u16, workload.publisher)).collect(),
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
pub(super) fn only_deadline(results: &Results<'_>) -> Option<Span> {
    let first = deadline(results.rows.first()?);
    results.rows.iter().all(|row| deadline(row) == first).then_some(first)
}

fn named(deadline: Span) -> String {
    format!("deadline {deadline}")
}

/// Draws the share of nodes that have all their columns, for each run, and the deadline unless it is
/// far behind the last arrival. Returns also a sentence about curves that others cover.
fn comparison(results: &Results<'_>, panels: &[Panel]) -> (Figure, String) {
    let times = panels.iter().flat_map(spread::complete).filter(|time| time.is_finite());
    let last = times.max_by(f64::total_cmp).unwrap_or(f64::INFINITY);
    let deadline = only_deadline(results).filter(|deadline| deadline.millis_f64() <= DEADLINE_MAX * last);
    let bound = deadline.map(|deadline| Line {
        label: named(deadline),
        points: [0.0, 1.0].map(|share| (deadline.millis_f64(), share)).to_vec(),
        style: Style::Bound,
        ..Line::default()
    });
    let title = "Share of nodes that have all their columns".to_owned();
    let (mut lines, hidden) = spread::comparison(title, AXIS, panels, deadline.map(Span::millis_f64));
    let rows: Vec<&Runs<'_>> = first_rows(results).collect();
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
fn lower_bounds(rows: &[&Runs<'_>]) -> Vec<(String, Vec<f64>)> {
    let mut curves: Vec<(&str, &[f64])> = Vec::new();
    for row in rows {
        let bounds = row.first().own::<ColumnsData>().bounds_ms.as_slice();
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

pub(super) fn deadline(row: &Runs<'_>) -> Span {
    row.first().point.scenario.part::<Columns>().deadline
}
