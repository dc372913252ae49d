//! The text and the JSON of `samara explain`.

use std::collections::{BTreeSet, HashMap};

use samara_report::words::percent;
use samara_sim::{Cause, Compact, Parts};
use serde_json::{Value, json};

use super::{PathRow, SavedPaths, plural_of};

/// The deliveries to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// This many of the slowest.
    Slowest(usize),
    /// All at a node, by its name or its number, the slowest first.
    Node(String),
    /// All of an item, the slowest first.
    Item(u64),
}

/// Maximum number of columns of classes, which fit into 80 characters.
const CLASSES_MAX: usize = 3;

/// The share of the deliveries that are the slow tail.
const TAIL: f64 = 0.05;

/// The causes of a run: mean, share, and the number of deliveries whose largest part it is.
struct CauseRow {
    cause: Cause,
    mean_ms: f64,
    share: f64,
    first_of: usize,
}

/// Returns the causes of all paths, the largest first.
fn causes(rows: &[&PathRow]) -> Vec<CauseRow> {
    let mut sum = Parts::default();
    let mut first_of = [0; Cause::COUNT];
    for row in rows {
        sum += &row.parts;
        let first = row.parts.iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
        first.into_iter().for_each(|(cause, _)| first_of[cause as usize] += 1);
    }
    let (count, total) = (rows.len().max(1) as f64, sum.total().max(1) as f64);
    let mut causes: Vec<CauseRow> = sum
        .iter()
        .map(|(cause, nanos)| CauseRow {
            cause,
            mean_ms: nanos as f64 / count / 1e6,
            share: nanos as f64 / total,
            first_of: first_of[cause as usize],
        })
        .collect();
    causes.sort_by(|a, b| b.mean_ms.total_cmp(&a.mean_ms));
    causes
}

/// Returns the share of a cause.
fn share_of(causes: &[CauseRow], cause: Cause) -> f64 {
    causes.iter().find(|row| row.cause == cause).map_or(0.0, |row| row.share)
}

/// Deliveries that end the time of the main metric, in the class that is shown.
struct Last<'a> {
    rows: Vec<&'a PathRow>,
    /// The slowest of them: one in twenty, the slowest first.
    tail: Vec<&'a PathRow>,
}

impl<'a> Last<'a> {
    fn of(run: &'a SavedPaths, class: Option<&str>) -> Self {
        let is_shown = |row: &&PathRow| row.is_last && is_of(run, row, class);
        let rows: Vec<&PathRow> = run.rows.iter().filter(is_shown).collect();
        let mut tail = rows.clone();
        tail.sort_by_key(|row| (std::cmp::Reverse(row.nanos), row.node, row.item));
        tail.truncate((rows.len() as f64 * TAIL).ceil() as usize);
        Self { rows, tail }
    }

    /// Returns the deliveries of the tail at nodes of each class, and the number of all deliveries there.
    fn tail_by_class(&self, run: &'a SavedPaths) -> Vec<(&'a str, Vec<&'a PathRow>, usize)> {
        let classes: BTreeSet<&str> = self.rows.iter().filter_map(|row| run.class(row.node)).collect();
        let of = |class: &'a str| {
            let is = |row: &&&PathRow| is_of(run, row, Some(class));
            (class, self.tail.iter().filter(is).copied().collect(), self.rows.iter().filter(is).count())
        };
        classes.into_iter().map(of).collect()
    }
}

/// Returns true if a row is of a node of this class, or without a class to show.
fn is_of(run: &SavedPaths, row: &PathRow, class: Option<&str>) -> bool {
    class.is_none() || run.class(row.node) == class
}

fn selected<'a>(run: &'a SavedPaths, shown: &Shown, class: Option<&str>) -> Vec<&'a PathRow> {
    let node = if let Shown::Node(name) = shown { run.find(name) } else { None };
    let rows = &run.rows;
    let is_shown = |row: &&PathRow| match shown {
        Shown::Slowest(_) => true,
        Shown::Node(_) => Some(row.node) == node,
        Shown::Item(item) => row.item == *item,
    };
    let deliveries = rows.iter().filter(|row| row.is_delivery && is_of(run, row, class));
    let mut selected: Vec<&PathRow> = deliveries.filter(is_shown).collect();
    selected.sort_by_key(|row| (std::cmp::Reverse(row.nanos), row.node, row.item));
    if let Shown::Slowest(count) = shown {
        selected.truncate(*count);
    }
    selected
}

