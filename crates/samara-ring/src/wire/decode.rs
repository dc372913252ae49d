//! Reading frames.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::PeerIdentity;

use super::error::{WireError, WireErrorKind};
use super::frame::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, RingFrame, State, Unit};
use super::reader::Reader;
use super::{FRAME_UNITS_MAX, VERSION, flag, kind};
use crate::Member;
use samara_engine::Shape;

/// How much a frame may hold. Beyond, it is refused before memory is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members of a view.
    pub members: usize,
    /// Bytes of the name of a node.
    pub identity_bytes: usize,
    /// Units of a frame.
    pub units: usize,
    /// Bytes of a unit, or of an early message.
    pub unit_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { members: 1_024, identity_bytes: 128, units: FRAME_UNITS_MAX, unit_bytes: 4 << 20 }
    }
}

/// Reads a frame.
///
/// # Errors
/// What is wrong with it.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<RingFrame, WireError> {
    let mut reader = Reader::new(frame);
    let frame = read(&mut reader, limits, true)?;
    reader.finish()?;
    Ok(frame)
}

/// Reads a frame; one between leaders holds no other such one.
fn read(reader: &mut Reader<'_>, limits: &Limits, is_outer: bool) -> Result<RingFrame, WireError> {
    let version = reader.byte("version")?;
    if version != VERSION {
        return Err(reader.error("version", WireErrorKind::Unknown { found: version.into() }));
    }
    let r = reader;
    Ok(match r.byte("kind")? {
        kind::HEARTBEAT => RingFrame::Heartbeat(Arc::new(heartbeat(r, limits)?)),
        kind::DATA => RingFrame::Data(Arc::new(data(r, limits)?)),
        kind::CREDIT => RingFrame::Credit { view: r.view("credit.view")?, bytes: r.varint("credit.bytes")? },
        kind::PREPARE => RingFrame::Prepare(Arc::new(prepare(r, limits)?)),
        kind::STATE => RingFrame::State(Arc::new(State {
            proposal: r.view("state.proposal")?,
            view: r.optional("state.view")?,
            ready: r.optional("state.ready")?,
            have: r.numbers(limits.members, "state.have")?,
        })),
        kind::NACK => {
            RingFrame::Nack { proposal: r.view("nack.proposal")?, promised: r.view("nack.promised")? }
        }
        kind::RESUME => RingFrame::Resume(Arc::new(Resume {
            view: r.view("resume.view")?,
            proposal: r.optional("resume.proposal")?,
            have: r.numbers(limits.members, "resume.have")?,
        })),
        kind::CUT => RingFrame::Cut(Arc::new(cut(r, limits)?)),
        kind::READY => RingFrame::Ready { proposal: r.view("ready.proposal")? },
        kind::INSTALL => RingFrame::Install { proposal: r.view("install.proposal")? },
        kind::EARLY => RingFrame::Early(r.bytes(limits.unit_bytes, "early.bytes")?),
        kind::HELLO if is_outer => RingFrame::Hello(Arc::new(hello(r, limits)?)),
        kind::BRIDGE if is_outer => RingFrame::Bridge(Arc::new(read(r, limits, false)?)),
        other => return Err(r.error("kind", WireErrorKind::Unknown { found: other.into() })),
    })
}

fn hello(r: &mut Reader<'_>, limits: &Limits) -> Result<Hello, WireError> {
    let (group, site, leads) = (r.fixed("hello.group")?, r.short("hello.site")?, r.flag("hello.leads")?);
    let leader = if r.flag("hello.leader")? {
        Some(PeerIdentity::new(&r.bytes(limits.identity_bytes, "hello.leader")?))
    } else {
        None
    };
    Ok(Hello { group, site, leads, leader })
}

