//! Points as rows of a Parquet table.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use serde_json::Value;

use super::PointRecord;
use crate::files::NewFile;
use crate::results::{TableError, write_table};
use samara_engine::units::{Rate, Share, Size, Span};

/// Writes a row for each point into a file, whole or not at all: its id, run and seed, parameters, every metric, and what it took. Types are those of the
/// metrics (unsigned and signed integers, floating point numbers, texts, truth values), names are their paths with `_` for what is no letter
/// or digit. Quantities with units that parameters state as texts become numbers whose unit is the end of the name: `network_uplink_bps`.
///
/// # Errors
/// It cannot be written.
pub fn write_points(path: &Path, records: &[PointRecord]) -> Result<(), TableError> {
    let fail = |error: io::Error| TableError::of(path, error.into());
    let mut file = NewFile::create(path).map_err(fail)?;
    write_points_to(&mut file, path, records)?;
    file.finish().map_err(fail)
}

/// The same into anything; errors name `path`.
///
/// # Errors
/// It cannot be written.
pub fn write_points_to(
    sink: impl Write + Send,
    path: &Path,
    records: &[PointRecord],
) -> Result<(), TableError> {
    let columns = columns(records);
    write_table(
        sink,
        path,
        columns.iter().map(|(name, column)| (name.as_str(), Arc::clone(column))).collect(),
    )
}

/// The same as a table in memory.
///
/// # Errors
/// Columns have the same name.
pub fn points_table(records: &[PointRecord]) -> Result<RecordBatch, TableError> {
    let columns = columns(records);
    let named = columns.iter().map(|(name, column)| (name, Arc::clone(column)));
    RecordBatch::try_from_iter(named).map_err(|error| TableError::of(Path::new("metrics"), error.into()))
}

/// One value of a column.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Count(u64),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Text(String),
}

fn columns(records: &[PointRecord]) -> Vec<(String, ArrayRef)> {
    let texts = |value: fn(&PointRecord) -> &str| {
        Arc::new(StringArray::from_iter_values(records.iter().map(value))) as ArrayRef
    };
    let counts = |value: fn(&PointRecord) -> u64| {
        Arc::new(UInt64Array::from_iter_values(records.iter().map(value))) as ArrayRef
    };
    let numbers = |value: fn(&PointRecord) -> f64| {
        Arc::new(Float64Array::from_iter_values(records.iter().map(value))) as ArrayRef
    };
    let metrics = grouped(records, |record| {
        record.figures().into_iter().map(|(path, value)| (plain_name(&path), cell(value))).collect()
    });
    let parameters = grouped(records, |record| {
        let others = record.parameters.iter().filter(|(key, _)| *key != "seed");
        others.map(|(key, value)| quantity(&plain_name(key), value)).collect()
    });
    let fixed_first = [
        ("point", texts(|record| &record.id)),
        ("run", texts(|record| &record.name)),
        ("seed", counts(PointRecord::seed)),
    ];
    let fixed_last = [
        ("digest", texts(|record| &record.digest)),
        ("steps", counts(|record| record.steps)),
        ("wall_s", numbers(|record| record.wall_s)),
        ("cpu_s", numbers(|record| record.cpu_s)),
        ("peak_rss_bytes", counts(|record| record.peak_rss_bytes)),
        ("version", texts(|record| &record.version)),
    ];
    let mut all: Vec<(String, ArrayRef)> =
        fixed_first.into_iter().map(|(name, column)| (name.to_owned(), column)).collect();
    for (name, cells) in parameters {
        // Some parameters are repeated among the metrics.
        let name = if metrics.contains_key(&name) { format!("parameter_{name}") } else { name };
        all.push((name, array(&cells)));
    }
    all.extend(metrics.into_iter().map(|(name, cells)| (name, array(&cells))));
    all.extend(fixed_last.into_iter().map(|(name, column)| (name.to_owned(), column)));
    all
}

/// The cells of all records by the names of their columns.
fn grouped(
    records: &[PointRecord],
    cells: impl Fn(&PointRecord) -> Vec<(String, Cell)>,
) -> BTreeMap<String, Vec<Option<Cell>>> {
    let mut columns: BTreeMap<String, Vec<Option<Cell>>> = BTreeMap::new();
    for (row, record) in records.iter().enumerate() {
        for (name, cell) in cells(record) {
            columns.entry(name).or_insert_with(|| vec![None; records.len()])[row] = Some(cell);
        }
    }
    columns
}

fn plain_name(path: &str) -> String {
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

fn cell(value: &Value) -> Cell {
    match value {
        Value::Bool(flag) => Cell::Flag(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(count), _) => Cell::Count(count),
            (None, Some(whole)) => Cell::Whole(whole),
            _ => Cell::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cell::Text(text.clone()),
        other => Cell::Text(other.to_string()),
    }
}

/// A parameter: the name of its column, with the unit where it has one, and the value.
fn quantity(name: &str, value: &Value) -> (String, Cell) {
    let of_text = |text: &str| {
        let number = |unit: &str, value: f64| Some((format!("{name}_{unit}"), Cell::Number(value)));
        if let Ok(rate) = Rate::parse(text) {
            number("bps", rate.bps() as f64)
        } else if let Ok(span) = Span::parse(text) {
            number("ms", span.millis_f64())
        } else if let Ok(size) = Size::parse(text) {
            number("bytes", size.bytes() as f64)
        } else if let Ok(share) = Share::parse(text) {
            number("share", share.fraction())
        } else {
            None
        }
    };
    value.as_str().and_then(of_text).unwrap_or_else(|| (name.to_owned(), cell(value)))
}

/// A column of the narrowest type that holds all its cells.
fn array(cells: &[Option<Cell>]) -> ArrayRef {
    let there = || cells.iter().flatten();
    if there().all(|cell| matches!(cell, Cell::Count(_))) {
        Arc::new(UInt64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Count(count)) => Some(*count),
            _ => None,
        })))
    } else if there().all(|cell| matches!(cell, Cell::Count(_) | Cell::Whole(_))) {
        Arc::new(Int64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Count(count)) => i64::try_from(*count).ok(),
            Some(Cell::Whole(whole)) => Some(*whole),
            _ => None,
        })))
    } else if there().all(|cell| matches!(cell, Cell::Count(_) | Cell::Whole(_) | Cell::Number(_))) {
        Arc::new(Float64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Count(count)) => Some(*count as f64),
            Some(Cell::Whole(whole)) => Some(*whole as f64),
            Some(Cell::Number(number)) => Some(*number),
            _ => None,
        })))
    } else if there().all(|cell| matches!(cell, Cell::Flag(_))) {
        Arc::new(BooleanArray::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Flag(flag)) => Some(*flag),
            _ => None,
        })))
    } else {
        Arc::new(StringArray::from_iter(cells.iter().map(|cell| {
            cell.as_ref().map(|cell| match cell {
                Cell::Count(count) => count.to_string(),
                Cell::Whole(whole) => whole.to_string(),
                Cell::Number(number) => number.to_string(),
                Cell::Flag(flag) => flag.to_string(),
                Cell::Text(text) => text.clone(),
            })
        })))
    }
}
