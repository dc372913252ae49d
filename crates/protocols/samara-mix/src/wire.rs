//! The wire format, version 1: protobuf, as gRPC carries it. `proto/mix.proto` is the schema.
//!
//! The codec works field by field, so that computing a length needs no copy of the frame, and a
//! frame takes only as much memory as it has bytes, whatever it contains. As in all protobuf, the
//! last occurrence of a field wins, and unknown fields are skipped.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use samara_engine::protobuf::{self, FIXED64, Reader, Writer, put_varint};
use samara_engine::{Frame, NodeRng, Shape, alter};
use thiserror::Error;

use crate::round::{Cause, Failure, Half, NodeState, Phase, Plan, Transfer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MixFrame {
    /// From any host, periodically, over all its links: a sign of life with the incarnation, which
    /// the host drew when it started.
    Hello { incarnation: u64 },
    /// From the scheduler: a new round.
    Create(Arc<Plan>),
    /// From the scheduler: the round can take its batch.
    Queued { round: u64 },
    /// From the scheduler, or from a node of the team: the round is over. `failure` has the cause
    /// if it failed.
    End { round: u64, failure: Option<Failure> },
    /// From a node to the scheduler: the state of the node.
    Status { round: u64, state: NodeState },
    /// A share of the team's key that travels around the team, starting at the seat `origin`. If
    /// `is_complete`, the whole key, sent to all other nodes, as the seat `origin` computed it.
    Share { round: u64, origin: u16, is_complete: bool, key: Bytes },
    /// From a node to the next one; results go to other nodes.
    Slots(Piece),
    /// The sender has all slots of a phase.
    Received { round: u64, phase: Phase },
    /// A ping around a team, to the holder of a seat. Nodes of the round know the next seat; the
    /// first node, which drew the number, recognizes it.
    Ping { round: u64, number: u64, seat: u16 },
    /// A ping over a link, or its answer. The sender of the ping draws the number.
    Echo { number: u64, is_answer: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub round: u64,
    /// The phase in which the receiver processes the slots.
    pub phase: Phase,
    /// The index of the first slot in the batch.
    pub first: u32,
    /// The elements, slot by slot.
    pub elements: Bytes,
    /// Salt, sender and codes, slot by slot; only for [`Phase::Decrypt`].
    pub credentials: Bytes,
}

impl Piece {
    /// Returns the bytes of its slots.
    pub(crate) const fn len(&self) -> usize {
        self.elements.len() + self.credentials.len()
    }
}

/// The field numbers of the kinds of frames in an envelope.
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

/// The name of each kind in errors, and its number of fields.
const KINDS: [(&str, u32); 11] = [
    ("envelope", 10),
    ("hello", 1),
    ("create", 8),
    ("queued", 1),
    ("end", 3),
    ("status", 2),
    ("share", 4),
    ("slots", 5),
    ("received", 2),
    ("ping", 3),
    ("echo", 2),
];

/// The fields of a frame. Zero and empty values are not written (proto3).
struct Output<'a, 'b, B>(&'a mut Writer<'b, B>);

impl<B: BufMut> Output<'_, '_, B> {
    fn number(&mut self, field: u32, value: impl Into<u64>) {
        let value = value.into();
        if value != 0 {
            self.0.number(field, value);
        }
    }

    fn fixed(&mut self, field: u8, value: u64) {
        if value != 0 {
            self.0.slice(&[field << 3 | FIXED64]);
            self.0.slice(&value.to_le_bytes());
        }
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.bytes(field, bytes);
        }
    }
}

impl MixFrame {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => kind::HELLO,
            Self::Create(_) => kind::CREATE,
            Self::Queued { .. } => kind::QUEUED,
            Self::End { .. } => kind::END,
            Self::Status { .. } => kind::STATUS,
            Self::Share { .. } => kind::SHARE,
            Self::Slots(_) => kind::SLOTS,
            Self::Received { .. } => kind::RECEIVED,
            Self::Ping { .. } => kind::PING,
            Self::Echo { .. } => kind::ECHO,
        }
    }

    fn put(&self, out: &mut Writer<'_, impl BufMut>) {
        out.message(self.kind().into(), |out| self.put_fields(&mut Output(out)));
    }

    fn put_fields(&self, out: &mut Output<'_, '_, impl BufMut>) {
        match self {
            Self::Hello { incarnation } => out.fixed(1, *incarnation),
            Self::Create(plan) => {
                let mut team = Vec::with_capacity(plan.team.len());
                plan.team.iter().for_each(|node| put_varint(&mut team, u64::from(*node)));
                out.number(1, plan.round);
                out.bytes(2, &team);
                out.number(3, plan.batch);
                out.number(4, plan.precomputation_slots);
                out.number(5, plan.realtime_slots);
                out.number(6, plan.transfer == Transfer::Unary);
                out.number(7, plan.shape.number());
                let incarnations = plan.incarnations.iter().flat_map(|one| one.to_le_bytes());
                out.bytes(8, &incarnations.collect::<Vec<u8>>());
            }
            Self::Queued { round } => out.number(1, *round),
            Self::End { round, failure } => {
                out.number(1, *round);
                // Both values are incremented, so that 0 means no failure, and no culprit.
                out.number(2, failure.map_or(0, |failure| failure.cause as u64 + 1));
                let culprit = failure.and_then(|failure| failure.culprit);
                out.number(3, culprit.map_or(0, |node| node.saturating_add(1)));
            }
            Self::Status { round, state } => {
                out.number(1, *round);
                out.number(2, *state as u64);
            }
            Self::Share { round, origin, is_complete, key } => {
                out.number(1, *round);
                out.number(2, *origin);
                out.number(3, *is_complete);
                out.bytes(4, key);
            }
            Self::Slots(piece) => {
                out.number(1, piece.round);
                out.number(2, piece.phase as u64);
                out.number(3, piece.first);
                out.bytes(4, &piece.elements);
                out.bytes(5, &piece.credentials);
            }
            Self::Received { round, phase } => {
                out.number(1, *round);
                out.number(2, *phase as u64);
            }
            Self::Ping { round, number, seat } => {
                out.number(1, *round);
                out.fixed(2, *number);
                out.number(3, *seat);
            }
            Self::Echo { number, is_answer } => {
                out.fixed(1, *number);
                out.number(2, *is_answer);
            }
        }
    }
}

