//! The control API of a node, from outside.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// How long a node may take for an answer: its thread is busy with messages at times, not for so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What the testbed wants to know of `GET /v1/status`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) peers: Vec<PeerStatus>,
    pub(crate) topics: Vec<TopicStatus>,
}

/// A peer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PeerStatus {
    /// Null until the link can carry messages.
    pub(crate) protocol: Option<String>,
}

/// A topic.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TopicStatus {
    pub(crate) topic: String,
    pub(crate) subscribers: Vec<String>,
    pub(crate) mesh: Vec<String>,
}

/// A publication that a node makes by itself at its time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Publication {
    pub(crate) at_unix_ns: u64,
    /// Several messages are a batch.
    pub(crate) batch: Vec<Payload>,
}

/// A message of random bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Payload {
    pub(crate) topic: String,
    pub(crate) random_bytes: u64,
}

/// A transaction that a node submits by itself at its time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlannedTx {
    at_unix_ns: u64,
    /// In base64.
    data: String,
}

impl PlannedTx {
    pub(crate) fn new(at_unix_ns: u64, bytes: &[u8]) -> Self {
        Self { at_unix_ns, data: STANDARD.encode(bytes) }
    }
}

/// What a node does with transactions whose time is over when it gets them.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Late {
    /// It takes none of the request.
    Refuse,
    /// It submits them at once and tells how late that was.
    Submit,
}

/// What the testbed wants to know of `GET /v1/pool`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PoolStatus {
    pub(crate) peers: Vec<serde::de::IgnoredAny>,
}

/// A portion of what came into a pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Arrivals {
    pub(crate) first: u64,
    pub(crate) next: u64,
    pub(crate) arrivals: Vec<Arrival>,
}

/// A transaction that came into a pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Arrival {
    pub(crate) key: String,
    pub(crate) at_unix_ns: u64,
}

/// What the testbed wants to know of `GET /v1/mix`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MixStatus {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

/// A portion of what happened at a node that mixes, or at its scheduler.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MixEvents {
    pub(crate) first: u64,
    pub(crate) next: u64,
    pub(crate) events: Vec<MixEvent>,
}

/// Something that happened.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MixEvent {
    pub(crate) at_unix_ns: u64,
    #[serde(flatten)]
    pub(crate) what: MixWhat,
}

/// What happened, as `samara-node` tells it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum MixWhat {
    Open {
        round: u64,
    },
    Entered {
        round: u64,
    },
    Delivered {
        round: u64,
        void: u32,
        unreadable: u32,
        digest: String,
    },
    Failed {
        round: u64,
        cause: String,
        culprit: Option<u32>,
    },
    Mark {
        round: u64,
        phase: String,
        mark: String,
    },
    Worked {
        round: u64,
        phase: Option<String>,
        cpu_ns: u64,
    },
    Made {
        round: u64,
        team: usize,
        nodes: Vec<u32>,
    },
    Round {
        round: u64,
        state: String,
    },
    Drawn,
    Refused,
    #[serde(other)]
    Other,
}

/// A publication, or a submission, as it was made.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Made {
    /// Counted by the node from 0, which says what it has forgotten; other programs than ours need not tell.
    #[serde(default)]
    pub(crate) number: u64,
    pub(crate) actual_unix_ns: Option<u64>,
    pub(crate) late_ns: Option<i64>,
}

/// Names with their labels, and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// The values of a text as `/metrics` gives it.
    pub(crate) fn parse(text: &str) -> Self {
        let values = text.lines().filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        });
        Self(values.collect())
    }

    /// The values of a name, added up over all labels that contain `label`.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let named = |key: &str| {
            let (found, labels) = key.split_once('{').unwrap_or((key, ""));
            found == name && labels.contains(label)
        };
        self.0.iter().filter(|(key, _)| named(key)).map(|(_, value)| value).sum()
    }

    /// The same over all labels, unless the node does not count it.
    pub(crate) fn known(&self, name: &str) -> Option<f64> {
        let is_named = |(key, _): &(String, f64)| key.split('{').next() == Some(name);
        self.0.iter().any(is_named).then(|| self.sum(name, ""))
    }
}

/// A node's control API.
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

    pub(crate) fn status(&self) -> Result<Status, String> {
        self.get("/v1/status")
    }

    pub(crate) fn dial(&self, address: &str) -> Result<(), String> {
        self.post("/v1/dial", &serde_json::json!({ "address": address }))
    }

    pub(crate) fn schedule(&self, publications: &[Publication]) -> Result<(), String> {
        self.post("/v1/schedule", &serde_json::json!({ "publications": publications }))
    }

    pub(crate) fn made(&self) -> Result<Vec<Made>, String> {
        self.get("/v1/schedule")
    }

    pub(crate) fn pool_status(&self) -> Result<PoolStatus, String> {
        self.get("/v1/pool")
    }

    pub(crate) fn dial_pool(&self, address: &str) -> Result<(), String> {
        self.post("/v1/pool/dial", &serde_json::json!({ "address": address }))
    }

    pub(crate) fn plan_transactions(&self, planned: &[PlannedTx], late: Late) -> Result<(), String> {
        self.post("/v1/pool/schedule", &serde_json::json!({ "submissions": planned, "late": late }))
    }

    pub(crate) fn made_transactions(&self) -> Result<Vec<Made>, String> {
        self.get("/v1/pool/schedule")
    }

    /// The keys of the first transactions of the pool.
    pub(crate) fn pool_keys(&self, most: u64) -> Result<Vec<String>, String> {
        self.get(&format!("/v1/pool/txs/{most}"))
    }

    /// What came into the pool, from a number on.
    pub(crate) fn arrivals(&self, from: u64) -> Result<Arrivals, String> {
        self.get(&format!("/v1/pool/arrivals/{from}"))
    }

    pub(crate) fn mix_status(&self) -> Result<MixStatus, String> {
        self.get("/v1/mix")
    }

    /// What happened, from a number on.
    pub(crate) fn mix_events(&self, from: u64) -> Result<MixEvents, String> {
        self.get(&format!("/v1/mix/events/{from}"))
    }

    pub(crate) fn commit(&self, height: u64, keys: &[String]) -> Result<(), String> {
        self.post("/v1/pool/commit", &serde_json::json!({ "height": height, "keys": keys }))
    }

    /// All values of `/metrics`.
    pub(crate) fn metrics(&self) -> Result<Metrics, String> {
        let mut answer = self.agent.get(format!("{}/metrics", self.base)).call().map_err(text)?;
        Ok(Metrics::parse(&answer.body_mut().read_to_string().map_err(text)?))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let mut answer = self.agent.get(format!("{}{path}", self.base)).call().map_err(text)?;
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(text)?;
        if !answer.status().is_success() {
            return Err(format!("GET {path}: {}: {body}", answer.status()));
        }
        serde_json::from_str(&body).map_err(|error| format!("GET {path}: {error}"))
    }

    fn post(&self, path: &str, body: &impl Serialize) -> Result<(), String> {
        let mut answer = self.agent.post(format!("{}{path}", self.base)).send_json(body).map_err(text)?;
        if answer.status().is_success() {
            return Ok(());
        }
        let body = answer.body_mut().read_to_string().unwrap_or_default();
        Err(format!("POST {path}: {}: {body}", answer.status()))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
