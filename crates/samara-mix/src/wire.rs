//! The wire format, version 1: protobuf, as gRPC carries it. `proto/mix.proto` is the schema.
//!
//! Written and read field by field: a length is known without a copy of the frame, and a frame takes as much memory as it has bytes,
//! whatever is in it. As in all protobuf, the last one of several fields counts, and unknown fields are skipped.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use samara_engine::protobuf::{self, BYTES, FIXED64, Reader, VARINT, put_varint, varint_len};
use samara_engine::{Frame, Shape};
use thiserror::Error;

use crate::round::{Cause, Failure, Half, NodeState, Phase, Plan, Transfer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MixFrame {
    /// Everybody, to everybody it has a link to, again and again: it is there, and in which life (drawn when it started).
    Hello { incarnation: u64 },
    /// The scheduler: a new round.
    Create(Arc<Plan>),
    /// The scheduler: the round can take its batch.
    Queued { round: u64 },
    /// The scheduler, or a node of the team: the round is over, and why, if it failed.
    End { round: u64, failure: Option<Failure> },
    /// A node, to the scheduler: how far it is.
    Status { round: u64, state: NodeState },
    /// A part of the team's key on its way round, which began at the seat `origin`; or, complete, the key, to everybody, as the seat
    /// `origin` has it.
    Share { round: u64, origin: u16, is_complete: bool, key: Bytes },
    /// A node, to the next one, or results to others.
    Slots(Piece),
    /// All slots of a phase have come.
    Received { round: u64, phase: Phase },
    /// A ping on its way around a team, to the holder of a seat. Who knows the round knows the way; the first node, which drew the
    /// number, knows it again.
    Ping { round: u64, number: u64, seat: u16 },
    /// A ping over a link, or the answer to one. Who asks draws the number.
    Echo { number: u64, is_answer: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub round: u64,
    /// What the receiver does with them.
    pub phase: Phase,
    /// The place of the first one in the batch.
    pub first: u32,
    /// Elements, slot by slot.
    pub elements: Bytes,
    /// Salt, sender and codes, slot by slot; only for [`Phase::Decrypt`].
    pub credentials: Bytes,
}

impl Piece {
    /// Bytes of slots in it.
    pub(crate) const fn len(&self) -> usize {
        self.elements.len() + self.credentials.len()
    }
}

/// The numbers of the kinds of frames in an envelope.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const CREATE: u8 = 2;
    pub(super) const QUEUED: u8 = 3;
    pub(super) const END: u8 = 4;
    pub(super) const STATUS: u8 = 5;
    pub(super) const SHARE: u8 = 6;
    pub(super) const SLOTS: u8 = 7;
    pub(super) const RECEIVED: u8 = 8;
    pub(super) const PING: u8 = 9;
    pub(super) const ECHO: u8 = 10;
}

/// By kind: its name in errors, and how many fields it has.
const KINDS: [(&str, u32); 11] = [
    ("envelope", 10),
    ("hello", 1),
    ("create", 7),
    ("queued", 1),
    ("end", 3),
    ("status", 2),
    ("share", 4),
    ("slots", 5),
    ("received", 2),
    ("ping", 3),
    ("echo", 2),
];

/// The value of a field. What is 0 or empty is not written (proto3).
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Number(0) | Self::Fixed(0) | Self::Bytes([]) => 0,
            Self::Number(value) => 1 + varint_len(*value),
            Self::Fixed(_) => 9,
            Self::Bytes(bytes) => 1 + varint_len(bytes.len() as u64) + bytes.len(),
        }
    }

    fn put(&self, field: u8, out: &mut impl BufMut) {
        match self {
            Self::Number(0) | Self::Fixed(0) | Self::Bytes([]) => {}
            Self::Number(value) => {
                out.put_u8(field << 3 | VARINT);
                put_varint(out, *value);
            }
            Self::Fixed(value) => {
                out.put_u8(field << 3 | FIXED64);
                out.put_u64_le(*value);
            }
            Self::Bytes(bytes) => {
                out.put_u8(field << 3 | BYTES);
                put_varint(out, bytes.len() as u64);
                out.put_slice(bytes);
            }
        }
    }
}

