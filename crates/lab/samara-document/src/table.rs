//! Tables as text: columns with names and units, plain lines of values, and names with numbers.

use std::str::FromStr;

use csv::{ReaderBuilder, StringRecord, Trim};
use rustc_hash::FxHashMap;
use samara_engine::units::{Rate, Size, Span};

use crate::{Inputs, closest, text};

/// Unique names of hosts, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    /// Returns the number of a name. A new name gets the next number.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn all(&self) -> &[String] {
        &self.names
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The numbers of hosts that these names are. `None` unless all are whole numbers below
    /// `hosts`, written as `5` (not `05`).
    pub fn as_numbers(&self, hosts: u32) -> Option<Vec<u32>> {
        let number = |name: &String| {
            let number = name.parse::<u32>().ok()?;
            (number < hosts && number.to_string() == *name).then_some(number)
        };
        self.names.iter().map(number).collect()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    /// Collects names; repeated ones count once.
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.number(name.as_ref());
        }
        all
    }
}

/// A quantity in a column of a table.
pub trait Quantity: Sized {
    /// Units at the end of a column's name, with their factors. The cells of such a column are
    /// plain numbers.
    const UNITS: &'static [(&'static str, f64)];

    /// Parses a number with its unit.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Converts a number in the unit with factor 1.
    fn from_number(value: f64) -> Self;

    /// The largest quantity, in the unit with factor 1 and as a text.
    const MOST: (f64, &'static str);
}

macro_rules! quantities {
    ($($Quantity:ident: $from:ident, $units:expr, $most:expr;)*) => {$(
        impl Quantity for $Quantity {
            const UNITS: &'static [(&'static str, f64)] = &$units;
            const MOST: (f64, &'static str) = $most;

            fn from_text(text: &str) -> Result<Self, String> {
                Self::parse(text)
            }

            fn from_number(value: f64) -> Self {
                Self::$from(value.round() as u64)
            }
        }
    )*};
}
quantities! {
    Rate: from_bps, [("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)], (1e15, "1000000 Gbit/s");
    Span: from_nanos, [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)], (87_600.0 * 3.6e12, "87600 h");
    Size: from_bytes, [("bytes", 1.0), ("kb", 1e3), ("mb", 1e6), ("kib", 1024.0), ("mib", 1_048_576.0)], (1e15, "1000000 GB");
}

/// The columns of a kind of table.
pub struct Shape {
    /// Columns that a table must have.
    pub needed: &'static [&'static str],
    /// Columns that a table may have.
    pub allowed: &'static [&'static str],
    /// Columns whose names may end in a unit, with these units.
    pub units: &'static [(&'static str, &'static [(&'static str, f64)])],
    pub rows_max: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: &'static str,
    /// The factor of plain numbers, if the header has the unit.
    factor: Option<f64>,
}

/// Reads a table with a header row by row. Lines that start with `#` are comments.
pub fn scan(
    file: &str,
    text: &str,
    shape: &Shape,
    mut each: impl FnMut(Row<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .comment(Some(b'#'))
        .delimiter(delimiter(text))
        .trim(Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let (mut table, mut record) = (None, StringRecord::new());
    while reader.read_record(&mut record).map_err(|error| format!("{file}: {error}"))? {
        let line = line_of(text, &record, true);
        if let Some(why) = control_of(record.iter()) {
            return Err(format!("{file}:{line}: {why}"));
        }
        match &mut table {
            None => table = Some(Rows::begin(file, line, &record, shape)?),
            Some(rows) => each(rows.next(line, &record)?)?,
        }
    }
    match table {
        None => Err(format!("{file}: is empty; expected a header with {}", shape.listed())),
        Some(Rows { count: 0, .. }) => Err(format!("{file}: has no rows below its header")),
        Some(_) => Ok(()),
    }
}

/// The rows of a table below its header, from any source.
pub(crate) struct Rows<'a> {
    file: &'a str,
    columns: Vec<Column>,
    count: usize,
    count_max: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn begin(
        file: &'a str,
        line: u64,
        header: &StringRecord,
        shape: &Shape,
    ) -> Result<Self, String> {
        let columns = shape.columns(header).map_err(|why| format!("{file}:{line}: {why}"))?;
        Ok(Self { file, columns, count: 0, count_max: shape.rows_max })
    }

    /// Checks that a row has as many values as the header.
    pub(crate) fn next<'r>(&'r mut self, line: u64, record: &'r StringRecord) -> Result<Row<'r>, String> {
        let (file, expected) = (self.file, self.columns.len());
        if record.len() != expected {
            return Err(format!(
                "{file}:{line}: found {} values, expected {expected}, one for each column of the header",
                record.len()
            ));
        }
        if self.count == self.count_max {
            return Err(format!("{file}:{line}: more than {} rows", self.count_max));
        }
        self.count += 1;
        Ok(Row { file, columns: &self.columns, line, record })
    }
}

#[derive(Clone, Copy)]
pub struct Row<'a> {
    file: &'a str,
    columns: &'a [Column],
    line: u64,
    record: &'a StringRecord,
}

