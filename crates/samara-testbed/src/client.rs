//! A client of a node's control API.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;

/// The longest wait for an answer. A node's thread is sometimes busy with messages, but not for so
/// long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<(String, f64)>);

impl Metrics {
    pub(crate) fn parse(text: &str) -> Self {
        let values = text.lines().filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        });
        Self(values.collect())
    }

    /// The sum of the values of a metric, over all labels that contain `label`.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let named = |key: &str| {
            let (found, labels) = key.split_once('{').unwrap_or((key, ""));
            found == name && labels.contains(label)
        };
        self.0.iter().filter(|(key, _)| named(key)).map(|(_, value)| value).sum()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self { agent: config.into(), base: format!("http://{address}") }
    }

    pub(crate) fn metrics(&self) -> Result<Metrics, String> {
        let mut answer = self.agent.get(format!("{}/metrics", self.base)).call().map_err(text)?;
        Ok(Metrics::parse(&answer.body_mut().read_to_string().map_err(text)?))
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let mut answer = self.agent.get(format!("{}{path}", self.base)).call().map_err(text)?;
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(text)?;
        if !answer.status().is_success() {
            return Err(format!("GET {path}: {}: {body}", answer.status()));
        }
        serde_json::from_str(&body).map_err(|error| format!("GET {path}: {error}"))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