impl MixFrame {
    /// Calls `put` with each field and its number. Returns the kind.
    fn fields(&self, mut put: impl FnMut(u8, Value<'_>)) -> u8 {
        use Value::{Fixed, Number};
        match self {
            Self::Hello { incarnation } => {
                put(1, Fixed(*incarnation));
                kind::HELLO
            }
            Self::Create(plan) => {
                let mut team = Vec::with_capacity(plan.team.len());
                plan.team.iter().for_each(|node| put_varint(&mut team, u64::from(*node)));
                put(1, Number(plan.round));
                put(2, Value::Bytes(&team));
                put(3, Number(plan.batch.into()));
                put(4, Number(plan.precomputation_slots.into()));
                put(5, Number(plan.realtime_slots.into()));
                put(6, Number((plan.transfer == Transfer::Unary).into()));
                put(7, Number(plan.shape.number().into()));
                kind::CREATE
            }
            Self::Queued { round } => {
                put(1, Number(*round));
                kind::QUEUED
            }
            Self::End { round, failure } => {
                put(1, Number(*round));
                // Both are one more, so that 0 is no failure, and nobody.
                put(2, Number(failure.map_or(0, |failure| failure.cause as u64 + 1)));
                let culprit = failure.and_then(|failure| failure.culprit);
                put(3, Number(culprit.map_or(0, |node| node.saturating_add(1)).into()));
                kind::END
            }
            Self::Status { round, state } => {
                put(1, Number(*round));
                put(2, Number(*state as u64));
                kind::STATUS
            }
            Self::Share { round, origin, is_complete, key } => {
                put(1, Number(*round));
                put(2, Number((*origin).into()));
                put(3, Number((*is_complete).into()));
                put(4, Value::Bytes(key));
                kind::SHARE
            }
            Self::Slots(piece) => {
                put(1, Number(piece.round));
                put(2, Number(piece.phase as u64));
                put(3, Number(piece.first.into()));
                put(4, Value::Bytes(&piece.elements));
                put(5, Value::Bytes(&piece.credentials));
                kind::SLOTS
            }
            Self::Received { round, phase } => {
                put(1, Number(*round));
                put(2, Number(*phase as u64));
                kind::RECEIVED
            }
            Self::Ping { round, number, seat } => {
                put(1, Number(*round));
                put(2, Fixed(*number));
                put(3, Number((*seat).into()));
                kind::PING
            }
            Self::Echo { number, is_answer } => {
                put(1, Fixed(*number));
                put(2, Number((*is_answer).into()));
                kind::ECHO
            }
        }
    }

    /// The kind, and the length of all fields.
    fn measure(&self) -> (u8, usize) {
        let mut len = 0;
        let kind = self.fields(|_, value| len += value.len());
        (kind, len)
    }
}

impl Frame for MixFrame {
    fn encoded_len(&self) -> usize {
        let (_, len) = self.measure();
        1 + varint_len(len as u64) + len
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Slots(piece) if piece.phase.half() == Half::RealTime => piece.elements.len(),
            _ => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("{found} bytes, at most {max} are allowed")]
    TooLong { found: usize, max: usize },
    /// It is not the protobuf of the format.
    #[error("not a frame: {0}")]
    Protobuf(#[from] protobuf::WireError),
    /// A field is missing, or stands for nothing.
    #[error("{field}: {found} is not possible")]
    Value { field: &'static str, found: u64 },
    #[error("{field}: {found} found, at most {max} allowed")]
    Limit { field: &'static str, found: u64, max: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub slots_bytes: usize,
    /// Bytes of any other frame.
    pub control_bytes: usize,
    pub team: usize,
}

impl Default for Limits {
    /// A batch of 1,000 slots in one frame (unary) in the larger group, with credentials for 32 nodes.
    fn default() -> Self {
        Self { slots_bytes: 4 << 20, control_bytes: 4 << 10, team: 32 }
    }
}

/// Reads a frame.
///
/// # Errors
/// It is not one, or more than the limits allow.
pub fn decode(bytes: Bytes, limits: &Limits) -> Result<MixFrame, WireError> {
    let found = bytes.len();
    let check = |max: usize| if found > max { Err(WireError::TooLong { found, max }) } else { Ok(()) };
    check(limits.slots_bytes.max(limits.control_bytes))?;
    let mut reader = Reader::new(&bytes, KINDS[0].0);
    let mut last = None;
    while let Some(head) = reader.head()? {
        match KINDS.get(head.number() as usize) {
            // Each is read, so that a malformed one is found even if another follows.
            Some((name, _)) => {
                let body = reader.message(head, name)?;
                last = Some(Fields::read(head.number() as u8, body, limits)?.frame()?);
            }
            None => _ = reader.skip(head)?,
        }
    }
    let frame = last.ok_or(WireError::Value { field: "body", found: 0 })?;
    if !matches!(frame, MixFrame::Slots(_)) {
        check(limits.control_bytes)?;
    }
    Ok(frame)
}

/// What is in a frame of some kind.
#[derive(Default)]
struct Fields {
    kind: u8,
    /// By number; the first one stands for none.
    numbers: [u64; 8],
    /// The fields 4 and 5, where these are bytes.
    bytes: [Bytes; 2],
    team: Vec<u32>,
}

impl Fields {
    fn read(kind: u8, mut body: Reader<'_>, limits: &Limits) -> Result<Self, WireError> {
        let (name, count) = KINDS[usize::from(kind)];
        let mut fields = Self { kind, ..Self::default() };
        while let Some(head) = body.head()? {
            match (kind, head.number()) {
                (_, number) if number > count => _ = body.skip(head)?,
                (kind::CREATE, 2) if head.is_varint() => {
                    let node = body.number(head, name)?;
                    fields.add(node, limits)?;
                }
                (kind::CREATE, 2) => {
                    let mut list = body.message(head, name)?;
                    while let Some(node) = list.packed()? {
                        fields.add(node, limits)?;
                    }
                }
                (kind::SHARE | kind::SLOTS, number @ (4 | 5)) => {
                    fields.bytes[number as usize - 4] = body.bytes(head, name)?;
                }
                (kind::HELLO | kind::ECHO, number @ 1) | (kind::PING, number @ 2) => {
                    fields.numbers[number as usize] = body.fixed64(head, name)?;
                }
                (_, number) => fields.numbers[number as usize] = body.number(head, name)?,
            }
        }
        Ok(fields)
    }

    fn add(&mut self, node: u64, limits: &Limits) -> Result<(), WireError> {
        let (found, max) = (self.team.len() as u64 + 1, limits.team as u64);
        if found > max {
            return Err(WireError::Limit { field: "create.team", found, max });
        }
        self.team.push(node as u32);
        Ok(())
    }

    fn frame(self) -> Result<MixFrame, WireError> {
        let [_, one, two, three, four, five, six, seven] = self.numbers;
        let [elements, credentials] = self.bytes;
        let round = one;
        Ok(match self.kind {
            kind::HELLO => MixFrame::Hello { incarnation: one },
            kind::CREATE => MixFrame::Create(Arc::new(Plan {
                round,
                team: self.team,
                batch: three as u32,
                precomputation_slots: four as u32,
                realtime_slots: five as u32,
                transfer: if six == 0 { Transfer::Streamed } else { Transfer::Unary },
                shape: known("create.shape", seven, 0, &Shape::ALL)?,
            })),
            kind::QUEUED => MixFrame::Queued { round },
            kind::END if (two, three) == (0, 0) => MixFrame::End { round, failure: None },
            kind::END => {
                let cause = known("end.cause", two, 1, &Cause::ALL)?;
                let culprit = (three as u32).checked_sub(1);
                MixFrame::End { round, failure: Some(Failure { cause, culprit }) }
            }
            kind::STATUS => {
                MixFrame::Status { round, state: known("status.state", two, 0, &NodeState::ALL)? }
            }
            kind::SHARE => {
                let origin = seat("share.origin", two)?;
                MixFrame::Share { round, origin, is_complete: three != 0, key: elements }
            }
            kind::SLOTS => {
                let phase = known("slots.phase", two, 0, &Phase::ALL)?;
                MixFrame::Slots(Piece { round, phase, first: three as u32, elements, credentials })
            }
            kind::RECEIVED => {
                MixFrame::Received { round, phase: known("received.phase", two, 0, &Phase::ALL)? }
            }
            kind::PING => MixFrame::Ping { round, number: two, seat: seat("ping.seat", three)? },
            kind::ECHO => MixFrame::Echo { number: one, is_answer: two != 0 },
            found => return Err(WireError::Value { field: "body", found: found.into() }),
        })
    }
}

/// The value that a number stands for; the first one has the number `from`.
fn known<T: Copy>(field: &'static str, found: u64, from: u64, all: &[T]) -> Result<T, WireError> {
    let index = found.checked_sub(from).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| all.get(index).copied()).ok_or(WireError::Value { field, found })
}

fn seat(field: &'static str, found: u64) -> Result<u16, WireError> {
    u16::try_from(found).map_err(|_| WireError::Value { field, found })
}

/// Appends an encoded frame.
///
/// # Panics
/// If the buffer is of a fixed length that the frame does not fit into: vectors, and the buffers of gRPC, grow.
pub fn encode(frame: &MixFrame, into: &mut impl BufMut) {
    let (kind, len) = frame.measure();
    into.put_u8(kind << 3 | BYTES);
    put_varint(into, len as u64);
    frame.fields(|field, value| value.put(field, into));
}
