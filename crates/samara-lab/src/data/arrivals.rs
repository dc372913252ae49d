//! Measured arrivals of columns.

use super::read;

/// When a column arrived at a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// The measurement that it belongs to: `n100_bw20_batch_rr.r0.batch`.
    pub run: String,
    /// Which publication of that measurement, from 0: later ones found warm connections.
    pub round: u32,
    /// The node.
    pub node: u32,
    /// The column.
    pub column: u32,
    /// The first copy, in ms after the publication.
    pub arrival_ms: f64,
    /// Copies received, the first included.
    pub copies: u32,
    /// The last copy, in ms after the publication.
    pub last_copy_ms: f64,
}

/// A table of arrivals cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// There is no such data set.
    #[error("there is no data set {0:?}")]
    Unknown(String),
    /// A line is not as it should be.
    #[error(
        "line {line} of the arrivals is {found:?}; run,node,column,arrival_ms,copies,last_copy_ms is expected"
    )]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        found: String,
    },
}

const HEADER: &str = "run,node,column,arrival_ms,copies,last_copy_ms";

/// The arrivals of a data set that comes along ("reference/arrivals_n100_bw20_seq_s1.csv", with or without "builtin:").
///
/// # Errors
/// A name that there is not, or that is not one of arrivals.
pub fn arrivals(name: &str) -> Result<Vec<Arrival>, ArrivalsError> {
    let text = read(name.strip_prefix("builtin:").unwrap_or(name));
    Arrival::parse_table(&text.ok_or_else(|| ArrivalsError::Unknown(name.to_owned()))?)
}

impl Arrival {
    /// Reads a table with a header.
    ///
    /// # Errors
    /// The first line that is not as it should be.
    pub fn parse_table(text: &str) -> Result<Vec<Self>, ArrivalsError> {
        let error =
            |index: usize, found: &str| ArrivalsError::Line { line: index + 1, found: found.to_owned() };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, HEADER)) => {}
            other => return Err(error(0, other.map_or("", |(_, line)| line))),
        }
        let rows = lines.filter(|(_, line)| !line.is_empty());
        rows.map(|(index, line)| Self::parse(line).ok_or_else(|| error(index, line))).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split(',');
        let run = cells.next()?.to_owned();
        let round = run.split('.').find_map(|part| part.strip_prefix('r')?.parse().ok()).unwrap_or(0);
        let arrival = Self {
            run,
            round,
            node: cells.next()?.parse().ok()?,
            column: cells.next()?.parse().ok()?,
            arrival_ms: cells.next()?.parse().ok()?,
            copies: cells.next()?.parse().ok()?,
            last_copy_ms: cells.next()?.parse().ok()?,
        };
        cells.next().is_none().then_some(arrival)
    }
}
