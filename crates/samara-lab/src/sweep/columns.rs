//! Points as rows of a Parquet table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::PointRecord;
use crate::files::{At, FileError};
use crate::results::{Column, Rows, column};
use samara_engine::units::{Rate, Share, Size, Span};

/// A row for each point: its id, run and seed, parameters, every metric, and what it took. Types are those of the metrics (unsigned and signed
/// integers, floating point numbers, texts, truth values), names are their paths with `_` for what is no letter or digit. Quantities with units
/// that parameters state as texts become numbers whose unit is the end of the name: `network_uplink_bps`.
///
/// # Errors
/// Columns have the same name.
pub fn points_table(records: &[PointRecord]) -> Result<Rows, FileError> {
    let columns = columns(records);
    let mut names = BTreeSet::new();
    match columns.iter().find(|(name, _)| !names.insert(name)) {
        Some((name, _)) => Err(format!("two columns are called {name}")).at(Path::new("metrics")),
        None => Ok(Rows::new(columns)),
    }
}

fn columns(records: &[PointRecord]) -> Vec<(String, Column)> {
    let texts = |value: fn(&PointRecord) -> &str| column(records.iter().map(value));
    let counts = |value: fn(&PointRecord) -> u64| column(records.iter().map(value));
    let numbers = |value: fn(&PointRecord) -> f64| column(records.iter().map(value));
    let metrics = grouped(records, |record| {
        record.figures().into_iter().map(|(path, value)| (plain_name(&path), value.clone())).collect()
    });
    let parameters = grouped(records, |record| {
        let others = record.parameters.iter().filter(|(key, _)| *key != "seed");
        others.map(|(key, value)| quantity(&plain_name(key), value)).collect()
    });
    let mut all = vec![
        ("point".to_owned(), texts(|record| &record.id)),
        ("run".to_owned(), texts(|record| &record.name)),
        ("seed".to_owned(), counts(PointRecord::seed)),
    ];
    for (name, cells) in parameters {
        // Some parameters are repeated among the metrics.
        let name = if metrics.contains_key(&name) { format!("parameter_{name}") } else { name };
        all.push((name, array(&cells)));
    }
    all.extend(metrics.into_iter().map(|(name, cells)| (name, array(&cells))));
    let rest = [
        ("digest", texts(|record| &record.digest)),
        ("steps", counts(|record| record.steps)),
        ("wall_s", numbers(|record| record.wall_s)),
        ("cpu_s", numbers(|record| record.cpu_s)),
        ("peak_rss_bytes", counts(|record| record.peak_rss_bytes)),
        ("version", texts(|record| &record.version)),
    ];
    all.extend(rest.map(|(name, column)| (name.to_owned(), column)));
    all
}

/// The cells of all records by the names of their columns.
fn grouped(
    records: &[PointRecord],
    cells: impl Fn(&PointRecord) -> Vec<(String, Value)>,
) -> BTreeMap<String, Vec<Option<Value>>> {
    let mut columns: BTreeMap<String, Vec<Option<Value>>> = BTreeMap::new();
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

/// A parameter: the name of its column, with the unit where it has one, and the value.
fn quantity(name: &str, value: &Value) -> (String, Value) {
    let number = |text: &str| {
        let rate = Rate::parse(text).map(|rate| ("bps", rate.bps() as f64));
        let found = rate.or_else(|_| Span::parse(text).map(|span| ("ms", span.millis_f64())));
        let found = found.or_else(|_| Size::parse(text).map(|size| ("bytes", size.bytes() as f64)));
        found.or_else(|_| Share::parse(text).map(|share| ("share", share.fraction()))).ok()
    };
    match value.as_str().and_then(number) {
        Some((unit, number)) => (format!("{name}_{unit}"), number.into()),
        None => (name.to_owned(), value.clone()),
    }
}

/// A column of the narrowest type that holds all its cells.
fn array(cells: &[Option<Value>]) -> Column {
    let all = |is: fn(&Value) -> bool| cells.iter().flatten().all(is);
    let cells = || cells.iter().map(Option::as_ref);
    if all(Value::is_u64) {
        column(cells().map(|cell| cell?.as_u64()))
    } else if all(|cell| cell.is_u64() || cell.is_i64()) {
        column(cells().map(|cell| cell?.as_i64()))
    } else if all(Value::is_number) {
        column(cells().map(|cell| cell?.as_f64()))
    } else if all(Value::is_boolean) {
        column(cells().map(|cell| cell?.as_bool()))
    } else {
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        column(cells().map(|cell| cell.map(text)))
    }
}
