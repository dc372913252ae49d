//! Publishing of single messages and batches, and the recipients of every message.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::outbox::{Owe, Schedule};
use samara_engine::{Frame, MessageKey, NodeRng, PeerId};
use smallvec::SmallVec;

use super::gossip::Incoming;
use super::spread::Split;
use super::tables::TopicIdx;
use super::{BatchReceipt, Cx, Event, GossipSub, PublishError, Receipt, SELF, deadline};
use crate::config::Author;
use crate::rpc::{Message, MessageId, RpcFrame, Topic};
use crate::signature;

/// Returns a random identity, in the form of the shortest ones of libp2p (multihash `identity` of 32
/// bytes), and a random sequence number.
fn random_author(rng: &mut NodeRng) -> (Bytes, u64) {
    let mut author = vec![0, 32];
    author.extend((0..4).flat_map(|_| rng.next_u64().to_be_bytes()));
    (author.into(), rng.next_u64())
}

/// A message that is ready to be put into the outbox.
struct Prepared {
    key: MessageKey,
    id: MessageId,
    topic: TopicIdx,
    message: Arc<Message>,
    frame: RpcFrame,
    /// The message that the application sees.
    read: Arc<Message>,
    peers: Vec<PeerId>,
    split: Split,
}

impl GossipSub {
    /// Publishes one message, in the order of
    /// [`Config::schedule_publish`](crate::Config::schedule_publish).
    ///
    /// A topic without known subscribers is no error ([`Receipt::peers`] is 0 then): the message is
    /// cached and announced in gossip.
    ///
    /// # Errors
    /// The message cannot be published. The call then has no effect.
    pub fn publish(&mut self, topic: &Topic, data: Bytes, cx: &mut Cx<'_>) -> Result<Receipt, PublishError> {
        let message = self.compose(topic, data, cx)?;
        self.publish_message(message, cx)
    }

    /// Publishes a message that is already built and, if required, signed.
    pub fn publish_message(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_>,
    ) -> Result<Receipt, PublishError> {
        let config = Arc::clone(&self.config);
        let mut receipts = self.publish_all([Ok(message)], &config.schedule_publish, cx);
        receipts.pop().unwrap_or(Err(PublishError::NoTopic))
    }

    /// Publishes several messages together, so that their copies leave in the order of a schedule.
    /// With [`Schedule::INTERLEAVED`], the first copy of every message leaves before the second of
    /// any.
    ///
    /// A message that cannot be published, or whose topic has no peers, does not hold back the
    /// others.
    pub fn publish_batch(
        &mut self,
        messages: impl IntoIterator<Item = (Topic, Bytes)>,
        schedule: &Schedule,
        cx: &mut Cx<'_>,
    ) -> BatchReceipt {
        let messages: Vec<_> =
            messages.into_iter().map(|(topic, data)| self.compose(&topic, data, cx)).collect();
        BatchReceipt { messages: self.publish_all(messages, schedule, cx) }
    }

    /// Publishes several messages that are already built and, if required, signed.
    pub fn publish_message_batch(
        &mut self,
        messages: impl IntoIterator<Item = Arc<Message>>,
        schedule: &Schedule,
        cx: &mut Cx<'_>,
    ) -> BatchReceipt {
        BatchReceipt { messages: self.publish_all(messages.into_iter().map(Ok), schedule, cx) }
    }

    /// Builds a message with the fields that the configuration requires.
    fn compose(&mut self, topic: &Topic, data: Bytes, cx: &mut Cx<'_>) -> Result<Arc<Message>, PublishError> {
        let data = match &self.config.transform {
            Some(transform) => transform.outbound(topic, &data).map_err(PublishError::Transform)?,
            None => data,
        };
        let authenticity = &self.config.authenticity;
        let mut message = match authenticity.author {
            Author::Absent if !authenticity.policy.signs() => {
                return Ok(Arc::new(Message::new(topic.clone(), data)));
            }
            Author::Random => {
                let (author, seqno) = random_author(cx.rng());
                Message::with_author(topic.clone(), data, author, seqno)
            }
            Author::Absent | Author::Own => {
                let author = Bytes::copy_from_slice(self.identity.as_bytes());
                let seqno = self.next_seqno;
                self.next_seqno = seqno.wrapping_add(1);
                Message::with_author(topic.clone(), data, author, seqno)
            }
        };
        if authenticity.policy.signs() {
            let signer = authenticity
                .signer
                .as_ref()
                .ok_or_else(|| PublishError::Signature("the configuration has no signer".to_owned()))?;
            signature::sign(&mut message, &**signer);
        }
        Ok(Arc::new(message))
    }

