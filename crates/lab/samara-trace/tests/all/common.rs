//! Paths of files, and one event of every kind with every field.

use std::path::{Path, PathBuf};

use samara_trace::{
    AddPeer, Body, ControlGraftMeta, ControlIDontWantMeta, ControlIHaveMeta, ControlIWantMeta, ControlMeta,
    ControlPruneMeta, DeliverMessage, DropRpc, DuplicateMessage, Format, Graft, Join, Leave, MessageMeta,
    Prune, PublishMessage, RecvRpc, RejectMessage, RemovePeer, RpcMeta, SendRpc, SendRpcCompleted, SubMeta,
    TraceEvent, TraceOptions, WhenFull, reason,
};

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn options(format: Format, queue: usize, when_full: WhenFull) -> TraceOptions {
    TraceOptions { format, queue, when_full, ..TraceOptions::default() }
}

fn meta() -> Option<RpcMeta> {
    let topic = Some("columns/<1>&2".to_owned());
    let ids = || vec![vec![0xfb, 0xff], vec![1; 20]];
    Some(RpcMeta {
        messages: vec![MessageMeta { message_id: Some(vec![7; 20]), topic: topic.clone() }],
        subscription: vec![
            SubMeta { subscribe: Some(true), topic: topic.clone() },
            SubMeta { subscribe: Some(false), topic: topic.clone() },
        ],
        control: Some(ControlMeta {
            ihave: vec![ControlIHaveMeta { topic: topic.clone(), message_ids: ids() }],
            iwant: vec![ControlIWantMeta { message_ids: ids() }],
            graft: vec![ControlGraftMeta { topic: topic.clone() }],
            prune: vec![ControlPruneMeta { topic, peers: ids() }],
            idontwant: vec![ControlIDontWantMeta { message_ids: ids() }],
        }),
    })
}

/// Fourteen events, in the order of their types.
pub(crate) fn all() -> Vec<TraceEvent> {
    let topic = Some("columns/<1>&2".to_owned());
    let message_id = Some(vec![7; 20]);
    let peer = Some(b"\0\x24another".to_vec());
    let bodies = [
        Body::PublishMessage(PublishMessage { message_id: message_id.clone(), topic: topic.clone() }),
        Body::RejectMessage(RejectMessage {
            message_id: message_id.clone(),
            received_from: peer.clone(),
            reason: Some(reason::INVALID_SIGNATURE.to_owned()),
            topic: topic.clone(),
        }),
        Body::DuplicateMessage(DuplicateMessage {
            message_id: message_id.clone(),
            received_from: peer.clone(),
            topic: topic.clone(),
        }),
        Body::DeliverMessage(DeliverMessage {
            message_id,
            topic: topic.clone(),
            received_from: peer.clone(),
        }),
        Body::AddPeer(AddPeer { peer_id: peer.clone(), proto: Some("/meshsub/1.2.0".to_owned()) }),
        Body::RemovePeer(RemovePeer { peer_id: peer.clone() }),
        Body::RecvRpc(RecvRpc { received_from: peer.clone(), meta: meta() }),
        Body::SendRpc(SendRpc { send_to: peer.clone(), meta: meta() }),
        Body::DropRpc(DropRpc { send_to: peer.clone(), meta: meta() }),
        Body::Join(Join { topic: topic.clone() }),
        Body::Leave(Leave { topic: topic.clone() }),
        Body::Graft(Graft { peer_id: peer.clone(), topic: topic.clone() }),
        Body::Prune(Prune { peer_id: peer.clone(), topic }),
        Body::SendRpcCompleted(SendRpcCompleted { send_to: peer, meta: meta(), write_nanos: Some(5_160) }),
    ];
    let event = |(at, body)| TraceEvent::new(b"\0\x24this node", 1_700_000_000_123_456_789 + at, body);
    (0_i64..).zip(bodies).map(event).collect()
}
