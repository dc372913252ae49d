//! The page of blocks of columns.

use crate::section::Columns;
use samara_engine::units::Span;
use samara_lab::finding;
use samara_lab::page::{Bars, Chart, Column, Form, PageSpec, Range, Section, Swept, computed, mean, spread};
use samara_lab::report::{self, Results, Runs, value};
use samara_lab::results::Outcome;
use samara_lab::statistics::Spread;
use samara_report::words::{fixed, grouped, ms, percent, plural, signed_percent, times};
use samara_report::{Figure, HUES, Ink, Line, Lines, Look, Mark, Part, Scale, Style, Summary, Table, Unit};

use super::drawings::{deadline, explorer, first_rows, only_deadline};
use super::metrics::ColumnsData;

/// Maximum number of runs that a sentence names, and of sentences about incomplete runs.
const NAMES_MAX: usize = 4;
const MEAN: &str = "time_to_custody_ms.mean";
const BOUND: &str = "lower_bound_ms";
const BY_DEADLINE: &str = "share_by_deadline";

pub(super) static PAGE: PageSpec = PageSpec {
    sections: &[
        Section::new("Over the sweep")
            .in_sweep()
            .charts(&[Chart::Lines(&[Swept::new("custody", MEAN, "mean time to custody")], Some(("lower bound", BOUND)))]),
        Section::new("Means").side_by_side().charts(&[Chart::Figures(|results| vec![main(results)])]),
        Section::new("Time to custody")
            .about(
                "Time from the publication until a node has all its columns. The bound is a mean over all nodes that no \
                 schedule can beat: one copy of every column through the publisher's uplink, the last of a node's columns, \
                 and the fastest possible spread.",
            )
            .charts(&[Chart::Parts(|results| vec![Part::Table(custody(results))])]),
        Section::new("Spread over nodes")
            .about("How far apart nodes are while their columns arrive, and the tail that a node cuts if it needs fewer columns.")
            .side_by_side()
            .charts(&[Chart::Figures(spreads)])
            .tables(&[&[
                mean("Spread before the last column", "custody_spread_ms.before_last", Form::Ms),
                mean("p99: all columns", "custody_tail_ms.all.p99", Form::Ms),
                mean("all but 1", "custody_tail_ms.all_but_1.p99", Form::Ms),
                mean("all but 2", "custody_tail_ms.all_but_2.p99", Form::Ms),
            ]]),
        Section::new("By the publisher's region")
            .about(
                "The median of the time to custody by the region of the publisher. Means over seeds, with 95 % confidence \
                 intervals.",
            )
            .charts(&[Chart::Parts(by_region)]),
        Section::new("Cells")
            .about("Cells, headers and messages with metadata that a node received. Upgraded nodes exchange cells, old ones only whole columns.")
            .needs("cells.headers_per_node")
            .tables(&[&[
                mean("Copies of a missing cell", "cells.copies_per_missing", Form::Fixed(2)),
                mean("Headers", "cells.headers_per_node", Form::Fixed(1)),
                mean("Metadata", "cells.metadata_per_node", Form::Fixed(0)),
                mean("Mean time, upgraded", "cells.upgraded.time_to_custody_ms", Form::Ms),
                mean("old", "cells.old.time_to_custody_ms", Form::Ms),
                mean("MB received, upgraded", "cells.upgraded.bytes_down_per_node", Form::Mega(2)),
                mean("old", "cells.old.bytes_down_per_node", Form::Mega(2)),
            ]]),
    ],
    details: &[
        Section::drawn(explorer).side_by_side(),
        Section::new("Cost")
            .about("Copies: number of copies of each column that a node received, including the first. Bytes are on the wire.")
            .tables(&[&[
                computed("Copies", |_, row| copies(row)),
                mean("MB up per node", "bytes_up_per_node", Form::Mega(2)),
                mean("Withdrawn copies", "withdrawn_copies", Form::Fixed(0)),
                mean("Sent again", "retransmissions", Form::Fixed(0)),
                mean("Queue drops", "queue_drops", Form::Fixed(0)),
            ]]),
    ],
    findings,
    summary: Some(summary),
};

const CUSTODY: [Column; 10] = [
    spread("Mean", MEAN, Form::Ms),
    mean("p50", "time_to_custody_ms.p50", Form::Ms),
    mean("p95", "time_to_custody_ms.p95", Form::Ms),
    mean("p99", "time_to_custody_ms.p99", Form::Ms),
    mean("Max", "time_to_custody_ms.max", Form::Ms),
    computed("× bound", |_, row| over_bound(row)),
    mean("p50 × bound", "p50_over_bound", Form::Fixed(2)),
    mean("p99 × bound", "p99_over_bound", Form::Fixed(2)),
    mean("Last × bound", "last_over_bound", Form::Fixed(2)),
    mean("Incomplete", "incomplete", Form::Number),
];

