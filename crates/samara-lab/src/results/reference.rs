//! Figures of measured runs, to be shown beside those of the simulator.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::{Arrival, ArrivalsError, arrivals};
use crate::measure::Statistics;

/// The figures of one measured publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferenceFigures {
    /// What was measured.
    pub name: String,
    /// Which publication of it, counted from 0: later ones found warm connections.
    pub round: u32,
    /// From the publication until a node had all its columns.
    pub time_to_custody_ms: Statistics,
    /// Copies received for each delivery, the first included.
    pub duplication_factor: f64,
}

/// The figures of data sets that come along, publication by publication.
///
/// # Errors
/// A name that there is not, or that is not one of arrivals.
pub fn reference_figures(data_sets: &[String]) -> Result<Vec<ReferenceFigures>, ArrivalsError> {
    let mut figures = Vec::new();
    for name in data_sets {
        let mut publications: BTreeMap<(String, u32), Vec<Arrival>> = BTreeMap::new();
        for arrival in arrivals(name)? {
            publications.entry((arrival.run.clone(), arrival.round)).or_default().push(arrival);
        }
        figures.extend(
            publications.into_iter().filter_map(|((name, round), arrivals)| of(name, round, &arrivals)),
        );
    }
    Ok(figures)
}

fn of(name: String, round: u32, arrivals: &[Arrival]) -> Option<ReferenceFigures> {
    let mut custody: BTreeMap<u32, f64> = BTreeMap::new();
    for arrival in arrivals {
        let latest = custody.entry(arrival.node).or_insert(0.0);
        *latest = latest.max(arrival.arrival_ms);
    }
    let copies: u64 = arrivals.iter().map(|arrival| u64::from(arrival.copies)).sum();
    let duplication_factor = copies as f64 / arrivals.len() as f64;
    Some(ReferenceFigures {
        name,
        round,
        time_to_custody_ms: Statistics::of(custody.into_values())?,
        duplication_factor,
    })
}
