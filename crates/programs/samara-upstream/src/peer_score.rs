//! Scores of the engine under the names of rust-libp2p.

use libp2p_identity::PeerId;

use crate::node::Shared;

pub(crate) use crate::score_params::{PeerScoreParams, PeerScoreThresholds, TopicScoreParams};

pub(crate) enum PeerScoreState {
    Active(Box<PeerScore>),
    Disabled,
}

/// The scores of a node.
pub(crate) struct PeerScore {
    node: Shared,
    params: PeerScoreParams,
}

/// The score of a peer.
pub(crate) struct PeerScoreReport {
    pub(crate) score: f64,
}

impl PeerScore {
    pub(crate) fn new(node: Shared, params: PeerScoreParams) -> Self {
        Self { node, params }
    }

    pub(crate) fn score_report(&self, peer: &PeerId) -> PeerScoreReport {
        PeerScoreReport { score: self.node.borrow_mut().score(peer) }
    }

    /// Gives a peer the score of `count` misbehaviours through the score of the application: nothing
    /// but misbehaviour raises the penalty of the engine.
    pub(crate) fn add_penalty(&mut self, peer: &PeerId, count: usize) {
        let score = self.params.behaviour_penalty_weight * (count as f64).powi(2);
        self.set_application_score(peer, score / self.params.app_specific_weight);
    }

    pub(crate) fn set_application_score(&mut self, peer: &PeerId, score: f64) -> bool {
        self.node.borrow_mut().set_app_score(peer, score)
    }

    pub(crate) fn refresh_scores(&mut self) {
        self.node.borrow_mut().decay();
    }

    /// Does nothing: the engine adds a peer with its link.
    pub(crate) fn add_peer(&mut self, _: PeerId) {}
}
