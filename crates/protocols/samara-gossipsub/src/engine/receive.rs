//! Handling of RPCs, and the path of a message from its arrival through validation to its delivery.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use samara_engine::outbox::Owe;
use samara_engine::{Frame, MessageKey, PeerId, PeerIdentity, PeerKeyed, Time};
use smallvec::SmallVec;

use super::gossip::Incoming;
use super::tables::TopicIdx;
use super::{Acceptance, Cx, Event, GossipSub, Ignored, Trace, deadline};
use crate::cache::SeenStrategy;
use crate::config::{ValidatorHook, Verdict};
use crate::rpc::{Control, Message, MessageId, RpcFrame, SubOpts};
use crate::signature::SignatureError;

#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) key: MessageKey,
    pub(super) id: MessageId,
    pub(super) topic: TopicIdx,
    pub(super) from: PeerId,
    /// The message as on the wire, which peers receive.
    pub(super) message: Arc<Message>,
    /// The message that the application sees: the same without a transform.
    pub(super) read: Arc<Message>,
    /// The frame of the message, if it contained nothing else: it is forwarded unchanged.
    pub(super) frame: Option<RpcFrame>,
    /// The peers that had announced it, with one request at a time.
    pub(super) announcers: SmallVec<[PeerId; 4]>,
}

impl Arrival {
    /// The bytes of its payload in memory: twice if a transform changes it.
    fn bytes(&self) -> usize {
        let own = if Arc::ptr_eq(&self.message, &self.read) { 0 } else { self.read.data.len() };
        self.message.data.len() + own
    }
}

impl GossipSub {
    /// Drops messages that a peer sends or that it has written, from now on. Its links, and what it asks
    /// for, stay as they are: to end a connection is the driver's part.
    pub fn blacklist_peer(&mut self, identity: PeerIdentity) {
        self.blacklist.insert(identity);
    }

    /// Accepts messages of a peer again. Returns false if it was not blacklisted.
    pub fn remove_blacklisted_peer(&mut self, identity: &PeerIdentity) -> bool {
        self.blacklist.remove(identity)
    }

    fn is_blacklisted(&self, from: PeerId, message: &Message) -> bool {
        let is_listed = |identity: &PeerIdentity| self.blacklist.contains(identity);
        !self.blacklist.is_empty()
            && (self.peers.get(from).is_some_and(|peer| is_listed(&peer.info.identity))
                || message.from.as_deref().is_some_and(|author| is_listed(&PeerIdentity::new(author))))
    }

    /// Handles an RPC: first subscriptions, then messages, then control, as go-libp2p-pubsub does.
    pub(super) fn receive(&mut self, from: PeerId, frame: &RpcFrame, cx: &mut Cx<'_>) {
        self.metrics.rpcs_received += 1;
        let Some(peer) = self.peers.get(from) else {
            self.metrics.ignore(Ignored::RpcUnknownPeer, 1);
            return;
        };
        if frame.encoded_len() > self.config.max_rpc_bytes {
            self.metrics.ignore(Ignored::RpcTooLong, 1);
            return;
        }
        let direct = peer.direct;
        let rpc = frame.rpc();
        let extensions = rpc.control.as_ref().and_then(|control| control.extensions.as_ref());
        if extensions.is_some() && peer.protocol.has_extensions() {
            self.peer_restarted(from, cx);
        }
        if !rpc.subscriptions.is_empty() {
            self.receive_subscriptions(from, &rpc.subscriptions, cx);
        }
        if !direct && self.scores.score(from) < self.config.thresholds.graylist {
            self.metrics.ignore(Ignored::RpcGraylisted, 1);
            return;
        }
        if !rpc.publish.is_empty() {
            self.receive_messages(from, frame, cx);
        }
        if let Some(partial) = &rpc.partial {
            self.receive_partial(from, partial, cx);
        }
        if let Some(control) = &rpc.control {
            self.receive_control(from, control, &rpc.subscriptions, cx);
        }
    }

    fn receive_control(
        &mut self,
        from: PeerId,
        control: &Control,
        subscriptions: &[SubOpts],
        cx: &mut Cx<'_>,
    ) {
        if let Some(extensions) = &control.extensions {
            self.receive_extensions(from, extensions);
        }
        let iwant =
            if control.ihave.is_empty() { Vec::new() } else { self.receive_ihaves(from, &control.ihave, cx) };
        if !control.iwant.is_empty() {
            self.receive_iwant(from, &control.iwant, cx);
        }
        let prune = if control.graft.is_empty() {
            Vec::new()
        } else {
            self.receive_grafts(from, &control.graft, subscriptions, cx)
        };
        if !control.prune.is_empty() {
            self.receive_prunes(from, &control.prune, cx);
        }
        self.receive_idontwant(from, &control.idontwant, cx);
        if !iwant.is_empty() || !prune.is_empty() {
            self.send_control(from, Control { iwant, prune, ..Control::default() }, cx);
        }
    }

