//! Partial messages: the parts that this node provides, asks for and sends.
//!
//! Every change of a group ends in [`GossipSub::act`]: it asks peers for what is missing, announces
//! what has changed, and answers the requests that can be answered. `receive` has the other direction.

mod groups;
mod receive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::Owe;
use samara_engine::{MessageKey, PeerId, Time};
use smallvec::SmallVec;

use super::tables::TopicIdx;
use super::{Cx, GossipSub, PARTIALS, deadline};
use crate::partial::{Asking, Bits, Content, Metadata, PartialConfig};
use crate::rpc::{Partial, PartialMode, Rpc, RpcFrame, Topic};

use groups::{Ask, GroupKey, Source};
pub(super) use groups::{Groups, Responses};

/// The reason why parts were not provided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvideError {
    /// The configuration has no partial messages, or none on this topic.
    #[error("there are no partial messages on topic {0:?}")]
    NotPartial(Topic),
    /// The format does not allow the id or the header of the group.
    #[error("{0}")]
    Format(#[from] crate::partial::FormatError),
    /// The number of parts is unknown: the format takes it from the header, which is absent.
    #[error("the group has no header, so its number of parts is unknown")]
    NoHeader,
    /// A part is beyond the number of parts, or this number is not that of the group so far.
    #[error("found {found} parts, expected {expected}")]
    Length {
        /// The number found.
        found: u32,
        /// The number of parts of the group, or the maximum of the configuration.
        expected: u32,
    },
}

/// Number of copies of a pushed part that leave in any case, so that claims of hostile peers alone end no
/// push (docs/notes/2026-11-28-cells.md).
const SENT_LEAST: usize = 2;

impl GossipSub {
    /// Adds the parts that the application has to a group, and requests the others if the format says so
    /// for the topic. Returns the number of parts that are still missing.
    ///
    /// Call it again when the application has more parts. The topic need not be joined.
    ///
    /// # Errors
    /// The group cannot exist, or its number of parts is unknown. The call then has no effect.
    pub fn provide(
        &mut self,
        topic: &Topic,
        id: &Bytes,
        content: Content,
        cx: &mut Cx<'_>,
    ) -> Result<u32, ProvideError> {
        let config = self.partial_config(topic).ok_or_else(|| ProvideError::NotPartial(topic.clone()))?;
        config.format.check_group(topic, id)?;
        let known = self.partials.headers.get(id).and_then(|header| header.bytes.clone());
        let has_header = content.header.is_some();
        let header = content.header.or(known);
        let name = topic;
        let so_far = self.topics.find(name).and_then(|topic| self.partials.groups.get(&(topic, id.clone())));
        let so_far = so_far.map(|group| group.len).filter(|len| *len > 0);
        let len = config.format.len_of(header.as_ref())?.or(so_far).ok_or(ProvideError::NoHeader)?;
        let expected = so_far.unwrap_or(len).min(config.limits.parts);
        let last = content.parts.iter().map(|(part, _)| part + 1).max().unwrap_or(0);
        let found = len.max(last);
        if found != expected {
            return Err(ProvideError::Length { found, expected });
        }
        let topic = self.use_topic(name);
        let key = (topic, id.clone());
        if !self.topics.get(topic).joined {
            self.use_fanout(topic, cx);
        }
        let until = self.ticks + config.group_ttl_heartbeats;
        if let Some(bytes) = header {
            let state = self.partials.headers.entry(id.clone()).or_default();
            state.bytes = Some(bytes);
            state.until = until;
        }
        let group = self.partials.groups.entry(key.clone()).or_default();
        group.set_len(len);
        group.until = until;
        // A peer that makes the application ask for a group does not get room for another one.
        if !content.parts.is_empty() || has_header {
            group.created_by = None;
        }
        group.is_own |= config.format.mode(name) == PartialMode::Requests;
        for (part, data) in content.parts {
            group.add(part, data);
        }
        let missing = len - group.have.count();
        let push = content.push.and(&group.have);
        if !push.is_empty() {
            if self.partials.last_pushed != *id {
                self.partials.last_pushed = id.clone();
                cx.outbox().prefer_nobody();
            }
            // Peers would ask the publisher, which has the most to send, for what others have soon.
            if config.exchange.asking != Asking::Everyone
                && let Some(group) = self.partials.groups.get_mut(&key)
            {
                group.is_quiet = true;
            }
            self.push(&key, &push, config.exchange.push_copies, None, cx);
        }
        self.push_header(id, config.exchange.header_copies, cx);
        self.act(&key, cx);
        Ok(missing)
    }

