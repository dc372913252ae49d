//! The wire format, version 1: protobuf, as gRPC will carry it.
//!
//! A frame is an [`Envelope`]. Slots travel as flat bytes of a fixed length for each, so that a frame takes as much
//! memory as it has bytes, whatever is in it; the only list, of the nodes of a team, takes four times its bytes while it is read. Unknown
//! fields are skipped.

pub mod proto;

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use prost::Message;
use samara_engine::{Frame, Shape};
use thiserror::Error;

use crate::round::{Cause, Failure, Half, NodeState, Phase, Plan, Transfer};
use proto::{Body, Envelope};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MixFrame {
    /// Everybody, to everybody it has a link to, again and again: it is there, and in which life.
    Hello {
        incarnation: u64,
    },
    Create(Arc<Plan>),
    /// The scheduler: the round can take its batch.
    Queued {
        round: u64,
    },
    /// The scheduler, or a node of the team: the round is over.
    End {
        round: u64,
        failure: Option<Failure>,
    },
    /// A node, to the scheduler: how far it is.
    Status {
        round: u64,
        state: NodeState,
    },
    /// A part of the team's key on its way round, or the key, to everybody.
    Share {
        round: u64,
        /// The seat that the part began at.
        origin: u16,
        /// Whether it was everywhere: then it is the key, and the seat that of who says so.
        is_complete: bool,
        key: Bytes,
    },
    Slots(Piece),
    /// All slots of a phase have come.
    Received {
        round: u64,
        phase: Phase,
    },
    Ping {
        /// A round of the team: who knows it knows the way.
        round: u64,
        /// Drawn by the first node, which knows it again.
        number: u64,
        seat: u16,
    },
    /// A ping over a link, or the answer to one.
    Echo {
        number: u64,
        /// Which of both.
        is_answer: bool,
    },
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

impl MixFrame {
    /// The frame as prost encodes it.
    fn proto(&self) -> Envelope {
        let body = match self {
            Self::Hello { incarnation } => Body::Hello(proto::Hello { incarnation: *incarnation }),
            Self::Create(plan) => Body::Create(proto::Create {
                round: plan.round,
                team: plan.team.clone(),
                batch: plan.batch,
                precomputation_slots: plan.precomputation_slots,
                realtime_slots: plan.realtime_slots,
                unary: plan.transfer == Transfer::Unary,
                shape: Shape::ALL.iter().position(|shape| *shape == plan.shape).unwrap_or(0) as u32,
            }),
            Self::Queued { round } => Body::Queued(proto::Round { round: *round }),
            Self::End { round, failure } => Body::End(proto::End {
                round: *round,
                cause: failure.map_or(0, |failure| failure.cause.number()),
                culprit: failure.and_then(|failure| failure.culprit).map_or(0, |node| node.saturating_add(1)),
            }),
            Self::Status { round, state } => {
                Body::Status(proto::Status { round: *round, state: state.number() })
            }
            Self::Share { round, origin, is_complete, key } => Body::Share(proto::Share {
                round: *round,
                origin: (*origin).into(),
                is_complete: *is_complete,
                key: key.clone(),
            }),
            Self::Slots(piece) => Body::Slots(proto::Slots {
                round: piece.round,
                phase: piece.phase.number(),
                first: piece.first,
                elements: piece.elements.clone(),
                credentials: piece.credentials.clone(),
            }),
            Self::Received { round, phase } => {
                Body::Received(proto::Received { round: *round, phase: phase.number() })
            }
            Self::Ping { round, number, seat } => {
                Body::Ping(proto::Ping { round: *round, number: *number, seat: (*seat).into() })
            }
            Self::Echo { number, is_answer } => {
                Body::Echo(proto::Echo { number: *number, is_answer: *is_answer })
            }
        };
        Envelope { body: Some(body) }
    }

    fn from_proto(envelope: Envelope, limits: &Limits) -> Result<Self, WireError> {
        Ok(match envelope.body.ok_or(WireError::Value { field: "body", found: 0 })? {
            Body::Hello(hello) => Self::Hello { incarnation: hello.incarnation },
            Body::Create(create) => Self::Create(Arc::new(plan(create, limits)?)),
            Body::Queued(queued) => Self::Queued { round: queued.round },
            Body::End(end) => Self::End {
                round: end.round,
                failure: match (end.cause, end.culprit) {
                    (0, 0) => None,
                    (cause, culprit) => Some(Failure {
                        cause: known("end.cause", cause, Cause::from_number)?,
                        culprit: culprit.checked_sub(1),
                    }),
                },
            },
            Body::Status(status) => Self::Status {
                round: status.round,
                state: known("status.state", status.state, NodeState::from_number)?,
            },
            Body::Share(share) => Self::Share {
                round: share.round,
                origin: known("share.origin", share.origin, |seat| u16::try_from(seat).ok())?,
                is_complete: share.is_complete,
                key: share.key,
            },
            Body::Slots(slots) => Self::Slots(Piece {
                round: slots.round,
                phase: known("slots.phase", slots.phase, Phase::from_number)?,
                first: slots.first,
                elements: slots.elements,
                credentials: slots.credentials,
            }),
            Body::Received(received) => Self::Received {
                round: received.round,
                phase: known("received.phase", received.phase, Phase::from_number)?,
            },
            Body::Ping(ping) => Self::Ping {
                round: ping.round,
                number: ping.number,
                seat: known("ping.seat", ping.seat, |seat| u16::try_from(seat).ok())?,
            },
            Body::Echo(echo) => Self::Echo { number: echo.number, is_answer: echo.is_answer },
        })
    }
}

fn known<T>(field: &'static str, found: u32, read: impl Fn(u32) -> Option<T>) -> Result<T, WireError> {
    read(found).ok_or(WireError::Value { field, found: found.into() })
}

fn plan(create: proto::Create, limits: &Limits) -> Result<Plan, WireError> {
    let (found, max) = (create.team.len() as u64, limits.team as u64);
    if found > max {
        return Err(WireError::Limit { field: "create.team", found, max });
    }
    Ok(Plan {
        round: create.round,
        team: create.team,
        batch: create.batch,
        precomputation_slots: create.precomputation_slots,
        realtime_slots: create.realtime_slots,
        transfer: if create.unary { Transfer::Unary } else { Transfer::Streamed },
        shape: known("create.shape", create.shape, |shape| Shape::ALL.get(shape as usize).copied())?,
    })
}

impl Frame for MixFrame {
    fn encoded_len(&self) -> usize {
        self.proto().encoded_len()
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
    Protobuf(String),
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
    let envelope = proto::Envelope::decode(bytes).map_err(|error| WireError::Protobuf(error.to_string()))?;
    let frame = MixFrame::from_proto(envelope, limits)?;
    if !matches!(frame, MixFrame::Slots(_)) {
        check(limits.control_bytes)?;
    }
    Ok(frame)
}

/// Appends an encoded frame.
///
/// # Panics
/// If the buffer is of a fixed length that the frame does not fit into: vectors, and the buffers of gRPC, grow.
pub fn encode(frame: &MixFrame, into: &mut impl BufMut) {
    frame.proto().encode(into).expect("the buffer grows");
}
