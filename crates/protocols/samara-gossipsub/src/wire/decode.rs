//! The decoder of RPCs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use samara_engine::protobuf::{Head, Reader, WireError, WireErrorKind};

use super::Limits;
use super::field;
use crate::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, SubOpts, Topic,
};

/// Reads an RPC without its length prefix. Payloads and other byte fields are slices of `frame`.
/// Ids and topics are copied, and so are messages that are less than half of the frame: a node that
/// keeps such a message does not keep the frame.
///
/// # Errors
/// The first violation found. Nothing is partially read.
pub fn decode(frame: Bytes, limits: &Limits) -> Result<Rpc, WireError> {
    if frame.len() > limits.frame_bytes {
        let (found, max) = (frame.len() as u64, limits.frame_bytes);
        let kind = WireErrorKind::Limit { limit: "frame_bytes", found, max };
        return Err(kind.at("rpc", 0));
    }
    let mut decoder = Decoder { frame: &frame, limits, ids: 0, unknown: 0 };
    decoder.rpc()
}

/// Returns true if the extensions of a peer contain that for partial messages.
pub fn announces_partial(extensions: &Bytes) -> bool {
    let mut reader = Reader::new(extensions, "control.extensions");
    let mut announced = false;
    while let Ok(Some(head)) = reader.head() {
        if head.number() == field::EXTENSION_PARTIAL {
            announced =
                reader.number(head, "control.extensions.partialMessages").is_ok_and(|value| value != 0);
        } else if reader.skip(head).is_err() {
            break;
        }
    }
    announced
}

/// The decoder of a frame, with its usage of the limits that apply to the whole frame.
struct Decoder<'a> {
    frame: &'a Bytes,
    limits: &'a Limits,
    ids: usize,
    unknown: usize,
}

/// Unknown fields of one message. They are not copied as long as they are contiguous.
#[derive(Default)]
struct Unknown {
    first: Range<usize>,
    joined: BytesMut,
}

impl Unknown {
    fn add(&mut self, frame: &Bytes, range: Range<usize>) {
        if !self.joined.is_empty() {
            self.joined.extend_from_slice(&frame[range]);
        } else if self.first.is_empty() {
            self.first = range;
        } else if self.first.end == range.start {
            self.first.end = range.end;
        } else {
            self.joined.extend_from_slice(&frame[self.first.clone()]);
            self.joined.extend_from_slice(&frame[range]);
        }
    }

    fn finish(self, frame: &Bytes) -> Bytes {
        if self.joined.is_empty() { frame.slice(self.first) } else { self.joined.freeze() }
    }
}

/// The fields of all control messages of a frame that are kept as bytes.
#[derive(Default)]
struct OfControl {
    unknown: Unknown,
    extensions: Option<Unknown>,
}

impl<'a> Decoder<'a> {
    fn rpc(&mut self) -> Result<Rpc, WireError> {
        let mut rpc = Rpc::default();
        let (mut unknown, mut of_control) = (Unknown::default(), OfControl::default());
        let mut reader = Reader::new(self.frame, "rpc");
        while let Some(head) = reader.head()? {
            match head.number() {
                field::RPC_SUBSCRIPTIONS => {
                    let inner = reader.message(head, "subscriptions")?;
                    self.room(&inner, rpc.subscriptions.len(), "subscriptions", self.limits.subscriptions)?;
                    rpc.subscriptions.push(self.subopts(inner)?);
                }
                field::RPC_PUBLISH => {
                    let inner = reader.message(head, "publish")?;
                    self.room(&inner, rpc.publish.len(), "messages", self.limits.messages)?;
                    rpc.publish.push(Arc::new(self.message(inner)?));
                }
                field::RPC_CONTROL => {
                    let inner = reader.message(head, "control")?;
                    let control = rpc.control.get_or_insert_default();
                    self.control(inner, control, &mut of_control)?;
                }
                field::RPC_PARTIAL => {
                    let inner = reader.message(head, "partial")?;
                    self.partial(inner, rpc.partial.get_or_insert_default())?;
                }
                _ => self.keep(&mut reader, head, &mut unknown)?,
            }
        }
        rpc.unknown = unknown.finish(self.frame);
        if let Some(control) = &mut rpc.control {
            control.unknown = of_control.unknown.finish(self.frame);
            control.extensions = of_control.extensions.map(|fields| fields.finish(self.frame));
        }
        Ok(rpc)
    }

    fn subopts(&mut self, mut reader: Reader<'a>) -> Result<SubOpts, WireError> {
        let (mut subscribe, mut topic, mut unknown) = (false, None, Unknown::default());
        let (mut requests, mut supports) = (false, false);
        while let Some(head) = reader.head()? {
            match head.number() {
                field::SUBOPTS_SUBSCRIBE => {
                    subscribe = reader.number(head, "subscriptions.subscribe")? != 0;
                }
                field::SUBOPTS_TOPIC => {
                    topic = Some(self.topic(&mut reader, head, "subscriptions.topicid")?);
                }
                field::SUBOPTS_REQUESTS_PARTIAL => {
                    requests = reader.number(head, "subscriptions.requestsPartial")? != 0;
                }
                field::SUBOPTS_SUPPORTS_PARTIAL => {
                    supports = reader.number(head, "subscriptions.supportsSendingPartial")? != 0;
                }
                _ => self.keep(&mut reader, head, &mut unknown)?,
            }
        }
        let partial = match (requests, supports) {
            (true, _) => PartialMode::Requests,
            (false, true) => PartialMode::Supports,
            (false, false) => PartialMode::None,
        };
        let (topic, unknown) = (topic.unwrap_or_default(), unknown.finish(self.frame));
        Ok(SubOpts { subscribe, topic, partial, unknown })
    }

