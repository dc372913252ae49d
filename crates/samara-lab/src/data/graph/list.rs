//! Edge lists: a line for each edge, as NetworkX, SNAP and Gephi write them.

use super::{Builder, GraphFile};
use crate::data::latency::rows;

/// What columns of the dialling end are called in a header.
const FROM: [&str; 5] = ["dialer", "source", "from", "src", "fromnodeid"];
/// What columns of the other end are called.
const TO: [&str; 6] = ["listener", "target", "to", "dst", "destination", "tonodeid"];

/// Reads lines of two nodes and whatever data follows, between commas, semicolons, tabs or blanks, with or without a header.
pub(super) fn read(file: &str, text: &str) -> Result<GraphFile, String> {
    let delimiter = rows::delimiter(text);
    let mut builder = Builder::new(file);
    let (mut columns, mut is_bare, mut is_table, mut has_data) = (None, false, false, false);
    rows::each(text, delimiter, |line, values| {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let Some((from, to)) = columns else {
            let place = |known: &[&str]| {
                values.iter().position(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
            };
            if let (Some(from), Some(to)) = (place(&FROM), place(&TO)) {
                columns = Some((from, to));
                is_table = values == ["dialer", "listener"];
                return Ok(());
            }
            // Without a header many values are the neighbours of a node.
            is_bare = true;
            columns = Some((0, 1));
            not_adjacent(&builder, line, values)?;
            return edge(&mut builder, line, values, (0, 1), &mut has_data);
        };
        if is_table && values.len() != 2 {
            return Err(builder.wrong(line, format_args!("\"{}\" is not a pair of hosts", values.join(","))));
        }
        if is_bare {
            not_adjacent(&builder, line, values)?;
        }
        edge(&mut builder, line, values, (from, to), &mut has_data)
    })
    .map_err(|error| if error.starts_with(file) { error } else { format!("{file}: {error}") })?;
    // A table of ours has no reason to say something twice.
    if is_table && (builder.loops > 0 || builder.reversed > 0) {
        return Err(twice(file, text));
    }
    let mut graph = builder.finish();
    graph.is_table = is_table;
    if has_data {
        graph.notes.push(format!("{file}: only the two nodes of each line are looked at, not what follows"));
    }
    Ok(graph)
}

fn edge(
    builder: &mut Builder<'_>,
    line: u32,
    values: &[&str],
    (from, to): (usize, usize),
    has_data: &mut bool,
) -> Result<(), String> {
    let (Some(a), Some(b)) = (values.get(from), values.get(to)) else {
        return Err(builder
            .wrong(line, format_args!("found \"{}\", expected the two nodes of an edge", values.join(" "))));
    };
    if a.is_empty() || b.is_empty() {
        return Err(builder.wrong(line, "a node has no name; expected the two nodes of an edge"));
    }
    *has_data |= values.len() > 2;
    let (a, b) = (builder.node(line, a)?, builder.node(line, b)?);
    builder.edge(line, a, b)
}

/// Refuses what looks like a node and its neighbours.
fn not_adjacent(builder: &Builder<'_>, line: u32, values: &[&str]) -> Result<(), String> {
    if values.len() <= 4 || values[2].starts_with('{') {
        return Ok(());
    }
    Err(builder.wrong(
        line,
        format_args!(
            "found {} values, expected the two nodes of an edge and its data; adjacency lists are not read, write an edge list",
            values.len()
        ),
    ))
}

/// Where a table has a host's link to itself, or an edge in both directions.
fn twice(file: &str, text: &str) -> String {
    let mut seen = rustc_hash::FxHashSet::default();
    for (line, number) in text.lines().zip(1..).skip(1) {
        let Some((a, b)) = line.split_once(',') else { continue };
        let (a, b) = (a.trim(), b.trim());
        if a == b {
            return format!("{file}:{number}: host {a} cannot have a link to itself");
        }
        if !seen.insert((a.min(b), a.max(b))) {
            return format!("{file}:{number}: the edge between {a} and {b} is there twice");
        }
    }
    format!("{file}: an edge is there twice")
}