    /// Returns the parts of a group that this node has.
    pub fn parts(&self, topic: &Topic, id: &Bytes) -> Option<&[Option<Bytes>]> {
        let key = (self.topics.find(topic)?, id.clone());
        self.partials.groups.get(&key).map(|group| &group.parts[..])
    }

    /// Returns the configuration of partial messages, if there are any on a topic.
    pub(super) fn partial_config(&self, topic: &Topic) -> Option<Arc<PartialConfig>> {
        let config = self.config.partial.as_ref()?;
        (config.format.mode(topic) != PartialMode::None).then(|| Arc::clone(config))
    }

    /// Returns what this node does with partial messages on a topic.
    pub(super) fn partial_mode(&self, topic: TopicIdx) -> PartialMode {
        let of = |config: &Arc<PartialConfig>| config.format.mode(&self.topics.get(topic).name);
        self.config.partial.as_ref().map_or(PartialMode::None, of)
    }

    /// Returns true if a peer gets parts of the messages of a topic from this node, and therefore no full
    /// messages.
    pub(super) fn takes_parts(&self, topic: TopicIdx, peer: PeerId) -> bool {
        self.topics.get(topic).parts_requested_by.contains(peer)
            && self.partial_mode(topic) != PartialMode::None
    }

    /// Returns the peers that learn of news on a topic at once: those of the mesh or the fanout that
    /// support partial messages.
    fn partial_peers(&self, topic: TopicIdx) -> Vec<PeerId> {
        let mut peers = self.routed(topic);
        peers.retain(|peer| self.topics.get(topic).parts_supported_by.contains(*peer));
        peers
    }

    /// Returns true if parts may go to a peer.
    fn may_receive_parts(&self, topic: TopicIdx, peer: PeerId) -> bool {
        let state = self.topics.get(topic);
        state.parts_requested_by.contains(peer)
            && (state.mesh.contains(peer) || self.scores.score(peer) >= self.config.thresholds.gossip)
            && self.peers.get(peer).is_some_and(|peer| !peer.observer)
    }

    // ---- sending ----

    /// Owes parts to mesh peers that have not asked for them, so that `copies` of these peers have each
    /// part or will receive it. `from` sent the parts.
    fn push(&mut self, key: &GroupKey, parts: &Bits, copies: usize, from: Option<PeerId>, cx: &mut Cx<'_>) {
        let mut peers = self.partial_peers(key.0);
        peers.retain(|peer| self.may_receive_parts(key.0, *peer) && Some(*peer) != from);
        if peers.is_empty() {
            return;
        }
        cx.rng().shuffle(&mut peers);
        let Some(group) = self.partials.groups.get(key) else { return };
        let mut by_peer: BTreeMap<PeerId, Bits> = BTreeMap::new();
        for part in parts.iter() {
            let lacks = |peer: &PeerId| {
                let knows = |view: &groups::View| view.available.contains(part) || view.owed.contains(part);
                !group.known_view(*peer).is_some_and(knows)
            };
            let lacking: SmallVec<[PeerId; 16]> = peers.iter().copied().filter(lacks).collect();
            // A peer that only claims to have a part may send it to nobody.
            let proves = |view: &groups::View| view.received.contains(part) || view.owed.contains(part);
            let holds = |peer: &&PeerId| group.known_view(**peer).is_some_and(proves);
            let holders = peers.iter().filter(holds).count();
            for peer in lacking.into_iter().take(copies.saturating_sub(holders)) {
                by_peer.entry(peer).or_insert_with(|| Bits::new(group.len)).insert(part);
            }
        }
        self.owe_parts(key, by_peer, from.is_none(), cx);
    }

