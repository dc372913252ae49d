//! Tables as text: columns with names and units, and plain lines of values.

use std::str::FromStr;

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::scenario::closest;
use samara_engine::units::{Rate, Size, Span};

/// A quantity that a column can have.
pub(crate) trait Quantity: Sized {
    /// Units that may end the name of a column whose cells are plain numbers, with their factors.
    const UNITS: &'static [(&'static str, f64)];

    /// From a number with its unit.
    fn from_text(text: &str) -> Result<Self, String>;

    /// From a number in the unit whose factor is 1.
    fn from_number(value: f64) -> Self;
}

impl Quantity for Rate {
    const UNITS: &'static [(&'static str, f64)] =
        &[("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)];

    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn from_number(value: f64) -> Self {
        Self::from_bps(value.round() as u64)
    }
}

impl Quantity for Span {
    const UNITS: &'static [(&'static str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn from_number(value: f64) -> Self {
        Self::from_nanos(value.round() as u64)
    }
}

impl Quantity for Size {
    const UNITS: &'static [(&'static str, f64)] =
        &[("bytes", 1.0), ("kb", 1e3), ("mb", 1e6), ("kib", 1024.0), ("mib", 1_048_576.0)];

    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn from_number(value: f64) -> Self {
        Self::from_bytes(value.round() as u64)
    }
}

/// What a kind of table looks like.
pub(crate) struct Shape {
    /// Columns that have to be there.
    pub(crate) needed: &'static [&'static str],
    /// Columns that may be there.
    pub(crate) allowed: &'static [&'static str],
    /// Columns that may have a unit at the end of their names, with these units.
    pub(crate) units: &'static [(&'static str, &'static [(&'static str, f64)])],
    /// The most rows.
    pub(crate) rows_max: usize,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: &'static str,
    /// The factor of plain numbers, if the header has the unit.
    factor: Option<f64>,
}

/// Reads a table with a header row by row; lines that start with `#` are comments.
pub(crate) fn scan(
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

/// The rows of a table below its header, whatever they are read from.
pub(super) struct Rows<'a> {
    file: &'a str,
    columns: Vec<Column>,
    count: usize,
    count_max: usize,
}

impl<'a> Rows<'a> {
    /// Checks the header.
    pub(super) fn begin(
        file: &'a str,
        line: u64,
        header: &StringRecord,
        shape: &Shape,
    ) -> Result<Self, String> {
        let columns = shape.columns(header).map_err(|why| format!("{file}:{line}: {why}"))?;
        Ok(Self { file, columns, count: 0, count_max: shape.rows_max })
    }

    /// Checks that a row has as many values as the header.
    pub(super) fn next<'r>(&'r mut self, line: u64, record: &'r StringRecord) -> Result<Row<'r>, String> {
        let (file, expected) = (self.file, self.columns.len());
        if record.len() != expected {
            return Err(format!(
                "{file}:{line}: found {} values, expected {expected}, as many as the header has columns",
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

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    file: &'a str,
    columns: &'a [Column],
    line: u64,
    record: &'a StringRecord,
}

impl<'a> Row<'a> {
    /// Something is wrong in this row.
    pub(crate) fn wrong(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    fn cell(&self, name: &str) -> Option<(&'a Column, &'a str)> {
        let place = self.columns.iter().position(|column| column.name == name)?;
        Some((&self.columns[place], &self.record[place]))
    }

    /// The text of a cell, `None` without such a column.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.cell(name) {
            None => Ok(None),
            Some((_, "")) => Err(self.wrong(format_args!("{name} is empty; expected a value"))),
            Some((_, text)) => Ok(Some(text)),
        }
    }

    /// The quantity in a cell, `None` without such a column.
    pub(crate) fn quantity<Q: Quantity>(&self, name: &str) -> Result<Option<Q>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let factor = self.cell(name).and_then(|(column, _)| column.factor);
        let Some(factor) = factor else {
            return Q::from_text(text).map(Some).map_err(|why| {
                let (unit, _) = Q::UNITS[0];
                self.wrong(format_args!("{name}: {why}; or plain numbers in a column {name}_{unit}"))
            });
        };
        match f64::from_str(text) {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(Q::from_number(number * factor))),
            _ => Err(self
                .wrong(format_args!("{name} is \"{text}\"; expected a number, since its column has a unit"))),
        }
    }
}

impl Shape {
    /// All columns, for messages.
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

