//! How frames get into the outbox, and what happens to those that do not fit.

use samara_engine::outbox::{Lane, LossCause, Lost, PeerOrder, Schedule, Weight};
use samara_engine::{Frame, MessageKey, PeerId, Time};

use super::receive::frame_of;
use super::{Cx, Event, GossipSub, Trace};
use crate::config::LaneLayout;
use crate::ids::TopicIdx;
use crate::rpc::{Control, IHave, MessageId, Rpc, RpcFrame, SubOpts, Topic};

/// What the announcement of extensions adds to the first frame of a link: an empty field inside of control, and lengths that may
/// take a byte more.
const EXTENSIONS_BYTES: usize = 6;

impl GossipSub {
    /// Owes control messages to a peer. GRAFT and PRUNE that do not fit are tried again at the next heartbeat; gossip is not, since
    /// the next gossip repeats it.
    pub(super) fn send_control(&mut self, peer: PeerId, control: Control, cx: &mut Cx<'_>) {
        self.metrics.grafts_sent += control.graft.len() as u64;
        self.metrics.prunes_sent += control.prune.len() as u64;
        self.metrics.iwant_ids_sent += control.iwant.len() as u64;
        self.metrics.ihave_ids_sent += control.ihave.iter().map(|ihave| ihave.ids.len() as u64).sum::<u64>();
        for frame in frames(control, self.config.max_control_bytes) {
            if !self.owe(peer, self.lanes.control, frame.clone(), None, None, cx)
                && let Some(control) = &frame.rpc().control
            {
                self.keep_for_retry(peer, control);
            }
        }
    }

    /// Which of these topics are joined, for [`announce`](Self::announce): one frame, or several if one were too long.
    pub(super) fn announcement(&self, topics: &[TopicIdx]) -> Vec<RpcFrame> {
        let change = |topic: &TopicIdx| {
            let state = self.topics.get(*topic);
            SubOpts { subscribe: state.joined, topic: state.name.clone(), unknown: Default::default() }
        };
        let subscriptions = topics.iter().map(change).collect();
        let frame = RpcFrame::new(Rpc { subscriptions, ..Rpc::default() });
        if frame.encoded_len() + EXTENSIONS_BYTES <= self.config.max_control_bytes || topics.len() < 2 {
            return vec![frame];
        }
        let (left, right) = topics.split_at(topics.len() / 2);
        let mut all = self.announcement(left);
        all.extend(self.announcement(right));
        all
    }

    /// Tells a peer about joined and left topics. If a frame does not fit, all is tried again at the next heartbeat.
    pub(super) fn announce(
        &mut self,
        peer: PeerId,
        topics: &[TopicIdx],
        frames: &[RpcFrame],
        cx: &mut Cx<'_>,
    ) {
        let mut taken = true;
        for frame in frames {
            taken &= self.owe(peer, self.lanes.control, frame.clone(), None, None, cx);
        }
        if !taken && let Some(peer) = self.peers.get_mut(peer) {
            peer.unannounced.extend_from_slice(topics);
            peer.unannounced.sort_unstable();
            peer.unannounced.dedup();
        }
    }

    /// Owes an IDONTWANT ahead of everything else.
    pub(super) fn send_urgent(&mut self, peer: PeerId, frame: RpcFrame, cx: &mut Cx<'_>) {
        let room = self.config.sending.control.copies;
        // In go-libp2p-pubsub urgent frames overtake others, but need room in the same queue.
        if self.config.sending.layout == LaneLayout::Shared && cx.outbox().pending_to(peer) >= room {
            let lost = Lost { peer, message: None, cause: LossCause::DroppedNewest };
            self.note_lost(lost, Some(&frame), cx);
            return;
        }
        self.owe(peer, self.lanes.urgent, frame, None, None, cx);
    }