    /// Owes a header, in frames without parts, to peers that may lack it, until so many have left: those in
    /// the meshes of all topics, and those to which heartbeats have announced the group.
    fn push_header(&mut self, id: &Bytes, copies: usize, cx: &mut Cx<'_>) {
        let Some(config) = self.config.partial.clone().filter(|config| config.format.sends_headers()) else {
            return;
        };
        let Some(header) = self.partials.headers.get(id) else { return };
        let Some(bytes) = header.bytes.clone().filter(|_| header.pushed < copies) else { return };
        let Ok(Some(len)) = config.format.len_of(Some(&bytes)) else { return };
        let mut topics: BTreeMap<PeerId, TopicIdx> = BTreeMap::new();
        for topic in self.topics.joined().iter().chain(self.topics.fanouts()) {
            if self.partial_mode(*topic) != PartialMode::None {
                topics.extend(self.partial_peers(*topic).into_iter().map(|peer| (peer, *topic)));
                let group = self.partials.groups.get(&(*topic, id.clone()));
                let views = group.into_iter().flat_map(|group| &group.views);
                topics.extend(views.filter(|view| view.gossiped).map(|view| (view.peer, *topic)));
            }
        }
        let mut receivers: Vec<(PeerId, TopicIdx)> =
            topics.into_iter().filter(|(peer, _)| !header.is_holder(*peer)).collect();
        cx.rng().shuffle(&mut receivers);
        receivers.truncate(copies - header.pushed);
        let body = config.format.write_body(id, len, Some(&bytes), &[]);
        for (peer, topic) in receivers {
            if let Some(header) = self.partials.headers.get_mut(id) {
                header.note(peer);
                header.pushed += 1;
            }
            self.metrics.headers_sent += 1;
            let frame = self.partial_frame(&(topic, id.clone()), Some(body.clone()), None);
            self.owe(peer, self.lanes.control, frame, None, None, cx);
        }
    }

    fn partial_frame(&self, key: &GroupKey, body: Option<Bytes>, metadata: Option<Bytes>) -> RpcFrame {
        let topic = self.topics.get(key.0).name.clone();
        let partial = Partial { topic, group: key.1.clone(), body, metadata };
        RpcFrame::new(Rpc { partial: Some(Box::new(partial)), ..Rpc::default() })
    }

    /// Owes parts that this node has. Peers that get the same parts share frames, whose copies leave in
    /// the order of the schedule.
    fn owe_parts(&mut self, key: &GroupKey, by_peer: BTreeMap<PeerId, Bits>, is_own: bool, cx: &mut Cx<'_>) {
        let Some(config) = self.config.partial.clone() else { return };
        let mut header = self.partials.headers.get_mut(&key.1).filter(|_| config.format.sends_headers());
        let header_bytes = header.as_ref().and_then(|header| header.bytes.clone());
        let Some(group) = self.partials.groups.get(key) else { return };
        let mut sets: Vec<(_, Vec<PeerId>)> = Vec::new();
        for (peer, parts) in by_peer.into_iter().filter(|(_, parts)| !parts.is_empty()) {
            let lacks_header =
                header.as_mut().is_some_and(|header| header.bytes.is_some() && header.note(peer));
            let metadata = group.metadata_beside(peer, &parts);
            let content = (parts, lacks_header, metadata);
            match sets.iter_mut().find(|(set, _)| *set == content) {
                Some((_, peers)) => peers.push(peer),
                None => sets.push((content, vec![peer])),
            }
        }
        // Otherwise other parts would reach a peer before the header.
        sets.sort_by_key(|((_, lacks_header, _), _)| !lacks_header);
        let now = cx.now();
        let deadline = if is_own { self.config.publish_deadline } else { self.config.forward_deadline };
        let deadline = self::deadline(now, deadline);
        let mut batch: Vec<(Bits, Owe<RpcFrame>)> = Vec::new();
        for ((parts, with_header, metadata), peers) in sets {
            let Some(group) = self.partials.groups.get(key) else { return };
            let metadata = metadata.map(|metadata| config.format.write_metadata(&metadata));
            let mut header = header_bytes.as_ref().filter(|_| with_header);
            for parts in chunks(&parts, &group.parts, config.exchange.body_bytes_max) {
                let data: Vec<(u32, &Bytes)> = parts
                    .iter()
                    .filter_map(|part| Some((part, group.parts[part as usize].as_ref()?)))
                    .collect();
                self.metrics.headers_sent += if header.is_some() { peers.len() as u64 } else { 0 };
                self.metrics.parts_sent += (data.len() * peers.len()) as u64;
                let body = config.format.write_body(&key.1, group.len, header.take(), &data);
                let frame = self.partial_frame(key, Some(body), metadata.clone());
                let message = MessageKey(0);
                batch.push((parts, Owe { message, frame, peers: peers.clone(), deadline }));
            }
        }
        for at in 0..batch.len() {
            // Frames with and without the header count as copies of one message.
            let same = batch[..at].iter().find(|(parts, _)| is_own && *parts == batch[at].0);
            batch[at].1.message = match same.map(|(_, owe)| owe.message) {
                Some(message) => message,
                None => self.partials.next_key(),
            };
        }
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        for (parts, owe) in &batch {
            for peer in &owe.peers {
                let view = group.view(*peer);
                view.owed.add(parts);
                view.answered += parts.count();
                view.frames.push((owe.message, parts.clone()));
            }
        }
        let config = Arc::clone(&self.config);
        let (lane, schedule) = if is_own {
            (self.lanes.publish, &config.schedule_publish)
        } else {
            (self.lanes.forward, &config.schedule_forward)
        };
        let (outbox, rng) = cx.outbox_and_rng();
        let batch = batch.into_iter().map(|(_, owe)| owe);
        outbox.owe_batch(now, lane, batch, schedule, rng, &mut self.lost);
        for lost in &self.lost {
            let view = group.view(lost.peer);
            if let Some(at) = view.frames.iter().position(|(message, _)| Some(*message) == lost.message) {
                let (_, parts) = view.frames.remove(at);
                view.owed = view.owed.without(&parts);
            }
        }
        self.note_all_lost(None, cx);
    }

