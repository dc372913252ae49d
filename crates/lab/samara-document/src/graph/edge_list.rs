//! Edge lists: lines of two nodes and optional data.

use super::{Builder, Direction, GraphFile};
use crate::table::{column_of, delimiter_or_blank, each_line, listed};

/// Names of the column with the dialing end in a header.
const FROM: [&str; 5] = ["dialer", "source", "from", "src", "fromnodeid"];
/// Names of the column with the other end.
const TO: [&str; 6] = ["listener", "target", "to", "dst", "destination", "tonodeid"];

/// Reads lines of two nodes and optional data, separated by commas, semicolons, tabs or blanks,
/// with or without a header.
pub(super) fn read(file: &str, text: &str) -> Result<GraphFile, String> {
    let mut builder = Builder::new(file);
    let (mut columns, mut with_data, mut is_table) = (None, 0_usize, false);
    let mut others: Vec<String> = Vec::new();
    each_line(file, text, delimiter_or_blank(text), |line, values| {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if columns.is_none()
            && let (Some(from), Some(to)) = (column_of(values, &FROM), column_of(values, &TO))
        {
            columns = Some((from, to, true));
            is_table = values == ["dialer", "listener"];
            let is_other = |(place, _): &(usize, &&str)| *place != from && *place != to;
            others.extend(values.iter().enumerate().filter(is_other).map(|(_, name)| (*name).to_owned()));
            return Ok(());
        }
        let (from, to, has_header) = *columns.get_or_insert((0, 1, false));
        if is_table && values.len() != 2 {
            return Err(builder.wrong(line, format_args!("\"{}\" is not a pair of nodes", values.join(","))));
        }
        // Without a header, many values are probably the neighbours of a node.
        if !has_header && values.len() > 4 && !values[2].starts_with('{') {
            return Err(builder.wrong(
                line,
                format_args!(
                    "found {} values, expected the two nodes of an edge and its data; write an edge list, not an adjacency list",
                    values.len()
                ),
            ));
        }
        let (Some(a), Some(b)) = (values.get(from), values.get(to)) else {
            let found = values.join(" ");
            let what = format_args!("found \"{found}\", expected the two nodes of an edge");
            return Err(builder.wrong(line, what));
        };
        if a.is_empty() || b.is_empty() {
            return Err(builder.wrong(line, "a node has no name; expected the two nodes of an edge"));
        }
        with_data += usize::from(values.len() > 2 && values[2] != "{}");
        let (a, b) = (builder.node(line, a)?, builder.node(line, b)?);
        builder.edge(line, a, b, Direction::Unknown)
    })?;
    let mut graph = builder.finish();
    graph.is_table = is_table;
    if !others.is_empty() {
        let names = listed(others.iter().map(String::as_str));
        graph.beside = Some(format!("{file}: columns beside those of the two nodes have no effect: {names}"));
    } else if with_data > 0 {
        graph.beside =
            Some(format!("{file}: values after the two nodes of a line have no effect ({with_data} lines)"));
    }
    Ok(graph)
}
