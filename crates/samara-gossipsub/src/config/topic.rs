//! What can differ from topic to topic.

use super::ValidatorHook;
use crate::message_id::MessageIdFn;
use crate::score::TopicScoreParams;

/// The size of a mesh and of gossip about it (specification v1.0 "Parameters", v1.1 "Outbound mesh quotas").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshParams {
    /// D: the size that is aimed at.
    pub d: usize,
    /// D_low: below, peers are grafted.
    pub d_low: usize,
    /// D_high: at or above, peers are pruned.
    pub d_high: usize,
    /// D_score: so many of the best are kept when pruning.
    pub d_score: usize,
    /// D_out: so many that this node dialled are kept, against sybils that dial in.
    pub d_out: usize,
    /// D_lazy: gossip goes to at least so many peers outside of the mesh.
    pub d_lazy: usize,
    /// ... and to at least this share of them.
    pub gossip_factor: f64,
}

/// Who may join a mesh, and how soon again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MeshRules {
    /// Every GRAFT of a peer is accepted, and nobody waits after a PRUNE (specification v1.0). On sparse graphs nodes with few
    /// links then always find a place; on the internet, attackers do.
    Open,
    /// A mesh at D_high takes only peers that this node has dialled, and both sides of a PRUNE wait (specification v1.1 and
    /// go-libp2p-pubsub).
    #[default]
    Guarded,
}

/// What holds for one topic; what is `None` is as everywhere.
#[derive(Clone, Debug, Default)]
pub struct TopicConfig {
    /// The size of the mesh.
    pub mesh: Option<MeshParams>,
    /// How ids are computed.
    pub message_id: Option<MessageIdFn>,
    /// Largest payload in bytes.
    pub max_message_bytes: Option<usize>,
    /// Who checks messages.
    pub validator: Option<ValidatorHook>,
    /// How peers are scored.
    pub score: Option<TopicScoreParams>,
}