    /// Withdraws owed parts that a peer has or no longer wants. Other parts of their frames are owed
    /// again.
    fn withdraw_parts(&mut self, key: &GroupKey, peer: PeerId, parts: &Bits, cx: &mut Cx<'_>) {
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        let view = group.view(peer);
        if !self.config.withdraw.on_idontwant || view.owed.and(parts).is_empty() {
            return;
        }
        let mut rest = Bits::default();
        for (message, of) in std::mem::take(&mut view.frames) {
            if of.and(parts).is_empty() {
                view.frames.push((message, of));
            } else if cx.outbox().withdraw(peer, message) > 0 {
                view.owed = view.owed.without(&of);
                view.answered -= of.count();
                self.metrics.parts_withdrawn += u64::from(of.count());
                rest.add(&of.without(parts));
            } else {
                view.frames.push((message, of));
            }
        }
        self.owe_parts(key, BTreeMap::from([(peer, rest)]), false, cx);
    }

    /// Withdraws pushed parts that have spread, of those that a peer claims to have although this node has
    /// not sent them to it. Claims can be false: a push ends only after [`SENT_LEAST`] copies, and if half
    /// of the other peers have the part.
    fn end_push(&mut self, key: &GroupKey, spread: &Bits, cx: &mut Cx<'_>) {
        let Some(group) = self.partials.groups.get_mut(key).filter(|_| !spread.is_empty()) else { return };
        let outbox = cx.outbox();
        let is_sent = |view: &groups::View, part| {
            let left =
                |(message, of): &(MessageKey, Bits)| of.contains(part) && !outbox.owes(view.peer, *message);
            !view.available.contains(part) && view.frames.iter().any(left)
        };
        let has_spread = |part: &u32| {
            let (sent, rest): (Vec<_>, Vec<_>) = group.views.iter().partition(|view| is_sent(view, *part));
            let holders = rest.iter().filter(|view| view.available.contains(*part)).count();
            sent.len() >= SENT_LEAST && 2 * holders >= rest.len()
        };
        let mut ended = Bits::new(group.len);
        spread.iter().filter(has_spread).for_each(|part| ended.insert(part));
        for view in &mut group.views {
            for (message, parts) in std::mem::take(&mut view.frames) {
                if !parts.without(&ended).is_empty() {
                    view.frames.push((message, parts));
                } else if cx.outbox().withdraw(view.peer, message) > 0 {
                    view.owed = view.owed.without(&parts);
                    view.answered -= parts.count();
                    self.metrics.parts_withdrawn += u64::from(parts.count());
                    // The header may have been in the frame.
                    if let Some(header) = self.partials.headers.get_mut(&key.1).filter(|_| !view.heard) {
                        header.holders.retain(|holder| *holder != view.peer);
                    }
                }
            }
        }
    }

