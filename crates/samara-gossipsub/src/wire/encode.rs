//! Writing. Every function that writes has one beside it that counts, and the tests hold them equal.

use bytes::{BufMut, Bytes};
use samara_engine::protobuf::{BYTES, VARINT, put_varint, varint_len};

use super::field;
use crate::rpc::{Control, ExchangedPeer, IHave, Message, MessageId, Prune, Rpc, SubOpts, Topic};

/// All field numbers of this format are below 16, so that a tag is one byte.
const TAG: usize = 1;

/// The encoded length of an RPC without its length prefix. Allocates nothing.
pub fn encoded_len(rpc: &Rpc) -> usize {
    let subscriptions: usize = rpc.subscriptions.iter().map(|change| nested(subopts_len(change))).sum();
    let publish: usize = rpc.publish.iter().map(|message| nested(message_len(message))).sum();
    let control = rpc.control.as_ref().map_or(0, |control| nested(control_len(control)));
    subscriptions + publish + control + rpc.unknown.len()
}

/// The length of [`encode_frame`]'s output. Allocates nothing.
pub fn frame_len(rpc: &Rpc) -> usize {
    let body = encoded_len(rpc);
    varint_len(body as u64) + body
}

/// Writes an RPC with its length in front, as it goes over a stream.
pub fn encode_frame(rpc: &Rpc, out: &mut impl BufMut) {
    put_varint(out, encoded_len(rpc) as u64);
    encode(rpc, out);
}

/// Writes an RPC.
///
/// # Panics
/// If `out` is full: it needs [`encoded_len`] bytes. A `Vec` grows.
pub fn encode(rpc: &Rpc, out: &mut impl BufMut) {
    for change in &rpc.subscriptions {
        put_head(out, field::RPC_SUBSCRIPTIONS, subopts_len(change));
        put_tag(out, field::SUBOPTS_SUBSCRIBE, VARINT);
        out.put_u8(u8::from(change.subscribe));
        put_topic(out, field::SUBOPTS_TOPIC, &change.topic);
        out.put_slice(&change.unknown);
    }
    for message in &rpc.publish {
        put_head(out, field::RPC_PUBLISH, message_len(message));
        write_message(message, out);
    }
    if let Some(control) = &rpc.control {
        put_head(out, field::RPC_CONTROL, control_len(control));
        write_control(control, out);
    }
    out.put_slice(&rpc.unknown);
}

fn subopts_len(change: &SubOpts) -> usize {
    TAG + 1 + topic_len(&change.topic) + change.unknown.len()
}

pub(crate) fn message_len(message: &Message) -> usize {
    optional_len(&message.from)
        + if has_data(message) { nested(message.data.len()) } else { 0 }
        + optional_len(&message.seqno)
        + message.topic.as_ref().map_or(0, topic_len)
        + optional_len(&message.signature)
        + optional_len(&message.key)
        + message.unknown.len()
}

/// Writes the fields of a message in the order of their numbers, on which signatures rely.
pub(crate) fn write_message(message: &Message, out: &mut impl BufMut) {
    put_optional(out, field::MESSAGE_FROM, &message.from);
    if has_data(message) {
        put_bytes(out, field::MESSAGE_DATA, &message.data);
    }
    put_optional(out, field::MESSAGE_SEQNO, &message.seqno);
    if let Some(topic) = &message.topic {
        put_topic(out, field::MESSAGE_TOPIC, topic);
    }
    put_optional(out, field::MESSAGE_SIGNATURE, &message.signature);
    put_optional(out, field::MESSAGE_KEY, &message.key);
    out.put_slice(&message.unknown);
}

fn has_data(message: &Message) -> bool {
    !message.data.is_empty() || message.explicit_empty_data
}

fn control_len(control: &Control) -> usize {
    let ihave: usize = control.ihave.iter().map(|ihave| nested(ihave_len(ihave))).sum();
    let graft: usize = control.graft.iter().map(|topic| nested(topic_len(topic))).sum();
    let prune: usize = control.prune.iter().map(|prune| nested(prune_len(prune))).sum();
    let lists: usize = [&control.iwant, &control.idontwant]
        .into_iter()
        .filter(|ids| !ids.is_empty())
        .map(|ids| nested(ids_len(ids)))
        .sum();
    ihave + graft + prune + lists + optional_len(&control.extensions) + control.unknown.len()
}

