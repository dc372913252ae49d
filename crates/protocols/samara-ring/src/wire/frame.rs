//! The frames that members exchange.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Frame, NodeRng, PeerIdentity, Shape, alter};

use super::codec::{Count, Field, Limits, Reader, Sink, layout};
use super::{VERSION, WireError, flag, kind};
use crate::{Member, ViewId};

/// Memory overhead of a unit. Windows and limits include it, so that they bound empty messages as
/// well.
pub(crate) const UNIT_OVERHEAD: u64 = 64;

/// A frame on a link between two nodes. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingFrame {
    /// A sign of life with the state of the sender, sent directly to every connected node.
    Heartbeat(Arc<Heartbeat>),
    /// Messages and acknowledgements, sent along the shape of the view.
    Data(Arc<Data>),
    /// The amount of [`Data`] of this view that came over this link, counted since the view was
    /// installed or the link came up, whichever was later: bytes of content, plus 64 for each frame
    /// and unit and 24 for each acknowledgement.
    Credit {
        view: ViewId,
        bytes: u64,
    },
    Prepare(Arc<Prepare>),
    /// The answer to [`Prepare`]: the units of its view that the sender has.
    State(Arc<State>),
    /// The sender has promised a higher proposal.
    Nack {
        proposal: ViewId,
        promised: ViewId,
    },
    /// The units that the sender has, as a request for the following ones.
    Resume(Arc<Resume>),
    /// The ends of the old views.
    Cut(Arc<Cut>),
    /// The sender has everything up to the cut.
    Ready {
        proposal: ViewId,
    },
    /// All participants are ready: the proposal is now the view.
    Install {
        proposal: ViewId,
    },
    /// A message of a node that has no view yet, sent directly to every connected node.
    Early(Bytes),
    /// The sender's site in a federation, sent directly when a link comes up and when it changes.
    Hello(Arc<Hello>),
    /// A frame between leaders of sites. It never contains another `Bridge` or a `Hello`.
    Bridge(Arc<RingFrame>),
}

/// The position of a node in a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The group of the bridge. Nodes with another group are ignored.
    pub group: u64,
    pub site: u16,
    /// True if the sender leads the site.
    pub leads: bool,
    /// The leader of the site, as far as the sender knows.
    pub leader: Option<PeerIdentity>,
}

/// The contents of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The group of the sender. Nodes of other groups are ignored.
    pub group: u64,
    /// The incarnation of the sender.
    pub incarnation: u64,
    /// For nodes outside of the sender's view: the member that can admit them.
    pub leader: Option<PeerIdentity>,
    /// The view of the sender, if it has one.
    pub view: Option<ViewId>,
    pub members: u16,
    /// The highest proposal that the sender has accepted, if it is not installed.
    pub promised: Option<ViewId>,
    /// True if the sender wants to leave and has nothing left to send.
    pub leaving: bool,
    /// Ranks in the sender's view that it suspects; with [`Self::PROVEN`] if it knows that the member
    /// has broken the protocol.
    pub suspects: Vec<u16>,
    /// Number of units of its view that the sender has taken, over all origins.
    pub progress: u64,
    /// Time of sending on the sender's clock, in nanoseconds.
    pub sent: u64,
    /// `sent` of the last heartbeat from the receiver of this one, or 0 if there was none.
    pub echo: u64,
    /// Nanoseconds between the arrival of that heartbeat and this one.
    pub held: u64,
}

impl Heartbeat {
    /// Added to a rank among [`suspects`](Self::suspects). No rank is as large.
    pub const PROVEN: u16 = 1 << 15;
}

/// Units and acknowledgements. The receiver handles the units first.
///
/// Each hop needs its lengths several times, so they are computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    view: ViewId,
    units: Vec<Unit>,
    acks: Vec<Ack>,
    /// Total bytes of the contents of the units.
    content: usize,
    encoded: usize,
}

impl Data {
    /// Creates a frame of units and acknowledgements. Their ranks and sequence numbers refer to
    /// `view`.
    pub fn new(view: ViewId, units: Vec<Unit>, acks: Vec<Ack>) -> Self {
        let content = units.iter().map(|unit| unit.bytes.len()).sum();
        let mut data = Self { view, units, acks, content, encoded: 0 };
        // The version and the kind come first.
        let mut count = Count(2);
        data.put(&mut count);
        data.encoded = count.0;
        data
    }

    /// Returns the view to which ranks and sequence numbers refer.
    pub const fn view(&self) -> ViewId {
        self.view
    }

    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Returns the acknowledgements of units at other members.
    pub fn acks(&self) -> &[Ack] {
        &self.acks
    }