const SUMMARY: [Column; 9] = [
    spread("mean ms", MEAN, Form::Millis),
    mean("incomplete", "incomplete", Form::Number),
    mean("p50", "time_to_custody_ms.p50", Form::Millis),
    mean("p95", "time_to_custody_ms.p95", Form::Millis),
    mean("max", "time_to_custody_ms.max", Form::Millis),
    computed("copies", |_, row| copies(row)),
    mean("MB up", "bytes_up_per_node", Form::Mega(2)),
    mean("bound ms", BOUND, Form::Millis),
    computed("x bound", |_, row| over_bound(row)),
];

/// The times of the runs or, if many nodes did not finish, the shares of those that did.
const MEANS: Bars = Bars {
    name: "means",
    title: "mean time until a node has all its columns",
    metric: MEAN,
    bounds: &[BOUND],
    bound: "lower bound: no schedule is faster",
    range: Range::Linear(1.12),
    text: |row| match missed(row).0 {
        0 => ms(row.mean(MEAN)),
        _ => format!("{} ({})", ms(row.mean(MEAN)), finished(row)),
    },
    ..Bars::BASE
};
const FINISHED: Bars = Bars {
    name: "finished",
    title: "nodes that have all their columns by",
    metric: BY_DEADLINE,
    // The longest text has its place behind a full bar.
    range: Range::Until(1.19),
    text: finished,
    ..Bars::BASE
};

/// Returns the number of nodes that missed the deadline, and of those that waited, over all slots and
/// seeds.
fn missed(row: &Runs<'_>) -> (usize, usize) {
    let waited =
        || row.all.iter().flat_map(|outcome| outcome.own::<ColumnsData>().custody_ms.iter().flatten());
    (waited().filter(|(_, time)| time.is_none()).count(), waited().count())
}

fn finished(row: &Runs<'_>) -> String {
    let (missed, waited) = missed(row);
    format!("{} of {} nodes", grouped((waited - missed) as f64), grouped(waited as f64))
}

fn is_complete(row: &Runs<'_>) -> bool {
    row.mean("incomplete") == 0.0
}

/// Returns the mean as a multiple of the bound, which is over all nodes: unknown if one is incomplete.
fn over_bound(row: &Runs<'_>) -> String {
    let over = times(row.mean(MEAN), row.mean(BOUND)).filter(|_| is_complete(row));
    fixed(over.unwrap_or(f64::NAN), 2)
}

/// Returns the copies of a column that a node received, of the payload with pieces, or of a missing cell
/// if all nodes exchange cells.
fn copies(row: &Runs<'_>) -> String {
    let [payload, cells, old, columns] =
        ["payload_copies", "cells.copies_per_missing", "cells.old.time_to_custody_ms", "duplication_factor"]
            .map(|metric| row.mean(metric));
    let copies = [payload, if old.is_nan() { cells } else { f64::NAN }];
    fixed(copies.into_iter().find(|copies| copies.is_finite()).unwrap_or(columns), 2)
}

/// Draws the main figure.
fn main(results: &Results<'_>) -> Figure {
    // Means over the nodes that happened to finish do not compare.
    let misses_many = |row: &Runs<'_>| {
        let (missed, waited) = missed(row);
        missed as f64 > 0.05 * waited as f64
    };
    let is_late = results.rows.iter().any(misses_many);
    let bars = if is_late { FINISHED } else { MEANS };
    let mut drawn = bars.draw(results, &results.rows.iter().collect::<Vec<_>>());
    for (bar, row) in drawn.rows.iter_mut().zip(&results.rows) {
        let colour = if missed(row).0 > 0 && !is_late { 8 } else { row.colour % HUES };
        bar.parts.iter_mut().for_each(|part| part.2 = colour);
    }
    if is_late {
        drawn.title = format!("{} {}", drawn.title, by(results, "the deadline"));
        drawn.key = Vec::new();
    } else {
        drawn.key[0] = (Mark::Bar(Ink::GREY), "mean over nodes".to_owned());
    }
    Figure::new(bars.name, "", drawn)
}

/// Returns true if a run is the fastest of several runs without incomplete nodes.
fn is_best(results: &Results<'_>, row: &Runs<'_>) -> bool {
    let complete = results.rows.iter().filter(|row| is_complete(row));
    let least = complete.map(|row| row.mean(MEAN)).fold(f64::INFINITY, f64::min);
    is_complete(row) && row.mean(MEAN) == least && !results.is_sweep() && results.rows.len() > 1
}

