//! The way of a message: from its arrival, or from this node, to its recipients.

use std::sync::Arc;

use samara_engine::{Frame, PeerId};

use super::topics::TopicIdx;
use super::{PubSub, Route, RpcFrame};
use crate::app::{Cx, Event, Receipt, RequestError};
use crate::message::Message;
use crate::metrics::Ignored;

impl<R: Route> PubSub<R> {
    pub(super) fn receive_message(&mut self, from: PeerId, message: Arc<Message>, cx: &mut Cx<'_, RpcFrame>) {
        let now = cx.now();
        self.core.metrics.messages_received += 1;
        // First, since most copies are duplicates; the topic of a message that was seen was joined when it was.
        if let Some(key) = self.core.seen.get(now, message.id()) {
            self.core.duplicate(from, key, cx);
            return;
        }
        let topic = self.topics.find(message.topic()).filter(|topic| self.topics.get(*topic).joined);
        let Some(topic) = topic else {
            self.core.metrics.ignore(Ignored::MessageNotSubscribed, 1);
            return;
        };
        // As `shouldPush` in go-libp2p-pubsub's `pubsub.go`: somebody else claims to be this node.
        if *message.author() == self.core.identity {
            self.core.metrics.ignore(Ignored::MessageFromSelf, 1);
            return;
        }
        let key = self.core.seen.insert(now, message.id());
        self.core.metrics.messages_delivered += 1;
        let peers = self.recipients(topic, &message, Some(from), cx);
        self.core.owe_forwarded(key, RpcFrame::Publish(Arc::clone(&message)), peers, cx);
        cx.emit(Event::Message { key, message, from: Some(from), hops: None });
    }

    pub(super) fn publish_own(
        &mut self,
        message: Arc<Message>,
        cx: &mut Cx<'_, RpcFrame>,
    ) -> Result<Receipt, RequestError> {
        let (found, allowed) = (message.topic().as_str().len(), self.config.topic_bytes_max);
        if found > allowed {
            return Err(RequestError::TopicTooLong { found, allowed });
        }
        let frame = RpcFrame::Publish(Arc::clone(&message));
        let key = self.core.take_own(&message, frame.encoded_len(), cx)?;
        let topic = self.topics.find(message.topic());
        let peers = topic.map_or_else(Vec::new, |topic| self.recipients(topic, &message, None, cx));
        let receipt = self.core.owe_own(&message, key, frame, peers, cx);
        if topic.is_some_and(|topic| self.topics.get(topic).joined) {
            self.core.deliver_own(key, message, None, cx);
        }
        Ok(receipt)
    }

    fn recipients(
        &self,
        topic: TopicIdx,
        message: &Message,
        from: Option<PeerId>,
        cx: &mut Cx<'_, RpcFrame>,
    ) -> Vec<PeerId> {
        let author = self.by_identity.get(message.author()).copied();
        let subscribers = self.topics.get(topic).subscribers.as_slice();
        let mut peers: Vec<PeerId> = Vec::with_capacity(subscribers.len());
        peers.extend(subscribers.iter().filter(|peer| Some(**peer) != from && Some(**peer) != author));
        let floods = |peer| self.peers.get(peer).is_some_and(|peer| peer.floods);
        self.route.choose(&mut peers, floods, cx.rng());
        peers
    }
}
