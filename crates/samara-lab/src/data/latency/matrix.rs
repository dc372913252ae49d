//! Square matrices, with or without names.

use super::cell::Cells;
use super::{LatencyTable, Names, ROWS_MAX, rows};

/// Reads a matrix: lines of values between commas, semicolons, tabs or blanks. The first line may have the names of the columns, and then
/// each line the name of its row; rows may have another order than columns.
pub(super) fn read(file: &str, text: &str, cells: &Cells) -> Result<LatencyTable, String> {
    let (mut first, mut matrix): (Option<(u64, Vec<String>)>, Option<Matrix<'_>>) = (None, None);
    rows::each(text, rows::delimiter(text), |line, values| {
        if let Some(matrix) = &mut matrix {
            return matrix.row(line, values);
        }
        let Some((first_line, first)) = &first else {
            if values.len() > ROWS_MAX + 1 {
                return Err(format!("{file}:{line}: {} columns; at most {ROWS_MAX}", values.len()));
            }
            first = Some((line, values.iter().map(|value| (*value).to_owned()).collect()));
            return Ok(());
        };
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        let begun = Matrix::begin(file, cells, (*first_line, &first), values)?;
        matrix.insert(begun).row(line, values)
    })
    .map_err(|error| if error.starts_with(file) { error } else { format!("{file}: {error}") })?;
    match matrix {
        Some(matrix) => matrix.finish(),
        None => Err(format!("{file}: has less than two lines; expected a square matrix of latencies")),
    }
}

/// A matrix that is being read.
struct Matrix<'a> {
    file: &'a str,
    cells: &'a Cells,
    table: LatencyTable,
    rows_have_names: bool,
    seen: Vec<bool>,
    filled: usize,
}

impl<'a> Matrix<'a> {
    /// Learns from the first two lines what they are: the second shows whether rows have names.
    fn begin(
        file: &'a str,
        cells: &'a Cells,
        (line, first): (u64, &[&str]),
        second: &[&str],
    ) -> Result<Self, String> {
        let is_head = first[0].is_empty()
            || second.len() == first.len() + 1
            || first.iter().any(|value| !Cells::is_value(value));
        let has_corner =
            second.len() == first.len() && (first[0].is_empty() || first[1..].contains(&second[0]));
        let names = if has_corner { &first[1..] } else { first };
        let rows_have_names = has_corner || second.len() == first.len() + 1;
        let table = if is_head {
            let unique: Names = names.iter().collect();
            if unique.len() != names.len() {
                return Err(format!("{file}:{line}: two columns have the same name"));
            }
            LatencyTable::of_names(file, unique)?
        } else {
            LatencyTable::of_size(file, first.len())?
        };
        let seen = vec![false; table.size];
        let mut matrix =
            Self { file, cells, table, rows_have_names: is_head && rows_have_names, seen, filled: 0 };
        if !is_head {
            matrix.row(line, first)?;
        }
        Ok(matrix)
    }

    fn row(&mut self, line: u64, values: &[&str]) -> Result<(), String> {
        let wrong = |what: String| format!("{}:{line}: {what}", self.file);
        let names = self.table.names.as_ref().filter(|_| self.rows_have_names);
        let (row, values) = match names {
            None => (self.filled, values),
            Some(names) => {
                let name = values[0];
                let row = names.find(name).ok_or_else(|| {
                    wrong(format!("there is a row {name}, but no such column; expected the same names"))
                })?;
                (row as usize, &values[1..])
            }
        };
        let size = self.table.size;
        if values.len() != size {
            return Err(wrong(format!(
                "found {} latencies, expected {size}, as many as there are columns",
                values.len()
            )));
        }
        if row >= size {
            return Err(wrong(format!("more rows than the {size} columns")));
        }
        if std::mem::replace(&mut self.seen[row], true) {
            return Err(wrong(format!("the row {} is there twice", self.table.name(row))));
        }
        for (column, value) in values.iter().enumerate() {
            let nanos = self
                .cells
                .read(value)
                .and_then(Cells::whole)
                .map_err(|why| wrong(format!("to {}: {why}", self.table.name(column))))?;
            self.table.set(row, column, nanos);
        }
        self.filled += 1;
        Ok(())
    }

    fn finish(self) -> Result<LatencyTable, String> {
        match self.seen.iter().position(|seen| !seen) {
            Some(row) => Err(format!(
                "{}: has {} rows and {} columns; the row of {} is missing",
                self.file,
                self.filled,
                self.table.size,
                self.table.name(row)
            )),
            None => Ok(self.table),
        }
    }
}
