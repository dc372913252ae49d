//! Converts the events of the protocol to those of a trace.

use libp2p::PeerId;
use samara_gossipsub::rpc::{Control, Message, MessageId, RpcFrame, Topic};
use samara_gossipsub::signature::SignatureError;
use samara_gossipsub::{Config, Ignored, Trace};
use samara_libp2p::{Event, LinkEvent};
use samara_trace::{
    AddPeer, Body, ControlGraftMeta, ControlIDontWantMeta, ControlIHaveMeta, ControlIWantMeta, ControlMeta,
    ControlPruneMeta, DeliverMessage, DropRpc, DuplicateMessage, Graft, Join, Leave, MessageMeta, Prune,
    PublishMessage, RecvRpc, RejectMessage, RemovePeer, RpcMeta, SendRpc, SubMeta, TraceEvent, TraceWriter,
    reason,
};

use samara_trace::unix_ns;

#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) writer: TraceWriter,
    me: Vec<u8>,
    config: Config,
}

impl Tracer {
    pub(crate) fn new(writer: TraceWriter, me: &PeerId, config: Config) -> Self {
        Self { writer, me: me.to_bytes(), config }
    }

    /// Records an own message, before its delivery.
    pub(crate) fn published(&self, id: &MessageId, topic: &Topic) {
        let body = PublishMessage { message_id: bytes(id), topic: name(topic) };
        self.record(Body::PublishMessage(body));
    }

    pub(crate) fn event(&self, event: &Event) {
        if let Some(body) = self.body(event) {
            self.record(body);
        }
    }

    fn record(&self, body: Body) {
        let at = i64::try_from(unix_ns()).unwrap_or(i64::MAX);
        // The writer counts what it drops.
        self.writer.record(TraceEvent::new(&self.me, at, body));
    }

    fn body(&self, event: &Event) -> Option<Body> {
        Some(match event {
            Event::Message { id, topic, from, .. } => Body::DeliverMessage(DeliverMessage {
                message_id: bytes(id),
                topic: name(topic),
                received_from: Some(from.map_or_else(|| self.me.clone(), |peer| peer.to_bytes())),
            }),
            Event::Link(LinkEvent::Up { peer, protocol }) => {
                Body::AddPeer(AddPeer { peer_id: peer_id(peer), proto: Some(protocol.to_string()) })
            }
            Event::Link(LinkEvent::Down { peer, .. }) => {
                Body::RemovePeer(RemovePeer { peer_id: peer_id(peer) })
            }
            Event::Link(LinkEvent::FrameReceived { peer, frame }) => {
                Body::RecvRpc(RecvRpc { received_from: peer_id(peer), meta: Some(self.meta(frame)) })
            }
            Event::Link(LinkEvent::FrameSent { peer, frame }) => {
                Body::SendRpc(SendRpc { send_to: peer_id(peer), meta: Some(self.meta(frame)) })
            }
            Event::Trace { trace, peer } => self.change(trace, peer.map(|peer| peer.to_bytes())),
            _ => return None,
        })
    }

    fn change(&self, trace: &Trace, peer: Option<Vec<u8>>) -> Body {
        match trace {
            Trace::Joined(topic) => Body::Join(Join { topic: name(topic) }),
            Trace::Left(topic) => Body::Leave(Leave { topic: name(topic) }),
            Trace::Grafted { topic, .. } => Body::Graft(Graft { peer_id: peer, topic: name(topic) }),
            Trace::Pruned { topic, .. } => Body::Prune(Prune { peer_id: peer, topic: name(topic) }),
            Trace::Dropped { id, topic, cause, signature, .. } => Body::RejectMessage(RejectMessage {
                message_id: bytes(id),
                received_from: peer,
                reason: Some(reason_of(*cause, *signature).to_owned()),
                topic: name(topic),
            }),
            Trace::Duplicate { id, topic, .. } => Body::DuplicateMessage(DuplicateMessage {
                message_id: bytes(id),
                received_from: peer,
                topic: name(topic),
            }),
            Trace::Lost { frame, .. } => {
                Body::DropRpc(DropRpc { send_to: peer, meta: frame.as_ref().map(|frame| self.meta(frame)) })
            }
        }
    }

    fn meta(&self, frame: &RpcFrame) -> RpcMeta {
        let rpc = frame.rpc();
        let subscription = rpc.subscriptions.iter();
        RpcMeta {
            messages: rpc.publish.iter().map(|message| self.message(message)).collect(),
            subscription: subscription
                .map(|change| SubMeta { subscribe: Some(change.subscribe), topic: name(&change.topic) })
                .collect(),
            control: rpc.control.as_deref().map(control),
        }
    }

    fn message(&self, message: &Message) -> MessageMeta {
        let of_topic = message.topic.as_ref().map(|topic| self.config.message_id_of(topic));
        let id = of_topic.unwrap_or(&self.config.message_id).id(message);
        MessageMeta { message_id: bytes(&id), topic: message.topic.as_ref().and_then(name) }
    }
}

/// Converts control messages. The ids of all IWANT of an RPC are in one list here, and so are those
/// of all IDONTWANT.
fn control(control: &Control) -> ControlMeta {
    let ids = |ids: &[MessageId]| ids.iter().map(|id| id.as_bytes().to_vec()).collect::<Vec<_>>();
    let iwant = (!control.iwant.is_empty()).then(|| ControlIWantMeta { message_ids: ids(&control.iwant) });
    let idontwant = (!control.idontwant.is_empty())
        .then(|| ControlIDontWantMeta { message_ids: ids(&control.idontwant) });
    let ihave = control.ihave.iter();
    let prune = control.prune.iter();
    ControlMeta {
        ihave: ihave
            .map(|ihave| ControlIHaveMeta { topic: name(&ihave.topic), message_ids: ids(&ihave.ids) })
            .collect(),
        iwant: iwant.into_iter().collect(),
        graft: control.graft.iter().map(|topic| ControlGraftMeta { topic: name(topic) }).collect(),
        prune: prune
            .map(|prune| ControlPruneMeta {
                topic: name(&prune.topic),
                peers: prune.peers.iter().map(|peer| peer.identity.to_vec()).collect(),
            })
            .collect(),
        idontwant: idontwant.into_iter().collect(),
    }
}

/// Returns the reason, in the words of go-libp2p-pubsub where it has one.
fn reason_of(cause: Ignored, signature: Option<SignatureError>) -> &'static str {
    match (cause, signature) {
        (_, Some(SignatureError::MissingSignature)) => reason::MISSING_SIGNATURE,
        (_, Some(SignatureError::UnexpectedSignature)) => reason::UNEXPECTED_SIGNATURE,
        (_, Some(SignatureError::UnexpectedAuthor)) => reason::UNEXPECTED_AUTH_INFO,
        (_, Some(_)) => reason::INVALID_SIGNATURE,
        (Ignored::MessageFromSelf, _) => reason::SELF_ORIGIN,
        (Ignored::ValidationThrottled, _) => reason::VALIDATION_THROTTLED,
        (Ignored::MessageRejected, _) => reason::VALIDATION_FAILED,
        (Ignored::MessageIgnored, _) => reason::VALIDATION_IGNORED,
        (other, _) => other.name(),
    }
}

fn bytes(id: &MessageId) -> Option<Vec<u8>> {
    Some(id.as_bytes().to_vec())
}

fn name(topic: &Topic) -> Option<String> {
    Some(topic.as_str().to_owned())
}

fn peer_id(peer: &PeerId) -> Option<Vec<u8>> {
    Some(peer.to_bytes())
}
