//! Things that go wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Share, Span};

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When.
    pub at: Span,
    /// When it is over (crash, leave: the host starts again; others: as before). Never, if absent. A crash at 0 s makes a host that
    /// comes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// The part of the hosts that it hits, drawn from the seed; the publisher is spared.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub share: Share,
    /// Instead of a share: the hosts that it hits, by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<u32>>,
    /// The factor on both rates of a slow host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
}

fn is_nothing(share: &Share) -> bool {
    *share == Share::default()
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Processes end; their peers are told.
    Crash,
    /// Hosts are gone without a word.
    Vanish,
    /// Members leave their group, as its protocol has it.
    Leave,
    /// Hosts cannot reach the others.
    Partition,
    /// Rates are multiplied by `factor`.
    Slow,
}