fn heartbeat(r: &mut Reader<'_>, limits: &Limits) -> Result<Heartbeat, WireError> {
    let (group, incarnation) = (r.fixed("heartbeat.group")?, r.fixed("heartbeat.incarnation")?);
    let leader = r.bytes(limits.identity_bytes, "heartbeat.leader")?;
    let (view, members) = (r.optional("heartbeat.view")?, r.short("heartbeat.members")?);
    let (promised, leaving) = (r.optional("heartbeat.promised")?, r.flag("heartbeat.leaving")?);
    let count = r.count(limits.members, 1, "heartbeat.suspects")?;
    let suspects = (0..count).map(|_| r.short("heartbeat.suspects")).collect::<Result<_, _>>()?;
    Ok(Heartbeat {
        group,
        incarnation,
        leader: (!leader.is_empty()).then(|| PeerIdentity::new(&leader)),
        view,
        members,
        promised,
        leaving,
        suspects,
        progress: r.varint("heartbeat.progress")?,
        sent: r.varint("heartbeat.sent")?,
        echo: r.varint("heartbeat.echo")?,
        held: r.varint("heartbeat.held")?,
    })
}

fn data(r: &mut Reader<'_>, limits: &Limits) -> Result<Data, WireError> {
    let view = r.view("data.view")?;
    // Origin, hops, flags, sequence and the length of the content.
    let count = r.count(limits.units, 5, "data.units")?;
    let units = (0..count).map(|_| unit(r, limits)).collect::<Result<_, _>>()?;
    let count = r.count(limits.members, 3, "data.acks")?;
    let acks = (0..count).map(|_| {
        let origin = r.short("ack.origin")?;
        Ok(Ack { origin, reached: r.varint("ack.reached")?, stable: r.varint("ack.stable")? })
    });
    Ok(Data::new(view, units, acks.collect::<Result<_, WireError>>()?))
}

fn unit(r: &mut Reader<'_>, limits: &Limits) -> Result<Unit, WireError> {
    let (origin, hops, flags) = (r.short("unit.origin")?, r.short("unit.hops")?, r.byte("unit.flags")?);
    if flags > (flag::FIRST | flag::LAST | flag::STAMP) {
        return Err(r.error("unit.flags", WireErrorKind::Unknown { found: flags.into() }));
    }
    let sequence = r.varint("unit.sequence")?;
    let stamp = if flags & flag::STAMP != 0 { r.varint("unit.stamp")? } else { 0 };
    if flags & flag::STAMP != 0 && stamp == 0 {
        return Err(r.error("unit.stamp", WireErrorKind::Unknown { found: 0 }));
    }
    let bytes = r.bytes(limits.unit_bytes, "unit.bytes")?;
    let (first, last) = (flags & flag::FIRST != 0, flags & flag::LAST != 0);
    Ok(Unit { origin, sequence, hops, stamp, first, last, bytes })
}

fn members(r: &mut Reader<'_>, limits: &Limits, path: &'static str) -> Result<Vec<Member>, WireError> {
    let count = r.count(limits.members, 9, path)?;
    let member = |_| {
        let identity = PeerIdentity::new(&r.bytes(limits.identity_bytes, path)?);
        Ok(Member { identity, incarnation: r.fixed(path)? })
    };
    (0..count).map(member).collect()
}

fn prepare(r: &mut Reader<'_>, limits: &Limits) -> Result<Prepare, WireError> {
    let proposal = r.view("prepare.proposal")?;
    let members_of = members(r, limits, "prepare.members")?;
    let departing = members(r, limits, "prepare.departing")?;
    let number = r.byte("prepare.shape")?;
    let unknown = WireErrorKind::Unknown { found: number.into() };
    let shape = Shape::from_number(number).ok_or_else(|| r.error("prepare.shape", unknown))?;
    Ok(Prepare { proposal, members: members_of, departing, shape })
}

fn cut(r: &mut Reader<'_>, limits: &Limits) -> Result<Cut, WireError> {
    let proposal = r.view("cut.proposal")?;
    let count = r.count(limits.members, 11, "cut.views")?;
    let view = |_| {
        let (view, last) = (r.view("cut.view")?, r.numbers(limits.members, "cut.last")?);
        let count = r.count(limits.members, 1, "cut.staying")?;
        let staying = (0..count).map(|_| r.short("cut.staying")).collect::<Result<_, _>>()?;
        Ok(OldView { view, last, staying })
    };
    Ok(Cut { proposal, views: (0..count).map(view).collect::<Result<_, WireError>>()? })
}
