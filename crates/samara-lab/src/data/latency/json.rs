//! JSON: an object of objects by names, or an array of arrays.

use serde_json::Value;

use super::cell::Cells;
use super::{LatencyTable, Names};

/// Reads a matrix from JSON. Where an object has the matrix under `data`, that is taken.
pub(super) fn read(file: &str, text: &str, cells: &Cells) -> Result<LatencyTable, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{file}: {error}"))?;
    match &value {
        Value::Array(rows) => array(file, rows, cells),
        Value::Object(object) => match object.get("data") {
            Some(Value::Object(rows)) => objects(file, rows, cells),
            _ => objects(file, object, cells),
        },
        _ => Err(expected(file)),
    }
}

fn expected(file: &str) -> String {
    format!(
        "{file}: expected an object of objects such as {{\"us\": {{\"us\": 1, \"eu\": 80}}, \"eu\": ...}}, or an array of arrays"
    )
}

fn array(file: &str, rows: &[Value], cells: &Cells) -> Result<LatencyTable, String> {
    let mut table = LatencyTable::of_size(file, rows.len())?;
    for (from, row) in rows.iter().enumerate() {
        let row = row.as_array().ok_or_else(|| expected(file))?;
        if row.len() != rows.len() {
            return Err(format!("{file}: row {from} has {} values, expected {}", row.len(), rows.len()));
        }
        for (to, value) in row.iter().enumerate() {
            let nanos = nanos(value, cells).map_err(|why| format!("{file}: from {from} to {to}: {why}"))?;
            table.set(from, to, nanos);
        }
    }
    Ok(table)
}

fn objects(file: &str, rows: &serde_json::Map<String, Value>, cells: &Cells) -> Result<LatencyTable, String> {
    let names: Names = rows.keys().collect();
    let mut table = LatencyTable::of_names(file, names.clone())?;
    for (from, (name, row)) in rows.iter().enumerate() {
        let row = row.as_object().ok_or_else(|| expected(file))?;
        for (to, value) in row {
            let at = |why: String| format!("{file}: from {name} to {to}: {why}");
            let column = names.find(to).ok_or_else(|| at(format!("{to} has no row of its own")))?;
            table.set(from, column as usize, nanos(value, cells).map_err(at)?);
        }
    }
    Ok(table)
}

fn nanos(value: &Value, cells: &Cells) -> Result<Option<u32>, String> {
    let nanos = match value {
        Value::Null => None,
        Value::Number(number) => cells.number(number.as_f64().unwrap_or(f64::NAN))?,
        Value::String(text) => cells.read(text)?,
        other => return Err(format!("found {other}, expected a number")),
    };
    Cells::whole(nanos)
}
