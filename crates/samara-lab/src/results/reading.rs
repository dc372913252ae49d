//! A results directory, read again.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::directory::{ResultsError, io};
use super::document::Document;
use super::tables::{RunDeliveries, read_deliveries};
use crate::scenario::Scenario;

/// Everything that a report is made of.
#[derive(Clone, Debug)]
pub struct Results {
    /// The summary.
    pub document: Document,
    /// The scenario before runs and sweeps set anything.
    pub scenario: Scenario,
    /// The scenario of each run, with everything set; in the order of the summary.
    pub scenarios: Vec<Scenario>,
    /// The deliveries of each run, in the order of the summary.
    pub deliveries: Vec<RunDeliveries>,
}

/// `configuration.json`.
#[derive(Deserialize)]
struct Configuration {
    scenario: Scenario,
    runs: Vec<ConfiguredRun>,
}

#[derive(Deserialize)]
struct ConfiguredRun {
    scenario: Scenario,
}

/// Reads a results directory.
///
/// # Errors
/// Something is missing, or is not what it should be.
pub fn read(directory: &Path) -> Result<Results, ResultsError> {
    let document = read_summary(directory)?;
    let configuration: Configuration = read_json(&directory.join("configuration.json"))?;
    let path = directory.join("deliveries.parquet");
    let deliveries =
        read_deliveries(&path).map_err(|error| ResultsError::Table { path: path.clone(), error })?;
    let runs = document.runs.len();
    if deliveries.len() != runs || configuration.runs.len() < runs {
        let found =
            format!("{} runs, but the summary has {runs}", deliveries.len().min(configuration.runs.len()));
        return Err(ResultsError::Table { path, error: parquet::errors::ParquetError::General(found) });
    }
    let scenarios = configuration.runs.into_iter().take(runs).map(|run| run.scenario).collect();
    Ok(Results { document, scenario: configuration.scenario, scenarios, deliveries })
}

/// Reads the summary of a results directory.
///
/// # Errors
/// There is none, or it is not such a document.
pub fn read_summary(directory: &Path) -> Result<Document, ResultsError> {
    let path = directory.join("summary.json");
    if !path.exists() {
        return Err(ResultsError::NotResults(directory.to_path_buf()));
    }
    read_json(&path)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ResultsError> {
    let text = fs::read_to_string(path).map_err(io(path))?;
    serde_json::from_str(&text).map_err(|error| ResultsError::Json { path: path.to_path_buf(), error })
}
