//! Streams of a link: the frames that begin each of them, and what a peer forgets with one.
//!
//! A link is a peer, and lives as long as the driver has any connection to it. Its streams come and
//! go: a peer restarts while its old connection is still open, opens its stream again, or moves to
//! another connection. A driver whose links have streams calls
//!
//! - [`GossipSub::greet_streams`] once, then [`GossipSub::greeting`] for each stream that it opens,
//!   and writes the frames before all others;
//! - [`GossipSub::stream_begins`] before the first frame of each stream of the peer;
//! - [`GossipSub::set_heard`] when the last stream of the peer ends, and when it opens one again;
//! - [`GossipSub::stream_broke`] when the peer may lack what this node sent, but the stream of this node
//!   stays open.

use bytes::Bytes;
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{Context, Engine, Frame, PeerId, PeerInfo, Time};
use thin_vec::ThinVec;

use super::links::frames;
use super::tables::{Protocol, TopicIdx};
use super::{Cx, GossipSub, Ignored};
use crate::rpc::{Control, Rpc, RpcFrame};
use crate::wire;

/// The streams of a peer.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Whether a stream of this node has begun.
    is_greeted: bool,
    /// Whether what was in flight to the peer may be lost.
    has_lost: bool,
    /// Number of streams that the peer has begun.
    begun: u32,
    /// Whether the peer has announced its extensions on its newest stream.
    has_announced: bool,
    /// The time at which the peer last began as one that knows nothing of earlier streams, on this link
    /// or with it.
    pub(super) restarted_at: Option<Time>,
    /// Topics of earlier streams that the newest stream has not confirmed.
    pub(super) unconfirmed: ThinVec<TopicIdx>,
    /// Whether the next heartbeat forgets unconfirmed topics.
    forgets: bool,
    /// Whether all streams of the peer have ended.
    pub(super) is_unheard: bool,
    /// The meshes that the peer has left since for this reason.
    left: ThinVec<TopicIdx>,
}

/// An engine that is GossipSub, or has it inside: an application whose links carry its frames.
///
/// A driver with streams calls methods of GossipSub that no input stands for.
pub trait WithGossipSub: Engine<Frame = RpcFrame> {
    /// Calls the GossipSub engine. The application handles the events of the call, as it does after
    /// an input.
    fn with_gossipsub<R>(
        &mut self,
        cx: &mut Context<'_, RpcFrame, Self::Event>,
        call: impl FnOnce(&mut GossipSub, &mut Cx<'_>) -> R,
    ) -> R;
}

impl WithGossipSub for GossipSub {
    fn with_gossipsub<R>(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut GossipSub, &mut Cx<'_>) -> R,
    ) -> R {
        call(self, cx)
    }
}

impl GossipSub {
    /// Leaves the first frames of links to the driver, which gets them from
    /// [`greeting`](Self::greeting). Without this call, the engine owes them when a link comes up.
    pub fn greet_streams(&mut self) {
        self.greets_by_stream = true;
    }

    /// Returns the frames that begin a new stream to a peer: extensions, all joined topics, and GRAFT
    /// for the meshes that the peer is in. The peer may be another process than before, at another
    /// address and with another version, and has not received what was in flight.
    pub fn greeting(&mut self, id: PeerId, info: PeerInfo, cx: &mut Cx<'_>) -> Vec<RpcFrame> {
        let protocol = Protocol::of(&info.protocol);
        let Some(peer) = self.peers.get_mut(id) else { return Vec::new() };
        let is_moved = peer.info.address != info.address;
        let is_changed = peer.protocol != protocol;
        peer.info.address = info.address;
        peer.info.outbound = info.outbound;
        peer.info.protocol = info.protocol;
        peer.protocol = protocol;
        // The greeting has all of it.
        peer.unannounced.clear();
        if let Some(retry) = &mut peer.retry {
            retry.graft.clear();
        }
        let is_again = std::mem::replace(&mut peer.streams.is_greeted, true);
        if is_moved {
            self.scores.add_peer(id, info.address);
        }
        if is_changed {
            self.change_protocol(id, cx);
        }
        let greeting = self.first_frames(id);
        if is_again {
            self.note_loss(id, cx);
        }
        greeting
    }

