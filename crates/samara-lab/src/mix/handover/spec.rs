//! Batches that one node hands to the next, as a scenario states it.

use samara_mix::Transfer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_engine::units::{Size, Span};

/// Batches of payloads that one node hands to another, one after the other, as the nodes of a mix team do. Takes the place of the blocks of
/// `workload`. The network has two nodes; `transport.kind` is "grpc".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Handover {
    /// Payloads of a batch.
    pub payloads: u32,
    /// The size of a payload.
    pub size: Size,
    /// How a batch is handed over.
    pub call: Transfer,
    /// How long a batch is computed, payload after payload, before or while it is handed over.
    pub compute: Span,
    /// Batches that are handed over on one connection: the first one finds it new.
    pub batches: u32,
    /// From the answer to a batch until the next one begins.
    pub pause: Span,
}

impl Default for Handover {
    fn default() -> Self {
        Self {
            payloads: 1_000,
            size: Size::from_bytes(512),
            call: Transfer::Unary,
            compute: Span::from_millis(0),
            batches: 6,
            pause: Span::from_millis(2_000),
        }
    }
}

impl Handover {
    /// Bytes of a batch.
    pub fn bytes(&self) -> u64 {
        u64::from(self.payloads) * self.size.bytes()
    }
}