    /// Returns the same frame with contents that are slices of nothing else.
    pub(crate) fn copied(&self) -> Self {
        let copy = |unit: &Unit| Unit { bytes: Bytes::copy_from_slice(&unit.bytes), ..unit.clone() };
        Self { units: self.units.iter().map(copy).collect(), ..self.clone() }
    }

    pub(crate) const fn payload_len(&self) -> usize {
        self.content
    }

    pub(crate) const fn encoded_len(&self) -> usize {
        self.encoded
    }

    /// Returns the weight in a window: the content, plus 64 bytes for the frame and for each unit,
    /// and 24 for each acknowledgement. It is never less than the encoded length.
    pub(crate) fn weight(&self) -> u64 {
        self.content as u64 + UNIT_OVERHEAD * (1 + self.units.len() as u64) + 24 * self.acks.len() as u64
    }
}

/// A message, or a chunk of one. Units are numbered, forwarded, acknowledged and retransmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The rank of the member that broadcast it.
    pub origin: u16,
    /// The number of the unit, for each origin and view: 1, 2, 3...
    pub sequence: u64,
    /// The number of links that it may still cross, including this one.
    pub hops: u16,
    /// The origin's Lamport clock in total order, otherwise 0.
    pub stamp: u64,
    pub first: bool,
    pub last: bool,
    pub bytes: Bytes,
}

/// An acknowledgement of an origin's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub origin: u16,
    /// The last unit that all members from the origin to the sender of this frame, along the ring,
    /// have.
    pub reached: u64,
    /// The last unit that all members have.
    pub stable: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    pub proposal: ViewId,
    pub members: Vec<Member>,
    /// Members that leave, but help to complete their old view.
    pub departing: Vec<Member>,
    pub shape: Shape,
}

/// The units of its view that a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub proposal: ViewId,
    /// The view of the sender; `None` if it has none yet.
    pub view: Option<ViewId>,
    /// The proposal that the sender is ready to install, but for which it received no `Install`.
    pub ready: Option<ViewId>,
    /// For each rank of the view: the last unit up to which the sender has all.
    pub have: Vec<u64>,
}

/// The units that a member has, for the member that sends the following ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The view to which the ranks refer.
    pub view: ViewId,
    /// The proposal that ends this view, or `None` if the view continues.
    pub proposal: Option<ViewId>,
    /// For each rank: the last unit up to which the sender has all.
    pub have: Vec<u64>,
}

/// The ends of the old views of all participants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub proposal: ViewId,
    /// The old views, without duplicates.
    pub views: Vec<OldView>,
}

/// The end of an old view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldView {
    pub view: ViewId,
    /// For each rank: the last unit that belongs to the view.
    pub last: Vec<u64>,
    /// The participants that come from this view: indices into the members of the proposal,
    /// followed by its departing ones, in ascending order.
    pub staying: Vec<u16>,
}

layout!(Hello, "hello", 11: group as fixed, site, leads, leader);
layout!(Heartbeat, "heartbeat", 26: group as fixed, incarnation as fixed, leader as name, view, members, promised, leaving,
    suspects, progress, sent, echo, held);
layout!(Ack, "ack", 3: origin, reached, stable);
layout!(Prepare, "prepare", 12: proposal, members, departing, shape);
layout!(State, "state", 12: proposal, view, ready, have);
layout!(Resume, "resume", 11: view, proposal, have);
layout!(Cut, "cut", 10: proposal, views);
layout!(OldView, "cut", 11: view, last, staying);

impl Field for Data {
    fn put(&self, sink: &mut impl Sink) {
        self.view.put(sink);
        self.units.put(sink);
        self.acks.put(sink);
    }

    fn get(r: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
        Ok(Self::new(r.get("data.view")?, r.get("data.units")?, r.get("data.acks")?))
    }
}

impl Field for Unit {
    // The origin, the hops, the flags, the sequence and the length of the content.
    const LEAST: usize = 5;

    fn most(limits: &Limits) -> usize {
        limits.units
    }

    fn put(&self, sink: &mut impl Sink) {
        let mut flags = 0;
        for (set, bit) in [(self.first, flag::FIRST), (self.last, flag::LAST), (self.stamp > 0, flag::STAMP)]
        {
            flags |= if set { bit } else { 0 };
        }
        self.origin.put(sink);
        self.hops.put(sink);
        sink.byte(flags);
        self.sequence.put(sink);
        if self.stamp > 0 {
            self.stamp.put(sink);
        }
        self.bytes.put(sink);
    }