/// Returns the deadline of all runs, or `otherwise` if they differ.
fn by(results: &Results<'_>, otherwise: &str) -> String {
    only_deadline(results).map_or_else(|| otherwise.to_owned(), |deadline| deadline.to_string())
}

/// Returns a table in which the share of nodes that met the deadline is before the incomplete ones,
/// unless the deadline is the default and all met it.
fn with_deadline(results: &Results<'_>, columns: &[Column]) -> Table {
    let mut table = results.table(columns);
    let default = Columns::default().deadline;
    if results.rows.iter().all(|row| deadline(row) == default && is_complete(row)) {
        return table;
    }
    let is_incomplete = |heading: &String| heading.eq_ignore_ascii_case("incomplete");
    let Some(at) = table.headings.iter().position(is_incomplete) else { return table };
    table.headings.insert(at, format!("by {}", by(results, "deadline")));
    for (shown, row) in table.rows.iter_mut().zip(&results.rows) {
        shown.cells.insert(at - 1, percent(row.mean(BY_DEADLINE), 1));
    }
    table
}

fn custody(results: &Results<'_>) -> Table {
    let mut table = with_deadline(results, &CUSTODY);
    table.bars = "Mean, bound (line), and 95th percentile (thin)".to_owned();
    for (shown, row) in table.rows.iter_mut().zip(&results.rows) {
        let values = [MEAN, "time_to_custody_ms.p95", BOUND].map(|metric| row.mean(metric));
        shown.bar = Some(values.map(|value| (value, ms(value))));
        if missed(row).0 > 0 {
            // Otherwise a run with one fast node seems to be the fastest.
            shown.remark = format!("{} finished", finished(row));
        }
        shown.look = if is_best(results, row) { Look::Good } else { Look::Plain };
    }
    table
}

/// Returns the medians by the publisher's region, if it differs between seeds.
fn by_region(results: &Results<'_>) -> Vec<Part> {
    let region = |outcome: &Outcome| {
        let publisher = outcome.point.scenario.part::<Columns>().publisher;
        outcome.own::<ColumnsData>().regions.1.get(publisher as usize).copied()
    };
    let Some(first) = results.rows.first() else { return Vec::new() };
    let names = &first.first().own::<ColumnsData>().regions.0;
    let seeds = |of: u16| first.all.iter().filter(|outcome| region(outcome) == Some(of)).count();
    let regions: Vec<u16> = (0..names.len() as u16).filter(|of| seeds(*of) > 0).collect();
    if regions.len() < 2 {
        return Vec::new();
    }
    let headings = regions.iter().map(|of| {
        let name = &names[usize::from(*of)];
        format!("{name} ({})", plural(seeds(*of) as f64, "seed"))
    });
    let table = results.table_of(headings, |row| {
        let median = |of: &u16| {
            let own = row.all.iter().filter(|outcome| region(outcome) == Some(*of));
            let medians = own.map(|outcome| value(&outcome.run.metrics, "time_to_custody_ms.p50"));
            let medians: Vec<f64> = medians.filter(|median| median.is_finite()).collect();
            Spread::of(&medians).map_or_else(|| ms(f64::NAN), |spread| spread.written(Unit::Milliseconds))
        };
        regions.iter().map(median).collect()
    });
    vec![Part::Table(table)]
}

fn spreads(results: &Results<'_>) -> Vec<Figure> {
    let line = |row: &Runs<'_>| {
        let spreads = &row.first().own::<ColumnsData>().metrics.custody_spread_ms;
        let point = |step: u32| spreads.get(&format!("k{step}")).map(|ms| (f64::from(step), *ms));
        Line {
            label: row.label.clone(),
            points: (1..).map_while(point).collect(),
            style: Style::Plain,
            colour: Some(row.colour),
            ..Line::default()
        }
    };
    let lines: Vec<Line> = results.rows.iter().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|(step, _)| *step).fold(1.0, f64::max);
    let most = points().map(|(_, ms)| *ms).fold(1.0, f64::max) * 1.03;
    let x = Scale::linear("columns of a node that have arrived", 1.0..last.max(2.0), Unit::Count);
    let y = Scale::linear("", 0.0..most, Unit::Milliseconds);
    let title = "Time between the first and the last node with so many of its columns";
    vec![Figure::new("spread", "", Lines::new(title, (x, y), lines))]
}