/// The rows by node and item.
struct ByPlace<'a>(HashMap<(u32, u64), Vec<&'a PathRow>>);

impl<'a> ByPlace<'a> {
    fn of(rows: &'a [PathRow]) -> Self {
        let mut by_place = HashMap::<_, Vec<_>>::new();
        rows.iter().for_each(|row| by_place.entry((row.node, row.item)).or_default().push(row));
        Self(by_place)
    }

    /// Returns the hops of a path from the publisher on. Their parts add up to the time of the path.
    fn hops(&self, row: &'a PathRow) -> Vec<PathRow> {
        let mut path = vec![row.clone()];
        let mut last = row;
        while last.hops > 1
            && let Some(rows) = self.0.get(&(last.from, last.item))
            && path.len() < row.hops as usize
        {
            // A path that passes a node twice has several rows there.
            let is_before = |row: &&&PathRow| row.nanos == last.since_nanos;
            let Some(before) = rows.iter().find(is_before).or(rows.first()) else { break };
            path.push(until(before, last.since_nanos));
            last = before;
        }
        path.reverse();
        path
    }
}

/// Returns a hop up to a time before the delivery. An application gets some items later than the node,
/// which waits for the order, its processor or a timer; the next hop also has this wait.
fn until(row: &PathRow, nanos: u64) -> PathRow {
    let mut row = row.clone();
    let mut later = row.nanos.saturating_sub(nanos);
    let of_node = [Cause::Order, Cause::Processor, Cause::Timer, Cause::NodeDown];
    let waited: u64 =
        row.hop.iter().filter(|(cause, _)| of_node.contains(cause)).map(|(_, nanos)| nanos).sum();
    if later == 0 || waited < later {
        return row;
    }
    let mut left: Vec<(Cause, u64)> = row.hop.iter().collect();
    for cause in of_node {
        for (_, nanos) in left.iter_mut().filter(|(other, _)| *other == cause) {
            let taken = later.min(*nanos);
            (*nanos, later) = (*nanos - taken, later - taken);
        }
    }
    let mut parts = Parts::default();
    left.into_iter().for_each(|(cause, nanos)| parts.add(cause, nanos));
    (row.hop, row.nanos) = (Compact::from(&parts), nanos);
    row
}

/// Returns the causes of a part, the largest first: "latency 50.0 ms, ...". Causes that would have
/// 0.0 ms are left out.
fn listed(parts: &Compact) -> String {
    let mut parts: Vec<(Cause, u64)> = parts.iter().filter(|(_, nanos)| *nanos >= 50_000).collect();
    parts.sort_by_key(|(_, nanos)| std::cmp::Reverse(*nanos));
    let named = parts.iter().map(|(cause, nanos)| format!("{} {:.1} ms", name(*cause), *nanos as f64 / 1e6));
    named.collect::<Vec<_>>().join(", ")
}

pub(super) fn name(cause: Cause) -> String {
    cause.label().replace('_', " ")
}

/// Returns the explanation of all runs as text, of the deliveries at nodes of a class if there is one.
///
/// # Errors
/// No run has the node, or the class.
pub fn show(runs: &[SavedPaths], shown: &Shown, class: Option<&str>) -> Result<String, String> {
    has_node(runs, shown)?;
    has_class(runs, class)?;
    Ok(runs.iter().map(|run| text(run, shown, class)).collect::<Vec<_>>().join("\n"))
}

fn has_class(runs: &[SavedPaths], class: Option<&str>) -> Result<(), String> {
    let Some(class) = class else { return Ok(()) };
    let classes: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.classes.values()).map(String::as_str).collect();
    if classes.contains(class) {
        return Ok(());
    }
    if classes.is_empty() {
        let example = "--set 'network.class=[{ name = \"home\", share = \"50 %\", uplink = \"10 Mbit/s\" }]'";
        return Err(format!(
            "--class {class}: the runs have no classes of nodes; define some, as in {example}"
        ));
    }
    let classes = classes.into_iter().collect::<Vec<_>>().join(", ");
    Err(format!("--class {class}: there is no such class; the classes are {classes}"))
}