impl<'a> Row<'a> {
    pub fn wrong(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    fn cell(&self, name: &str) -> Option<(&'a Column, &'a str)> {
        let place = self.columns.iter().position(|column| column.name == name)?;
        Some((&self.columns[place], &self.record[place]))
    }

    /// The text of a cell. `None` without this column.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.cell(name) {
            None => Ok(None),
            Some((_, "")) => Err(self.wrong(format_args!("{name} is empty; expected a value"))),
            Some((_, text)) => Ok(Some(text)),
        }
    }

    /// The text of a cell, which may be empty. `None` without this column.
    pub fn any_text(&self, name: &str) -> Option<&'a str> {
        self.cell(name).map(|(_, text)| text)
    }

    /// The quantity in a cell. `None` without this column.
    pub fn quantity<Q: Quantity>(&self, name: &str) -> Result<Option<Q>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let factor = self.cell(name).and_then(|(column, _)| column.factor);
        let Some(factor) = factor else {
            return Q::from_text(text).map(Some).map_err(|why| {
                let (unit, _) = Q::UNITS[0];
                self.wrong(format_args!("{name}: {why}, or plain numbers in a column {name}_{unit}"))
            });
        };
        match f64::from_str(text) {
            Ok(number) if number * factor > Q::MOST.0 => Err(self.wrong(format_args!(
                "{name} is {text} in the unit of its column; allowed is at most {}",
                Q::MOST.1
            ))),
            Ok(number) if number >= 0.0 => Ok(Some(Q::from_number(number * factor))),
            _ => Err(self
                .wrong(format_args!("{name} is \"{text}\"; expected a number, since its column has a unit"))),
        }
    }
}

impl Shape {
    fn listed(&self) -> String {
        let optional = self.allowed.iter().map(|name| format!("{name} (optional)"));
        let all: Vec<String> = self.needed.iter().map(|name| (*name).to_owned()).chain(optional).collect();
        all.join(", ")
    }

    fn columns(&self, header: &StringRecord) -> Result<Vec<Column>, String> {
        let mut columns: Vec<Column> = Vec::with_capacity(header.len());
        for cell in header {
            let Some(column) = self.column(cell) else {
                let known = self.needed.iter().chain(self.allowed).copied();
                let meant =
                    closest(cell, known).map_or(String::new(), |name| format!(" (did you mean {name}?)"));
                return Err(format!(
                    "found the column \"{cell}\"{meant}; expected a header with {}",
                    self.listed()
                ));
            };
            if columns.iter().any(|other| other.name == column.name) {
                return Err(format!("duplicate column `{}`", column.name));
            }
            columns.push(column);
        }
        match self.needed.iter().find(|name| columns.iter().all(|column| column.name != **name)) {
            Some(name) => {
                Err(format!("the column {name} is missing; expected a header with {}", self.listed()))
            }
            None => Ok(columns),
        }
    }

    pub(crate) fn has(&self, cell: &str) -> bool {
        self.column(cell).is_some()
    }

    fn column(&self, cell: &str) -> Option<Column> {
        let known = self.needed.iter().chain(self.allowed);
        if let Some(name) = known.into_iter().find(|name| **name == cell) {
            return Some(Column { name, factor: None });
        }
        self.units.iter().find_map(|(name, units)| {
            let unit = cell.strip_prefix(name)?.strip_prefix('_')?;
            let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
            Some(Column { name, factor: Some(*factor) })
        })
    }
}

/// Maximum number of names, and of characters of each, in a message.
const LISTED_MAX: (usize, usize) = (8, 40);

/// A few names for a message.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let (count_max, length_max) = LISTED_MAX;
    let mut all: Vec<String> = Vec::new();
    let mut others = 0_usize;
    for name in names {
        if all.len() == count_max {
            others += 1;
        } else if name.chars().count() > length_max {
            all.push(name.chars().take(length_max).chain("...".chars()).collect());
        } else {
            all.push(name.to_owned());
        }
    }
    let rest = if others > 0 { format!(" and {others} more") } else { String::new() };
    all.join(", ") + &rest
}

