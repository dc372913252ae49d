//! What is said of extensions (specification v1.3): that there are none here. Those of peers are taken note of, and not used.

use bytes::Bytes;
use samara_engine::PeerId;

use super::{Cx, GossipSub, Ignored};
use crate::ids::TopicIdx;
use crate::rpc::{Control, Rpc, RpcFrame};

/// What a second announcement costs (go-libp2p-pubsub 0.16, `gossipsub.go`: `AddPenalty(p, 10)` on misbehaviour).
const AGAIN_PENALTY: f64 = 10.0;

impl GossipSub {
    /// The extensions that a peer has announced: the fields of its `ControlExtensions`. `None` before it has.
    pub fn extensions_of(&self, peer: PeerId) -> Option<&Bytes> {
        self.peers.get(peer)?.extensions.as_deref()
    }

    /// The first frame to a peer that speaks v1.3: extensions must not come later. It leaves ahead of everything else, since an
    /// IDONTWANT could overtake it otherwise.
    pub(super) fn announce_extensions(&mut self, peer: PeerId, joined: &[TopicIdx], cx: &mut Cx<'_>) {
        let frames = self.announcement(joined);
        let (first, others) =
            frames.split_first().map_or((None, &[][..]), |(first, others)| (Some(first), others));
        let subscriptions = first.map(|frame| frame.rpc().subscriptions.clone()).unwrap_or_default();
        let control = Control { extensions: Some(Bytes::new()), ..Control::default() };
        let frame = RpcFrame::new(Rpc { subscriptions, control: Some(Box::new(control)), ..Rpc::default() });
        if !self.owe(peer, self.lanes.urgent, frame, None, None, cx)
            && let Some(peer) = self.peers.get_mut(peer)
        {
            // Without extensions, which can only come first; as after any announcement that did not fit.
            peer.unannounced = joined.into();
            return;
        }
        self.announce(peer, joined, others, cx);
    }

    /// Takes note of what a peer supports. Only the first word counts.
    pub(super) fn receive_extensions(&mut self, from: PeerId, extensions: &Bytes) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        if !peer.protocol.has_extensions() {
            // Field 6 has had other meanings in drafts.
            self.metrics.ignore(Ignored::ExtensionsVersion, 1);
        } else if peer.extensions.is_some() {
            self.metrics.ignore(Ignored::ExtensionsAgain, 1);
            self.scores.add_penalty(from, AGAIN_PENALTY);
        } else {
            // A copy: a slice would keep the whole frame.
            peer.extensions = Some(Box::new(Bytes::copy_from_slice(extensions)));
        }
    }
}