fn has_node(runs: &[SavedPaths], shown: &Shown) -> Result<(), String> {
    let Shown::Node(name) = shown else { return Ok(()) };
    if runs.iter().any(|run| run.find(name).is_some()) {
        return Ok(());
    }
    let names = runs.iter().flat_map(|run| &run.names).map(String::as_str);
    let meant = samara_document::closest(name, names);
    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Err(format!("there is no node \"{name}\"{hint}"))
}

fn text(run: &SavedPaths, shown: &Shown, class: Option<&str>) -> String {
    let last = Last::of(run, class);
    let of_class = class.map_or_else(String::new, |class| format!(" at nodes of class {class}"));
    let sample = match run.every {
        1 => String::new(),
        every => format!(", one of {every} {}", plural_of(&run.item)),
    };
    let seed = run.parameters.get("seed").map(|seed| format!(", seed {seed}")).unwrap_or_default();
    let mut text = format!(
        "{}{seed}: {} deliveries{of_class}{sample}; means over the {} that end the time of the main metric\n",
        run.run,
        run.rows.iter().filter(|row| row.is_delivery && is_of(run, row, class)).count(),
        last.rows.len()
    );
    let tail = causes(&last.tail);
    let headings = ["cause", "mean ms", "share", "first of", "slowest 5 %"];
    let [cause, mean, share, first_of, slowest] = headings;
    text += &format!("  {cause:<22}{mean:>10}{share:>9}{first_of:>10}{slowest:>13}\n");
    for row in causes(&last.rows) {
        text += &format!(
            "  {:<22}{:>10.2}{:>9}{:>10}{:>13}\n",
            name(row.cause),
            row.mean_ms,
            percent(row.share, 1),
            row.first_of,
            percent(share_of(&tail, row.cause), 1)
        );
    }
    if class.is_none() {
        text += &tail_by_class(run, &last);
    }
    let by_place = ByPlace::of(&run.rows);
    for row in selected(run, shown, class) {
        text += &format!(
            "\n  {} {} at node {} after {:.1} ms: {}\n",
            run.item,
            row.item,
            run.node(row.node),
            row.nanos as f64 / 1e6,
            listed(&row.parts)
        );
        for hop in by_place.hops(row) {
            text += &format!(
                "    {:>10.1} ms  {} -> {}: {}\n",
                hop.since_nanos as f64 / 1e6,
                run.node(hop.from),
                run.node(hop.node),
                listed(&hop.hop)
            );
        }
    }
    text
}

/// Returns the causes of the slow tail by class of nodes; empty without classes.
fn tail_by_class(run: &SavedPaths, last: &Last<'_>) -> String {
    let classes = last.tail_by_class(run);
    let Some(from) = last.tail.last().filter(|_| !classes.is_empty()) else { return String::new() };
    let more = classes.len().saturating_sub(CLASSES_MAX);
    let classes = &classes[..classes.len() - more];
    let more = if more > 0 { format!("; {more} more classes with --class") } else { String::new() };
    let ms = from.nanos as f64 / 1e6;
    let mut text = format!("  slowest 5 %, from {ms:.1} ms on, by class of nodes{more}\n  {:<22}", "");
    classes.iter().for_each(|(class, ..)| text += &format!(" {class:>16}"));
    text += &format!("\n  {:<22}", "deliveries");
    classes.iter().for_each(|(_, rows, all)| text += &format!(" {:>16}", format!("{} of {all}", rows.len())));
    text.push('\n');
    let of_class: Vec<Vec<CauseRow>> = classes.iter().map(|(_, rows, _)| causes(rows)).collect();
    for CauseRow { cause, .. } in causes(&last.tail) {
        text += &format!("  {:<22}", name(cause));
        of_class.iter().for_each(|rows| text += &format!(" {:>16}", percent(share_of(rows, cause), 1)));
        text.push('\n');
    }
    text
}