    fn receive_messages(&mut self, from: PeerId, frame: &RpcFrame, cx: &mut Cx<'_>) {
        let rpc = frame.rpc();
        let mut arrivals: SmallVec<[Arrival; 1]> = SmallVec::new();
        for message in &rpc.publish {
            self.metrics.messages_received += 1;
            match self.admit(from, message, arrivals.len(), cx) {
                Ok(Some(arrival)) => arrivals.push(arrival),
                Ok(None) => {}
                Err(cause) => {
                    self.metrics.ignore(cause, 1);
                    self.trace_rejected(from, message, cause, cx);
                }
            }
        }
        if arrivals.is_empty() {
            return;
        }
        if rpc.publish.len() == 1
            && rpc.subscriptions.is_empty()
            && rpc.control.is_none()
            && rpc.partial.is_none()
            && rpc.unknown.is_empty()
        {
            arrivals[0].frame = Some(frame.clone());
        }
        // IDONTWANT precedes validation, during which the mesh would send more copies.
        let incoming: SmallVec<[Incoming<'_>; 1]> =
            arrivals.iter().map(|new| (new.topic, &new.id, new.message.data.len())).collect();
        self.send_idontwants(Some(from), &incoming, cx);
        drop(incoming);
        for arrival in arrivals {
            self.validate(arrival, cx);
        }
    }

    /// Admits a message if it is new and could be valid. `admitted` counts the messages admitted
    /// earlier from the same RPC.
    fn admit(
        &mut self,
        from: PeerId,
        message: &Arc<Message>,
        admitted: usize,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Arrival>, Ignored> {
        let now = cx.now();
        if self.is_blacklisted(from, message) {
            return Err(Ignored::MessageBlacklisted);
        }
        let config = &self.config;
        let name = message.topic.as_ref().ok_or(Ignored::MessageWithoutTopic)?;
        let topic = self.topics.find(name).ok_or(Ignored::MessageNotSubscribed)?;
        let state = self.topics.get(topic);
        if !state.joined {
            return Err(Ignored::MessageNotSubscribed);
        }
        let special = state.special;
        let len_max = if special { config.max_message_bytes_of(name) } else { config.max_message_bytes };
        if message.data.len() > len_max {
            self.scores.reject_malformed(from, topic);
            return Err(Ignored::MessageTooLong);
        }
        if config.authenticity.policy.check_fields(message).is_err() {
            self.scores.reject_malformed(from, topic);
            return Err(Ignored::MessageSignature);
        }
        let read = match config.read(name, message) {
            Ok(read) if read.data.len() <= len_max => read,
            unread => {
                self.scores.reject_malformed(from, topic);
                let cause = if unread.is_ok() { Ignored::MessageTooLong } else { Ignored::MessageTransform };
                return Err(cause);
            }
        };
        let id_fn = if special { config.message_id_of(name) } else { &config.message_id };
        let id = id_fn.id(&read);
        if let Some(key) = self.seen.get(now, &id) {
            if config.seen_strategy == SeenStrategy::LastSeen {
                self.seen.observe(now, &id);
            }
            self.duplicate(from, topic, &id, key, cx);
            return Ok(None);
        }
        if message.from.as_deref() == Some(self.identity.as_bytes()) {
            self.receive_own(from, message, (topic, id), now);
            return Err(Ignored::MessageFromSelf);
        }
        let is_full = self.pending.len() + admitted >= config.pending_validations_max
            || self.pending.bytes >= config.pending_validation_bytes_max;
        if is_full && self.validator_of(topic).is_some() {
            self.promises.forgive(from);
            return Err(Ignored::ValidationThrottled);
        }
        // The signature is verified before the id counts as seen: a forged message must not block
        // the genuine one.
        if let Some(verifier) = &config.authenticity.verifier
            && config.authenticity.policy.verify(message, &**verifier).is_err()
        {
            self.scores.reject_malformed(from, topic);
            return Err(Ignored::MessageSignature);
        }
        let (key, _) = self.seen.observe(now, &id);
        self.promises.fulfil(&id);
        let announcers = self.note_arrival(from, &id, cx);
        self.scores.validate_message(now, key);
        Ok(Some(Arrival {
            key,
            id,
            topic,
            from,
            message: Arc::clone(message),
            read,
            frame: None,
            announcers,
        }))
    }

    /// Receives a message with this node as its author that it does not know. A message of the node
    /// before it restarted, which honest peers still pass on, has its signature. A forged one has not.
    fn receive_own(
        &mut self,
        from: PeerId,
        message: &Message,
        (topic, id): (TopicIdx, MessageId),
        now: Time,
    ) {
        let authenticity = &self.config.authenticity;
        // Without a verifier nobody can tell: a peer that checks nothing either is honest.
        let Some(verifier) = &authenticity.verifier else { return self.promises.fulfil(&id) };
        if authenticity.policy.verify(message, &**verifier).is_err() {
            self.scores.reject_malformed(from, topic);
            return;
        }
        self.seen.observe(now, &id);
        self.promises.fulfil(&id);
    }

    fn duplicate(&mut self, from: PeerId, topic: TopicIdx, id: &MessageId, key: MessageKey, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.metrics.duplicates_received += 1;
        self.scores.duplicate_message(now, from, topic, key);
        self.pending.note_copy(id, from);
        cx.outbox().note_has(now, from, key);
        if self.config.withdraw.on_copy {
            self.withdraw(from, key, cx);
        }
        if self.config.report_duplicates {
            cx.emit(Event::Duplicate { key, from });
        }
        self.trace(cx, || Trace::Duplicate {
            id: id.clone(),
            topic: self.topics.get(topic).name.clone(),
            from,
        });
    }

    /// Delivers and forwards a valid message. `holders` sent a copy of it in the meantime.
    pub(super) fn accept(&mut self, arrival: Arrival, holders: &[PeerId], cx: &mut Cx<'_>) {
        let Arrival { key, id, topic, from, message, read, frame, announcers } = arrival;
        let now = cx.now();
        self.metrics.messages_delivered += 1;
        self.scores.deliver_message(now, from, topic, key);
        self.mcache.put(key, topic, id.clone(), Arc::clone(&message));
        self.note_piece(&id, cx);

        let holders = if self.config.withdraw.on_copy { holders } else { &[] };
        let peers = self.without_holders(
            self.not_in_parts(topic, self.routed(topic)),
            &id,
            &message,
            Some(from),
            holders,
            cx,
        );
        let mut split = self.split(topic, &id, peers, (Some(from), &announcers), cx);
        let peers = std::mem::take(&mut split.push);
        if !peers.is_empty() {
            self.send_waiting_gossip_to(&peers, cx);
            let frame = frame.unwrap_or_else(|| RpcFrame::message(&message));
            let deadline = deadline(now, self.config.forward_deadline);
            let owe = Owe { message: key, frame, peers, deadline };
            let config = Arc::clone(&self.config);
            self.weigh(&owe.peers, &config.schedule_forward, cx);
            let (outbox, rng) = cx.outbox_and_rng();
            let (lane, schedule) = (self.lanes.forward, &config.schedule_forward);
            let taken = outbox.owe_batch(now, lane, [owe], schedule, rng, &mut self.lost);
            self.metrics.forwarded_copies += taken as u64;
            outbox.note_has(now, from, key);
            for refusal in self.unwanted.refusals(&id) {
                outbox.note_has(now, refusal.peer, key);
            }
            self.note_all_lost(None, cx);
        }
        self.announce_rest(topic, &id, split, false, cx);
        let name = self.topics.get(topic).name.clone();
        cx.emit(Event::Message { id, key, topic: name, message: read, from: Some(from) });
    }

    /// Drops a message that is invalid, ignored, or without a verdict.
    fn reject(&mut self, arrival: &Arrival, cause: Ignored, cx: &mut Cx<'_>) {
        self.metrics.ignore(cause, 1);
        let is_invalid = cause == Ignored::MessageRejected;
        self.scores.reject_message(cx.now(), arrival.from, arrival.topic, arrival.key, is_invalid);
        self.trace(cx, || Trace::Dropped {
            id: arrival.id.clone(),
            topic: self.topics.get(arrival.topic).name.clone(),
            from: arrival.from,
            cause,
            signature: None,
        });
    }

    /// Messages on topics that are not joined are not traced: go-libp2p-pubsub does not trace them
    /// either, and their ids are unknown.
    fn trace_rejected(&self, from: PeerId, message: &Arc<Message>, cause: Ignored, cx: &mut Cx<'_>) {
        if matches!(cause, Ignored::MessageWithoutTopic | Ignored::MessageNotSubscribed) {
            return;
        }
        let Some(topic) = message.topic.clone() else { return };
        self.trace(cx, || {
            let fields = self.config.authenticity.policy.check_fields(message);
            let signature = fields.err().unwrap_or(SignatureError::InvalidSignature);
            let signature = (cause == Ignored::MessageSignature).then_some(signature);
            let read = self.config.read(&topic, message);
            let id = self.config.message_id_of(&topic).id(read.as_ref().unwrap_or(message));
            Trace::Dropped { id, topic, from, cause, signature }
        });
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    arrival: Arrival,
    since: Time,
    /// The peers that sent a copy in the meantime.
    holders: SmallVec<[PeerId; 4]>,
}

#[derive(Debug, Default)]
pub(super) struct PendingValidations {
    pub(super) by_id: HashMap<MessageId, Box<Pending>, PeerKeyed>,
    /// Bytes of their payloads.
    pub(super) bytes: usize,
    /// Messages in order of arrival. Those with a verdict are skipped.
    queue: VecDeque<(Time, MessageId)>,
}

impl PendingValidations {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Records another copy of a message. Does nothing unless the message awaits its verdict.
    pub(super) fn note_copy(&mut self, id: &MessageId, from: PeerId) {
        if self.by_id.is_empty() {
            return;
        }
        if let Some(pending) = self.by_id.get_mut(id)
            && !pending.holders.contains(&from)
        {
            pending.holders.push(from);
        }
    }

    fn insert(&mut self, now: Time, arrival: Arrival) {
        let id = arrival.id.clone();
        self.bytes += arrival.bytes();
        self.queue.push_back((now, id.clone()));
        self.by_id.insert(id, Box::new(Pending { arrival, since: now, holders: SmallVec::new() }));
    }

    fn take(&mut self, id: &MessageId) -> Option<Box<Pending>> {
        let pending = self.by_id.remove(id)?;
        self.bytes -= pending.arrival.bytes();
        self.skip_decided();
        Some(pending)
    }

    /// Takes the oldest message, if it has waited since `before` or longer.
    fn take_older(&mut self, before: Time) -> Option<Box<Pending>> {
        let (_, id) = self.queue.front().filter(|(since, _)| *since <= before)?;
        let id = id.clone();
        self.take(&id)
    }

    /// Removes decided messages from the head of the queue. An id may have been decided, forgotten,
    /// and received again; its older entry is then stale.
    fn skip_decided(&mut self) {
        while let Some((since, id)) = self.queue.front() {
            if self.by_id.get(id).is_some_and(|pending| pending.since == *since) {
                return;
            }
            self.queue.pop_front();
        }
    }
}

impl GossipSub {
    pub(super) fn validator_of(&self, topic: TopicIdx) -> Option<&ValidatorHook> {
        let state = self.topics.get(topic);
        if state.special { self.config.validator_of(&state.name) } else { self.config.validator.as_ref() }
    }

    /// Calls the validator of the topic, if there is one.
    pub(super) fn validate(&mut self, arrival: Arrival, cx: &mut Cx<'_>) {
        let state = self.topics.get(arrival.topic);
        let verdict = self.validator_of(arrival.topic).map_or(Verdict::Accept, |validator| {
            validator.validate(arrival.from, &state.name, &arrival.read)
        });
        let acceptance = match verdict {
            Verdict::Accept => Acceptance::Accept,
            Verdict::Ignore => Acceptance::Ignore,
            Verdict::Reject => Acceptance::Reject,
            Verdict::Defer => {
                cx.emit(Event::NeedsValidation {
                    id: arrival.id.clone(),
                    key: arrival.key,
                    topic: state.name.clone(),
                    message: arrival.read.clone(),
                    from: arrival.from,
                });
                self.pending.insert(cx.now(), arrival);
                return;
            }
        };
        self.conclude(arrival, &[], acceptance, cx);
    }

    /// Reports the verdict on a message that awaits it. Returns false if no such message is
    /// waiting: it was never deferred, has its verdict, or timed out.
    pub fn report_validation(&mut self, id: &MessageId, acceptance: Acceptance, cx: &mut Cx<'_>) -> bool {
        let Some(pending) = self.pending.take(id) else { return false };
        let Pending { arrival, holders, .. } = *pending;
        self.conclude(arrival, &holders, acceptance, cx);
        true
    }

    fn conclude(&mut self, arrival: Arrival, holders: &[PeerId], acceptance: Acceptance, cx: &mut Cx<'_>) {
        let cause = match acceptance {
            Acceptance::Accept if self.topics.get(arrival.topic).joined => {
                return self.accept(arrival, holders, cx);
            }
            // The topic was left in the meantime.
            Acceptance::Accept => Ignored::MessageNotSubscribed,
            Acceptance::Ignore => Ignored::MessageIgnored,
            Acceptance::Reject => Ignored::MessageRejected,
        };
        self.reject(&arrival, cause, cx);
    }

    /// Drops the messages whose validation timed out.
    pub(super) fn expire_validations(&mut self, cx: &mut Cx<'_>) {
        let timeout = self.config.validation_timeout;
        let now = cx.now();
        if now.since(Time::ZERO) < timeout {
            return;
        }
        let before = Time::ZERO + (now.since(Time::ZERO) - timeout);
        while let Some(pending) = self.pending.take_older(before) {
            self.reject(&pending.arrival, Ignored::ValidationTimedOut, cx);
        }
    }
}