    fn get(r: &mut Reader<'_>, _: &'static str) -> Result<Self, WireError> {
        let (origin, hops, flags) = (r.get("unit.origin")?, r.get("unit.hops")?, r.byte("unit.flags")?);
        if flags > (flag::FIRST | flag::LAST | flag::STAMP) {
            return Err(r.unknown("unit.flags", flags.into()));
        }
        let sequence = r.get("unit.sequence")?;
        let stamp = if flags & flag::STAMP != 0 { r.get("unit.stamp")? } else { 0 };
        if flags & flag::STAMP != 0 && stamp == 0 {
            return Err(r.unknown("unit.stamp", 0));
        }
        let (first, last) = (flags & flag::FIRST != 0, flags & flag::LAST != 0);
        Ok(Self { origin, sequence, hops, stamp, first, last, bytes: r.get("unit.bytes")? })
    }
}

/// Writes a frame piece by piece, so that contents need not be copied. A vector is a sink as well.
pub fn encode<S: Sink>(frame: &RingFrame, sink: &mut S) {
    fn fields<S: Sink>(kind: u8, fields: &impl Field, sink: &mut S) {
        sink.byte(kind);
        fields.put(sink);
    }
    sink.byte(VERSION);
    match frame {
        RingFrame::Heartbeat(heartbeat) => fields(kind::HEARTBEAT, heartbeat, sink),
        RingFrame::Data(data) => fields(kind::DATA, data, sink),
        RingFrame::Credit { view, bytes } => fields(kind::CREDIT, &(*view, *bytes), sink),
        RingFrame::Prepare(prepare) => fields(kind::PREPARE, prepare, sink),
        RingFrame::State(state) => fields(kind::STATE, state, sink),
        RingFrame::Nack { proposal, promised } => fields(kind::NACK, &(*proposal, *promised), sink),
        RingFrame::Resume(resume) => fields(kind::RESUME, resume, sink),
        RingFrame::Cut(cut) => fields(kind::CUT, cut, sink),
        RingFrame::Ready { proposal } => fields(kind::READY, proposal, sink),
        RingFrame::Install { proposal } => fields(kind::INSTALL, proposal, sink),
        RingFrame::Early(bytes) => fields(kind::EARLY, bytes, sink),
        RingFrame::Hello(hello) => fields(kind::HELLO, hello, sink),
        RingFrame::Bridge(inner) => {
            sink.byte(kind::BRIDGE);
            encode(inner, sink);
        }
    }
}

/// Decodes a frame.
///
/// # Errors
/// Returns an error that names the first invalid field.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<RingFrame, WireError> {
    let mut reader = Reader::new(frame, limits);
    let frame = read(&mut reader, true)?;
    reader.finish()?;
    Ok(frame)
}

/// Reads a frame. A frame between leaders contains no further one.
fn read(r: &mut Reader<'_>, is_outer: bool) -> Result<RingFrame, WireError> {
    let version = r.byte("version")?;
    if version != VERSION {
        return Err(r.unknown("version", version.into()));
    }
    Ok(match r.byte("kind")? {
        kind::HEARTBEAT => RingFrame::Heartbeat(r.get("heartbeat")?),
        kind::DATA => RingFrame::Data(r.get("data")?),
        kind::CREDIT => RingFrame::Credit { view: r.get("credit.view")?, bytes: r.get("credit.bytes")? },
        kind::PREPARE => RingFrame::Prepare(r.get("prepare")?),
        kind::STATE => RingFrame::State(r.get("state")?),
        kind::NACK => {
            RingFrame::Nack { proposal: r.get("nack.proposal")?, promised: r.get("nack.promised")? }
        }
        kind::RESUME => RingFrame::Resume(r.get("resume")?),
        kind::CUT => RingFrame::Cut(r.get("cut")?),
        kind::READY => RingFrame::Ready { proposal: r.get("ready.proposal")? },
        kind::INSTALL => RingFrame::Install { proposal: r.get("install.proposal")? },
        kind::EARLY => RingFrame::Early(r.get("early.bytes")?),
        kind::HELLO if is_outer => RingFrame::Hello(r.get("hello")?),
        kind::BRIDGE if is_outer => RingFrame::Bridge(Arc::new(read(r, false)?)),
        other => return Err(r.unknown("kind", other.into())),
    })
}

impl Frame for RingFrame {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Data(data) => data.encoded,
            frame => {
                let mut count = Count(0);
                encode(frame, &mut count);
                count.0
            }
        }
    }

    fn payload_len(&self) -> usize {
        match self {
            Self::Data(data) => data.content,
            Self::Early(bytes) => bytes.len(),
            Self::Bridge(frame) => frame.payload_len(),
            _ => 0,
        }
    }

    fn altered(&self, rng: &mut NodeRng) -> Option<Self> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        encode(self, &mut bytes);
        alter(&mut bytes, rng);
        decode(&bytes.into(), &Limits::default()).ok()
    }
}