    /// Owes one frame, and takes note of what was lost. Whether it was taken.
    pub(super) fn owe(
        &mut self,
        peer: PeerId,
        lane: Lane,
        frame: RpcFrame,
        message: Option<MessageKey>,
        deadline: Option<Time>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let now = cx.now();
        let traced = self.config.trace.then(|| frame.clone());
        let taken = cx.outbox().owe_into(now, peer, lane, frame, message, deadline, &mut self.lost);
        // What was lost is this frame, or else older ones.
        self.note_all_lost(traced.as_ref().filter(|_| !taken), cx);
        taken
    }

    /// Counts a loss, tells the application, and holds it against a peer that is too slow for its messages. `frame` is
    /// what was lost, where the caller has it.
    fn note_lost(&mut self, lost: Lost, frame: Option<&RpcFrame>, cx: &mut Cx<'_>) {
        self.metrics.lose(lost.cause);
        if lost.message.is_some() && lost.cause != LossCause::NotConnected {
            self.scores.slow_peer(lost.peer);
        }
        cx.emit(Event::Lost(lost));
        self.trace(cx, || {
            let cached = || lost.message.and_then(|key| self.mcache.get(key)).map(frame_of);
            Trace::Lost { peer: lost.peer, cause: lost.cause, frame: frame.cloned().or_else(cached) }
        });
    }

    /// The same for all that a call of the outbox lost.
    pub(super) fn note_all_lost(&mut self, frame: Option<&RpcFrame>, cx: &mut Cx<'_>) {
        let mut lost = std::mem::take(&mut self.lost);
        for lost in lost.drain(..) {
            self.note_lost(lost, frame, cx);
        }
        self.lost = lost;
    }

    /// Brings the weights up to date that a schedule draws peers by.
    pub(super) fn weigh(&self, peers: &[PeerId], schedule: &Schedule, cx: &mut Cx<'_>) {
        let by_score = match schedule {
            Schedule::Interleaved { peers, .. } | Schedule::Feedback { peers, .. } => {
                *peers == PeerOrder::Weighted(Weight::Score)
            }
            Schedule::Sequential | Schedule::Staggered { .. } | Schedule::Custom(_) => false,
        };
        if by_score {
            for peer in peers {
                cx.outbox().set_weight(*peer, Weight::Score, self.scores.score(*peer));
            }
        }
    }

    /// Takes back what is owed of a message to a peer.
    pub(super) fn withdraw(&mut self, peer: PeerId, message: MessageKey, cx: &mut Cx<'_>) -> usize {
        let copies = cx.outbox().withdraw(peer, message);
        self.metrics.copies_withdrawn += copies as u64;
        copies
    }

    fn keep_for_retry(&mut self, peer: PeerId, control: &Control) {
        if control.graft.is_empty() && control.prune.is_empty() {
            return;
        }
        let Some(peer) = self.peers.get_mut(peer) else { return };
        let retry = peer.retry.get_or_insert_default();
        for graft in &control.graft {
            if !retry.graft.contains(graft) {
                retry.graft.push(graft.clone());
            }
        }
        for prune in &control.prune {
            if retry.prune.iter().all(|known| known.topic != prune.topic) {
                retry.prune.push(prune.clone());
            }
        }
    }

