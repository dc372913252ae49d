//! Regions of hosts and the latencies between them.

use crate::scenario::{FileError, Files, RegionTable};
use crate::units::{Span, UnitKind};

/// Regions with their weights and latencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionWeights {
    /// What they are called.
    pub names: Vec<String>,
    /// How many of the hosts are in each, relative to the others.
    pub weights: Vec<u32>,
    /// One-way latency from row to column.
    pub latency: Vec<Vec<Span>>,
}

/// A table of regions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegionTableError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is not as it should be.
    #[error("line {line} is {found:?}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        found: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads a CSV file with the columns `region`, `weight`, and one for each region with one-way latencies in ms.
///
/// # Errors
/// The first line that is not as it should be.
pub fn read_region_table(text: &str) -> Result<RegionWeights, RegionTableError> {
    let error = |line: usize, found: &str, reason: &str| RegionTableError::Line {
        line: line + 1,
        found: found.to_owned(),
        reason: reason.to_owned(),
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (first, header) = lines.next().unwrap_or((0, ""));
    let cells: Vec<&str> = header.split(',').map(str::trim).collect();
    let ["region", "weight", names @ ..] = cells.as_slice() else {
        return Err(error(first, header, "the columns region, weight and one for each region are expected"));
    };
    let mut table = RegionWeights {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        weights: Vec::new(),
        latency: Vec::new(),
    };
    let mut last = (first, header);
    for (index, line) in lines {
        last = (index, line);
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let expected = names.get(table.weights.len());
        if cells.len() != names.len() + 2 || expected != Some(&cells[0]) {
            return Err(error(index, line, "rows are in the order of the columns, with a cell for each"));
        }
        let weight = cells[1].parse().map_err(|_| error(index, line, "the weight is not a whole number"))?;
        let ms = |cell: &&str| UnitKind::Span.parse(&format!("{cell} ms")).ok().map(Span::from_nanos);
        let row: Option<Vec<Span>> = cells[2..].iter().map(ms).collect();
        table.weights.push(weight);
        table.latency.push(row.ok_or_else(|| error(index, line, "latencies are numbers of ms"))?);
    }
    if table.weights.len() != names.len() || table.weights.iter().all(|weight| *weight == 0) {
        return Err(error(last.0, last.1, "a row is missing, or all weights are 0"));
    }
    Ok(table)
}

/// The regions of a scenario.
pub(super) fn of(table: &RegionTable, files: &Files) -> Result<RegionWeights, RegionTableError> {
    if let Some(file) = &table.table {
        return read_region_table(&files.read(file)?);
    }
    let between = |from: &crate::scenario::Region, to: &crate::scenario::Region| {
        let span = from.latency.get(&to.name).or_else(|| to.latency.get(&from.name));
        span.copied().unwrap_or_default()
    };
    let row = |from| table.region.iter().map(|to| between(from, to)).collect();
    Ok(RegionWeights {
        names: table.region.iter().map(|region| region.name.clone()).collect(),
        weights: table.region.iter().map(|region| region.weight).collect(),
        latency: table.region.iter().map(row).collect(),
    })
}
