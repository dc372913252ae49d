//! Reads latencies: single values, lists of pairs, the edges of a graph, and square matrices.

use rustc_hash::FxHashMap;
use samara_engine::units::Span;

use super::{LatencyTable, MISSING, Names, ROWS_MAX};
use crate::graph::{GraphFile, Link};
use crate::table::{column_of, delimiter_or_blank, each_line, listed};
use crate::{LatencyFile, LatencyKind};

/// The unit and the meaning of values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    /// Nanoseconds per unit of plain numbers.
    unit_nanos: Option<f64>,
    /// The one-way share of a value: 0.5 for round trips.
    share: f64,
}

/// Marks of missing values in published tables.
const NONE: [&str; 9] = ["", "-", "--", "na", "n/a", "nan", "null", "none", "inf"];

impl Cells {
    pub(super) fn new(spec: &LatencyFile) -> Self {
        let share = match spec.kind {
            LatencyKind::OneWay => 1.0,
            LatencyKind::RoundTrip => 0.5,
        };
        Self { unit_nanos: spec.unit.map(|unit| unit.nanos()), share }
    }

    /// One-way nanoseconds of a value. `None` for a mark of a missing value (nothing, `-`, `nan`)
    /// or a negative number.
    fn read(&self, text: &str) -> Result<Option<f64>, String> {
        let text = text.trim();
        if let Ok(number) = text.parse::<f64>() {
            let unit = self.unit_nanos.or((!number.is_finite() || number < 0.0).then_some(1.0));
            return unit.map(|unit| self.nanos(number * unit)).ok_or_else(|| {
                format!(
                    "found {number}, which has no unit; set it with unit = \"ms\" (or \"s\", \"us\", \"ns\") in network.latency_file"
                )
            });
        }
        if is_mark(text) {
            return Ok(None);
        }
        match Span::parse(text) {
            Ok(span) => Ok(Some(span.nanos() as f64 * self.share)),
            Err(why) => Err(format!("found \"{text}\", which is not a latency: {why}")),
        }
    }

    /// One-way nanoseconds of a value in nanoseconds.
    fn nanos(&self, nanos: f64) -> Option<f64> {
        (nanos.is_finite() && nanos >= 0.0).then_some(nanos * self.share)
    }

    pub(super) fn whole(nanos: Option<f64>) -> Result<Option<u32>, String> {
        let Some(nanos) = nanos.map(f64::round) else { return Ok(None) };
        if nanos < f64::from(MISSING) {
            Ok(Some(nanos as u32))
        } else {
            Err(format!("a one-way latency of {:.1} s; at most 4.29 s, is the unit right?", nanos / 1e9))
        }
    }

    /// Returns true if a text is a latency or a mark of a missing one, rather than a name.
    fn is_value(text: &str) -> bool {
        text.parse::<f64>().is_ok() || is_mark(text) || Span::parse(text).is_ok()
    }
}

/// Names of the column with one end.
const FROM: [&str; 6] = ["from", "source", "src", "source_id", "from_region", "node1"];
/// Names of the column with the other end.
const TO: [&str; 8] = ["to", "destination", "dest", "dst", "target", "destination_id", "to_region", "node2"];
/// Names of the column with latencies. The first one present is used.
const VALUE: [&str; 10] =
    ["latency", "rtt", "avg", "average", "mean", "median", "p50", "ping", "delay", "avg_rtt"];

/// The columns of a list of pairs.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    from: usize,
    to: usize,
    value: usize,
    /// The column with the share of lost packets.
    loss: Option<usize>,
    /// Nanoseconds per unit of numbers, if the header has the unit.
    unit_nanos: Option<f64>,
    /// The names of the other columns.
    unused: String,
}

/// Returns true if lines look like pairs: a header with two ends, or two names and a value, or more
/// than three lines of three values.
pub(super) fn looks_like_pairs(text: &str) -> bool {
    let (mut lines, mut is_head, mut all_three, mut has_ends) = (0_u32, false, true, false);
    let seen = each_line("", text, delimiter_or_blank(text), |_, values| {
        lines += 1;
        all_three &= values.len() == 3;
        if lines == 1 {
            is_head = ends(values).is_some();
            has_ends = values.len() == 3 && !values[..2].iter().any(|name| Cells::is_value(name));
            all_three &= values.get(2).is_some_and(|value| Cells::is_value(value));
        }
        // An error stops the reading, since further lines cannot change the result.
        if is_head || !all_three || lines > 3 { Err(String::new()) } else { Ok(()) }
    });
    drop(seen);
    is_head || (all_three && (has_ends || lines > 3))
}