    /// The stream to a peer broke, the link goes on: what was sent may never have been read. What is joined and who is in a mesh
    /// is said again at the next heartbeat; it does no harm to hear it twice.
    pub fn stream_broke(&mut self, peer: PeerId) {
        let joined = self.topics.joined();
        let meshes = joined.iter().map(|topic| self.topics.get(*topic));
        let graft =
            meshes.filter(|state| state.mesh.contains(peer)).map(|state| state.name.clone()).collect();
        let control = Control { graft, ..Control::default() };
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.unannounced = joined.into();
        }
        self.keep_for_retry(peer, &control);
    }

    /// Puts what did not fit earlier to what leaves now, unless it has become wrong meanwhile.
    pub(super) fn retry(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if state.retry.is_none() && state.unannounced.is_empty() {
            return;
        }
        let unannounced = std::mem::take(&mut state.unannounced);
        let retry = state.retry.take();
        if !unannounced.is_empty() {
            let frames = self.announcement(&unannounced);
            self.announce(peer, &unannounced, &frames, cx);
        }
        let Some(mut retry) = retry else { return };
        let topics = &self.topics;
        let in_mesh =
            |name: &Topic| topics.find(name).is_some_and(|topic| topics.get(topic).mesh.contains(peer));
        retry.graft.retain(&in_mesh);
        retry.prune.retain(|prune| !in_mesh(&prune.topic));
        let outgoing = self.outgoing.entry(peer).or_default();
        let known = |topic: &Topic, control: &Control| {
            control.graft.contains(topic) || control.prune.iter().any(|prune| prune.topic == *topic)
        };
        for graft in retry.graft {
            if !known(&graft, outgoing) {
                outgoing.graft.push(graft);
            }
        }
        for prune in retry.prune {
            if !known(&prune.topic, outgoing) {
                outgoing.prune.push(prune);
            }
        }
    }

    /// Sends what a heartbeat collected, one RPC to each peer.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) {
        for (peer, control) in std::mem::take(&mut self.outgoing) {
            if !is_empty(&control) {
                self.send_control(peer, control, cx);
            }
        }
    }
}

fn is_empty(control: &Control) -> bool {
    let Control { ihave, iwant, graft, prune, idontwant, extensions, unknown } = control;
    ihave.is_empty()
        && iwant.is_empty()
        && graft.is_empty()
        && prune.is_empty()
        && idontwant.is_empty()
        && extensions.is_none()
        && unknown.is_empty()
}

/// One frame, or several if one were too long.
fn frames(control: Control, bytes_max: usize) -> Vec<RpcFrame> {
    let frame = seal(control);
    if frame.encoded_len() <= bytes_max {
        return vec![frame];
    }
    let control = frame.rpc().control.as_deref().cloned().unwrap_or_default();
    let halves = halve(control);
    match halves {
        // A single entry that is too long cannot be split: it is for the transport to refuse.
        None => vec![frame],
        Some((left, right)) => {
            let mut all = frames(left, bytes_max);
            all.extend(frames(right, bytes_max));
            all
        }
    }
}

fn seal(control: Control) -> RpcFrame {
    RpcFrame::new(Rpc { control: Some(Box::new(control)), ..Rpc::default() })
}

/// Splits control messages in two: kind by kind, then list by list, then the ids of a list.
fn halve(mut control: Control) -> Option<(Control, Control)> {
    let mesh = !control.graft.is_empty() || !control.prune.is_empty();
    let gossip = !control.ihave.is_empty() || !control.iwant.is_empty() || !control.idontwant.is_empty();
    if mesh && gossip {
        let graft = std::mem::take(&mut control.graft);
        let prune = std::mem::take(&mut control.prune);
        return Some((Control { graft, prune, ..Control::default() }, control));
    }
    if control.prune.len() > 1 {
        let prune = control.prune.split_off(control.prune.len() / 2);
        return Some((control, Control { prune, ..Control::default() }));
    }
    if control.ihave.len() > 1 {
        let ihave = control.ihave.split_off(control.ihave.len() / 2);
        return Some((control, Control { ihave, ..Control::default() }));
    }
    if control.iwant.len() > 1 {
        let iwant = control.iwant.split_off(control.iwant.len() / 2);
        return Some((control, Control { iwant, ..Control::default() }));
    }
    let IHave { topic, ids } = control.ihave.first_mut()?;
    if ids.len() < 2 {
        return None;
    }
    let ids: Vec<MessageId> = ids.split_off(ids.len() / 2);
    let ihave = vec![IHave { topic: topic.clone(), ids }];
    Some((control, Control { ihave, ..Control::default() }))
}
