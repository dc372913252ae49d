//! The files that scenarios name: those that come with Samara, those beside the scenario, and those in memory.

use rustc_hash::FxHashMap;

pub mod graph;
pub mod hosts;
mod inputs;
pub mod latency;
pub(crate) mod table;

pub use inputs::Inputs;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../data/", $name, ".zst")).as_slice())),*]
    };
}

/// Names and compressed contents.
const FILES: &[(&str, &[u8])] = files!(
    "graphs/barabasi_albert_95_m2_seed42.csv",
    "graphs/barabasi_albert_95_m6_seed42.csv",
    "graphs/barabasi_albert_95_m12_seed42.csv",
    "graphs/barabasi_albert_95_m16_seed42.csv",
    "graphs/barabasi_albert_10000_m6_seed42.csv",
    "reference/edges_n100.csv",
    "reference/custody_n100.csv",
    "reference/mesh_n100_s1.csv",
    "reference/arrivals_n100_bw20_seq_s1.csv",
    "reference/arrivals_n100_bw20_seq_s2.csv",
    "reference/arrivals_n100_bw20_seq_s3.csv",
    "reference/arrivals_n100_bw20_seq_rr.csv",
    "reference/arrivals_n100_bw20_batch_s1.csv",
    "reference/arrivals_n100_bw20_batch_s2.csv",
    "reference/arrivals_n100_bw20_batch_s3.csv",
    "reference/arrivals_n100_bw20_batch_rr.csv",
);

/// What a path in a scenario starts with that names a data file of Samara.
pub(crate) const PREFIX: &str = "builtin:";

/// The names of the data files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// A data file of Samara, unpacked; `name` is without the prefix.
fn unpacked(name: &str) -> Result<Vec<u8>, String> {
    let (_, packed) = FILES.iter().find(|(own, _)| *own == name).ok_or_else(|| {
        format!(
            "{PREFIX}{name}: there is no such data file; there are {}",
            names().collect::<Vec<_>>().join(", ")
        )
    })?;
    zstd::decode_all(*packed).map_err(|error| format!("{PREFIX}{name}: {error}"))
}

/// Reads a CSV file of pairs of numbers with a header of two given names.
///
/// # Errors
/// The file cannot be read, or a line is not a pair; the message names file and line.
pub fn read_pairs(name: &str, inputs: &Inputs, header: [&str; 2]) -> Result<Vec<(u32, u32)>, String> {
    let text = inputs.read(name)?;
    let mut lines = text.lines().enumerate();
    let found = lines.next().map_or("", |(_, line)| line.trim());
    if found != header.join(",") {
        return Err(format!("{name}:1: found \"{found}\", expected the header \"{}\"", header.join(",")));
    }
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            let pair = line
                .split_once(',')
                .and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
            pair.ok_or_else(|| format!("{name}:{}: \"{line}\" is not a pair of numbers", number + 1))
        })
        .collect()
}

/// One reference run: when each node of a real network had its last column.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceRun {
    /// The name in the file.
    pub name: String,
    /// Milliseconds from the publication until a node had all its columns, by node.
    pub custody_ms: Vec<f64>,
    /// Copies received per node and column.
    pub copies: f64,
}

/// Reads the arrivals of reference runs.
///
/// # Errors
/// As for [`Inputs::read`].
pub fn reference_runs(name: &str, inputs: &Inputs) -> Result<Vec<ReferenceRun>, String> {
    let text = inputs.read(name)?;
    let mut runs: Vec<(String, std::collections::BTreeMap<u32, f64>, f64, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let parsed = (|| {
            let [run, node, _, arrival, copies, _] = fields.as_slice() else { return None };
            Some((*run, node.parse::<u32>().ok()?, arrival.parse::<f64>().ok()?, copies.parse::<f64>().ok()?))
        })();
        let (run, node, arrival, copies) =
            parsed.ok_or_else(|| format!("{name}:{}: \"{line}\" is not an arrival", number + 1))?;
        if runs.last().is_none_or(|last| last.0 != run) {
            runs.push((run.to_owned(), std::collections::BTreeMap::new(), 0.0, 0.0));
        }
        if let Some((_, custody, total, rows)) = runs.last_mut() {
            let last = custody.entry(node).or_insert(0.0);
            *last = last.max(arrival);
            *total += copies;
            *rows += 1.0;
        }
    }
    Ok(runs
        .into_iter()
        .map(|(name, custody, total, rows)| ReferenceRun {
            name,
            custody_ms: custody.into_values().collect(),
            copies: total / rows,
        })
        .collect())
}

/// The names of hosts by their numbers, each different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Names {
    /// The number of a name; a new name gets the next number.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of a name that is there.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// By number.
    pub fn all(&self) -> &[String] {
        &self.names
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The hosts that these names are if they are numbers themselves: all of them whole numbers below `hosts`, as `5` (not `05`).
    pub fn as_numbers(&self, hosts: u32) -> Option<Vec<u32>> {
        let number = |name: &String| {
            let number = name.parse::<u32>().ok()?;
            (number < hosts && number.to_string() == *name).then_some(number)
        };
        self.names.iter().map(number).collect()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    /// Repeated names count once.
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.number(name.as_ref());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_numbers_in_their_order() {
        let mut names: Names = ["paris", "rome", "paris"].into_iter().collect();
        assert_eq!((names.len(), names.number("oslo"), names.number("rome")), (2, 2, 1));
        assert_eq!((names.find("oslo"), names.find("bonn")), (Some(2), None));
        assert_eq!(names.all(), ["paris", "rome", "oslo"]);
    }

    #[test]
    fn only_plain_numbers_below_the_bound_are_numbers() {
        let numbers = |names: &[&str], hosts| names.iter().collect::<Names>().as_numbers(hosts);
        assert_eq!(numbers(&["2", "0", "1"], 3), Some(vec![2, 0, 1]));
        assert_eq!(numbers(&["1", "2", "3"], 3), None, "counted from 1");
        assert_eq!(numbers(&["0", "01"], 3), None);
        assert_eq!(numbers(&["0", "-1"], 3), None);
    }
}