    fn first_frames(&mut self, id: PeerId) -> Vec<RpcFrame> {
        let Some(peer) = self.peers.get(id) else { return Vec::new() };
        let extensions =
            peer.protocol.has_extensions().then(|| wire::put_extensions(self.config.partial.is_some()));
        let joined = self.topics.joined().to_vec();
        let graft = self.meshes_of(id);
        self.metrics.grafts_sent += graft.len() as u64;
        let announcement = self.announcement(&joined);
        let (first, others) = announcement.split_first().expect("an announcement has a frame");
        let subscriptions = first.rpc().subscriptions.clone();
        let begin = |graft| {
            let control = Control { extensions: extensions.clone(), graft, ..Control::default() };
            let control = (control != Control::default()).then(|| Box::new(control));
            RpcFrame::new(Rpc { subscriptions: subscriptions.clone(), control, ..Rpc::default() })
        };
        let bytes_max = self.config.max_control_bytes;
        let mut greeting = vec![begin(graft.clone())];
        if greeting[0].encoded_len() > bytes_max {
            greeting = vec![begin(Vec::new())];
            greeting.extend_from_slice(others);
            greeting.extend(frames(Control { graft, ..Control::default() }, bytes_max));
        } else {
            greeting.extend_from_slice(others);
        }
        // A node without topics greets peers before v1.3 with nothing.
        greeting.retain(|frame| *frame.rpc() != Rpc::default());
        greeting
    }

    /// Returns the names of the topics in whose mesh a peer is.
    fn meshes_of(&self, id: PeerId) -> Vec<crate::rpc::Topic> {
        let states = self.topics.joined().iter().map(|topic| self.topics.get(*topic));
        states.filter(|state| state.mesh.contains(id)).map(|state| state.name.clone()).collect()
    }

    /// Applies the roles of another version of the protocol.
    fn change_protocol(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get(id) else { return };
        let always = peer.direct || !peer.protocol.has_mesh();
        for topic in peer.topics.clone() {
            let state = self.topics.get_mut(topic);
            if always {
                state.always.insert(id);
            } else {
                state.always.remove(id);
            }
        }
        if !self.peers.has_mesh(id) {
            for topic in self.topics.joined().to_vec() {
                self.remove_from_mesh(id, topic, true, cx);
            }
        }
    }

    /// Handles a broken stream, in either direction, on a link whose stream of this node stays open:
    /// the peer may not have read the last frames, or may have forgotten them. The next heartbeat
    /// repeats the joined topics and the GRAFTs of mesh members, which are harmless to receive twice.
    pub fn stream_broke(&mut self, peer: PeerId) {
        let graft = self.meshes_of(peer);
        let joined = self.topics.joined();
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.unannounced = joined.into();
            peer.streams.has_lost = true;
        }
        self.keep_for_retry(peer, &Control { graft, ..Control::default() });
    }

    /// Notes that what was in flight to a peer is lost: requests, parts, and messages, of which the
    /// next gossip tells it.
    fn note_loss(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        self.promises.forgive_lost(cx.now(), id);
        self.forget_pulls_of(id, cx);
        self.retell_partials_to(id, cx);
        let topics = self.peers.get(id).map(|peer| peer.topics.clone()).unwrap_or_default();
        let gossip = self.config.heartbeat_interval * (self.config.history_gossip as u32 + 1);
        for topic in topics {
            if self.topics.get(topic).joined {
                self.pruned.add(id, topic, cx.now() + gossip);
            }
        }
    }

    /// Handles the first frame of a stream of the peer, before the frame itself. Extensions may come
    /// once in each stream, and answers that were in flight are lost.
    pub fn stream_begins(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.streams.begun = peer.streams.begun.saturating_add(1);
        peer.streams.has_announced = false;
        if peer.streams.begun == 1 {
            return;
        }
        peer.streams.forgets = false;
        peer.streams.unconfirmed = peer.topics.as_slice().into();
        self.promises.forgive_lost(cx.now(), id);
        self.forget_pulls_of(id, cx);
    }

    /// Handles a sign that the peer knows nothing of its earlier streams: it announces its extensions,
    /// or a topic that it had announced. Some implementations repeat nothing on a second stream of the
    /// same process, so that a new stream alone is no sign.
    pub(super) fn peer_restarted(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if peer.streams.begun < 2 || std::mem::replace(&mut peer.streams.forgets, true) {
            return;
        }
        peer.streams.restarted_at = Some(cx.now());
        peer.unwanted_bytes = 0;
        if std::mem::take(&mut peer.unwanted) > 0 {
            self.unwanted.forget_peer(id);
        }
        self.forget_partials_of(id, cx);
    }

    /// Handles a subscription that is known.
    pub(super) fn repeated_subscription(&mut self, id: PeerId, topic: TopicIdx, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if let Some(at) = peer.streams.unconfirmed.iter().position(|known| *known == topic) {
            peer.streams.unconfirmed.remove(at);
            self.peer_restarted(id, cx);
        }
    }

    /// Returns true if a GRAFT during a backoff is no offence: the peer has begun anew since the
    /// backoff began, and cannot know of it.
    pub(super) fn may_not_know(&self, id: PeerId, backoff_until: Time) -> bool {
        if is_planted(Bug::GossipsubForgive) {
            return false;
        }
        let restarted_at = self.peers.get(id).and_then(|peer| peer.streams.restarted_at);
        restarted_at.is_some_and(|at| backoff_until < at + self.config.prune_backoff)
    }

