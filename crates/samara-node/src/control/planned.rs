//! What a node does by itself at given times (`[plan]`), as if somebody asked for it then.

use std::path::Path;
use std::time::Duration;

use super::requests::PlanRequest;
use super::{Api, BODY_MAX};
use crate::clock::unix_ns;
use crate::config::MetricsAt;
use crate::node::schedule::Planned;

/// Reads publications in the form of `POST /v1/schedule`.
///
/// # Errors
/// A text that names the file and what is wrong with it.
pub(crate) fn read_publications(path: &Path, topic_bytes: usize) -> Result<Vec<Planned>, String> {
    let wrong = |what: String| format!("plan.publications: {}: {what}", path.display());
    let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if bytes > BODY_MAX as u64 {
        return Err(wrong(format!("found {bytes} bytes; expected at most {BODY_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let request: PlanRequest = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| wrong(format!("{}: {}", error.path(), error.inner())))?;
    json.end().map_err(|error| wrong(error.to_string()))?;
    request.planned(topic_bytes).map_err(wrong)
}

/// Writes what `/metrics` says to a file at its time; at once, if that is over.
pub(crate) async fn write_metrics(api: Api, look: MetricsAt) {
    tokio::time::sleep(Duration::from_nanos(look.at_unix_ns.saturating_sub(unix_ns()))).await;
    let file = look.file.display().to_string();
    let written = match api.metrics().await {
        Ok(text) => std::fs::write(&look.file, text).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    };
    match written {
        Ok(()) => tracing::info!(file, "metrics written"),
        Err(error) => tracing::error!(file, error, "metrics cannot be written"),
    }
}
