//! What Plumtree nodes say to each other. The paper leaves the encoding open; this one is protobuf (proto3):
//!
//! ```text
//! message Frame  { string topic = 1; oneof kind { Gossip gossip = 2; IHave ihave = 3; Graft graft = 4; Prune prune = 5; } }
//! message Gossip { bytes author = 1; fixed64 seqno = 2; bytes data = 3; optional uint32 round = 4; }
//! message IHave  { bytes ids = 1; repeated uint32 rounds = 2; }   // 16 bytes an id, one after another; as many rounds
//! message Graft  { bytes id = 1; optional uint32 round = 2; }     // without id: a change of the tree only
//! message Prune  { }
//! ```
//!
//! with its length as a varint in front. The topic is in every frame, as in other protocols of this kind (32 bytes in
//! iroh-gossip), so that trees of several topics could share a link.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use samara_engine::protobuf::{Reader, WireError, WireErrorKind, put_varint, varint_len};
use samara_engine::{Frame, PeerIdentity};

use crate::message::{Message, MessageId, Topic};
use crate::wire::{
    exactly, nested, put_bytes, put_fixed64, put_head, put_uint, skip, text, uint_len, uint32,
};

/// Tag and value of a `fixed64`.
const FIXED64_LEN: usize = 9;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlumtreeFrame {
    /// A message in full (GOSSIP).
    Gossip {
        /// The message.
        message: Arc<Message>,
        /// How many links it had travelled before this one.
        round: u32,
    },
    /// Messages that the sender has (IHAVE).
    IHave(Arc<IHave>),
    /// The sender wants to get messages in full (GRAFT).
    Graft(Arc<Graft>),
    /// The sender wants to get announcements only (PRUNE).
    Prune(Topic),
}

/// Announced messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IHave {
    /// The topic.
    pub topic: Topic,
    /// Each with the round that a copy of it would have.
    pub messages: Vec<(MessageId, u32)>,
}

/// A change of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graft {
    /// The topic.
    pub topic: Topic,
    /// The message that is missing, if any.
    pub id: Option<MessageId>,
    /// The round that it was announced with.
    pub round: u32,
}

impl Frame for PlumtreeFrame {
    fn encoded_len(&self) -> usize {
        let body = self.body_len();
        varint_len(body as u64) + body
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Gossip { message, .. } => message.data().len(),
            _ => 0,
        }
    }
}

impl PlumtreeFrame {
    /// The topic that it is about.
    pub fn topic(&self) -> &Topic {
        match self {
            Self::Gossip { message, .. } => message.topic(),
            Self::IHave(ihave) => &ihave.topic,
            Self::Graft(graft) => &graft.topic,
            Self::Prune(topic) => topic,
        }
    }

    fn body_len(&self) -> usize {
        nested(self.topic().as_str().len()) + nested(self.kind_len())
    }

    fn kind_len(&self) -> usize {
        match self {
            Self::Gossip { message, round } => {
                nested(message.author().as_bytes().len())
                    + if message.seqno() == 0 { 0 } else { FIXED64_LEN }
                    + bytes_len(message.data().len())
                    + uint_len(u64::from(*round))
            }
            Self::IHave(ihave) => {
                bytes_len(ihave.messages.len() * MessageId::LEN) + bytes_len(rounds_len(ihave))
            }
            Self::Graft(graft) => {
                graft.id.map_or(0, |_| nested(MessageId::LEN)) + uint_len(u64::from(graft.round))
            }
            Self::Prune(_) => 0,
        }
    }

    /// Appends the frame with its length in front.
    ///
    /// # Panics
    /// If `out` is full: it needs [`encoded_len`](Frame::encoded_len) bytes. A `Vec` grows.
    pub fn encode(&self, out: &mut impl BufMut) {
        put_varint(out, self.body_len() as u64);
        put_bytes(out, 1, self.topic().as_str().as_bytes());
        let number = match self {
            Self::Gossip { .. } => 2,
            Self::IHave(_) => 3,
            Self::Graft(_) => 4,
            Self::Prune(_) => 5,
        };
        put_head(out, number, self.kind_len());
        match self {
            Self::Gossip { message, round } => {
                put_bytes(out, 1, message.author().as_bytes());
                if message.seqno() != 0 {
                    put_fixed64(out, 2, message.seqno());
                }
                if !message.data().is_empty() {
                    put_bytes(out, 3, message.data());
                }
                put_uint(out, 4, u64::from(*round));
            }
            Self::IHave(ihave) if ihave.messages.is_empty() => {}
            Self::IHave(ihave) => {
                put_head(out, 1, ihave.messages.len() * MessageId::LEN);
                ihave.messages.iter().for_each(|(id, _)| out.put_slice(&id.to_bytes()));
                put_head(out, 2, rounds_len(ihave));
                ihave.messages.iter().for_each(|(_, round)| put_varint(out, u64::from(*round)));
            }
            Self::Graft(graft) => {
                if let Some(id) = graft.id {
                    put_bytes(out, 1, &id.to_bytes());
                }
                put_uint(out, 2, u64::from(graft.round));
            }
            Self::Prune(_) => {}
        }
    }