/// The column or the attribute with the share of lost packets, by its name.
fn loss_of<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<usize, String> {
    names.clone().position(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
        format!("unknown {wanted} in network.latency_file.loss; expected one of {}", listed(names))
    })
}

pub(super) fn pairs(
    file: &str,
    text: &str,
    cells: &Cells,
    spec: &LatencyFile,
) -> Result<LatencyTable, String> {
    let mut pairs = Pairs::new(file, cells, Names::default(), Repeated::Mean);
    let (mut columns, mut surplus): (Option<Columns>, usize) = (None, 0);
    each_line(file, text, delimiter_or_blank(text), |line, values| {
        let wrong = |what: String| format!("{file}:{line}: {what}");
        if columns.is_none() {
            columns = Columns::of(values, spec).map_err(wrong)?;
            if columns.is_some() {
                return Ok(());
            }
        }
        let known = columns.get_or_insert_with(Columns::plain);
        let place = |place: usize| values.get(place).copied();
        let (Some(from), Some(to), Some(value)) = (place(known.from), place(known.to), place(known.value))
        else {
            return Err(wrong(format!(
                "found {} values, expected two ends and a latency, such as \"a b 12.5\"",
                values.len()
            )));
        };
        surplus += usize::from(known.is_plain() && values.len() > 3);
        let loss = known.loss.map(|of| place(of).unwrap_or_default());
        pairs.add((from, to), (value, known.unit_nanos), loss).map_err(wrong)
    })?;
    if pairs.sums.is_empty() {
        return Err(format!("{file}: has no latencies; expected lines such as \"a b 12.5\""));
    }
    let mut table = pairs.finish()?;
    if let Some(unused) = columns.map(|columns| columns.unused).filter(|unused| !unused.is_empty()) {
        table.notes.push(format!("{file}: further columns have no effect: {unused}"));
    }
    if surplus > 0 {
        table.notes.push(format!("{file}: values after the latency have no effect ({surplus} lines)"));
    }
    Ok(table)
}

pub(super) fn edges(
    file: &str,
    graph: &GraphFile,
    cells: &Cells,
    loss: Option<&str>,
) -> Result<LatencyTable, String> {
    let Some(attribute) = graph.latency_attribute() else {
        return Err(format!(
            "{file}: no edge has a latency; expected the attribute latency (with its unit, or in that of network.latency_file), or \
             latency_ms"
        ));
    };
    let (name, unit_nanos) = unit_of(attribute);
    let reverse = attribute.replacen(name, &format!("{name}_reverse"), 1);
    if let Some(loss) = loss {
        let attributes = graph.edge_attributes();
        loss_of(loss, attributes.iter().copied()).map_err(|why| format!("{file}: {why}"))?;
    }
    let loss = loss.map(str::to_ascii_lowercase);
    let mut pairs = Pairs::new(file, cells, (*graph.names).clone(), Repeated::Least);
    let mut without_loss: Option<(usize, String)> = None;
    for Link { from, to, is_directed, attributes } in &graph.links {
        let [from, to] = [from, to].map(|node| graph.names.all()[*node as usize].as_str());
        let value = |name: &str| attributes.values.get(name).map(String::as_str);
        let forward = value(attribute);
        // An edge without direction has the same latency in both, unless it states the other one.
        let back = value(&reverse).or(forward.filter(|_| !is_directed && from != to));
        let lost = loss.as_deref().and_then(value);
        if loss.is_some() && lost.is_none() && forward.or(back).is_some() {
            let first = || (0, format!("from {from} to {to} on line {}", attributes.line));
            without_loss.get_or_insert_with(first).0 += 1;
        }
        for (ends, value) in [((from, to), forward), ((to, from), back)] {
            if let Some(value) = value {
                let added = pairs.add(ends, (value, unit_nanos), lost);
                added.map_err(|why| format!("{file}:{}: {why}", attributes.line))?;
            }
        }
    }
    let mut table = pairs.finish()?;
    if let (Some((count, first)), Some(loss)) = (without_loss, loss) {
        let note = format!("{file}: {count} edges have no {loss} (the first {first}); theirs counts as 0");
        table.notes.push(note);
    }
    Ok(table)
}

