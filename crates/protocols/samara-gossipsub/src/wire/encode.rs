//! The encoder of RPCs, which can also count the encoded bytes.

use bytes::{BufMut, Bytes, BytesMut};
use samara_engine::protobuf::{Writer, put_varint, varint_len};

use super::field;
use crate::rpc::{Control, Message, MessageId, PartialMode, Rpc, Topic};

/// Returns the encoded length of an RPC without its length prefix. Allocates nothing.
pub fn encoded_len(rpc: &Rpc) -> usize {
    Writer::<Vec<u8>>::count(|out| put_rpc(out, rpc))
}

/// Returns the length of [`encode_frame`]'s output. Allocates nothing.
pub fn frame_len(rpc: &Rpc) -> usize {
    let body = encoded_len(rpc);
    varint_len(body as u64) + body
}

/// Writes an RPC with a length prefix, as sent over a stream.
pub fn encode_frame(rpc: &Rpc, out: &mut impl BufMut) {
    put_varint(out, encoded_len(rpc) as u64);
    encode(rpc, out);
}

/// Writes an RPC.
///
/// # Panics
/// If `out` is full: it needs [`encoded_len`] bytes. A `Vec` grows.
pub fn encode(rpc: &Rpc, out: &mut impl BufMut) {
    put_rpc(&mut Writer::new(out), rpc);
}

fn put_rpc(out: &mut Writer<'_, impl BufMut>, rpc: &Rpc) {
    for change in &rpc.subscriptions {
        out.message(field::RPC_SUBSCRIPTIONS, |out| {
            out.number(field::SUBOPTS_SUBSCRIBE, change.subscribe.into());
            put_topic(out, field::SUBOPTS_TOPIC, &change.topic);
            if change.partial == PartialMode::Requests {
                out.number(field::SUBOPTS_REQUESTS_PARTIAL, 1);
            }
            if change.partial >= PartialMode::Supports {
                out.number(field::SUBOPTS_SUPPORTS_PARTIAL, 1);
            }
            out.slice(&change.unknown);
        });
    }
    for message in &rpc.publish {
        out.message(field::RPC_PUBLISH, |out| put_message(out, message, true));
    }
    if let Some(control) = &rpc.control {
        out.message(field::RPC_CONTROL, |out| put_control(out, control));
    }
    if let Some(partial) = &rpc.partial {
        out.message(field::RPC_PARTIAL, |out| {
            put_topic(out, field::PARTIAL_TOPIC, &partial.topic);
            out.bytes(field::PARTIAL_GROUP, &partial.group);
            put_optional(out, field::PARTIAL_BODY, &partial.body);
            put_optional(out, field::PARTIAL_METADATA, &partial.metadata);
        });
    }
    out.slice(&rpc.unknown);
}

/// Returns the fields of `ControlExtensions`.
pub(crate) fn put_extensions(partial_messages: bool) -> Bytes {
    let mut fields = BytesMut::new();
    if partial_messages {
        Writer::new(&mut fields).number(field::EXTENSION_PARTIAL, 1);
    }
    fields.freeze()
}

/// Writes the fields of a message in the order of their numbers, on which signatures rely.
/// Signatures cover all fields except signature and key.
pub(crate) fn put_message(out: &mut Writer<'_, impl BufMut>, message: &Message, with_signature: bool) {
    put_optional(out, field::MESSAGE_FROM, &message.from);
    if !message.data.is_empty() || message.explicit_empty_data {
        out.bytes(field::MESSAGE_DATA, &message.data);
    }
    put_optional(out, field::MESSAGE_SEQNO, &message.seqno);
    if let Some(topic) = &message.topic {
        put_topic(out, field::MESSAGE_TOPIC, topic);
    }
    if with_signature {
        put_optional(out, field::MESSAGE_SIGNATURE, &message.signature);
        put_optional(out, field::MESSAGE_KEY, &message.key);
    }
    out.slice(&message.unknown);
}

fn put_control(out: &mut Writer<'_, impl BufMut>, control: &Control) {
    for ihave in &control.ihave {
        out.message(field::CONTROL_IHAVE, |out| {
            put_topic(out, field::TOPIC, &ihave.topic);
            put_ids(out, field::IHAVE_IDS, &ihave.ids);
        });
    }
    put_id_list(out, field::CONTROL_IWANT, &control.iwant);
    for topic in &control.graft {
        out.message(field::CONTROL_GRAFT, |out| put_topic(out, field::TOPIC, topic));
    }
    for prune in &control.prune {
        out.message(field::CONTROL_PRUNE, |out| {
            put_topic(out, field::TOPIC, &prune.topic);
            for peer in &prune.peers {
                out.message(field::PRUNE_PEERS, |out| {
                    out.bytes(field::PEER_IDENTITY, &peer.identity);
                    put_optional(out, field::PEER_RECORD, &peer.signed_record);
                });
            }
            if let Some(backoff) = prune.backoff {
                out.number(field::PRUNE_BACKOFF, backoff.as_secs());
            }
        });
    }
    put_id_list(out, field::CONTROL_IDONTWANT, &control.idontwant);
    put_optional(out, field::CONTROL_EXTENSIONS, &control.extensions);
    out.slice(&control.unknown);
}

fn put_id_list(out: &mut Writer<'_, impl BufMut>, number: u32, ids: &[MessageId]) {
    if !ids.is_empty() {
        out.message(number, |out| put_ids(out, field::IDS, ids));
    }
}

fn put_ids(out: &mut Writer<'_, impl BufMut>, number: u32, ids: &[MessageId]) {
    ids.iter().for_each(|id| out.bytes(number, id.as_bytes()));
}

fn put_topic(out: &mut Writer<'_, impl BufMut>, number: u32, topic: &Topic) {
    out.bytes(number, topic.as_str().as_bytes());
}

fn put_optional(out: &mut Writer<'_, impl BufMut>, number: u32, bytes: &Option<Bytes>) {
    if let Some(bytes) = bytes {
        out.bytes(number, bytes);
    }
}
