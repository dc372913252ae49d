//! Which protocol nodes speak.

use samara_engine::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which protocol nodes speak.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Protocol {
    /// The protocol. All but GossipSub are baselines for streams of messages, on the scenario's links as they are.
    pub kind: ProtocolKind,
    /// Plumtree: hops that a lazy path must be shorter to take the place of an eager one; 0 turns that off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization_threshold: Option<u32>,
    /// Plumtree: how long an announced message is waited for before it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft_timeout: Option<Span>,
}

/// Protocols that disseminate messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolKind {
    /// Meshes and gossip; `gossipsub` has its parameters.
    #[default]
    Gossipsub,
    /// To all neighbours.
    Floodsub,
    /// To some random neighbours.
    Randomsub,
    /// Along a tree that is made of what came first.
    Plumtree,
}