/// The value of a pair that a file has several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeated {
    /// The mean of measurements.
    Mean,
    /// The least latency, and the least loss among those with it, as over parallel links.
    Least,
}

/// The values of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    nanos: f64,
    loss: f64,
    count: u32,
}

/// Collects the latencies of pairs.
struct Pairs<'a> {
    file: &'a str,
    cells: &'a Cells,
    names: Names,
    repeated: Repeated,
    sums: FxHashMap<(u32, u32), Sum>,
}

impl<'a> Pairs<'a> {
    fn new(file: &'a str, cells: &'a Cells, names: Names, repeated: Repeated) -> Self {
        Self { file, cells, names, repeated, sums: FxHashMap::default() }
    }

    fn add(
        &mut self,
        (from, to): (&str, &str),
        (value, unit_nanos): (&str, Option<f64>),
        loss: Option<&str>,
    ) -> Result<(), String> {
        let nanos = match (unit_nanos, value.parse::<f64>()) {
            (Some(unit), Ok(number)) => Ok(self.cells.nanos(number * unit)),
            _ => self.cells.read(value),
        };
        let pair = (self.names.number(from), self.names.number(to));
        if self.names.len() > ROWS_MAX {
            return Err(format!("more than {ROWS_MAX} names"));
        }
        let checked = nanos.and_then(|nanos| Cells::whole(nanos).map(|_| nanos));
        let wrong = |why: String| format!("from {from} to {to}: {why}");
        let nanos = checked.map_err(wrong)?;
        // A pair without a latency needs no loss.
        let loss = loss.filter(|loss| nanos.is_some() || !is_mark(loss));
        let loss = loss.map_or(Ok(0.0), share).map_err(wrong)?;
        if let Some(nanos) = nanos {
            let sum = self.sums.entry(pair).or_default();
            let is_first = sum.count == 0;
            *sum = match self.repeated {
                Repeated::Mean => {
                    Sum { nanos: sum.nanos + nanos, loss: sum.loss + loss, count: sum.count + 1 }
                }
                Repeated::Least if is_first || (nanos, loss) < (sum.nanos, sum.loss) => {
                    Sum { nanos, loss, count: 1 }
                }
                Repeated::Least => *sum,
            };
        }
        Ok(())
    }

    fn finish(self) -> Result<LatencyTable, String> {
        let mut table = LatencyTable::of_names(self.file, self.names)?;
        let repeated = self.sums.values().filter(|sum| sum.count > 1).count();
        if repeated > 0 {
            let note = format!("{}: {repeated} pairs are repeated; their mean is used", self.file);
            table.notes.push(note);
        }
        for ((from, to), Sum { nanos, loss, count }) in self.sums {
            let (from, to, count) = (from as usize, to as usize, f64::from(count));
            table.set(from, to, Cells::whole(Some(nanos / count))?);
            table.set_loss(from, to, (loss / count) as f32);
        }
        Ok(table)
    }
}

/// Returns true for the mark of a missing value.
fn is_mark(text: &str) -> bool {
    NONE.contains(&text.trim().to_ascii_lowercase().as_str())
}

/// A share of lost packets: a number from 0 to below 1, or with a percent sign. A missing value is an
/// error, as for latencies: it does not say that nothing is lost.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let found = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    found.filter(|share| (0.0..1.0).contains(share)).ok_or_else(|| {
        format!("the loss is \"{text}\"; expected a number from 0 to below 1, or a share such as \"2 %\"")
    })
}

impl Columns {
    /// The columns of lines without a header.
    fn plain() -> Self {
        Self { from: 0, to: 1, value: 2, loss: None, unit_nanos: None, unused: String::new() }
    }

    fn is_plain(&self) -> bool {
        *self == Self::plain()
    }