    /// Reads a frame without its length prefix. Unknown fields are skipped.
    ///
    /// # Errors
    /// The frame is malformed.
    pub fn decode(frame: Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(&frame, "frame");
        let (mut topic, mut kind) = (None, None);
        while let Some(head) = reader.head()? {
            match head.number() {
                1 => topic = Some(text(&mut reader, head, "topic")?),
                2 => kind = Some((2, reader.message(head, "gossip")?)),
                3 => kind = Some((3, reader.message(head, "ihave")?)),
                4 => kind = Some((4, reader.message(head, "graft")?)),
                5 => kind = Some((5, reader.message(head, "prune")?)),
                _ => skip(&mut reader, head)?,
            }
        }
        let topic = topic.ok_or(WireErrorKind::Missing.at("topic", frame.len()))?;
        let (number, body) = kind.ok_or(WireErrorKind::Missing.at("kind", frame.len()))?;
        match number {
            2 => read_gossip(topic, body),
            3 => read_ihave(topic, body),
            4 => read_graft(topic, body),
            _ => Ok(Self::Prune(topic)),
        }
    }
}

/// The length of a field of bytes that is left out if it is empty (proto3).
fn bytes_len(len: usize) -> usize {
    if len == 0 { 0 } else { nested(len) }
}

fn rounds_len(ihave: &IHave) -> usize {
    ihave.messages.iter().map(|(_, round)| varint_len(u64::from(*round))).sum()
}

fn read_gossip(topic: Topic, mut reader: Reader<'_>) -> Result<PlumtreeFrame, WireError> {
    let (mut author, mut seqno, mut data, mut round) = (Bytes::new(), 0, Bytes::new(), 0);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => author = reader.bytes(head, "gossip.author")?,
            2 => seqno = reader.fixed64(head, "gossip.seqno")?,
            3 => data = reader.bytes(head, "gossip.data")?,
            4 => round = uint32(reader.number(head, "gossip.round")?, "gossip.round", head.start())?,
            _ => skip(&mut reader, head)?,
        }
    }
    let message = Arc::new(Message::new(PeerIdentity::new(&author), seqno, topic, data));
    Ok(PlumtreeFrame::Gossip { message, round })
}

fn read_ihave(topic: Topic, mut reader: Reader<'_>) -> Result<PlumtreeFrame, WireError> {
    let start = reader.offset();
    let (mut ids, mut rounds) = (Bytes::new(), None);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => ids = reader.bytes(head, "ihave.ids")?,
            2 => rounds = Some(reader.message(head, "ihave.rounds")?),
            _ => skip(&mut reader, head)?,
        }
    }
    let (whole, rest) = ids.as_chunks::<{ MessageId::LEN }>();
    if !rest.is_empty() {
        let kind = WireErrorKind::Length { found: ids.len(), expected: "a multiple of 16" };
        return Err(kind.at("ihave.ids", start));
    }
    let mut messages = Vec::with_capacity(whole.len());
    for id in whole {
        let at = rounds.as_ref().map_or(start, Reader::offset);
        let found = rounds.as_mut().map(Reader::packed).transpose()?.flatten();
        let found = found.ok_or(WireErrorKind::Missing.at("ihave.rounds", at))?;
        messages.push((MessageId::from_bytes(*id), uint32(found, "ihave.rounds", at)?));
    }
    Ok(PlumtreeFrame::IHave(Arc::new(IHave { topic, messages })))
}

fn read_graft(topic: Topic, mut reader: Reader<'_>) -> Result<PlumtreeFrame, WireError> {
    let (mut id, mut round) = (None, 0);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => id = Some(MessageId::from_bytes(exactly(&mut reader, head, "graft.id", "16")?)),
            2 => round = uint32(reader.number(head, "graft.round")?, "graft.round", head.start())?,
            _ => skip(&mut reader, head)?,
        }
    }
    Ok(PlumtreeFrame::Graft(Arc::new(Graft { topic, id, round })))
}
