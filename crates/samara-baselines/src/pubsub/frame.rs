//! The RPC of libp2p's pubsub (specs `pubsub/README.md`, "The RPC"; `pb/rpc.proto` in go-libp2p-pubsub):
//!
//! ```text
//! message RPC     { repeated SubOpts subscriptions = 1; repeated Message publish = 2; }
//! message SubOpts { optional bool subscribe = 1; optional string topicid = 2; }
//! message Message { optional bytes from = 1; optional bytes data = 2; optional bytes seqno = 3; optional string topic = 4;
//!                   optional bytes signature = 5; optional bytes key = 6; }
//! ```
//!
//! with its length as a varint in front. Unsigned only: what is signed is refused, since a relay that drops signatures
//! would be taken for a forger.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use samara_engine::{Frame, PeerIdentity};

use crate::message::{Message, Topic};
use crate::wire::{
    Reader, Value, WireError, WireErrorKind, nested, put_bytes, put_head, put_uint, put_varint, uint_len,
    varint_len,
};

/// A sequence number takes 8 bytes (specs `pubsub/README.md`, "The Message").
const SEQNO_LEN: usize = 8;

/// What nodes say to each other: a message, or changes of subscriptions. (An RPC that is read and has more in it becomes
/// several of these.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcFrame {
    /// A published message.
    Publish(Arc<Message>),
    /// Topics joined and left.
    Subscriptions(Arc<[SubOpts]>),
}

/// A change of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubOpts {
    /// Joined or left.
    pub subscribe: bool,
    /// Which topic.
    pub topic: Topic,
}

impl Frame for RpcFrame {
    fn encoded_len(&self) -> usize {
        let body = self.body_len();
        varint_len(body as u64) + body
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Publish(message) => message.data().len(),
            Self::Subscriptions(_) => 0,
        }
    }
}

impl RpcFrame {
    /// Appends the frame with its length in front.
    ///
    /// # Panics
    /// If `out` is full: it needs [`encoded_len`](Frame::encoded_len) bytes. A `Vec` grows.
    pub fn encode(&self, out: &mut impl BufMut) {
        put_varint(out, self.body_len() as u64);
        match self {
            Self::Publish(message) => {
                put_head(out, 2, message_len(message));
                put_bytes(out, 1, message.author().as_bytes());
                if !message.data().is_empty() {
                    put_bytes(out, 2, message.data());
                }
                put_bytes(out, 3, &message.seqno().to_be_bytes());
                put_bytes(out, 4, message.topic().as_str().as_bytes());
            }
            Self::Subscriptions(changes) => {
                for change in &changes[..] {
                    put_head(out, 1, change_len(change));
                    put_uint(out, 1, u64::from(change.subscribe));
                    put_bytes(out, 2, change.topic.as_str().as_bytes());
                }
            }
        }
    }

    /// Reads an RPC without its length prefix: its subscriptions first, as go-libp2p-pubsub handles them, then its messages.
    /// Control messages and unknown fields are skipped: floodsub knows none.
    ///
    /// # Errors
    /// The RPC is malformed, or has a message that is anonymous or signed.
    pub fn decode(rpc: Bytes) -> Result<Vec<Self>, WireError> {
        let (mut changes, mut messages) = (Vec::new(), Vec::new());
        let mut reader = Reader::new("rpc", rpc);
        while let Some(field) = reader.next()? {
            match field.number {
                1 => changes.push(read_change(field.value.bytes("subscriptions")?)?),
                2 => messages.push(Self::Publish(Arc::new(read_message(field.value.bytes("publish")?)?))),
                _ => {}
            }
        }
        if !changes.is_empty() {
            messages.insert(0, Self::Subscriptions(changes.into()));
        }
        Ok(messages)
    }

    fn body_len(&self) -> usize {
        match self {
            Self::Publish(message) => nested(message_len(message)),
            Self::Subscriptions(changes) => changes.iter().map(|change| nested(change_len(change))).sum(),
        }
    }
}

fn message_len(message: &Message) -> usize {
    let data = message.data().len();
    nested(message.author().as_bytes().len())
        + if data > 0 { nested(data) } else { 0 }
        + nested(SEQNO_LEN)
        + nested(message.topic().as_str().len())
}

fn change_len(change: &SubOpts) -> usize {
    uint_len(u64::from(change.subscribe)) + nested(change.topic.as_str().len())
}

fn read_change(bytes: Bytes) -> Result<SubOpts, WireError> {
    let mut reader = Reader::new("subscriptions", bytes);
    let (mut subscribe, mut topic) = (false, None);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => subscribe = field.value.varint("subscriptions.subscribe")? != 0,
            2 => topic = Some(field.value.text("subscriptions.topicid")?),
            _ => {}
        }
    }
    // As in go-libp2p-pubsub, an absent topic reads as the empty name.
    Ok(SubOpts { subscribe, topic: topic.unwrap_or_else(|| Topic::new("")) })
}

fn read_message(bytes: Bytes) -> Result<Message, WireError> {
    let mut reader = Reader::new("publish", bytes);
    let (mut from, mut data, mut seqno, mut topic) = (None, Bytes::new(), None, None);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => from = Some(field.value.bytes("publish.from")?),
            2 => data = field.value.bytes("publish.data")?,
            3 => seqno = Some(read_seqno(field.value)?),
            4 => topic = Some(field.value.text("publish.topic")?),
            5 => return Err(WireErrorKind::Unsupported.at("publish.signature")),
            6 => return Err(WireErrorKind::Unsupported.at("publish.key")),
            _ => {}
        }
    }
    let from = from.ok_or(WireErrorKind::Missing.at("publish.from"))?;
    let seqno = seqno.ok_or(WireErrorKind::Missing.at("publish.seqno"))?;
    let topic = topic.ok_or(WireErrorKind::Missing.at("publish.topic"))?;
    Ok(Message::new(PeerIdentity::new(&from), seqno, topic, data))
}

fn read_seqno(value: Value) -> Result<u64, WireError> {
    let bytes = value.bytes("publish.seqno")?;
    let number: Result<[u8; SEQNO_LEN], _> = bytes[..].try_into();
    let wrong = WireErrorKind::Length { found: bytes.len(), expected: "8" };
    number.map(u64::from_be_bytes).map_err(|_| wrong.at("publish.seqno"))
}
