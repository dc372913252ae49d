//! Columns of tables, and the Parquet files for them.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use samara_document::file;

/// A column with an optional value for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The present values, in order of rows.
    pub values: Values,
    /// Whether each row has a value; `None` if all rows have one.
    pub present: Option<Vec<bool>>,
}

/// The optional value of a row.
pub trait Cell {
    type Value: Stored;
    fn value(self) -> Option<Self::Value>;
}

/// A type of values in columns.
pub trait Stored: Sized + 'static {
    fn values(values: Vec<Self>) -> Values;
    /// Returns the values of a column if it has this type.
    fn of(values: &Values) -> Option<&[Self]>;
}

/// Declares the types of columns: their physical and logical Parquet types, and the conversions to
/// and from stored values.
macro_rules! types {
    ($($variant:ident($type:ty) as $physical:ident, $logical:expr, $store:expr, $load:expr;)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Values {
            $($variant(Vec<$type>),)*
        }

        $(
            impl Stored for $type {
                fn values(values: Vec<Self>) -> Values {
                    Values::$variant(values)
                }

                fn of(values: &Values) -> Option<&[Self]> {
                    if let Values::$variant(values) = values { Some(values) } else { None }
                }
            }

            impl Cell for $type {
                type Value = Self;

                fn value(self) -> Option<Self> {
                    Some(self)
                }
            }

            impl Cell for Option<$type> {
                type Value = $type;

                fn value(self) -> Self {
                    self
                }
            }
        )*

        impl Values {
            fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)*
                }
            }

            fn is_integer(&self) -> bool {
                matches!(self, Self::U16(_) | Self::U32(_) | Self::U64(_) | Self::I64(_))
            }

            fn schema(&self, name: &str, repetition: Repetition) -> ParquetResult<Type> {
                let (physical, logical): (_, Option<LogicalType>) = match self {
                    $(Self::$variant(_) => ($physical::get_physical_type(), $logical),)*
                };
                let column = Type::primitive_type_builder(name, physical).with_repetition(repetition);
                column.with_logical_type(logical).build()
            }

            fn write(&self, to: &mut SerializedColumnWriter<'_>, levels: Option<&[i16]>) -> ParquetResult<usize> {
                match self {
                    $(Self::$variant(values) => {
                        let stored: Vec<_> = values.iter().map($store).collect();
                        to.typed::<$physical>().write_batch(&stored, levels, None)
                    })*
                }
            }
        }

        fn read_column(group: &dyn RowGroupReader, at: usize) -> ParquetResult<Column> {
            let schema = group.metadata().column(at).column_descr_ptr();
            let rows = group.metadata().num_rows() as usize;
            let is_optional = schema.max_def_level() > 0;
            let logical = schema.logical_type_ref().cloned();
            let reader = group.get_column_reader(at)?;
            $(
                if schema.physical_type() == $physical::get_physical_type() && logical == $logical {
                    let mut typed = $physical::get_column_reader(reader)
                        .ok_or_else(|| ParquetError::General("column reader has an unexpected type".into()))?;
                    let (mut values, mut levels) = (Vec::new(), Vec::new());
                    let mut read = 0;
                    while read < rows {
                        let to = is_optional.then_some(&mut levels);
                        let (records, ..) = typed.read_records(rows - read, to, None, &mut values)?;
                        if records == 0 {
                            return Err(ParquetError::General(format!("ends after {read} of {rows} rows")));
                        }
                        read += records;
                    }
                    let values = values.into_iter().map($load).collect::<ParquetResult<Vec<$type>>>()?;
                    let present = is_optional.then(|| levels.iter().map(|level| *level > 0).collect());
                    return Ok(Column { values: Values::$variant(values), present });
                }
            )*
            Err(ParquetError::General(format!("column {} has an unsupported type", schema.name())))
        }
    };
}

types! {
    U16(u16) as Int32Type, Some(LogicalType::integer(16, false)), |v| i32::from(*v), |v| Ok(v as u16);
    U32(u32) as Int32Type, Some(LogicalType::integer(32, false)), |v| *v as i32, |v| Ok(v as u32);
    U64(u64) as Int64Type, Some(LogicalType::integer(64, false)), |v| *v as i64, |v| Ok(v as u64);
    I64(i64) as Int64Type, None, |v| *v, Ok;
    F64(f64) as DoubleType, None, |v| *v, Ok;
    Bool(bool) as BoolType, None, |v| *v, Ok;
    Text(String) as ByteArrayType, Some(LogicalType::String), |v| ByteArray::from(v.as_str()),
        |v| Ok(v.as_utf8()?.to_owned());
}

impl Cell for &str {
    type Value = String;

    fn value(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl Cell for Option<&str> {
    type Value = String;

    fn value(self) -> Option<String> {
        self.map(str::to_owned)
    }
}

/// Collects the cells of all rows into a column.
pub fn column<C: Cell>(cells: impl IntoIterator<Item = C>) -> Column {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = cell.value();
        present.push(value.is_some());
        values.extend(value);
    }
    let present = (values.len() < present.len()).then_some(present);
    Column { values: C::Value::values(values), present }
}

impl Column {
    pub fn rows(&self) -> usize {
        self.present.as_ref().map_or(self.values.len(), Vec::len)
    }

