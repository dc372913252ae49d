//! `[scenario]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// What an experiment is, and how often it is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// A short name: letters, digits, "-", "_" and ".".
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"))]
    pub name: String,
    /// One line that says what is shown.
    #[serde(default)]
    pub title: String,
    /// Some sentences: the question, where it comes from, how to read the answer.
    #[serde(default)]
    pub description: String,
    /// What the nodes speak.
    #[serde(default)]
    pub protocol: Protocol,
    /// Every run is repeated with each of these seeds. A seed determines the network, the workload and every decision.
    #[serde(default = "one_seed")]
    #[schemars(length(min = 1))]
    pub seeds: Vec<u64>,
    /// The virtual time at which a run ends at the latest, whatever is still under way. By default the warm-up, all slots
    /// and the deadline of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Whether a run ends as soon as everything has been published and every node that is up has everything that it
    /// subscribed to. Turn it off to see the traffic that comes after.
    #[serde(default = "yes")]
    pub stop_when_complete: bool,
}

/// What the nodes speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// GossipSub v1.2 as in libp2p, with the parameters of `[gossipsub]`.
    #[default]
    Gossipsub,
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

pub(super) fn yes() -> bool {
    true
}
