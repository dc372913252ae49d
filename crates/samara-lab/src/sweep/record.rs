//! What is kept of a point.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::VERSION;
use crate::results::Run;

/// What is kept of a point: its metrics, and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRecord {
    /// What identifies the point: see [`point_id`](super::point_id).
    pub id: String,
    /// The version of Samara that ran it.
    pub version: String,
    /// The name of the run in the scenario.
    pub name: String,
    /// What sets it apart, as in [`Run::parameters`].
    pub parameters: Map<String, Value>,
    /// The digest, as in [`Run::digest`].
    pub digest: String,
    /// Steps of the simulation.
    pub steps: u64,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Processor time of its process, in seconds.
    pub cpu_s: f64,
    /// The most memory that its process had.
    pub peak_rss_bytes: u64,
    /// The figures.
    pub metrics: Value,
}

impl PointRecord {
    /// The record of a run that is over; what the process has used is filled in by whoever knows.
    pub fn of(id: String, run: &Run) -> Self {
        Self {
            id,
            version: VERSION.to_owned(),
            name: run.name.clone(),
            parameters: run.parameters.clone(),
            digest: run.digest.clone(),
            steps: run.steps,
            wall_s: 0.0,
            cpu_s: 0.0,
            peak_rss_bytes: 0,
            metrics: run.metrics.clone(),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.parameters.get("seed").and_then(Value::as_u64).unwrap_or(0)
    }

    /// All figures by their dotted paths, those of lists by their index; what was not measured is left out.
    pub fn figures(&self) -> Vec<(String, &Value)> {
        let mut figures = Vec::new();
        flatten("", &self.metrics, &mut figures);
        figures
    }
}

/// The scalars of a document by their dotted paths; elements of lists by their index.
pub(crate) fn flatten<'a>(prefix: &str, value: &'a Value, out: &mut Vec<(String, &'a Value)>) {
    let below = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, out)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| flatten(&below(&i.to_string()), value, out));
        }
        Value::Null => {}
        scalar => out.push((prefix.to_owned(), scalar)),
    }
}
