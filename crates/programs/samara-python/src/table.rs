//! Tables over several runs with labels of the runs, shared without a copy through Arrow's C
//! interface.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch,
    RecordBatchIterator, StringArray, UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use samara_document::keys::plain;
use samara_lab::results::{Column, Rows, Values};
use samara_scenario::Point;
use toml::Value;

use crate::errors::TableError;

/// The names of the capsules (Arrow's PyCapsule interface).
const STREAM: &CStr = c"arrow_array_stream";
/// The name of the schema's capsule.
const SCHEMA: &CStr = c"arrow_schema";

/// A table in Arrow's format: batches of rows with the same columns.
#[pyclass(frozen, module = "samara._samara", name = "Table")]
pub(crate) struct Table {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// Combines batches.
    ///
    /// The columns are those of all batches. A column that is nullable in any batch, or missing there,
    /// is nullable in all.
    pub(crate) fn new(name: &str, batches: Vec<RecordBatch>) -> PyResult<Self> {
        let mut fields: Vec<Field> = Vec::new();
        for field in
            batches.iter().flat_map(|batch| batch.schema().fields().iter().cloned().collect::<Vec<_>>())
        {
            match fields.iter_mut().find(|known| known.name() == field.name()) {
                Some(known) => known.set_nullable(known.is_nullable() || field.is_nullable()),
                None => fields.push(Field::clone(&field)),
            }
        }
        for field in &mut fields {
            let is_missing = batches.iter().any(|batch| batch.column_by_name(field.name()).is_none());
            field.set_nullable(field.is_nullable() || is_missing);
        }
        let schema = Arc::new(Schema::new(fields));
        let same = |batch: RecordBatch| {
            let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
                Some(column) => Arc::clone(column),
                None => new_null_array(field.data_type(), batch.num_rows()),
            };
            RecordBatch::try_new(Arc::clone(&schema), schema.fields().iter().map(column).collect())
                .map_err(|error| TableError::new_err(format!("{name}: the tables of runs differ: {error}")))
        };
        let batches = batches.into_iter().map(same).collect::<PyResult<_>>()?;
        Ok(Self { name: name.to_owned(), schema, batches })
    }

    /// Creates a table that is not of single runs.
    pub(crate) fn of<'a>(name: &str, columns: impl Iterator<Item = &'a (String, Column)>) -> PyResult<Self> {
        let columns = columns.map(|(name, column)| (name, array(column), column.present.is_some()));
        let batch = RecordBatch::try_from_iter_with_nullable(columns);
        Self::new(name, vec![batch.map_err(crate::errors::table)?])
    }
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The size of the columns in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The table as an Arrow stream, for pyarrow, pandas, polars, DuckDB and others.
    ///
    /// The memory is shared, not copied.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore requested types; the consumer then converts.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    /// The types of the columns as an Arrow schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref())
            .map_err(|error| TableError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// Returns columns as lists of Python values, at most `limit` rows.
    ///
    /// It is slow; use it for tests and inspection.
    #[pyo3(signature = (limit = None))]
    fn to_pydict<'py>(&self, py: Python<'py>, limit: Option<usize>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (at, field) in self.schema.fields().iter().enumerate() {
            let list = PyList::empty(py);
            let mut left = limit.unwrap_or(usize::MAX);
            for batch in &self.batches {
                let rows = batch.num_rows().min(left);
                left -= rows;
                append(py, &list, &batch.column(at).slice(0, rows))?;
            }
            columns.set_item(field.name(), list)?;
        }
        Ok(columns)
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }
}

