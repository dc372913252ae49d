//! Tables of latencies: reads the published formats, and arranges rows by host or region.

mod paths;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use samara_engine::units::Span;

use crate::graph::GraphFile;
use crate::table::{Names, column_of, delimiter, each_line, listed};
use crate::{Inputs, LatencyFile, LatencyFormat, Paths};
use read::Cells;
pub(crate) use read::unit_of;

/// Maximum number of rows in a table. A matrix of this size has 400 MB.
const ROWS_MAX: usize = 10_000;
/// Marks a pair without a latency.
const MISSING: u32 = u32::MAX;

/// A square matrix of one-way latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyTable {
    file: String,
    /// The names of its rows; `None` if the file has none.
    names: Option<Arc<Names>>,
    size: usize,
    /// Nanoseconds, one row per sender. Latencies between hosts share the memory if possible.
    nanos: Arc<[u32]>,
    /// Shares of lost packets in the same order; empty if the file has none.
    losses: Vec<f32>,
    /// Reports of changes that the user may not expect.
    notes: Vec<String>,
}

impl LatencyTable {
    pub fn read(spec: &LatencyFile, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("latencies {spec:?}"), || {
            let (file, text) = (&spec.file, inputs.table(&spec.file)?);
            let cells = Cells::new(spec);
            let format = spec.format.unwrap_or_else(|| format_of(&text));
            if let Some(column) = spec.column.as_ref().filter(|_| format != LatencyFormat::Pairs) {
                return Err(format!(
                    "{file}: is not a list of pairs, which column = \"{column}\" in network.latency_file requires; remove the column, or set \
                     format = \"pairs\""
                ));
            }
            let mut table = match format {
                LatencyFormat::Graph => {
                    read::edges(file, &*GraphFile::read(file, inputs)?, &cells, spec.loss.as_deref())?
                }
                LatencyFormat::Matrix => match &spec.loss {
                    Some(loss) => {
                        return Err(format!(
                            "{file}: is a matrix of latencies, which has no {loss}; use a list of pairs with a column for it, or remove \
                             loss in network.latency_file"
                        ));
                    }
                    None => read::matrix(file, &text, &cells)?,
                },
                LatencyFormat::Pairs => read::pairs(file, &text, &cells, spec)?,
            };
            if let Some(file) = &spec.names {
                let (ids, unused) = id_names(file, inputs)?;
                table.rename(file, &ids)?;
                if !unused.is_empty() {
                    table.notes.push(format!("{file}: columns beside id and name have no effect: {unused}"));
                }
            }
            if spec.paths != Paths::Directed {
                table.mirror();
            }
            if spec.paths != Paths::None {
                table.follow_paths()?;
            }
            Ok(table)
        })
    }

    /// Replaces the ids of rows by names.
    fn rename(&mut self, file: &str, ids: &BTreeMap<String, String>) -> Result<(), String> {
        let Some(names) = &self.names else {
            return Err(format!(
                "{}: has no row ids, which names in network.latency_file requires",
                self.file
            ));
        };
        let renamed = names
            .all()
            .iter()
            .map(|id| ids.get(id).ok_or_else(|| format!("{file}: has no id {id}, which {} has", self.file)));
        let renamed: Names = renamed.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
        if renamed.len() != names.len() {
            return Err(format!("{file}: several ids in {} have the same name", self.file));
        }
        self.names = Some(Arc::new(renamed));
        Ok(())
    }

    /// Creates an empty table with a row for each name.
    fn of_names(file: &str, names: Names) -> Result<Self, String> {
        let size = names.len();
        let mut table = Self::of_size(file, size)?;
        table.names = Some(Arc::new(names));
        Ok(table)
    }

    fn of_size(file: &str, size: usize) -> Result<Self, String> {
        if size > ROWS_MAX {
            return Err(format!("{file}: has {size} rows; at most {ROWS_MAX}"));
        }
        let (names, notes) = (None, Vec::new());
        let nanos = vec![MISSING; size * size].into();
        Ok(Self { file: file.to_owned(), names, size, nanos, losses: Vec::new(), notes })
    }

    fn set(&mut self, from: usize, to: usize, nanos: Option<u32>) {
        // Never copies: a table that is being filled has one owner.
        Arc::make_mut(&mut self.nanos)[from * self.size + to] = nanos.unwrap_or(MISSING);
    }

    fn get(&self, from: usize, to: usize) -> Option<u32> {
        Some(self.nanos[from * self.size + to]).filter(|nanos| *nanos != MISSING)
    }

    fn set_loss(&mut self, from: usize, to: usize, loss: f32) {
        if self.losses.is_empty() && loss > 0.0 {
            self.losses = vec![0.0; self.size * self.size];
        }
        if let Some(known) = self.losses.get_mut(from * self.size + to) {
            // Something always arrives, however many lossy pairs a path has.
            *known = loss.min(1.0 - f32::EPSILON);
        }
    }

    fn loss(&self, from: usize, to: usize) -> f32 {
        self.losses.get(from * self.size + to).copied().unwrap_or(0.0)
    }

    /// Completes pairs that the file has in one direction only.
    fn mirror(&mut self) {
        for from in 0..self.size {
            for to in 0..self.size {
                if self.get(to, from).is_none()
                    && let Some(latency) = self.get(from, to)
                {
                    self.set(to, from, Some(latency));
                    self.set_loss(to, from, self.loss(from, to));
                }
            }
        }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn name(&self, row: usize) -> String {
        self.names.as_ref().map_or_else(|| row.to_string(), |names| names.all()[row].clone())
    }

    /// The latencies between hosts in nanoseconds, where each host has a row (see
    /// [`rows_of_hosts`](Self::rows_of_hosts)).
    ///
    /// # Errors
    /// A latency is 0, or is missing without `others`. The message names the pair.
    pub fn between_hosts(&self, rows: &[usize], spec: &LatencyFile) -> Result<Arc<[u32]>, String> {
        if rows.iter().copied().eq(0..self.size) && self.is_complete() {
            return Ok(Arc::clone(&self.nanos));
        }
        let pairs = rows.iter().flat_map(|from| rows.iter().map(move |to| (*from, *to)));
        let nanos = |(from, to)| if from == to { Ok(0) } else { self.latency(from, to, spec) };
        pairs.map(nanos).collect()
    }

    /// The latencies of all pairs of different rows.
    fn pairs(&self) -> impl Iterator<Item = u32> {
        let rows = self.nanos.chunks_exact(self.size.max(1)).enumerate();
        rows.flat_map(|(row, all)| all[..row].iter().chain(&all[row + 1..]).copied())
    }

    fn is_complete(&self) -> bool {
        self.pairs().all(|nanos| nanos != 0 && nanos != MISSING)
    }

    /// The latencies between regions, where each region has a row.
    ///
    /// # Errors
    /// As for [`between_hosts`](Self::between_hosts), and for missing latencies within a region
    /// without `within`.
    pub fn between_regions(&self, rows: &[usize], spec: &LatencyFile) -> Result<Vec<Vec<Span>>, String> {
        let one = |from: usize, to: usize| {
            if let Some(within) = spec.within.filter(|_| from == to) {
                return Ok(within);
            }
            if from == to && self.get(from, to).is_none_or(|nanos| nanos == 0) {
                return Err(format!(
                    "{}: has no latency between nodes in {}; set one with within = \"10 ms\" in network.latency_file",
                    self.file,
                    self.name(from)
                ));
            }
            self.latency(from, to, spec).map(|nanos| Span::from_nanos(u64::from(nanos)))
        };
        rows.iter().map(|from| rows.iter().map(|to| one(*from, *to)).collect()).collect()
    }

    /// The shares of packets lost between hosts or regions, each with a row, in the order of
    /// [`between_hosts`](Self::between_hosts). `None` if nothing is lost.
    pub fn losses(&self, rows: &[usize]) -> Option<Arc<[f32]>> {
        let pairs = rows.iter().flat_map(|from| rows.iter().map(move |to| (*from, *to)));
        (!self.losses.is_empty()).then(|| pairs.map(|(from, to)| self.loss(from, to)).collect())
    }

    fn latency(&self, from: usize, to: usize, spec: &LatencyFile) -> Result<u32, String> {
        let pair = || format!("from {} to {}", self.name(from), self.name(to));
        match (self.get(from, to), spec.others) {
            (Some(0), _) => Err(format!(
                "{}: the latency {} is 0; expected more than 0 between different nodes",
                self.file,
                pair()
            )),
            (Some(nanos), _) => Ok(nanos),
            (None, Some(others)) => Cells::whole(Some(others.nanos() as f64))
                .map(Option::unwrap_or_default)
                .map_err(|why| format!("others in network.latency_file is {why}")),
            (None, None) => Err(format!(
                "{}: has no latency {} ({} of {} pairs are absent, empty or negative); set one with others = \"100 ms\" in \
                 network.latency_file{}",
                self.file,
                pair(),
                self.pairs().filter(|nanos| *nanos == MISSING).count(),
                self.size * self.size.saturating_sub(1),
                match spec.paths {
                    Paths::None =>
                        ", or sum those along the shortest path of pairs with paths = \"undirected\"",
                    Paths::Undirected | Paths::Directed => "; no path of pairs leads there",
                }
            )),
        }
    }

    /// The row of each host. Hosts with names are found by name. Other hosts have the row named by
    /// their number, or the first rows in order.
    pub fn rows_of_hosts(&self, hosts: u32, names: Option<&Names>) -> Result<Vec<usize>, String> {
        if let (Some(own), Some(names)) = (&self.names, names) {
            return names.all().iter().map(|name| self.row(own, "node", name)).collect();
        }
        if self.size < hosts as usize {
            return Err(format!(
                "{0}: has {1} rows for {hosts} nodes; set network.nodes to at most {1}, remove it, or use a file \
                 with a row for each node",
                self.file, self.size
            ));
        }
        let numbered = self.names.as_ref().and_then(|own| own.as_numbers(self.size as u32));
        let mut rows: Vec<usize> = (0..self.size).collect();
        for (row, number) in numbered.into_iter().flatten().enumerate() {
            rows[number as usize] = row;
        }
        rows.truncate(hosts as usize);
        Ok(rows)
    }

    /// The row of each region: by name, or in the order of the regions if the rows have no names.
    pub fn rows_of_regions(&self, names: &[String]) -> Result<Vec<usize>, String> {
        match &self.names {
            Some(own) => names.iter().map(|name| self.row(own, "region", name)).collect(),
            None if self.size == names.len() => Ok((0..self.size).collect()),
            None => Err(format!(
                "{}: has {} rows without names for {} regions; expected a row for each, or names",
                self.file,
                self.size,
                names.len()
            )),
        }
    }

    fn row(&self, own: &Names, what: &str, name: &str) -> Result<usize, String> {
        own.find(name).map(|row| row as usize).ok_or_else(|| {
            let meant = crate::closest(name, own.all().iter().map(String::as_str));
            let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
            format!("{}: has no row for the {what} {name}{hint}", self.file)
        })
    }
}

