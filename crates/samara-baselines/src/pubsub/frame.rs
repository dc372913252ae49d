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
use samara_engine::protobuf::{Reader, WireError, WireErrorKind, put_varint, varint_len};
use samara_engine::{Frame, PeerIdentity};

use crate::message::{Message, Topic};
use crate::wire::{exactly, nested, put_bytes, put_head, put_uint, skip, text, uint_len};

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
        let mut reader = Reader::new(&rpc, "rpc");
        while let Some(head) = reader.head()? {
            match head.number() {
                1 => changes.push(read_change(reader.message(head, "subscriptions")?)?),
                2 => messages.push(Self::Publish(Arc::new(read_message(reader.message(head, "publish")?)?))),
                _ => skip(&mut reader, head)?,
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

fn read_change(mut reader: Reader<'_>) -> Result<SubOpts, WireError> {
    let (mut subscribe, mut topic) = (false, None);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => subscribe = reader.number(head, "subscriptions.subscribe")? != 0,
            2 => topic = Some(text(&mut reader, head, "subscriptions.topicid")?),
            _ => skip(&mut reader, head)?,
        }
    }
    // As in go-libp2p-pubsub, an absent topic reads as the empty name.
    Ok(SubOpts { subscribe, topic: topic.unwrap_or_else(|| Topic::new("")) })
}

fn read_message(mut reader: Reader<'_>) -> Result<Message, WireError> {
    let start = reader.offset();
    let (mut from, mut data, mut seqno, mut topic) = (None, Bytes::new(), None, None);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => from = Some(reader.bytes(head, "publish.from")?),
            2 => data = reader.bytes(head, "publish.data")?,
            3 => seqno = Some(exactly::<SEQNO_LEN>(&mut reader, head, "publish.seqno", "8")?),
            4 => topic = Some(text(&mut reader, head, "publish.topic")?),
            5 => return Err(WireErrorKind::Refused.at("publish.signature", head.start())),
            6 => return Err(WireErrorKind::Refused.at("publish.key", head.start())),
            _ => skip(&mut reader, head)?,
        }
    }
    let from = from.ok_or(WireErrorKind::Missing.at("publish.from", start))?;
    let seqno = seqno.ok_or(WireErrorKind::Missing.at("publish.seqno", start))?;
    let topic = topic.ok_or(WireErrorKind::Missing.at("publish.topic", start))?;
    Ok(Message::new(PeerIdentity::new(&from), u64::from_be_bytes(seqno), topic, data))
}
