//! The numbers of the fields of RPCs, their encoder, which can also count the bytes, and their
//! decoder; and frames on a stream.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use samara_engine::protobuf::{Head, Reader, WireError, WireErrorKind, Writer, put_varint, varint_len};

use super::Limits;
use crate::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, SubOpts, Topic,
};

/// Field numbers (specification, `rpc.proto`).
mod field {
    pub(super) const RPC_SUBSCRIPTIONS: u32 = 1;
    pub(super) const RPC_PUBLISH: u32 = 2;
    pub(super) const RPC_CONTROL: u32 = 3;
    pub(super) const RPC_PARTIAL: u32 = 10;
    pub(super) const SUBOPTS_SUBSCRIBE: u32 = 1;
    pub(super) const SUBOPTS_TOPIC: u32 = 2;
    pub(super) const SUBOPTS_REQUESTS_PARTIAL: u32 = 3;
    pub(super) const SUBOPTS_SUPPORTS_PARTIAL: u32 = 4;
    pub(super) const PARTIAL_TOPIC: u32 = 1;
    pub(super) const PARTIAL_GROUP: u32 = 2;
    pub(super) const PARTIAL_BODY: u32 = 3;
    pub(super) const PARTIAL_METADATA: u32 = 4;
    pub(super) const EXTENSION_PARTIAL: u32 = 10;
    pub(super) const MESSAGE_FROM: u32 = 1;
    pub(super) const MESSAGE_DATA: u32 = 2;
    pub(super) const MESSAGE_SEQNO: u32 = 3;
    pub(super) const MESSAGE_TOPIC: u32 = 4;
    pub(super) const MESSAGE_SIGNATURE: u32 = 5;
    pub(super) const MESSAGE_KEY: u32 = 6;
    pub(super) const CONTROL_IHAVE: u32 = 1;
    pub(super) const CONTROL_IWANT: u32 = 2;
    pub(super) const CONTROL_GRAFT: u32 = 3;
    pub(super) const CONTROL_PRUNE: u32 = 4;
    pub(super) const CONTROL_IDONTWANT: u32 = 5;
    pub(super) const CONTROL_EXTENSIONS: u32 = 6;
    /// The topic of IHAVE, GRAFT and PRUNE.
    pub(super) const TOPIC: u32 = 1;
    pub(super) const IHAVE_IDS: u32 = 2;
    /// The ids of IWANT and IDONTWANT.
    pub(super) const IDS: u32 = 1;
    pub(super) const PRUNE_PEERS: u32 = 2;
    pub(super) const PRUNE_BACKOFF: u32 = 3;
    pub(super) const PEER_IDENTITY: u32 = 1;
    pub(super) const PEER_RECORD: u32 = 2;
}

// ---- the encoder ----

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

// ---- the decoder ----

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

// ---- frames on a stream ----

/// Cuts a stream of bytes into frames.
///
/// A length beyond the maximum is rejected as soon as it is read, before any byte of the frame is
/// stored. Memory grows with the received bytes (to at most four times their number), not with the
/// announced length. After an error the stream yields no more frames: every call repeats the error,
/// and the connection should be closed.
#[derive(Debug)]
pub struct FrameDecoder {
    frame_bytes_max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Prefix { value: u64, read: usize },
    Body { len: usize, have: BytesMut },
    Failed(WireError),
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream, for frames of at most `frame_bytes_max` bytes
    /// (see [`Limits`]).
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, state: State::Prefix { value: 0, read: 0 } }
    }

    /// Takes bytes from `input` until a frame is complete. Returns `None` if it took all of `input`
    /// and needs more; call it until then.
    ///
    /// A frame that lies entirely in a [`Bytes`] shares its memory. A frame in a slice is copied,
    /// so that a message that is kept does not keep other bytes of the same read.
    ///
    /// # Errors
    /// A length beyond the maximum, or one that does not end. Every later call returns the same
    /// error.
    pub fn next(&mut self, input: &mut impl Buf) -> Result<Option<Bytes>, WireError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(*error),
                State::Prefix { value, read } => {
                    if !input.has_remaining() {
                        return Ok(None);
                    }
                    let byte = input.get_u8();
                    let (bits, shift) = (u64::from(byte & 0x7f), 7 * *read);
                    if *read == 9 && byte > 1 {
                        return self.fail(9, WireErrorKind::VarintTooLong);
                    }
                    *value |= bits << shift;
                    *read += 1;
                    let (value, read) = (*value, *read);
                    let max = self.frame_bytes_max;
                    // Further bytes only set bits, so a length can be rejected before it ends.
                    if value > max as u64 {
                        return self
                            .fail(read, WireErrorKind::Limit { limit: "frame_bytes", found: value, max });
                    }
                    if byte & 0x80 == 0 {
                        self.state = State::Body { len: value as usize, have: BytesMut::new() };
                    }
                }
                State::Body { len, have } => {
                    let missing = *len - have.len();
                    if have.is_empty() && input.remaining() >= missing {
                        self.state = State::Prefix { value: 0, read: 0 };
                        return Ok(Some(input.copy_to_bytes(missing)));
                    }
                    have.put(input.take(missing));
                    // A peer that has sent a quarter will probably send the rest. Large frames move
                    // at most twice.
                    if have.len() >= *len / 4 {
                        have.reserve(*len - have.len());
                    }
                    if have.len() < *len {
                        return Ok(None);
                    }
                    let frame = std::mem::take(have).freeze();
                    self.state = State::Prefix { value: 0, read: 0 };
                    return Ok(Some(frame));
                }
            }
        }
    }

    /// Returns true if the stream may end here, between frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Prefix { read: 0, .. })
    }

    /// Returns the announced length of the unfinished frame, once it is known.
    pub fn expected_len(&self) -> Option<usize> {
        match &self.state {
            State::Body { len, .. } => Some(*len),
            State::Prefix { .. } | State::Failed(_) => None,
        }
    }

    /// Returns the number of bytes of the unfinished frame that have arrived.
    pub fn unfinished_bytes(&self) -> usize {
        match &self.state {
            State::Body { have, .. } => have.len(),
            State::Prefix { read, .. } => *read,
            State::Failed(_) => 0,
        }
    }

    fn fail(&mut self, offset: usize, kind: WireErrorKind) -> Result<Option<Bytes>, WireError> {
        let error = WireError { path: "frame length", offset, kind };
        self.state = State::Failed(error);
        Err(error)
    }
}
