//! Lists of pairs: a line for each, as ping tables and the topologies of p2psim have them.

use rustc_hash::FxHashMap;

use super::cell::Cells;
use super::{LatencyTable, Names, ROWS_MAX, rows};

/// What columns of the one end are called.
const FROM: [&str; 6] = ["from", "source", "src", "source_id", "from_region", "node1"];
/// What columns of the other end are called.
const TO: [&str; 8] = ["to", "destination", "dest", "dst", "target", "destination_id", "to_region", "node2"];
/// What columns of the latency are called, the first that is there counts.
const VALUE: [&str; 10] =
    ["latency", "rtt", "avg", "average", "mean", "median", "p50", "ping", "delay", "avg_rtt"];

/// The columns that count.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    from: usize,
    to: usize,
    value: usize,
    /// Nanoseconds of a number, if the header has the unit.
    unit_nanos: Option<f64>,
}

/// Whether lines look like pairs: they have a header with two ends, or are two names and a value, or more than three lines of three values,
/// or p2psim's.
pub(super) fn looks_so(text: &str) -> bool {
    let delimiter = rows::delimiter(text);
    let (mut lines, mut first, mut all_three, mut has_ends) = (0_u32, None, true, false);
    let looked = rows::each(text, delimiter, |_, values| {
        lines += 1;
        all_three &= values.len() == 3;
        if first.is_none() {
            let is_head = ends(values).is_some();
            first = Some(is_head || is_node(values));
            has_ends = values.len() == 3 && !values[..2].iter().any(|name| Cells::is_value(name));
            all_three &= values.get(2).is_some_and(|value| Cells::is_value(value));
        }
        // Enough has been seen: the rest cannot change it.
        if first == Some(true) || !all_three || lines > 3 { Err(String::new()) } else { Ok(()) }
    });
    drop(looked);
    first == Some(true) || is_p2psim(text) || (all_three && (has_ends || lines > 3))
}

/// Reads pairs. A pair that is there several times has the mean.
pub(super) fn read(
    file: &str,
    text: &str,
    cells: &Cells,
    column: Option<&str>,
) -> Result<LatencyTable, String> {
    let mut names = Names::default();
    let mut sums: FxHashMap<(u32, u32), (f64, u32)> = FxHashMap::default();
    let mut columns: Option<Columns> = None;
    let p2psim = is_p2psim(text);
    let delimiter = if p2psim { None } else { rows::delimiter(text) };
    rows::each(text, delimiter, |line, values| {
        let wrong = |what: String| format!("{file}:{line}: {what}");
        // p2psim: settings and "node 1", then "1,2 72000".
        let split: Vec<&str>;
        let values = if p2psim {
            let Some((from, to)) = values[0].split_once(',') else {
                if let (Some(node), true) = (values.get(1), is_node(values)) {
                    names.number(node);
                }
                return Ok(());
            };
            split = [from, to].into_iter().chain(values[1..].iter().copied()).collect();
            split.as_slice()
        } else {
            values
        };
        let known = match &columns {
            Some(columns) => columns,
            None => {
                let found = Columns::of(values, column).map_err(wrong)?;
                let is_head = found.is_some();
                let plain = Columns { from: 0, to: 1, value: 2, unit_nanos: None };
                let columns = columns.insert(found.unwrap_or(plain));
                if is_head {
                    return Ok(());
                }
                columns
            }
        };
        let place = |place: usize| values.get(place).copied();
        let (Some(from), Some(to), Some(value)) = (place(known.from), place(known.to), place(known.value))
        else {
            return Err(wrong(format!(
                "found {} values, expected two ends and a latency, such as \"a b 12.5\"",
                values.len()
            )));
        };
        let nanos = match (known.unit_nanos, value.parse::<f64>()) {
            (Some(unit), Ok(number)) => cells.nanos(number * unit),
            _ => cells.read(value).map_err(|why| wrong(format!("from {from} to {to}: {why}")))?,
        };
        let pair = (names.number(from), names.number(to));
        if names.len() > ROWS_MAX {
            return Err(wrong(format!("more than {ROWS_MAX} names")));
        }
        if let Some(nanos) = nanos {
            Cells::whole(Some(nanos)).map_err(|why| wrong(format!("from {from} to {to}: {why}")))?;
            let sum = sums.entry(pair).or_default();
            *sum = (sum.0 + nanos, sum.1 + 1);
        }
        Ok(())
    })
    .map_err(|error| if error.starts_with(file) { error } else { format!("{file}: {error}") })?;
    if sums.is_empty() {
        return Err(format!("{file}: has no latencies; expected lines such as \"a b 12.5\""));
    }
    let mut table = LatencyTable::of_names(file, names)?;
    let repeated = sums.values().filter(|(_, count)| *count > 1).count();
    if repeated > 0 {
        table.notes.push(format!("{file}: {repeated} pairs are there several times; their mean counts"));
    }
    for ((from, to), (sum, count)) in sums {
        table.set(from as usize, to as usize, Cells::whole(Some(sum / f64::from(count)))?);
    }
    Ok(table)
}

impl Columns {
    /// The columns that a header names; `None` if it is no header.
    fn of(values: &[&str], column: Option<&str>) -> Result<Option<Self>, String> {
        let Some((from, to)) = ends(values) else {
            return match column {
                None => Ok(None),
                Some(column) => Err(format!(
                    "there is no header with two ends (such as source and destination), but column = \"{column}\" in \
                     network.latency_file"
                )),
            };
        };
        let place = |wanted: &str| {
            values.iter().position(|name| unit_of(name).0.eq_ignore_ascii_case(wanted) || *name == wanted)
        };
        let value = match column {
            Some(column) => place(column).ok_or_else(|| {
                format!("there is no column {column}; the columns are {}", values.join(", "))
            })?,
            None => VALUE.iter().find_map(|name| place(name)).ok_or_else(|| {
                format!(
                    "none of the columns {} is known for a latency ({}); name it with column in network.latency_file",
                    values.join(", "),
                    VALUE.join(", ")
                )
            })?,
        };
        Ok(Some(Self { from, to, value, unit_nanos: unit_of(values[value]).1 }))
    }
}

/// The columns of both ends.
fn ends(values: &[&str]) -> Option<(usize, usize)> {
    let place = |known: &[&str]| {
        values.iter().position(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
    };
    Some((place(&FROM)?, place(&TO)?)).filter(|_| values.len() > 2)
}

/// A name without its unit, and nanoseconds of that.
fn unit_of(name: &str) -> (&str, Option<f64>) {
    let units = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];
    let found = units.into_iter().find_map(|(end, nanos)| Some((name.strip_suffix(end)?, Some(nanos))));
    found.unwrap_or((name, None))
}

fn is_node(values: &[&str]) -> bool {
    values.len() >= 2 && values[0] == "node"
}

/// Whether there are lines such as "node 1" (p2psim's topologies).
fn is_p2psim(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.by_ref().take(20).any(|line| line.starts_with("node "))
}