impl Frame for MixFrame {
    fn encoded_len(&self) -> usize {
        Writer::<Vec<u8>>::count(|out| self.put(out))
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Slots(piece) if piece.phase.half() == Half::RealTime => piece.elements.len(),
            _ => 0,
        }
    }

    fn altered(&self, rng: &mut NodeRng) -> Option<Self> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        encode(self, &mut bytes);
        alter(&mut bytes, rng);
        decode(bytes.into(), &Limits::default()).ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("the frame has {found} bytes, but the limit is {max}")]
    TooLong { found: usize, max: usize },
    /// The bytes are not a protobuf message of this format.
    #[error("invalid frame: {0}")]
    Protobuf(#[from] protobuf::WireError),
    /// A field is missing, or its value is undefined.
    #[error("{field}: undefined value {found}")]
    Value { field: &'static str, found: u64 },
    #[error("{field}: found {found}, expected at most {max}")]
    Limit { field: &'static str, found: u64, max: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub slots_bytes: usize,
    /// Maximum bytes of a frame without slots.
    pub control_bytes: usize,
    pub team: usize,
}

impl Default for Limits {
    /// Allows a batch of 1,000 slots in one frame (unary) in the larger group, with credentials for
    /// 32 nodes.
    fn default() -> Self {
        Self { slots_bytes: 4 << 20, control_bytes: 4 << 10, team: 32 }
    }
}

/// Decodes a frame.
///
/// # Errors
/// Returns an error if it is invalid, or exceeds the limits.
pub fn decode(bytes: Bytes, limits: &Limits) -> Result<MixFrame, WireError> {
    let found = bytes.len();
    let check = |max: usize| if found > max { Err(WireError::TooLong { found, max }) } else { Ok(()) };
    check(limits.slots_bytes.max(limits.control_bytes))?;
    let mut reader = Reader::new(&bytes, KINDS[0].0);
    let mut last = None;
    while let Some(head) = reader.head()? {
        match KINDS.get(head.number() as usize) {
            // Reads each one, so that a malformed one is found even if another follows.
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

/// The fields of a frame of any kind.
#[derive(Default)]
struct Fields {
    kind: u8,
    /// Values by field number; index 0 is unused.
    numbers: [u64; 8],
    /// The fields 4 and 5, if they are bytes.
    bytes: [Bytes; 2],
    team: Vec<u32>,
    incarnations: Vec<u64>,
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
                (kind::CREATE, 8) => fields.incarnations = incarnations(&body.bytes(head, name)?)?,
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
            kind::CREATE if ![0, self.team.len()].contains(&self.incarnations.len()) => {
                let found = self.incarnations.len() as u64;
                return Err(WireError::Value { field: "create.incarnations", found });
            }
            kind::CREATE => MixFrame::Create(Arc::new(Plan {
                round,
                team: self.team,
                incarnations: self.incarnations,
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

/// Returns the value for a number; the first value has the number `from`.
fn known<T: Copy>(field: &'static str, found: u64, from: u64, all: &[T]) -> Result<T, WireError> {
    let index = found.checked_sub(from).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| all.get(index).copied()).ok_or(WireError::Value { field, found })
}

/// Returns the incarnations of a team, 8 bytes each.
fn incarnations(bytes: &[u8]) -> Result<Vec<u64>, WireError> {
    let (all, []) = bytes.as_chunks() else {
        return Err(WireError::Value { field: "create.incarnations", found: bytes.len() as u64 });
    };
    Ok(all.iter().map(|one| u64::from_le_bytes(*one)).collect())
}

fn seat(field: &'static str, found: u64) -> Result<u16, WireError> {
    u16::try_from(found).map_err(|_| WireError::Value { field, found })
}

/// Appends an encoded frame.
///
/// # Panics
/// Panics if the buffer has a fixed length that is too short for the frame. Vectors and the buffers
/// of gRPC grow.
pub fn encode(frame: &MixFrame, into: &mut impl BufMut) {
    frame.put(&mut Writer::new(into));
}
