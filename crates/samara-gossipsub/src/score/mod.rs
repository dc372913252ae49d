//! The peer score of specification v1.1, "Peer scoring", P1 to P7, and rust-libp2p's slow-peer penalty.
//!
//! [`PeerScores`] listens to what happens (a peer came, was grafted, sent a first copy, a duplicate, something
//! invalid) and keeps counters; [`PeerScores::refresh`] decays them; [`PeerScores::score`] reads a peer's score,
//! which is computed anew only if something about the peer has changed. Where the specification leaves room, the
//! behaviour is that of go-libp2p-pubsub's `score.go`.

mod params;
mod peer;
mod records;
mod scores;
mod thresholds;

pub use params::{PeerScoreParams, TopicScoreParams, score_parameter_decay};
pub use scores::{PeerScores, RejectReason, ScoreBreakdown};
pub use thresholds::{ParameterError, PeerScoreThresholds};