    /// Returns the cells of all rows; `None` if the column has another type.
    pub fn cells<T: Stored>(&self) -> Option<impl Iterator<Item = Option<&T>> + use<'_, T>> {
        let mut values = T::of(&self.values)?.iter();
        let is_present = |row| self.present.as_ref().is_none_or(|present| present[row]);
        Some((0..self.rows()).map(move |row| if is_present(row) { values.next() } else { None }))
    }
}

/// The columns of a table, by name. All have the same number of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub columns: Vec<(String, Column)>,
    pub count: usize,
}

impl Rows {
    /// Creates a table.
    ///
    /// # Panics
    /// Panics if columns have different numbers of rows.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Column)>) -> Self {
        let columns: Vec<_> = columns.into_iter().map(|(name, column)| (name.into(), column)).collect();
        let count = columns.first().map_or(0, |(_, column)| column.rows());
        for (name, column) in &columns {
            assert_eq!(column.rows(), count, "all columns must have the same number of rows: {name}");
        }
        Self { columns, count }
    }

    /// Returns the cells of a column; `None` if there is no column with this name and type.
    pub fn cells<T: Stored>(&self, name: &str) -> Option<impl Iterator<Item = Option<&T>> + use<'_, T>> {
        self.columns.iter().find(|(known, _)| known == name)?.1.cells()
    }

    /// Returns true if there is a column with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|(known, _)| known == name)
    }

    pub fn write(&self, to: impl Write + Send) -> ParquetResult<()> {
        let field = |(name, column): &(String, Column)| {
            let is_optional = column.present.is_some();
            let repetition = if is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            column.values.schema(name, repetition).map(Arc::new)
        };
        let fields = self.columns.iter().map(field).collect::<ParquetResult<_>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        // Dictionaries take longer to build than the rest of the file.
        let mut properties =
            WriterProperties::builder().set_compression(Compression::SNAPPY).set_dictionary_enabled(false);
        for (name, _) in self.columns.iter().filter(|(_, column)| column.values.is_integer()) {
            let path = ColumnPath::from(name.as_str());
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let properties = properties.build();
        let mut writer = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            let Some(mut to) = group.next_column()? else { break };
            let levels = |present: &Vec<bool>| present.iter().map(|row| i16::from(*row)).collect();
            let levels: Option<Vec<i16>> = column.present.as_ref().map(levels);
            column.values.write(&mut to, levels.as_deref())?;
            to.close()?;
        }
        group.close()?;
        writer.close().map(drop)
    }

    /// Returns true if a Parquet file has a column with this name.
    pub(crate) fn has_column(path: &Path, name: &str) -> Result<bool, String> {
        let names = || -> ParquetResult<bool> {
            let file = SerializedFileReader::new(file::open(path)?)?;
            let schema = file.metadata().file_metadata().schema_descr();
            Ok(schema.columns().iter().any(|column| column.name() == name))
        };
        names().map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads a whole Parquet file: the rows of each of its groups.
    ///
    /// # Errors
    /// It cannot be read, or has a column of a type that no table of Samara has.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, String> {
        let names = || -> ParquetResult<Vec<String>> {
            let file = SerializedFileReader::new(file::open(path)?)?;
            let schema = file.metadata().file_metadata().schema_descr();
            Ok(schema.columns().iter().map(|column| column.name().to_owned()).collect())
        };
        let names = names().map_err(|error| format!("{}: {error}", path.display()))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut all = Vec::new();
        Self::read(path, &names, |rows| {
            all.push(rows.clone());
            Some(())
        })?;
        Ok(all)
    }

    /// Reads columns of a Parquet file, one row group after the other.
    ///
    /// `take` returns `None` if a column has an unexpected type.
    pub fn read(
        path: &Path,
        names: &[&str],
        mut take: impl FnMut(&Self) -> Option<()>,
    ) -> Result<(), String> {
        let mut read = || -> ParquetResult<()> {
            let file = SerializedFileReader::new(file::open(path)?)?;
            let schema = file.metadata().file_metadata().schema_descr();
            let place = |name: &&str| {
                let at = schema.columns().iter().position(|column| column.name() == *name);
                at.ok_or_else(|| ParquetError::General(format!("there is no column {name}")))
            };
            let places = names.iter().map(place).collect::<ParquetResult<Vec<_>>>()?;
            for group in 0..file.num_row_groups() {
                let group = file.get_row_group(group)?;
                let columns =
                    places.iter().map(|at| read_column(&*group, *at)).collect::<ParquetResult<Vec<_>>>()?;
                let taken = take(&Self::new(names.iter().copied().zip(columns)));
                taken.ok_or_else(|| ParquetError::General("a column has an unexpected type".into()))?;
            }
            Ok(())
        };
        read().map_err(|error| format!("{}: {error}", path.display()))
    }
}