fn write_control(control: &Control, out: &mut impl BufMut) {
    for ihave in &control.ihave {
        put_head(out, field::CONTROL_IHAVE, ihave_len(ihave));
        put_topic(out, field::TOPIC, &ihave.topic);
        put_ids(out, field::IHAVE_IDS, &ihave.ids);
    }
    put_id_list(out, field::CONTROL_IWANT, &control.iwant);
    for topic in &control.graft {
        put_head(out, field::CONTROL_GRAFT, topic_len(topic));
        put_topic(out, field::TOPIC, topic);
    }
    for prune in &control.prune {
        put_head(out, field::CONTROL_PRUNE, prune_len(prune));
        put_topic(out, field::TOPIC, &prune.topic);
        for peer in &prune.peers {
            put_head(out, field::PRUNE_PEERS, peer_len(peer));
            put_bytes(out, field::PEER_IDENTITY, &peer.identity);
            put_optional(out, field::PEER_RECORD, &peer.signed_record);
        }
        if let Some(backoff) = prune.backoff {
            put_tag(out, field::PRUNE_BACKOFF, VARINT);
            put_varint(out, backoff.as_secs());
        }
    }
    put_id_list(out, field::CONTROL_IDONTWANT, &control.idontwant);
    put_optional(out, field::CONTROL_EXTENSIONS, &control.extensions);
    out.put_slice(&control.unknown);
}

fn ihave_len(ihave: &IHave) -> usize {
    topic_len(&ihave.topic) + ids_len(&ihave.ids)
}

fn prune_len(prune: &Prune) -> usize {
    let peers: usize = prune.peers.iter().map(|peer| nested(peer_len(peer))).sum();
    let backoff = prune.backoff.map_or(0, |backoff| TAG + varint_len(backoff.as_secs()));
    topic_len(&prune.topic) + peers + backoff
}

fn peer_len(peer: &ExchangedPeer) -> usize {
    nested(peer.identity.len()) + optional_len(&peer.signed_record)
}

fn ids_len(ids: &[MessageId]) -> usize {
    ids.iter().map(|id| nested(id.as_bytes().len())).sum()
}

fn topic_len(topic: &Topic) -> usize {
    nested(topic.as_str().len())
}

fn optional_len(bytes: &Option<Bytes>) -> usize {
    bytes.as_ref().map_or(0, |bytes| nested(bytes.len()))
}

/// The length of a field that holds `len` bytes.
const fn nested(len: usize) -> usize {
    TAG + varint_len(len as u64) + len
}

fn put_id_list(out: &mut impl BufMut, number: u32, ids: &[MessageId]) {
    if !ids.is_empty() {
        put_head(out, number, ids_len(ids));
        put_ids(out, field::IDS, ids);
    }
}

fn put_ids(out: &mut impl BufMut, number: u32, ids: &[MessageId]) {
    for id in ids {
        put_bytes(out, number, id.as_bytes());
    }
}

fn put_topic(out: &mut impl BufMut, number: u32, topic: &Topic) {
    put_bytes(out, number, topic.as_str().as_bytes());
}

fn put_optional(out: &mut impl BufMut, number: u32, bytes: &Option<Bytes>) {
    if let Some(bytes) = bytes {
        put_bytes(out, number, bytes);
    }
}

fn put_bytes(out: &mut impl BufMut, number: u32, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.put_slice(bytes);
}

fn put_head(out: &mut impl BufMut, number: u32, len: usize) {
    put_tag(out, number, BYTES);
    put_varint(out, len as u64);
}

fn put_tag(out: &mut impl BufMut, number: u32, wire_type: u8) {
    debug_assert!(number < 16, "tags of more than one byte are counted as one");
    out.put_u8((number as u8) << 3 | wire_type);
}
