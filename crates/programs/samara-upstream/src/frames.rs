//! RPCs of rust-libp2p as RPCs of the engine, and back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_timer::Delay;
use libp2p_identity::PeerId;
use samara_gossipsub::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Prune, Rpc, RpcFrame, SubOpts, Topic,
};

use crate::clock::SCALE;
use crate::config::Config;
use crate::settings::INVALID;
use crate::types::{
    self, ControlAction, Graft, IDontWant, IWant, PeerInfo, RawMessage, RpcIn, RpcOut, Subscription,
    SubscriptionAction,
};
use crate::{TopicHash, ValidationError};

pub(crate) fn topic(hash: &TopicHash) -> Topic {
    Topic::new(hash.as_str())
}

pub(crate) fn hash(topic: &Topic) -> TopicHash {
    TopicHash::from_raw(topic.as_str())
}

pub(crate) fn id(theirs: &types::MessageId) -> MessageId {
    MessageId::new(&theirs.0)
}

fn ids(theirs: &[types::MessageId]) -> Vec<MessageId> {
    theirs.iter().map(id).collect()
}

fn their_ids(ids: &[MessageId]) -> Vec<types::MessageId> {
    ids.iter().map(|id| types::MessageId::new(id.as_bytes())).collect()
}

pub(crate) fn message(raw: &RawMessage) -> Message {
    let mut message = Message::new(topic(&raw.topic), raw.data.clone().into());
    message.from = raw.source.map(|peer| peer.to_bytes().into());
    message.seqno = raw.sequence_number.map(|number| Bytes::copy_from_slice(&number.to_be_bytes()));
    message.signature = raw.signature.clone().map(Into::into);
    message.key = raw.key.clone().map(Into::into);
    message
}

fn author_of(message: &Message) -> Option<PeerId> {
    message.from.as_deref().and_then(|from| PeerId::from_bytes(from).ok())
}

fn seqno_of(message: &Message) -> Option<u64> {
    message.seqno.as_deref().and_then(|seqno| Some(u64::from_be_bytes(seqno.try_into().ok()?)))
}

fn hash_of(message: &Message) -> TopicHash {
    message.topic.as_ref().map_or_else(|| TopicHash::from_raw(""), hash)
}

pub(crate) fn message_of(message: &Message) -> types::Message {
    types::Message {
        source: author_of(message),
        data: message.data.to_vec(),
        sequence_number: seqno_of(message),
        topic: hash_of(message),
    }
}

pub(crate) fn raw_of(message: &Message) -> RawMessage {
    RawMessage {
        source: author_of(message),
        data: message.data.to_vec(),
        sequence_number: seqno_of(message),
        topic: hash_of(message),
        signature: message.signature.as_ref().map(|signature| signature.to_vec()),
        key: message.key.as_ref().map(|key| key.to_vec()),
        validated: true,
    }
}

pub(crate) fn control(control: Control) -> Rpc {
    Rpc { control: Some(Box::new(control)), ..Rpc::default() }
}

pub(crate) fn publish(raw: &RawMessage) -> Rpc {
    Rpc { publish: [Arc::new(message(raw))].into_iter().collect(), ..Rpc::default() }
}

pub(crate) fn subscriptions(theirs: &[Subscription]) -> Rpc {
    let change = |change: &Subscription| SubOpts {
        subscribe: change.action == SubscriptionAction::Subscribe,
        topic: topic(&change.topic_hash),
        partial: Default::default(),
        unknown: Bytes::new(),
    };
    Rpc { subscriptions: theirs.iter().map(change).collect(), ..Rpc::default() }
}

pub(crate) fn prune(hash: &TopicHash, peers: &[PeerInfo], backoff_secs: Option<u64>) -> Prune {
    let exchanged = |peer: &PeerInfo| {
        let identity = peer.peer_id?.to_bytes().into();
        Some(ExchangedPeer { identity, signed_record: None })
    };
    Prune {
        topic: topic(hash),
        peers: peers.iter().filter_map(exchanged).collect(),
        backoff: backoff_secs.map(|secs| Duration::from_secs(secs) * SCALE),
    }
}