/// Returns the explanation of all runs as JSON, of the deliveries at nodes of a class if there is one.
/// Nodes have their numbers, and `names` those of all nodes.
///
/// # Errors
/// No run has the node, or the class.
pub fn json(runs: &[SavedPaths], shown: &Shown, class: Option<&str>) -> Result<Value, String> {
    has_node(runs, shown)?;
    has_class(runs, class)?;
    let parts = |parts: &Compact| -> Value {
        parts
            .iter()
            .map(|(cause, nanos)| (cause.label().to_owned(), Value::from(nanos)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let of_run = |run: &SavedPaths| {
        let last = Last::of(run, class);
        let by_place = ByPlace::of(&run.rows);
        let path = |row: &PathRow| {
            let hop = |hop: &PathRow| {
                json!({"from": hop.from, "to": hop.node, "since_ns": hop.since_nanos, "at_ns": hop.nanos,
                       "parts_ns": parts(&hop.hop)})
            };
            json!({"item": row.item, "node": row.node, "publisher": row.publisher,
                   "delivery_latency_ns": row.nanos, "parts_ns": parts(&row.parts),
                   "path": by_place.hops(row).iter().map(hop).collect::<Vec<_>>()})
        };
        let cause = |row: &CauseRow| {
            json!({"cause": row.cause.label(), "mean_ms": row.mean_ms, "share": row.share,
                   "first_of": row.first_of})
        };
        let shares = |rows: &[&PathRow]| -> serde_json::Map<_, _> {
            causes(rows).iter().map(|row| (row.cause.label().to_owned(), Value::from(row.share))).collect()
        };
        let of_class = |(class, rows, all): (&str, Vec<&PathRow>, usize)| {
            let tail = json!({"deliveries": rows.len(), "of": all, "shares": shares(&rows)});
            (class.to_owned(), tail)
        };
        let by_class: serde_json::Map<_, _> = last.tail_by_class(run).into_iter().map(of_class).collect();
        let slowest = json!({"deliveries": last.tail.len(), "from_ns": last.tail.last().map(|row| row.nanos),
                             "shares": shares(&last.tail), "by_class": by_class});
        json!({"run": run.run, "parameters": run.parameters, "item_is": run.item, "every": run.every,
               "names": run.names,
               "deliveries": run.rows.iter().filter(|row| row.is_delivery && is_of(run, row, class)).count(),
               "causes": causes(&last.rows).iter().map(cause).collect::<Vec<_>>(),
               "slowest": slowest,
               "paths": selected(run, shown, class).into_iter().map(path).collect::<Vec<_>>()})
    };
    Ok(json!({"runs": runs.iter().map(of_run).collect::<Vec<_>>()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[(Cause, u64)]) -> Compact {
        let mut parts = Parts::default();
        of.iter().for_each(|(cause, nanos)| parts.add(*cause, *nanos));
        Compact::from(&parts)
    }

    /// A node validates for 3 ms what it has after 120 ms: the next hop begins at 120 ms, and has these 3 ms.
    #[test]
    fn hops_count_each_wait_once() {
        let row = |(from, node): (u32, u32), hops, since_nanos, nanos, hop: &[(Cause, u64)]| PathRow {
            item: 7,
            node,
            publisher: 0,
            from,
            hops,
            is_delivery: true,
            is_last: hops == 2,
            nanos,
            since_nanos,
            parts: Compact::default(),
            hop: parts(hop),
        };
        let first = row((0, 1), 1, 0, 123, &[(Cause::Latency, 120), (Cause::Processor, 3)]);
        let last = row((1, 2), 2, 120, 200, &[(Cause::Latency, 74), (Cause::Processor, 6)]);
        let rows = [first, last];
        let hops = ByPlace::of(&rows).hops(&rows[1]);
        let sum = |hop: &PathRow| hop.hop.iter().map(|(_, nanos)| nanos).sum::<u64>();
        assert_eq!(hops.iter().map(sum).collect::<Vec<_>>(), [120, 80]);
        assert_eq!(hops[0].nanos, hops[1].since_nanos);
    }
}