    // ---- after a change ----

    /// Acts on a change of a group.
    fn act(&mut self, key: &GroupKey, cx: &mut Cx<'_>) {
        self.check_early(key, cx);
        self.ask(key, cx);
        self.send_metadata(key, false, cx);
        self.answer(key, cx);
    }

    /// Owes the requested parts that this node has.
    fn answer(&mut self, key: &GroupKey, cx: &mut Cx<'_>) {
        let Some(limits) = self.config.partial.as_ref().map(|config| config.limits) else { return };
        let Some(group) = self.partials.groups.get(key) else { return };
        let mut by_peer = BTreeMap::new();
        let mut refused = 0;
        for view in &group.views {
            let wanted = view.requests.and(&group.have).without(&view.owed);
            if wanted.is_empty() || !self.may_receive_parts(key.0, view.peer) {
                continue;
            }
            if view.answered + wanted.count() > limits.answers * group.len {
                refused += u64::from(wanted.count());
                continue;
            }
            by_peer.insert(view.peer, wanted);
        }
        self.metrics.ignore(super::Ignored::PartialAnswers, refused);
        if !by_peer.is_empty() {
            self.owe_parts(key, by_peer, false, cx);
        }
    }

    /// Decides which peer is asked for which missing part.
    fn ask(&mut self, key: &GroupKey, cx: &mut Cx<'_>) {
        match self.config.partial.as_ref().map(|config| (config.exchange.asking, config.exchange.patience)) {
            None => {}
            Some((Asking::Everyone, _)) => self.ask_everyone(key),
            Some((Asking::One, patience)) => self.ask_one(key, patience, cx),
        }
    }

    fn ask_everyone(&mut self, key: &GroupKey) {
        let peers = self.partial_peers(key.0);
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        let wanted = group.missing();
        peers.into_iter().for_each(|peer| _ = group.view(peer));
        group.views.iter_mut().for_each(|view| view.asked.clone_from(&wanted));
    }

    /// Asks one peer for each missing part, and sets the time at which another one is asked.
    fn ask_one(&mut self, key: &GroupKey, patience: Duration, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        let missing = group.missing().without(&group.checking);
        group.asks.retain(|part, _| missing.contains(*part));
        let mut loads = group.loads();
        for part in missing.iter() {
            let Some(source) = group.source_of(part, &loads, &self.peers) else { continue };
            let (at, until) = match source {
                Source::Asked => {
                    // An announced part has its deadline from the announcement on.
                    if let Some(ask) = group.asks.get_mut(&part).filter(|ask| ask.until == Time::MAX) {
                        ask.until = now + self.peers.patience(ask.peer, patience);
                    }
                    continue;
                }
                Source::Holder(at) => (at, now + self.peers.patience(group.views[at].peer, patience)),
                Source::Likely(at) => (at, Time::MAX),
            };
            loads[at] += 1;
            group.asks.insert(part, Ask { peer: group.views[at].peer, since: now, until });
        }
        group.note_asks();
        let next = group.asks.values().map(|ask| ask.until).min().unwrap_or(Time::MAX);
        self.wake_partials(next, cx);
    }

    /// Sets the timer, unless an earlier one is set.
    fn wake_partials(&mut self, at: Time, cx: &mut Cx<'_>) {
        if at < Time::MAX && self.partials.timer.is_none_or(|timer| at < timer) {
            self.partials.timer = Some(at);
            cx.set_timer(at, PARTIALS);
        }
    }