    /// Returns true if a column can have this name.
    pub(super) fn has(&self, cell: &str) -> bool {
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

/// The delimiter of a table: the one that its first line has most of.
pub(super) fn delimiter(text: &str) -> u8 {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("");
    let count = |delimiter: u8| first.bytes().filter(|byte| *byte == delimiter).count();
    // The last of equals: a comma where there is none of them.
    [b'\t', b';', b','].into_iter().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

/// Passes on each line that is not empty: its number and its values. `delimiter` is `None` for blanks. Lines that start with
/// `#` or `//` are comments. Errors name the file.
pub(super) fn each_line(
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
            tell(line_of(text, &record, false), &values)?;
        }
    }
    Ok(())
}

/// The line of a record: the reader reports that of blank lines and comments before it.
fn line_of(text: &str, record: &StringRecord, has_comments: bool) -> u64 {
    let Some(position) = record.position() else { return 0 };
    let before = text.get(position.byte() as usize..).unwrap_or_default().split('\n');
    let is_none =
        |line: &&str| line.trim_end_matches('\r').is_empty() || (has_comments && line.starts_with('#'));
    position.line() + before.take_while(is_none).count() as u64
}

/// The delimiter of the first lines, or `None` for blanks.
pub(super) fn delimiter_or_blank(text: &str) -> Option<u8> {
    let data = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("//")
    });
    // Data of edges may be dictionaries, which have commas of their own.
    let begin = |line: &'_ str| line.split('{').next().unwrap_or_default().to_owned();
    let first = data.take(2).map(begin).collect::<Vec<_>>().join("\n");
    [b',', b';', b'\t'].into_iter().find(|delimiter| first.bytes().any(|byte| byte == *delimiter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        needed: &["host"],
        allowed: &["uplink", "delay"],
        units: &[("uplink", Rate::UNITS), ("delay", Span::UNITS)],
        rows_max: 3,
    };

    fn first(text: &str) -> Result<(Option<Rate>, Option<Span>), String> {
        let mut read = None;
        scan("t.csv", text, &SHAPE, |row| {
            let found = (row.quantity("uplink")?, row.quantity("delay")?);
            read.get_or_insert(found);
            Ok(())
        })?;
        read.ok_or_else(|| "no row".to_owned())
    }

    #[test]
    fn quantities_have_units_in_cells_or_in_the_header() {
        let expected = Ok((Some(Rate::from_bps(20_000_000)), Some(Span::from_nanos(1_500_000))));
        assert_eq!(first("host,uplink,delay\na,20 Mbit/s,1.5 ms\n"), expected);
        assert_eq!(first("# a comment\nhost;delay_us;uplink_mbps\r\na;1500;20\r\n"), expected);
        assert_eq!(first("\u{feff}host\tuplink_bps\tdelay_s\n\"a\tb\"\t2e7\t0.0015\n"), expected);
        assert_eq!(first("host\na\n"), Ok((None, None)));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = |text: &str| first(text).expect_err("something is wrong");
        assert_eq!(
            error("host,upink\na,1\n"),
            "t.csv:1: found the column \"upink\" (did you mean uplink?); expected a header with host, uplink (optional), delay (optional)"
        );
        assert_eq!(
            error("uplink,delay\n"),
            "t.csv:1: the column host is missing; expected a header with host, uplink (optional), delay (optional)"
        );
        assert_eq!(error("host,uplink,uplink_bps\n"), "t.csv:1: duplicate column `uplink`");
        assert_eq!(
            error("host,uplink\n\na,20\n"),
            "t.csv:3: uplink: \"20\" has no unit; expected a rate such as \"20 Mbit/s\", in bit/s, kbit/s, Mbit/s, Gbit/s; or plain \
             numbers in a column uplink_bps"
        );
        assert_eq!(
            error("host,uplink_bps\na,-1\n"),
            "t.csv:2: uplink is \"-1\"; expected a number, since its column has a unit"
        );
        assert_eq!(error("host,uplink\na,\n"), "t.csv:2: uplink is empty; expected a value");
        assert_eq!(
            error("host,uplink\na\n"),
            "t.csv:2: found 1 values, expected 2, as many as the header has columns"
        );
        assert_eq!(
            error(""),
            "t.csv: is empty; expected a header with host, uplink (optional), delay (optional)"
        );
        assert_eq!(error("host\n"), "t.csv: has no rows below its header");
        assert_eq!(error("host\na\nb\nc\nd\n"), "t.csv:5: more than 3 rows");
    }
}
