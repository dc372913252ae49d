//! Tables over several runs: those of each, with columns that say which run it was.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use samara_lab::scenario::Point;

/// What tells the runs of a result apart: their names, their seeds, and the values of a sweep.
#[derive(Debug)]
pub(crate) struct Labels {
    columns: Vec<(String, Column)>,
}

/// A column with a value for each run.
#[derive(Debug)]
enum Column {
    /// Places in a list of words.
    Words(Vec<i32>, Arc<StringArray>),
    Counts(Vec<u64>),
    Whole(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
}

impl Labels {
    pub(crate) fn of(points: &[Point]) -> Self {
        let names: Vec<String> = points.iter().map(|point| point.run.clone()).collect();
        let mut columns = vec![
            ("run".to_owned(), words(&names)),
            ("seed".to_owned(), Column::Counts(points.iter().map(|point| point.seed).collect())),
        ];
        let axes = points.first().map(|point| point.sweep.keys()).into_iter().flatten();
        for key in axes {
            let values: Vec<Option<&toml::Value>> = points.iter().map(|point| point.sweep.get(key)).collect();
            columns.push((key.clone(), column(&values)));
        }
        Self { columns }
    }

    /// Puts the columns of a run before those of one of its tables, which are shared, not copied.
    pub(crate) fn label(&self, run: usize, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let mut fields = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (name, column) in &self.columns {
            let array: ArrayRef = match column {
                Column::Words(places, list) => {
                    let keys = Int32Array::from_value(places[run], rows);
                    Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::<StringArray>::clone(list))?)
                }
                Column::Counts(values) => Arc::new(UInt64Array::from_value(values[run], rows)),
                Column::Whole(values) => Arc::new(Int64Array::from_value(values[run], rows)),
                Column::Numbers(values) => Arc::new(Float64Array::from_value(values[run], rows)),
                Column::Flags(values) => Arc::new(BooleanArray::from(vec![values[run]; rows])),
            };
            let kind: DataType = array.data_type().clone();
            fields.push(Field::new(name, kind, false));
            arrays.push(array);
        }
        fields.extend(batch.schema().fields().iter().map(|field| Field::clone(field)));
        arrays.extend(batch.columns().iter().cloned());
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}

fn words(values: &[String]) -> Column {
    let mut list: Vec<&str> = Vec::new();
    let places = values.iter().map(|value| {
        let known = list.iter().position(|word| word == value);
        known.unwrap_or_else(|| {
            list.push(value);
            list.len() - 1
        }) as i32
    });
    let places = places.collect();
    Column::Words(places, Arc::new(StringArray::from(list)))
}

/// A column of the narrowest type that holds all values; texts as they are written in a scenario.
fn column(values: &[Option<&toml::Value>]) -> Column {
    use toml::Value::{Boolean, Float, Integer, String as Text};
    let there = || values.iter().flatten();
    let is_full = values.iter().all(Option::is_some);
    if is_full && there().all(|value| matches!(value, Integer(_))) {
        Column::Whole(there().filter_map(|value| value.as_integer()).collect())
    } else if is_full && there().all(|value| matches!(value, Integer(_) | Float(_))) {
        let number = |value: &&toml::Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
        Column::Numbers(there().filter_map(number).collect())
    } else if is_full && there().all(|value| matches!(value, Boolean(_))) {
        Column::Flags(there().filter_map(|value| value.as_bool()).collect())
    } else {
        let text = |value: &Option<&toml::Value>| match value {
            Some(Text(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        words(&values.iter().map(text).collect::<Vec<_>>())
    }
}