/// Appends the values of an array that has one of the types of tables.
fn append(py: Python<'_>, list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    macro_rules! values {
        ($array:expr) => {
            $array.iter().try_for_each(|value| list.append(value))
        };
    }
    match array.data_type() {
        DataType::Float64 => values!(array.as_primitive::<Float64Type>()),
        DataType::UInt64 => values!(array.as_primitive::<UInt64Type>()),
        DataType::UInt32 => values!(array.as_primitive::<UInt32Type>()),
        DataType::UInt16 => values!(array.as_primitive::<UInt16Type>()),
        DataType::Int64 => values!(array.as_primitive::<Int64Type>()),
        DataType::Boolean => values!(array.as_boolean()),
        DataType::Utf8 => values!(array.as_string::<i32>()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let words = dictionary.values().as_string::<i32>();
            let words: Vec<Py<PyAny>> =
                words.iter().map(|word| Ok(word.into_pyobject(py)?.unbind())).collect::<PyResult<_>>()?;
            let keys = dictionary.keys().iter();
            keys.map(|key| key.map(|key| &words[key as usize])).try_for_each(|word| list.append(word))
        }
        other => Err(TableError::new_err(format!("columns of type {other} are read through Arrow only"))),
    }
}

pub(crate) type Tables = BTreeMap<String, Kept>;

/// A table of a run, or the number of its rows if it is not in memory.
#[derive(Clone)]
pub(crate) enum Kept {
    /// The table is in memory.
    Here(Arc<Rows>),
    /// The table was not requested or is too large; it has this many rows.
    Gone(usize),
}

/// Columns that distinguish the runs of a result: names, seeds, and the values of a sweep. Each has
/// a row for each run.
#[derive(Debug)]
pub(crate) struct Labels {
    columns: Vec<(String, ArrayRef)>,
}

impl Labels {
    pub(crate) fn of(points: &[Point]) -> Self {
        let seeds = points.iter().map(|point| point.seed);
        let mut columns = vec![
            ("run".to_owned(), words(points.iter().map(|point| point.run.clone()))),
            ("seed".to_owned(), Arc::new(UInt64Array::from_iter_values(seeds)) as ArrayRef),
        ];
        let axes = points.first().map(|point| point.sweep.keys()).into_iter().flatten();
        for key in axes {
            let values: Vec<Option<&Value>> = points.iter().map(|point| point.sweep.get(key)).collect();
            columns.push((key.clone(), column(&values)));
        }
        Self { columns }
    }

    pub(crate) fn label(&self, run: usize, table: &Rows) -> Result<RecordBatch, ArrowError> {
        let rows = UInt32Array::from_value(run as u32, table.count);
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (name, column) in &self.columns {
            let array = take(column, &rows, None)?;
            fields.push(Field::new(name, array.data_type().clone(), false));
            arrays.push(array);
        }
        for (name, column) in &table.columns {
            let array = array(column);
            fields.push(Field::new(name, array.data_type().clone(), column.present.is_some()));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}

/// Converts a column to Arrow's format.
fn array(column: &Column) -> ArrayRef {
    macro_rules! arrays {
        ($($variant:ident($array:ident)),*) => {
            match &column.values {
                $(Values::$variant(values) => match &column.present {
                    None => Arc::new($array::from(values.clone())),
                    Some(present) => {
                        let mut values = values.iter().cloned();
                        let cells = present.iter().map(|row| row.then(|| values.next()).flatten());
                        Arc::new(cells.collect::<$array>())
                    }
                },)*
            }
        };
    }
    arrays!(
        U16(UInt16Array),
        U32(UInt32Array),
        U64(UInt64Array),
        I64(Int64Array),
        F64(Float64Array),
        Bool(BooleanArray),
        Text(StringArray)
    )
}

/// Returns a dictionary-encoded column of texts.
fn words(values: impl Iterator<Item = String>) -> ArrayRef {
    let values: Vec<String> = values.collect();
    Arc::new(values.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>())
}

/// Returns a column of the narrowest type for all values. Texts are written as in a scenario.
fn column(values: &[Option<&Value>]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_some_and(is));
    let there = || values.iter().copied().flatten();
    if all(Value::is_integer) {
        Arc::new(Int64Array::from_iter_values(there().filter_map(Value::as_integer)))
    } else if all(|value| value.is_integer() || value.is_float()) {
        let number = |value: &Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
        Arc::new(Float64Array::from_iter_values(there().filter_map(number)))
    } else if all(Value::is_bool) {
        Arc::new(BooleanArray::from(there().filter_map(Value::as_bool).collect::<Vec<_>>()))
    } else {
        words(values.iter().map(|value| value.map_or_else(String::new, plain)))
    }
}