fn summary(results: &Results<'_>) -> Summary {
    let mut table = with_deadline(results, &SUMMARY);
    let mut legend = "Time to custody: from the publication until a node has all its columns. MB up: sent by a node in the \
                      whole run."
        .to_owned();
    let best = table.rows.iter_mut().zip(&results.rows).find(|(_, row)| is_best(results, row));
    if let Some((shown, _)) = best {
        shown.name += " *";
        legend += " * is the least mean of the runs without incomplete nodes.";
    }
    let missed = misses(results, |row| row.run.clone());
    let missed = missed.into_iter().map(|sentence| format!("{sentence}."));
    let sentences = missed.chain(caveats(results)).chain(lead(results)).collect();
    Summary { sentences, legend, table, ..Summary::default() }
}

/// Returns what times mean if nodes are incomplete, and whether all nodes can be complete.
fn caveats(results: &Results<'_>) -> Vec<String> {
    let is_part = |row: &Runs<'_>| missed(row).0 > 0 && missed(row).0 < missed(row).1;
    let parts: Vec<String> =
        results.rows.iter().filter(|row| is_part(row)).map(|row| format!("\"{}\"", row.label)).collect();
    let names =
        if parts.len() > NAMES_MAX { "runs with incomplete nodes".to_owned() } else { parts.join(", ") };
    let times = (!parts.is_empty()).then(|| {
        format!("Times of {names} are those of the complete nodes, so the mean can be less than the bound.")
    });
    let all = results.rows.iter().filter(|row| missed(row).0 > 0).find_map(impossible);
    times.into_iter().chain(all).collect()
}

fn findings(results: &Results<'_>) -> Vec<String> {
    let missed = misses(results, |row| format!("\"{}\"", row.label));
    let mut sentences: Vec<String> = met(results).into_iter().collect();
    sentences.extend(missed.iter().map(|sentence| format!("{sentence}.")));
    sentences.extend(caveats(results));
    sentences.extend(lead(results));
    sentences.extend(first_rows(results).filter_map(|row| slow_start(row.first())));
    sentences.extend(results.findings.comparisons.iter().map(|comparison| {
        format!(
            "{}: the mean differs by {}, the 95th percentile by {} from the measured values.",
            comparison.label,
            signed_percent(comparison.mean_deviation()),
            signed_percent(comparison.p95_deviation())
        )
    }));
    sentences
}

/// Returns a sentence on the fastest runs, unless the scenario has sentences of its own.
fn lead(results: &Results<'_>) -> Option<String> {
    match results.is_sweep() {
        true => fastest_at_ends(results),
        false if finding::sentences(results.loaded, &results.findings.results).is_empty() => fastest(results),
        false => None,
    }
}

