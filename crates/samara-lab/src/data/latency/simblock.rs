//! The regions of SimBlock, from its source.

use super::cell::Cells;
use super::{LatencyTable, Names};

/// Reads the first matrix of latencies of SimBlock's `NetworkConfiguration.java`, and the names in its `REGION_LIST`.
pub(super) fn read(file: &str, text: &str, cells: &Cells) -> Result<LatencyTable, String> {
    let names: Names = region_list(text)
        .ok_or_else(|| format!("{file}: has no REGION_LIST with names in quotes"))?
        .into_iter()
        .collect();
    let (line, rows) = matrix(text).ok_or_else(|| {
        format!(
            "{file}: has no matrix of latencies; expected an array such as LATENCY_2019 = {{{{...}}, ...}}"
        )
    })?;
    let mut table = LatencyTable::of_names(file, names)?;
    if rows.len() != table.size || rows.iter().any(|row| row.len() != table.size) {
        return Err(format!(
            "{file}:{line}: the matrix of latencies has {} rows, and there are {} regions; expected a row and a column for each",
            rows.len(),
            table.size
        ));
    }
    for (from, row) in rows.iter().enumerate() {
        for (to, value) in row.iter().enumerate() {
            let nanos = cells.read(value).and_then(Cells::whole).map_err(|why| {
                format!("{file}:{line}: from {} to {}: {why}", table.name(from), table.name(to))
            })?;
            table.set(from, to, nanos);
        }
    }
    Ok(table)
}

fn region_list(text: &str) -> Option<Vec<&str>> {
    let (_, list) = text.split_once("REGION_LIST")?;
    let (list, _) = list.split_once(';')?;
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    (!names.is_empty()).then_some(names)
}

/// The line and the rows of the first array of arrays whose name begins with `LATENCY`.
fn matrix(text: &str) -> Option<(usize, Vec<Vec<&str>>)> {
    // A comment may name it, too: only what has a value counts.
    let mut places = text.match_indices("LATENCY").map(|(place, _)| place);
    places.find_map(|place| {
        let (_, value) = text[place..].split_once('=')?;
        let value = value.trim_start();
        if !value.starts_with('{') || text[place..].find('=')? > 40 {
            return None;
        }
        let (value, _) = value.split_once(';')?;
        let rows = value.split('{').skip(2).map(|row| {
            let row = row.split('}').next().unwrap_or(row);
            row.split(',').map(str::trim).filter(|value| !value.is_empty()).collect()
        });
        Some((text[..place].matches('\n').count() + 1, rows.collect()))
    })
}