    /// Sends to peers what this node has and wants: requests at once, available parts after the delay of
    /// the configuration, or at once if `now` is set.
    fn send_metadata(&mut self, key: &GroupKey, now: bool, cx: &mut Cx<'_>) {
        let Some(config) = self.config.partial.clone() else { return };
        let mesh = self.partial_peers(key.0);
        let is_everyone = config.exchange.asking == Asking::Everyone;
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        if group.len == 0 || group.is_quiet {
            return;
        }
        for peer in &mesh {
            group.view(*peer);
        }
        let mut changes = Vec::new();
        let mut waits = false;
        let missing = group.missing();
        // A complete group has no further changes that could share the announcement.
        let now = now || config.exchange.announce_delay.is_zero() || group.is_complete();
        for view in &mut group.views {
            let in_mesh = mesh.contains(&view.peer);
            if !in_mesh && !view.heard {
                continue;
            }
            let requests = if is_everyone { &missing } else { &view.asked };
            let (announce, request) = match &view.last_sent {
                // Peers in the mesh learn early from whom they can ask parts.
                None => {
                    let early = in_mesh && group.is_own && config.format.has_requests();
                    let has_any = (in_mesh || view.gossiped) && !group.have.is_empty();
                    (early || has_any, !requests.is_empty())
                }
                Some(sent) => {
                    // Its publisher learns that a part has arrived.
                    let acknowledges = !is_everyone && view.is_publisher();
                    let known = if acknowledges { Bits::default() } else { view.available.clone() };
                    let fresh = group.have.without(&sent.available).without(&known);
                    let ended = sent.requests.without(requests).without(&view.received);
                    let begun = requests.without(&sent.requests);
                    let useful = if is_everyone { fresh } else { fresh.without(&view.owed) };
                    (!useful.is_empty(), !begun.is_empty() || !ended.is_empty())
                }
            };
            // Parts follow their announcement.
            let answers = !view.requests.and(&group.have).without(&view.owed).is_empty();
            let at_once = now || answers || view.last_sent.is_none();
            if request || (announce && at_once) {
                let metadata = Metadata { available: group.have.clone(), requests: requests.clone() };
                changes.push((view.peer, config.format.write_metadata(&metadata)));
                view.last_sent = Some(metadata);
            } else {
                waits |= announce;
            }
        }
        if waits && !group.changed {
            group.changed = true;
            self.partials.changed.push(key.clone());
            let at = *self.partials.announce_at.get_or_insert(cx.now() + config.exchange.announce_delay);
            self.wake_partials(at, cx);
        }
        self.metrics.parts_metadata_sent += changes.len() as u64;
        for (peer, metadata) in changes {
            let frame = self.partial_frame(key, None, Some(metadata));
            self.owe(peer, self.lanes.control, frame, None, None, cx);
        }
    }

    // ---- time ----