/// Detects the format of a file of latencies.
fn format_of(text: &str) -> LatencyFormat {
    if text.trim_start().starts_with('<') {
        LatencyFormat::Graph
    } else if read::looks_like_pairs(text) {
        LatencyFormat::Pairs
    } else {
        LatencyFormat::Matrix
    }
}

/// Reads the names of ids, and lists the columns that it does not use.
fn id_names(file: &str, inputs: &Inputs) -> Result<(BTreeMap<String, String>, String), String> {
    let text = inputs.table(file)?;
    let (mut names, mut columns, mut unused) = (BTreeMap::new(), None, String::new());
    each_line(file, &text, Some(delimiter(&text)), |line, cells| {
        let wrong = |what: String| format!("{file}:{line}: {what}");
        let Some((id, name)) = columns else {
            let (Some(id), Some(name)) = (column_of(cells, &["id"]), column_of(cells, &["name"])) else {
                return Err(wrong(format!(
                    "found \"{}\", expected a header with id and name",
                    cells.join(",")
                )));
            };
            let others = cells.iter().enumerate().filter(|(place, _)| ![id, name].contains(place));
            unused = listed(others.map(|(_, column)| *column));
            columns = Some((id, name));
            return Ok(());
        };
        let (Some(id), Some(name)) = (cells.get(id), cells.get(name)) else {
            return Err(wrong("has no id or no name".to_owned()));
        };
        if names.insert((*id).to_owned(), (*name).to_owned()).is_some() {
            return Err(wrong(format!("duplicate id `{id}`")));
        }
        Ok(())
    })?;
    Ok((names, unused))
}

#[cfg(test)]
mod tests;