/// Returns an RPC with its messages, of which some are invalid.
pub(crate) fn rpc(theirs: RpcIn, invalid: &[(RawMessage, ValidationError)]) -> Rpc {
    let mut own = Control::default();
    for action in &theirs.control_msgs {
        match action {
            ControlAction::IHave(ihave) => {
                own.ihave.push(IHave { topic: topic(&ihave.topic_hash), ids: ids(&ihave.message_ids) });
            }
            ControlAction::IWant(iwant) => own.iwant.extend(ids(&iwant.message_ids)),
            ControlAction::Graft(graft) => own.graft.push(topic(&graft.topic_hash)),
            ControlAction::Prune(it) => own.prune.push(prune(&it.topic_hash, &it.peers, it.backoff)),
            ControlAction::IDontWant(idontwant) => own.idontwant.extend(ids(&idontwant.message_ids)),
            ControlAction::Extensions(_) => {}
        }
    }
    let mut messages = theirs.messages;
    for (raw, error) in invalid {
        assert!(matches!(error, ValidationError::InvalidSignature), "no counterpart: {error}");
        messages.push(RawMessage { signature: Some(INVALID.to_vec()), ..raw.clone() });
    }
    Rpc {
        publish: messages.iter().map(|raw| Arc::new(message(raw))).collect(),
        control: (own != Control::default()).then(|| Box::new(own)),
        ..subscriptions(&theirs.subscriptions)
    }
}

/// Returns the messages that rust-libp2p would queue for a frame.
pub(crate) fn queued(frame: &RpcFrame, config: &Config) -> Vec<RpcOut> {
    let Rpc { subscriptions, publish, control, .. } = frame.rpc();
    let joined: Vec<_> = subscriptions.iter().filter(|change| change.subscribe).collect();
    let mut queued = Vec::new();
    if !joined.is_empty() {
        queued.push(RpcOut::SubscribeMany(
            joined.iter().map(|change| (hash(&change.topic), false, false)).collect(),
        ));
    }
    let left = subscriptions.iter().filter(|change| !change.subscribe);
    queued.extend(left.map(|change| RpcOut::Unsubscribe(hash(&change.topic))));
    queued.extend(publish.iter().map(|message| RpcOut::Publish {
        message_id: config.message_id(&message_of(message)),
        message: raw_of(message),
        timeout: Delay::new(Duration::from_secs(3600)),
    }));
    queued.extend(control.iter().flat_map(|control| queued_control(control)));
    queued
}

fn queued_control(control: &Control) -> Vec<RpcOut> {
    let graft = control.graft.iter().map(|topic| RpcOut::Graft(Graft { topic_hash: hash(topic) }));
    let prune = control.prune.iter().map(|prune| {
        let peer = |peer: &ExchangedPeer| PeerInfo { peer_id: PeerId::from_bytes(&peer.identity).ok() };
        RpcOut::Prune(types::Prune {
            topic_hash: hash(&prune.topic),
            peers: prune.peers.iter().map(peer).collect(),
            backoff: prune.backoff.map(|span| (span / SCALE).as_secs()),
        })
    });
    let ihave = control.ihave.iter().map(|ihave| {
        let message_ids = their_ids(&ihave.ids);
        RpcOut::IHave(types::IHave { topic_hash: hash(&ihave.topic), message_ids })
    });
    let wanted = (!control.iwant.is_empty()).then(|| IWant { message_ids: their_ids(&control.iwant) });
    let unwanted =
        (!control.idontwant.is_empty()).then(|| IDontWant { message_ids: their_ids(&control.idontwant) });
    graft
        .chain(prune)
        .chain(ihave)
        .chain(wanted.map(RpcOut::IWant))
        .chain(unwanted.map(RpcOut::IDontWant))
        .collect()
}

/// Returns the subscriptions of a peer that connects again.
pub(crate) fn subscribed<'a>(topics: impl IntoIterator<Item = &'a TopicHash>) -> Rpc {
    let change = |topic: &TopicHash| Subscription {
        action: SubscriptionAction::Subscribe,
        topic_hash: topic.clone(),
        options: Default::default(),
    };
    subscriptions(&topics.into_iter().map(change).collect::<Vec<_>>())
}