    /// Sets whether the peer has a stream on which this node hears it. A peer without one leaves all
    /// meshes, without PRUNE and backoff, and returns to them with its next stream.
    pub fn set_heard(&mut self, id: PeerId, is_heard: bool, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id).filter(|peer| peer.streams.is_unheard == is_heard) else {
            return;
        };
        peer.streams.is_unheard = !is_heard;
        if !is_heard {
            for topic in self.topics.joined().to_vec() {
                if self.topics.get(topic).mesh.contains(id) {
                    self.remove_from_mesh(id, topic, true, cx);
                    if let Some(peer) = self.peers.get_mut(id) {
                        peer.streams.left.push(topic);
                    }
                }
            }
            return;
        }
        let left = std::mem::take(&mut peer.streams.left);
        let topics = peer.topics.clone();
        for topic in left {
            let state = self.topics.get(topic);
            let returns = state.joined
                && topics.binary_search(&topic).is_ok()
                && self.peers.has_mesh(id)
                && !self.peers.is_direct(id)
                && !self.backoffs.is_pending(cx.now(), id, topic)
                && self.scores.score(id) >= 0.0;
            if returns {
                let name = state.name.clone();
                self.add_to_mesh(id, topic, false, cx);
                self.keep_for_retry(id, &Control { graft: vec![name], ..Control::default() });
            }
        }
    }

    /// Ends a heartbeat for the streams of a peer.
    pub(super) fn streams_heartbeat(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if std::mem::take(&mut peer.streams.has_lost) {
            self.note_loss(id, cx);
        }
        let Some(peer) = self.peers.get_mut(id) else { return };
        if peer.streams.forgets && !peer.streams.unconfirmed.is_empty() {
            for topic in std::mem::take(&mut peer.streams.unconfirmed) {
                let name = self.topics.get(topic).name.clone();
                self.peer_unsubscribed(id, &name, cx);
            }
        }
    }
}

/// The penalty for a second announcement (go-libp2p-pubsub 0.16, `gossipsub.go`: `AddPenalty(p,
/// 10)` on misbehaviour), and for one that is too long.
const EXTENSIONS_PENALTY: u32 = 10;

/// Maximum bytes of the extensions of a peer: the specification knows three flags.
const EXTENSIONS_BYTES_MAX: usize = 1024;

impl GossipSub {
    /// Returns the extensions that a peer has announced: the fields of its `ControlExtensions`.
    /// `None` before the announcement.
    pub fn extensions_of(&self, peer: PeerId) -> Option<&Bytes> {
        self.peers.get(peer)?.extensions.as_deref()
    }

    /// Sends the first frame to a peer that speaks v1.3, since extensions must not come later. It
    /// precedes all other frames; otherwise an IDONTWANT could overtake it.
    pub(super) fn announce_extensions(&mut self, peer: PeerId, joined: &[TopicIdx], cx: &mut Cx<'_>) {
        let frames = self.announcement(joined);
        let (first, others) =
            frames.split_first().map_or((None, &[][..]), |(first, others)| (Some(first), others));
        let subscriptions = first.map(|frame| frame.rpc().subscriptions.clone()).unwrap_or_default();
        let extensions = Some(wire::put_extensions(self.config.partial.is_some()));
        let control = Control { extensions, ..Control::default() };
        let frame = RpcFrame::new(Rpc { subscriptions, control: Some(Box::new(control)), ..Rpc::default() });
        if !self.owe(peer, self.lanes.urgent, frame, None, None, cx)
            && let Some(peer) = self.peers.get_mut(peer)
        {
            // Extensions can only come first, so the retry announces topics only, as after any
            // announcement that did not fit.
            peer.unannounced = joined.into();
            return;
        }
        self.announce(peer, joined, others, cx);
    }

    /// Stores the extensions of a peer. Only the first announcement of each stream counts.
    pub(super) fn receive_extensions(&mut self, from: PeerId, extensions: &Bytes) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        if !peer.protocol.has_extensions() {
            // Drafts gave field 6 other meanings.
            self.metrics.ignore(Ignored::ExtensionsVersion, 1);
        } else if peer.streams.has_announced {
            self.metrics.ignore(Ignored::ExtensionsAgain, 1);
            self.penalise(from, EXTENSIONS_PENALTY);
        } else if extensions.len() > EXTENSIONS_BYTES_MAX {
            self.metrics.ignore(Ignored::ExtensionsTooLong, 1);
            self.penalise(from, EXTENSIONS_PENALTY);
        } else {
            peer.streams.has_announced = true;
            // A copy, because a slice would keep the whole frame in memory.
            peer.extensions = Some(Box::new(Bytes::copy_from_slice(extensions)));
        }
    }
}