    fn publish_all(
        &mut self,
        messages: impl IntoIterator<Item = Result<Arc<Message>, PublishError>>,
        schedule: &Schedule,
        cx: &mut Cx<'_>,
    ) -> Vec<Result<Receipt, PublishError>> {
        let mut prepared = Vec::new();
        self.announcements.loads.clear();
        let mut receipts: Vec<Result<Receipt, PublishError>> = Vec::new();
        for message in messages {
            let result = message.and_then(|message| self.prepare(message, cx));
            receipts.push(result.map(|message| {
                let topic = self.topics.get(message.topic).name.clone();
                let (id, key, peers) = (message.id.clone(), message.key, message.peers.len());
                prepared.push(message);
                Receipt { id, key, topic, peers, lost: 0 }
            }));
        }
        if self.config.idontwant.on_publish {
            let incoming: Vec<Incoming<'_>> =
                prepared.iter().map(|own| (own.topic, &own.id, own.message.data.len())).collect();
            let shared = if self.config.idontwant.aggregate_own { incoming.len().max(1) } else { 1 };
            for incoming in incoming.chunks(shared) {
                self.send_idontwants(None, incoming, cx);
            }
        }
        self.owe_own(&mut prepared, schedule, cx);
        for lost in &self.lost {
            let of = |receipt: &&mut Receipt| Some(receipt.key) == lost.message;
            if let Some(receipt) = receipts.iter_mut().flatten().find(of) {
                receipt.lost += 1;
            }
        }
        self.note_all_lost(None, cx);
        for own in &mut prepared {
            self.announce_rest(own.topic, &own.id, std::mem::take(&mut own.split), true, cx);
        }
        if self.config.deliver_own {
            for Prepared { key, id, topic, read, .. } in prepared {
                let topic = self.topics.get(topic).name.clone();
                cx.emit(Event::Message { id, key, topic, message: read, from: None });
            }
        }
        receipts
    }

    fn owe_own(&mut self, prepared: &mut [Prepared], schedule: &Schedule, cx: &mut Cx<'_>) {
        let now = cx.now();
        let deadline = deadline(now, self.config.publish_deadline);
        for own in prepared.iter() {
            self.send_waiting_gossip_to(&own.peers, cx);
            self.weigh(&own.peers, schedule, cx);
        }
        let batch = prepared.iter_mut().filter(|own| !own.peers.is_empty()).map(|own| Owe {
            message: own.key,
            frame: own.frame.clone(),
            peers: std::mem::take(&mut own.peers),
            deadline,
        });
        let (outbox, rng) = cx.outbox_and_rng();
        let taken = outbox.owe_batch(now, self.lanes.publish, batch, schedule, rng, &mut self.lost);
        self.metrics.published_copies += taken as u64;
    }

    fn prepare(&mut self, message: Arc<Message>, cx: &mut Cx<'_>) -> Result<Prepared, PublishError> {
        let name = message.topic.clone().ok_or(PublishError::NoTopic)?;
        let config = Arc::clone(&self.config);
        let allowed = config.max_message_bytes_of(&name);
        // What other nodes read from it decides its id.
        let read = config.read(&name, &message).map_err(PublishError::Transform)?;
        let found = message.data.len().max(read.data.len());
        if found > allowed {
            return Err(PublishError::TooLong { topic: name, found, allowed });
        }
        // Other nodes would drop the message and lower the score of this node.
        let policy = config.authenticity.policy;
        policy.check_fields(&message).map_err(|error| PublishError::Signature(error.to_string()))?;
        let frame = RpcFrame::message(&message);
        let (found, allowed) = (frame.encoded_len(), config.max_rpc_bytes);
        if found > allowed {
            return Err(PublishError::FrameTooLong { topic: name, found, allowed });
        }
        let now = cx.now();
        let id = config.message_id_of(&name).id(&read);
        let (key, is_new) = self.seen.observe(now, &id);
        if !is_new {
            return Err(PublishError::Duplicate(id));
        }
        let topic = self.use_topic(&name);
        self.scores.deliver_message(now, SELF, topic, key);
        self.promises.fulfil(&id);
        self.take_wanted(&id);
        self.note_piece(&id, cx);
        self.mcache.put(key, topic, id.clone(), Arc::clone(&message));
        let peers = self.recipients_of_own(topic, &id, &message, cx);
        let mut split = self.split(topic, &id, peers, (None, &[]), cx);
        let peers = std::mem::take(&mut split.push);
        self.metrics.messages_published += 1;
        self.metrics.messages_published_to_nobody += u64::from(peers.is_empty());
        Ok(Prepared { key, id, topic, message, frame, read, peers, split })
    }