/// Returns sentences on the nodes that missed the deadline, by run. `name` returns the name of a
/// run.
fn misses(results: &Results<'_>, name: impl Fn(&Runs<'_>) -> String) -> Vec<String> {
    let named = |row: &Runs<'_>| [vec![name(row)], row.point.clone()].concat().join(" ");
    let rows = results.rows.iter().filter(|row| missed(row).0 > 0);
    let mut groups = report::grouped(rows, |row| (missed(row), deadline(row).nanos()));
    // The best runs first: there may be more runs than names.
    groups.sort_by_key(|(((missed, _), _), _)| *missed);
    let slots = results.all().map(|outcome| outcome.own::<ColumnsData>().published.len()).max().unwrap_or(0);
    let sentence = |((missed, nanos), rows): &((_, u64), Vec<&Runs<'_>>)| {
        let deadline = Span::from_nanos(*nanos);
        let (missed, waited): &(usize, usize) = missed;
        // If all runs are alike, none is a better one to name.
        let is_all = rows.len() > NAMES_MAX && rows.len() == results.rows.len();
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
fn some_names(rows: &[&Runs<'_>], name: impl Fn(&Runs<'_>) -> String) -> String {
    let names: Vec<String> = rows.iter().take(NAMES_MAX).map(|row| name(row)).collect();
    match rows.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {}", names.join(", "), plural(more as f64, "more run")),
    }
}

/// Returns a sentence on the runs in which all nodes meet the deadline, if other runs miss it.
fn met(results: &Results<'_>) -> Option<String> {
    let is_met = |row: &&Runs<'_>| missed(row).0 == 0;
    let mut rows: Vec<&Runs<'_>> = results.rows.iter().filter(is_met).collect();
    if rows.len() == results.rows.len() || rows.is_empty() || results.is_sweep() {
        return None;
    }
    rows.sort_by(|a, b| a.mean(MEAN).total_cmp(&b.mean(MEAN)));
    let names = some_names(&rows, |row| format!("\"{}\"", row.label));
    Some(format!("All nodes finish in {} with {names}.", deadline(rows[0])))
}

/// Returns a sentence if no schedule can bring all nodes of a run to their columns in time: if the
/// publisher sends too few pieces, or the bound of the mean time is beyond the deadline.
fn impossible(row: &Runs<'_>) -> Option<String> {
    let workload = row.first().point.scenario.part::<Columns>();
    let (sent, needed) = (workload.sent(), workload.needed().unwrap_or_else(|| workload.segments()));
    if workload.pieces.is_some() && sent < needed {
        let label = &row.label;
        return Some(format!(
            "The publisher of \"{label}\" sends {sent} pieces, and a node needs {needed}, so none can be done."
        ));
    }
    let (bound, deadline) = (row.mean(BOUND), deadline(row));
    (bound > deadline.millis_f64()).then(|| {
        let bound = ms(bound);
        format!("The mean cannot be less than {bound}, so no schedule meets the deadline of {deadline} at all nodes.")
    })
}

/// Returns a sentence on a sweep: the fastest and the slowest point of a run, or the fastest runs at
/// both ends of the last axis.
fn fastest_at_ends(results: &Results<'_>) -> Option<String> {
    let (_, axis) = results.axes.last()?;
    let values = report::grouped(&results.rows, |row| row.point.last());
    let best = |(value, rows): &(Option<&String>, Vec<&Runs<'_>>)| {
        let best = timed(rows.iter().copied()).min_by(by_mean)?;
        Some((best.label.clone(), ms(best.mean(MEAN)), (*value)?.clone()))
    };
    if results.rows.iter().all(|row| row.label == results.rows[0].label) {
        if results.rows.len() == 1 {
            return None;
        }
        let ends = [timed(&results.rows).min_by(by_mean)?, timed(&results.rows).max_by(by_mean)?];
        let [fast, slow] = ends.map(|row| format!("{} ({})", ms(row.mean(MEAN)), row.point.join(", ")));
        return Some(format!("Mean times to custody are between {fast} and {slow}."));
    }
    let [first, .., last] = values.as_slice() else { return None };
    let ((label, time, value), (other, other_time, other_value)) = (best(first)?, best(last)?);
    Some(match label == other {
        true => format!(
            "The fastest run is \"{label}\" at both ends of {axis}: {time} on average at {value}, {other_time} at \
             {other_value}."
        ),
        false => format!(
            "The fastest run is \"{label}\" at {axis} {value} ({time} on average), and \"{other}\" at {other_value} \
             ({other_time})."
        ),
    })
}

/// Returns a sentence on the fastest run.
fn fastest(results: &Results<'_>) -> Option<String> {
    let best = timed(&results.rows).min_by(by_mean)?;
    let time = ms(best.mean(MEAN));
    Some(match results.rows.len() {
        1 => format!("A node has all its columns after {time} on average."),
        _ => {
            let second = timed(&results.rows).filter(|row| row.run != best.run).min_by(by_mean);
            let doubt = second.map_or("", |second| best.doubt(second, MEAN));
            format!("The fastest run is \"{}\": {time} on average.{doubt}", best.label)
        }
    })
}

/// Returns the runs that have a mean and no incomplete nodes: means over different nodes do not compare.
fn timed<'r, 'g: 'r>(rows: impl IntoIterator<Item = &'r Runs<'g>>) -> impl Iterator<Item = &'r Runs<'g>> {
    rows.into_iter().filter(|row| is_complete(row) && row.mean(MEAN).is_finite())
}

fn by_mean(a: &&Runs<'_>, b: &&Runs<'_>) -> std::cmp::Ordering {
    a.mean(MEAN).total_cmp(&b.mean(MEAN))
}

/// Returns a sentence on the effect of TCP slow start.
///
/// The first slot uses cold connections; later slots use connections that have carried a block.
fn slow_start(outcome: &Outcome) -> Option<String> {
    let metrics = &outcome.own::<ColumnsData>().metrics;
    let slots = &metrics.slots;
    let times: Vec<f64> =
        slots.iter().filter_map(|slot| slot.time_to_custody_ms.as_ref().map(|times| times.mean)).collect();
    // Real nodes do not report their windows. Means over different nodes say nothing about slow
    // start.
    if times.len() < 2 || metrics.incomplete > 0 || outcome.run.real.is_some() {
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
        outcome.point.label,
        ms(times[0]),
        slots[0].publisher_window_packets,
        ms(later),
        slots[slots.len() - 1].publisher_window_packets
    ))
}