    /// Announces changes that have waited, and asks other peers for parts that have not arrived.
    pub(super) fn partials_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.partials.timer.is_some_and(|timer| timer > now) {
            return;
        }
        self.partials.timer = None;
        if self.partials.announce_at.is_some_and(|at| at <= now) {
            self.partials.announce_at = None;
            for key in std::mem::take(&mut self.partials.changed) {
                if let Some(group) = self.partials.groups.get_mut(&key) {
                    group.changed = false;
                    self.send_metadata(&key, true, cx);
                }
            }
        }
        let mut next = self.partials.announce_at.unwrap_or(Time::MAX);
        let mut late = Vec::new();
        let mut failed = Vec::new();
        for (key, group) in &mut self.partials.groups {
            let earliest = group.asks.values().map(|ask| ask.until).min().unwrap_or(Time::MAX);
            if earliest > now {
                next = next.min(earliest);
                continue;
            }
            let overdue: Vec<PeerId> =
                group.asks.values().filter(|ask| ask.until <= now).map(|ask| ask.peer).collect();
            group.asks.retain(|_, ask| ask.until > now);
            for peer in overdue {
                self.metrics.parts_overdue += 1;
                group.view(peer).failed = true;
                failed.push(peer);
            }
            late.push(key.clone());
        }
        failed.into_iter().for_each(|peer| self.peers.note_failure(peer));
        self.wake_partials(next, cx);
        for key in late {
            self.act(&key, cx);
        }
    }

    /// Forgets old groups, and repeats to the mesh and to some other peers what this node has.
    pub(super) fn partials_heartbeat(&mut self, cx: &mut Cx<'_>) {
        if self.config.partial.is_none() {
            return;
        }
        let ticks = self.ticks;
        self.partials.groups.retain(|_, group| group.until > ticks);
        self.partials.count_early();
        self.partials.headers.retain(|_, header| header.until > ticks);
        let groups = &self.partials.groups;
        self.partials.pending.retain(|_, pending| groups.contains_key(&pending.key));
        let keys: Vec<GroupKey> =
            groups.iter().filter(|(_, group)| group.len > 0).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            // All peers may have failed: they get another chance.
            if let Some(group) = self.partials.groups.get_mut(key) {
                if !group.is_complete() {
                    group.views.iter_mut().for_each(|view| view.failed = false);
                }
                group.is_quiet &= group.owes_until_now(cx.outbox());
            }
            self.gossip_parts(key, cx);
        }
        // Peers that have not spoken of the group may lack its header, which parts and metadata need.
        let ids: BTreeSet<&Bytes> = keys.iter().map(|(_, id)| id).collect();
        for id in ids {
            self.push_header(id, usize::MAX, cx);
        }
        for key in &keys {
            self.ask(key, cx);
            self.send_metadata(key, true, cx);
        }
    }

    /// Announces to some peers outside the mesh, to each once, what this node has and wants.
    fn gossip_parts(&mut self, key: &GroupKey, cx: &mut Cx<'_>) {
        let params = self.mesh_params(key.0);
        let threshold = self.config.thresholds.gossip;
        let mesh = self.routed(key.0);
        let state = self.topics.get(key.0);
        let Some(group) = self.partials.groups.get_mut(key) else { return };
        let new = |peer: &PeerId| !group.known_view(*peer).is_some_and(|view| view.gossiped);
        let mut peers: Vec<PeerId> = state
            .parts_supported_by
            .iter()
            .copied()
            .filter(|peer| !mesh.contains(peer) && !self.peers.is_direct(*peer) && new(peer))
            .filter(|peer| self.peers.has_mesh(*peer) && self.scores.score(*peer) >= threshold)
            .collect();
        let share = (params.gossip_factor * peers.len() as f64) as usize;
        super::mesh::draw(&mut peers, params.d_lazy.max(share), cx.rng());
        for peer in peers {
            let view = group.view(peer);
            view.gossiped = true;
            view.heard = true;
        }
    }

    /// Tells a peer again what this node has and wants, and sends the parts again that were in flight,
    /// because the stream to it broke.
    pub(super) fn retell_partials_to(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        if self.config.partial.is_none() {
            return;
        }
        for header in self.partials.headers.values_mut() {
            header.holders.retain(|holder| *holder != peer);
        }
        let mut known = Vec::new();
        for (key, group) in &mut self.partials.groups {
            let Ok(at) = group.views.binary_search_by_key(&peer, |view| view.peer) else { continue };
            let view = &mut group.views[at];
            view.last_sent = None;
            view.gossiped = false;
            let outbox = cx.outbox();
            view.frames.retain(|(message, _)| outbox.owes(peer, *message));
            let mut owed = Bits::default();
            view.frames.iter().for_each(|(_, parts)| owed.add(parts));
            view.owed = owed;
            known.push(key.clone());
        }
        for key in known {
            self.act(&key, cx);
        }
    }

    /// Forgets what a peer has and wants, and asks others for what it was asked for.
    pub(super) fn forget_partials_of(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        if self.config.partial.is_none() {
            return;
        }
        for header in self.partials.headers.values_mut() {
            header.holders.retain(|holder| *holder != peer);
        }
        let mut asked = Vec::new();
        for (key, group) in &mut self.partials.groups {
            group.views.retain(|view| view.peer != peer);
            group.parent = group.parent.filter(|parent| *parent != peer);
            if group.asks.values().any(|ask| ask.peer == peer) {
                group.asks.retain(|_, ask| ask.peer != peer);
                asked.push(key.clone());
            }
        }
        for key in asked {
            self.act(&key, cx);
        }
    }
}

/// Splits parts so that none of the sets has more than `bytes_max` bytes, unless it is one part.
fn chunks(parts: &Bits, data: &[Option<Bytes>], bytes_max: usize) -> Vec<Bits> {
    let mut chunks: Vec<(usize, Bits)> = Vec::new();
    for part in parts.iter() {
        let bytes = data[part as usize].as_ref().map_or(0, Bytes::len);
        match chunks.last_mut() {
            Some((sum, chunk)) if *sum + bytes <= bytes_max => {
                *sum += bytes;
                chunk.insert(part);
            }
            _ => {
                let mut chunk = Bits::new(parts.len());
                chunk.insert(part);
                chunks.push((bytes, chunk));
            }
        }
    }
    chunks.into_iter().map(|(_, chunk)| chunk).collect()
}