/// Finds the column with one of these names, ignoring case.
pub(crate) fn column_of(values: &[&str], known: &[&str]) -> Option<usize> {
    values.iter().position(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Detects the delimiter of a table: the most frequent one in its first line.
pub(crate) fn delimiter(text: &str) -> u8 {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("");
    let count = |delimiter: u8| first.bytes().filter(|byte| *byte == delimiter).count();
    // `max_by_key` returns the last maximum: a comma if the line has no delimiter.
    [b'\t', b';', b','].into_iter().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

/// Calls `take` with the number and the values of each line that is not empty. `delimiter` is
/// `None` for blanks. Lines that start with `#` or `//` are comments. Errors name the file.
pub(crate) fn each_line(
    file: &str,
    text: &str,
    delimiter: Option<u8>,
    mut tell: impl FnMut(u64, &[&str]) -> Result<(), String>,
) -> Result<(), String> {
    let is_comment = |line: &str| line.starts_with('#') || line.starts_with("//");
    let Some(delimiter) = delimiter else {
        for (line, number) in text.lines().zip(1..) {
            let values: Vec<&str> = line.split_whitespace().collect();
            if !values.is_empty() && !is_comment(values[0]) {
                if let Some(why) = control_of(values.iter().copied()) {
                    return Err(format!("{file}:{number}: {why}"));
                }
                tell(number, &values)?;
            }
        }
        return Ok(());
    };
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .trim(Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| format!("{file}: {error}"))? {
        let values: Vec<&str> = record.iter().collect();
        if !is_comment(values[0]) && values.iter().any(|value| !value.is_empty()) {
            let line = line_of(text, &record, false);
            if let Some(why) = control_of(record.iter()) {
                return Err(format!("{file}:{line}: {why}"));
            }
            tell(line, &values)?;
        }
    }
    Ok(())
}

/// Finds a control character in the cells of a line, any of which may become a name.
fn control_of<'a>(mut cells: impl Iterator<Item = &'a str>) -> Option<String> {
    cells.find_map(|cell| Some(format!("the value `{cell}` {}", text::control_of_name(cell)?)))
}

/// The line of a record. The reader reports the line of blank lines and comments before it.
fn line_of(text: &str, record: &StringRecord, has_comments: bool) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let before = text.get(position.byte() as usize..).unwrap_or_default().split('\n');
    let is_none =
        |line: &&str| line.trim_end_matches('\r').is_empty() || (has_comments && line.starts_with('#'));
    position.line() + before.take_while(is_none).count() as u64
}

/// Detects the delimiter of the first lines. `None` for blanks.
pub(crate) fn delimiter_or_blank(text: &str) -> Option<u8> {
    let data = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("//")
    });
    // The data of an edge may be a dictionary, which contains commas.
    let begin = |line: &'_ str| line.split('{').next().unwrap_or_default().to_owned();
    let first = data.take(2).map(begin).collect::<Vec<_>>().join("\n");
    [b',', b';', b'\t'].into_iter().find(|delimiter| first.bytes().any(|byte| byte == *delimiter))
}

/// Reads a table of pairs of numbers, whose two columns have these names, row by row. `each` returns
/// what is wrong with a pair.
pub fn read_pairs(
    file: &str,
    inputs: &Inputs,
    columns: &'static [&'static str; 2],
    mut each: impl FnMut([u32; 2]) -> Result<(), String>,
) -> Result<(), String> {
    let shape = Shape { needed: columns, allowed: &[], units: &[], rows_max: usize::MAX };
    scan(file, &inputs.read(file)?, &shape, |row| {
        let number = |name: &str| {
            let text = row.text(name)?.unwrap_or_default();
            text.parse().map_err(|_| {
                row.wrong(format_args!("{name} is \"{text}\"; expected a whole number below 2^32"))
            })
        };
        let [first, second] = *columns;
        each([number(first)?, number(second)?]).map_err(|why| row.wrong(why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Vec<[u32; 2]>, String> {
        let inputs = Inputs::default().with("pairs.csv", text);
        let mut pairs = Vec::new();
        read_pairs("pairs.csv", &inputs, &["node", "column"], |pair| {
            pairs.push(pair);
            if pair[1] > 9 { Err(format!("column {}; expected columns below 10", pair[1])) } else { Ok(()) }
        })?;
        Ok(pairs)
    }

    #[test]
    fn pairs_are_read_as_spreadsheets_write_them() {
        let plain = pairs("node,column\n0,1\n2,3\n").unwrap();
        assert_eq!(plain, [[0, 1], [2, 3]]);
        for text in [
            "\u{feff}node,column\r\n0,1\r\n2,3\r\n",
            "# Custody of two nodes\n\nnode,column\n0,1\n# The other one\n\n2,3",
            "node;column\n0;1\n2;3\n",
            "node\tcolumn\n0\t1\n2\t3\n",
            " node , column\n 0 , 1\n\"2\",3\n",
            "column,node\n1,0\n3,2\n",
        ] {
            assert_eq!(pairs(text).as_ref(), Ok(&plain), "{text:?}");
        }
    }

    #[test]
    fn errors_of_pairs_name_the_line() {
        for (text, error) in [
            ("", "pairs.csv: is empty; expected a header with node, column"),
            ("0,1\n2,3\n", "pairs.csv:1: found the column \"0\"; expected a header with node, column"),
            (
                "# A\r\n\r\nnode,column\r\n0\r\n",
                "pairs.csv:4: found 1 values, expected 2, one for each column of the header",
            ),
            ("node,column\n\n0,-1\n", "pairs.csv:3: column is \"-1\"; expected a whole number below 2^32"),
            ("node,column\n# A\n0,10\n", "pairs.csv:3: column 10; expected columns below 10"),
        ] {
            assert_eq!(pairs(text).unwrap_err(), error, "{text:?}");
        }
    }
}
