//! `[[fault]]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short;
use crate::units::{Rate, Share, Span};

/// Something that goes wrong. The hosts that it hits are `nodes`, or a `share` of all, or a `share` (by default all) of a
/// `class`, drawn from the seed. Publishers and observers are never drawn; name them in `nodes` to hit them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The numbers of the hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<u32>,
    /// The share of hosts that are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The kind of hosts that are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// When it begins: a time since the start, or `{ from = "60 s", until = "70 s" }` to draw one for each host.
    pub at: FaultTime,
    /// When it is over: the hosts are restarted, reachable, or as fast as before. By default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// For "crash": whether peers are not told (the host is gone, not only the process).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<bool>,
    /// For "slow": the uplink rate meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Rate>,
    /// For "slow": the downlink rate meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downlink: Option<Rate>,
    /// For "churn": how long a host stays up on average (exponentially distributed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_up: Option<Span>,
    /// For "churn": how long it stays away on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_down: Option<Span>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The hosts stop; at `until` they start anew, without memory.
    Crash,
    /// The hosts reach each other, but none of the others.
    Partition,
    /// The hosts have other rates.
    Slow,
    /// The hosts come and go.
    Churn,
}

/// When a fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = short::fault_time)]
pub enum FaultTime {
    /// At this time.
    Fixed {
        /// Since the start.
        time: Span,
    },
    /// At a time that is drawn for each host, uniformly.
    Drawn {
        /// The earliest.
        from: Span,
        /// The latest.
        until: Span,
    },
}

impl FaultTime {
    /// The earliest time.
    pub fn earliest(self) -> Span {
        match self {
            Self::Fixed { time } => time,
            Self::Drawn { from, .. } => from,
        }
    }

    /// The latest time.
    pub fn latest(self) -> Span {
        match self {
            Self::Fixed { time } => time,
            Self::Drawn { until, .. } => until,
        }
    }
}