    /// Reads parts of a message. The body is a slice of the frame; group and metadata, which nodes
    /// remember, are copies.
    fn partial(&mut self, mut reader: Reader<'a>, partial: &mut Partial) -> Result<(), WireError> {
        let (group_max, metadata_max) = (self.limits.group_bytes, self.limits.metadata_bytes);
        while let Some(head) = reader.head()? {
            match head.number() {
                field::PARTIAL_TOPIC => partial.topic = self.topic(&mut reader, head, "partial.topicID")?,
                field::PARTIAL_GROUP => {
                    let group = reader.short(head, "partial.groupID", "group_bytes", group_max)?;
                    partial.group = Bytes::copy_from_slice(group);
                }
                field::PARTIAL_BODY => {
                    partial.body = Some(reader.bytes(head, "partial.partialMessage")?);
                }
                field::PARTIAL_METADATA => {
                    let path = "partial.partsMetadata";
                    let metadata = reader.short(head, path, "metadata_bytes", metadata_max)?;
                    partial.metadata = Some(Bytes::copy_from_slice(metadata));
                }
                _ => _ = reader.skip(head)?,
            }
        }
        Ok(())
    }

    fn message(&mut self, mut reader: Reader<'a>) -> Result<Message, WireError> {
        let (mut message, mut unknown) = (Message::default(), Unknown::default());
        while let Some(head) = reader.head()? {
            match head.number() {
                field::MESSAGE_FROM => message.from = Some(reader.bytes(head, "publish.from")?),
                field::MESSAGE_DATA => {
                    message.data = reader.bytes(head, "publish.data")?;
                    message.explicit_empty_data = message.data.is_empty();
                }
                field::MESSAGE_SEQNO => message.seqno = Some(reader.bytes(head, "publish.seqno")?),
                field::MESSAGE_TOPIC => {
                    message.topic = Some(self.topic(&mut reader, head, "publish.topic")?);
                }
                field::MESSAGE_SIGNATURE => {
                    message.signature = Some(reader.bytes(head, "publish.signature")?);
                }
                field::MESSAGE_KEY => message.key = Some(reader.bytes(head, "publish.key")?),
                _ => self.keep(&mut reader, head, &mut unknown)?,
            }
        }
        message.unknown = unknown.finish(self.frame);
        if message.bytes() < self.frame.len() / 2 {
            message.detach();
        }
        Ok(message)
    }

    fn control(
        &mut self,
        mut reader: Reader<'a>,
        control: &mut Control,
        of_control: &mut OfControl,
    ) -> Result<(), WireError> {
        let limits = self.limits;
        while let Some(head) = reader.head()? {
            match head.number() {
                field::CONTROL_IHAVE => {
                    let inner = reader.message(head, "control.ihave")?;
                    self.room(&inner, control.ihave.len(), "ihaves", limits.ihaves)?;
                    control.ihave.push(self.ihave(inner)?);
                }
                field::CONTROL_IWANT => {
                    let inner = reader.message(head, "control.iwant")?;
                    let (path, max) = ("control.iwant.messageIDs", limits.iwant_ids);
                    self.id_list(inner, path, "iwant_ids", max, &mut control.iwant)?;
                }
                field::CONTROL_GRAFT => {
                    let inner = reader.message(head, "control.graft")?;
                    self.room(&inner, control.graft.len(), "grafts", limits.grafts)?;
                    control.graft.push(self.graft(inner)?);
                }
                field::CONTROL_PRUNE => {
                    let inner = reader.message(head, "control.prune")?;
                    self.room(&inner, control.prune.len(), "prunes", limits.prunes)?;
                    control.prune.push(self.prune(inner)?);
                }
                field::CONTROL_IDONTWANT => {
                    let inner = reader.message(head, "control.idontwant")?;
                    let (path, max) = ("control.idontwant.messageIDs", limits.idontwant_ids);
                    self.id_list(inner, path, "idontwant_ids", max, &mut control.idontwant)?;
                }
                field::CONTROL_EXTENSIONS => {
                    // Repeated occurrences of a field form one message, as everywhere in protobuf.
                    let fields = of_control.extensions.get_or_insert_default();
                    self.extensions(&mut reader, head, fields)?;
                }
                _ => self.keep(&mut reader, head, &mut of_control.unknown)?,
            }
        }
        Ok(())
    }