    /// Returns the peers to which a message of this node goes.
    pub(super) fn recipients_of_own(
        &mut self,
        topic: TopicIdx,
        id: &MessageId,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> Vec<PeerId> {
        let config = &self.config;
        let floods = config.flood_publish && message.data.len() <= config.flood_publish_max_bytes;
        let spreads = config.spread.as_ref().is_some_and(|spread| spread.publish_to_all);
        // A message that goes to a few of all peers is announced to the fanout later.
        if (config.spread.is_some() || !floods) && !self.topics.get(topic).joined {
            self.use_fanout(topic, cx);
        }
        let chosen = if floods || spreads {
            let threshold = self.config.thresholds.publish;
            let fit = |peer: &PeerId| self.peers.is_direct(*peer) || self.scores.score(*peer) >= threshold;
            self.topics.get(topic).subscribers.iter().copied().filter(fit).collect()
        } else {
            self.routed(topic)
        };
        let chosen = self.not_in_parts(topic, chosen);
        self.without_holders(chosen, id, message, None, &[], cx)
    }

    /// Returns the mesh or the fanout, together with direct and floodsub peers.
    pub(super) fn routed(&self, topic: TopicIdx) -> Vec<PeerId> {
        let state = self.topics.get(topic);
        let pushed_to = if state.joined { &state.mesh } else { &state.fanout };
        let mut chosen = Vec::with_capacity(pushed_to.len() + state.always.len());
        chosen.extend_from_slice(pushed_to);
        if !state.always.is_empty() {
            let threshold = self.config.thresholds.publish;
            let fit = |peer: &PeerId| self.peers.is_direct(*peer) || self.scores.score(*peer) >= threshold;
            let always = state.always.iter().copied().filter(fit);
            chosen.extend(always.filter(|peer| !pushed_to.contains(*peer)));
        }
        chosen
    }

    /// Removes the peers that get the messages of a topic in parts.
    pub(super) fn not_in_parts(&self, topic: TopicIdx, mut peers: Vec<PeerId>) -> Vec<PeerId> {
        if !self.topics.get(topic).parts_requested_by.is_empty() {
            peers.retain(|peer| !self.takes_parts(topic, *peer));
        }
        peers
    }

    /// Removes the peers that have the message or do not want it, and orders the others for the
    /// schedule. `holders` sent a copy while the message awaited its verdict.
    pub(super) fn without_holders(
        &mut self,
        mut peers: Vec<PeerId>,
        id: &MessageId,
        message: &Message,
        from: Option<PeerId>,
        holders: &[PeerId],
        cx: &mut Cx<'_>,
    ) -> Vec<PeerId> {
        let author = message.from.as_deref();
        let unwanted: SmallVec<[PeerId; 16]> =
            self.unwanted.refusals(id).iter().map(|refusal| refusal.peer).collect();
        let table = &self.peers;
        let mut suppressed = 0;
        peers.retain(|peer| {
            if Some(*peer) == from || holders.contains(peer) {
                return false;
            }
            let Some(state) = table.get(*peer) else { return false };
            if state.observer || author == Some(state.info.identity.as_bytes()) {
                return false;
            }
            if unwanted.contains(peer) {
                suppressed += 1;
                return false;
            }
            true
        });
        self.metrics.suppressed_copies += suppressed;
        if self.config.shuffle_recipients {
            cx.rng().shuffle(&mut peers);
        }
        peers
    }
}
