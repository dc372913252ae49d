//! A stream of messages as a scenario states it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::Inputs;
use crate::messages::app::PAYLOAD_MIN;
use crate::messages::file::MessageTable;
use crate::network;
use crate::scenario::{Scenario, closest};
use samara_engine::units::{Size, Span};

/// Messages on one topic that all nodes join, each published by a node drawn at random. Takes the place of the blocks of
/// `workload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// The messages, instead of a rate: CSV with the columns `at` (from the end of the warm-up), `publisher` and `size`; the last two may
    /// be missing. A path relative to the scenario file, plain or compressed with zstd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Messages per second, of all nodes together.
    pub rate: f64,
    /// The payload of a message.
    pub size: Size,
    /// From the start of the run to the first publication.
    pub warm_up: Span,
    /// How long messages are published.
    pub duration: Span,
    /// How long after the last publication deliveries are waited for, where some are missing.
    pub cool_down: Span,
    /// When messages are published.
    pub arrivals: Arrivals,
    /// Whether messages carry author, sequence number and signature, as libp2p's default is; the bytes are there, nobody
    /// computes signatures in a simulation.
    pub signed: bool,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            file: None,
            rate: 200.0,
            size: Size::from_bytes(1000),
            warm_up: Span::from_millis(10_000),
            duration: Span::from_millis(180_000),
            cool_down: Span::from_millis(60_000),
            arrivals: Arrivals::Even,
            signed: true,
        }
    }
}

impl Messages {
    /// How many messages are published.
    pub fn count(&self) -> u32 {
        (self.rate * self.duration.millis_f64() / 1e3).round() as u32
    }

    /// The messages of the file.
    ///
    /// # Errors
    /// There is no file, or something in it is wrong.
    pub(crate) fn table(&self, scenario: &Scenario, inputs: &Inputs) -> Result<Arc<MessageTable>, String> {
        let file = self.file.as_deref().ok_or("there is no file of messages")?;
        let nodes = scenario.network.nodes;
        let names = network::names(scenario, inputs)?;
        let find = |name: &str| match &names {
            Some(names) => names.find(name).ok_or_else(|| {
                let meant = closest(name, names.all().iter().map(String::as_str));
                let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                format!("there is no host {name}{hint}")
            }),
            None => name
                .parse()
                .ok()
                .filter(|number| *number < nodes)
                .ok_or_else(|| format!("there is no host {name}; hosts are numbered 0 to {}", nodes - 1)),
        };
        let most = scenario.gossipsub.build(None).max_message_bytes as u64;
        let hosts = (&scenario.network.hosts_file, &scenario.network.topology.file, nodes);
        MessageTable::read(file, inputs, (&format!("{hosts:?}"), find), (PAYLOAD_MIN, most))
    }
}

/// When messages are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// At intervals that are exponentially distributed.
    Poisson,
}