    /// Reads the extensions, which must be well-formed fields although none of them is known.
    fn extensions(
        &mut self,
        reader: &mut Reader<'a>,
        head: Head,
        fields: &mut Unknown,
    ) -> Result<(), WireError> {
        let mut inner = reader.message(head, "control.extensions")?;
        while let Some(head) = inner.head()? {
            self.keep(&mut inner, head, fields)?;
        }
        Ok(())
    }

    fn ihave(&mut self, mut reader: Reader<'a>) -> Result<IHave, WireError> {
        let (mut topic, mut ids) = (None, Vec::new());
        while let Some(head) = reader.head()? {
            match head.number() {
                field::TOPIC => topic = Some(self.topic(&mut reader, head, "control.ihave.topicID")?),
                field::IHAVE_IDS => {
                    self.room(&reader, ids.len(), "ids_per_ihave", self.limits.ids_per_ihave)?;
                    ids.push(self.id(&mut reader, head, "control.ihave.messageIDs")?);
                }
                _ => _ = reader.skip(head)?,
            }
        }
        Ok(IHave { topic: topic.unwrap_or_default(), ids })
    }

    fn id_list(
        &mut self,
        mut reader: Reader<'a>,
        path: &'static str,
        limit: &'static str,
        max: usize,
        ids: &mut Vec<MessageId>,
    ) -> Result<(), WireError> {
        while let Some(head) = reader.head()? {
            if head.number() == field::IDS {
                self.room(&reader, ids.len(), limit, max)?;
                ids.push(self.id(&mut reader, head, path)?);
            } else {
                reader.skip(head)?;
            }
        }
        Ok(())
    }

    fn graft(&mut self, mut reader: Reader<'a>) -> Result<Topic, WireError> {
        let mut topic = None;
        while let Some(head) = reader.head()? {
            match head.number() {
                field::TOPIC => topic = Some(self.topic(&mut reader, head, "control.graft.topicID")?),
                _ => _ = reader.skip(head)?,
            }
        }
        Ok(topic.unwrap_or_default())
    }

    fn prune(&mut self, mut reader: Reader<'a>) -> Result<Prune, WireError> {
        let (mut topic, mut peers, mut backoff) = (None, Vec::new(), None);
        while let Some(head) = reader.head()? {
            match head.number() {
                field::TOPIC => topic = Some(self.topic(&mut reader, head, "control.prune.topicID")?),
                field::PRUNE_PEERS => {
                    let inner = reader.message(head, "control.prune.peers")?;
                    self.room(&inner, peers.len(), "peers_per_prune", self.limits.peers_per_prune)?;
                    peers.push(exchanged_peer(inner)?);
                }
                field::PRUNE_BACKOFF => {
                    backoff = Some(Duration::from_secs(reader.number(head, "control.prune.backoff")?));
                }
                _ => _ = reader.skip(head)?,
            }
        }
        Ok(Prune { topic: topic.unwrap_or_default(), peers, backoff })
    }

    fn topic(&self, reader: &mut Reader<'a>, head: Head, path: &'static str) -> Result<Topic, WireError> {
        let name = reader.short(head, path, "topic_bytes", self.limits.topic_bytes)?;
        match std::str::from_utf8(name) {
            Ok(name) => Ok(Topic::new(name)),
            Err(_) => Err(WireErrorKind::NotUtf8.at(path, reader.offset())),
        }
    }

    fn id(
        &mut self,
        reader: &mut Reader<'a>,
        head: Head,
        path: &'static str,
    ) -> Result<MessageId, WireError> {
        self.room(reader, self.ids, "ids", self.limits.ids)?;
        self.ids += 1;
        reader.short(head, path, "id_bytes", self.limits.id_bytes).map(MessageId::new)
    }

    fn keep(&mut self, reader: &mut Reader<'a>, head: Head, unknown: &mut Unknown) -> Result<(), WireError> {
        let range = reader.skip(head)?;
        self.unknown += range.len();
        if self.unknown > self.limits.unknown_bytes {
            let (found, max) = (self.unknown as u64, self.limits.unknown_bytes);
            let kind = WireErrorKind::Limit { limit: "unknown_bytes", found, max };
            return Err(kind.at(reader.path(), range.start));
        }
        unknown.add(self.frame, range);
        Ok(())
    }

    /// Returns an error if there are `have` entries already and no more are allowed.
    fn room(
        &self,
        reader: &Reader<'a>,
        have: usize,
        limit: &'static str,
        max: usize,
    ) -> Result<(), WireError> {
        if have < max {
            return Ok(());
        }
        let kind = WireErrorKind::Limit { limit, found: have as u64 + 1, max };
        Err(kind.at(reader.path(), reader.offset()))
    }
}

fn exchanged_peer(mut reader: Reader<'_>) -> Result<ExchangedPeer, WireError> {
    let (mut identity, mut signed_record) = (Bytes::new(), None);
    while let Some(head) = reader.head()? {
        match head.number() {
            field::PEER_IDENTITY => identity = reader.bytes(head, "control.prune.peers.peerID")?,
            field::PEER_RECORD => {
                signed_record = Some(reader.bytes(head, "control.prune.peers.signedPeerRecord")?);
            }
            _ => _ = reader.skip(head)?,
        }
    }
    Ok(ExchangedPeer { identity, signed_record })
}