    /// The columns that a header names. `None` if the line is not a header.
    fn of(values: &[&str], spec: &LatencyFile) -> Result<Option<Self>, String> {
        let Some((from, to)) = ends(values) else {
            let wanted = [("column", &spec.column), ("loss", &spec.loss)];
            let Some((key, column)) = wanted.into_iter().find_map(|(key, of)| Some((key, of.as_ref()?)))
            else {
                return Ok(None);
            };
            return Err(format!(
                "found no header with two ends (such as source and destination), which {key} = \"{column}\" in \
                 network.latency_file requires"
            ));
        };
        let place = |wanted: &str| {
            values.iter().position(|name| unit_of(name).0.eq_ignore_ascii_case(wanted) || *name == wanted)
        };
        let value = match &spec.column {
            Some(column) => place(column).ok_or_else(|| {
                format!("unknown column {column}; expected one of {}", listed(values.iter().copied()))
            })?,
            None => VALUE.iter().find_map(|name| place(name)).ok_or_else(|| {
                format!(
                    "found no known latency column in {} (known: {}); name it with column in network.latency_file",
                    listed(values.iter().copied()),
                    VALUE.join(", ")
                )
            })?,
        };
        let loss = spec.loss.as_ref().map(|loss| loss_of(loss, values.iter().copied())).transpose()?;
        let used = [Some(from), Some(to), Some(value), loss];
        let unused = values.iter().enumerate().filter(|(place, _)| !used.contains(&Some(*place)));
        let unused = listed(unused.map(|(_, name)| *name));
        Ok(Some(Self { from, to, value, loss, unit_nanos: unit_of(values[value]).1, unused }))
    }
}

fn ends(values: &[&str]) -> Option<(usize, usize)> {
    Some((column_of(values, &FROM)?, column_of(values, &TO)?)).filter(|_| values.len() > 2)
}

/// Splits a name into the name without its unit, and the nanoseconds of that unit.
pub(crate) fn unit_of(name: &str) -> (&str, Option<f64>) {
    let units = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];
    let found = units.into_iter().find_map(|(end, nanos)| Some((name.strip_suffix(end)?, Some(nanos))));
    found.unwrap_or((name, None))
}

/// Reads a matrix: lines of values separated by commas, semicolons, tabs or blanks.
///
/// The first line may have the names of the columns. Then each line has the name of its row, and
/// rows may be in another order than columns.
pub(super) fn matrix(file: &str, text: &str, cells: &Cells) -> Result<LatencyTable, String> {
    let (mut first, mut matrix): (Option<(u64, Vec<String>)>, Option<Matrix<'_>>) = (None, None);
    each_line(file, text, delimiter_or_blank(text), |line, values| {
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
    })?;
    match matrix {
        Some(matrix) => matrix.finish(),
        None => Err(format!("{file}: has fewer than two lines; expected a square matrix of latencies")),
    }
}

struct Matrix<'a> {
    file: &'a str,
    cells: &'a Cells,
    table: LatencyTable,
    rows_have_names: bool,
    seen: Vec<bool>,
    filled: usize,
}

impl<'a> Matrix<'a> {
    /// Detects names from the first two lines. The second one shows whether rows have names.
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
                let repeated =
                    names.iter().enumerate().find(|(column, name)| names[..*column].contains(name));
                let name = repeated.map_or("", |(_, name)| name);
                return Err(format!("{file}:{line}: two columns have the name {name}; names have to differ"));
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
                    wrong(format!("row {name} has no column; expected the same names for rows and columns"))
                })?;
                (row as usize, &values[1..])
            }
        };
        let size = self.table.size;
        if values.len() != size {
            return Err(wrong(format!(
                "found {} latencies, expected {size}, one for each column (commas, semicolons, tabs or blanks \
                 separate cells, in all lines the same; numbers have a decimal point)",
                values.len()
            )));
        }
        if row >= size {
            return Err(wrong(format!("more rows than the {size} columns")));
        }
        if std::mem::replace(&mut self.seen[row], true) {
            return Err(wrong(format!("duplicate row `{}`", self.table.name(row))));
        }
        for (column, value) in values.iter().enumerate() {
            let nanos = self.cells.read(value).and_then(Cells::whole).map_err(|why| {
                let place = column + 1 + usize::from(self.rows_have_names);
                wrong(format!("column {place} (to {}): {why}", self.table.name(column)))
            })?;
            self.table.set(row, column, nanos);
        }
        self.filled += 1;
        Ok(())
    }

    fn finish(self) -> Result<LatencyTable, String> {
        match self.seen.iter().position(|seen| !seen) {
            Some(row) => Err(format!(
                "{}: has {} rows and {} columns; row {} is missing",
                self.file,
                self.filled,
                self.table.size,
                self.table.name(row)
            )),
            None => Ok(self.table),
        }
    }
}
