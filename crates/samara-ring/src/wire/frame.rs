//! What members say to each other.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Frame, PeerIdentity, Shape};

use super::codec::{Count, Field, Limits, Reader, Sink, layout};
use super::{VERSION, WireError, flag, kind};
use crate::{Member, ViewId};

/// What a unit costs in memory besides its content: windows and bounds count it, so that empty messages are bounded too.
pub(crate) const UNIT_OVERHEAD: u64 = 64;

/// A unit on a link between two nodes. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingFrame {
    /// I am here, and this is how things look from here. Direct, to everybody who is connected.
    Heartbeat(Arc<Heartbeat>),
    /// Messages, and what is known to have arrived. Along the shape of the view.
    Data(Arc<Data>),
    /// So much [`Data`] of this view has come over this link: bytes of content, 64 for each frame and unit and 24 for each acknowledgement,
    /// since the view was installed or the link came up, whichever was later.
    Credit {
        view: ViewId,
        bytes: u64,
    },
    Prepare(Arc<Prepare>),
    /// What the answerer has of its view: the answer to [`Prepare`].
    State(Arc<State>),
    /// The answerer has promised a higher proposal.
    Nack {
        proposal: ViewId,
        promised: ViewId,
    },
    /// This is what I have: send what follows.
    Resume(Arc<Resume>),
    /// Where the old views end.
    Cut(Arc<Cut>),
    /// Everything up to the cut is here.
    Ready {
        proposal: ViewId,
    },
    /// All are ready: the proposal is the view now.
    Install {
        proposal: ViewId,
    },
    /// A message of a node that has no view yet, sent to everybody directly.
    Early(Bytes),
    /// Which site of a federation the sender belongs to. Direct, when a link comes up and when it changes.
    Hello(Arc<Hello>),
    /// A frame between leaders of sites; never one of these last two kinds.
    Bridge(Arc<RingFrame>),
}

/// Where a node stands in a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The group of the bridge: nodes with another one are not listened to.
    pub group: u64,
    pub site: u16,
    /// Whether the sender is its leader.
    pub leads: bool,
    /// Who is, as far as the sender knows.
    pub leader: Option<PeerIdentity>,
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The group of the sender: others are not listened to.
    pub group: u64,
    /// Which life of the sender this is.
    pub incarnation: u64,
    /// To those who are not in its view: who can take them in.
    pub leader: Option<PeerIdentity>,
    /// Its view, if it has one.
    pub view: Option<ViewId>,
    pub members: u16,
    /// The highest proposal that it has agreed to, if it is not installed.
    pub promised: Option<ViewId>,
    /// Whether it wants to leave, and has nothing left to send.
    pub leaving: bool,
    /// The ranks in its view that it takes for failed.
    pub suspects: Vec<u16>,
    /// How many units of its view it has taken, of all origins together.
    pub progress: u64,
    /// When this was sent, by the sender's clock (ns).
    pub sent: u64,
    /// `sent` of the last heartbeat that came from the receiver of this one (0: none).
    pub echo: u64,
    /// How long ago that was (ns).
    pub held: u64,
}

/// Units and acknowledgements. The receiver looks at the units first.
///
/// Its lengths are asked for several times at each hop: they are worked out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    view: ViewId,
    units: Vec<Unit>,
    acks: Vec<Ack>,
    /// Bytes of the contents of units.
    content: usize,
    encoded: usize,
}

impl Data {
    /// Units and acknowledgements of a view, in which their ranks and sequence numbers hold.
    pub fn new(view: ViewId, units: Vec<Unit>, acks: Vec<Ack>) -> Self {
        let content = units.iter().map(|unit| unit.bytes.len()).sum();
        let mut data = Self { view, units, acks, content, encoded: 0 };
        // The version and the kind come first.
        let mut count = Count(2);
        data.put(&mut count);
        data.encoded = count.0;
        data
    }

    /// The view in which these ranks and sequence numbers hold.
    pub const fn view(&self) -> ViewId {
        self.view
    }

    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// What has arrived elsewhere.
    pub fn acks(&self) -> &[Ack] {
        &self.acks
    }

    /// What counts against a window: the content, 64 bytes for the frame and for each unit, and 24 for each acknowledgement, never
    /// less than the encoded length.
    pub(crate) fn weight(&self) -> u64 {
        self.content as u64 + UNIT_OVERHEAD * (1 + self.units.len() as u64) + 24 * self.acks.len() as u64
    }
}

/// A message, or a chunk of one: what is numbered, forwarded, acknowledged and sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The rank of the member that broadcast it.
    pub origin: u16,
    /// Its number: 1, 2, 3... for each origin and view.
    pub sequence: u64,
    /// How many links it may cross still, this one included.
    pub hops: u16,
    /// The origin's Lamport clock where the order is total, else 0.
    pub stamp: u64,
    pub first: bool,
    pub last: bool,
    pub bytes: Bytes,
}

/// What is known of an origin's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub origin: u16,
    /// All members from the origin to the sender of this, along the ring, have its units up to this one.
    pub reached: u64,
    /// All members have them up to this one.
    pub stable: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    pub proposal: ViewId,
    pub members: Vec<Member>,
    /// Those who leave: they help to complete their old view.
    pub departing: Vec<Member>,
    pub shape: Shape,
}

/// What a member has of its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub proposal: ViewId,
    /// The view of the sender; `None` if it has none yet.
    pub view: Option<ViewId>,
    /// The proposal that it is ready to install, and was not told to.
    pub ready: Option<ViewId>,
    /// For each rank of its view: up to which unit it has all.
    pub have: Vec<u64>,
}

/// What a member has, for whoever sends it what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The view in which the ranks hold.
    pub view: ViewId,
    /// The proposal that ends this view; `None` if it goes on.
    pub proposal: Option<ViewId>,
    /// For each rank: up to which unit it has all.
    pub have: Vec<u64>,
}

/// Where the old views of all who answered end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub proposal: ViewId,
    /// All old views, each once.
    pub views: Vec<OldView>,
}

/// Where an old view ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldView {
    pub view: ViewId,
    /// For each rank: the last unit that belongs to it.
    pub last: Vec<u64>,
    /// Who comes from it: indices into the members and then the departing ones of the proposal, ascending.
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
    // Origin, hops, flags, sequence and the length of the content.
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

/// Writes a frame piece by piece, so that contents need not be copied. A vector is a sink, too.
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

/// Reads a frame.
///
/// # Errors
/// What is wrong with it.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<RingFrame, WireError> {
    let mut reader = Reader::new(frame, limits);
    let frame = read(&mut reader, true)?;
    reader.finish()?;
    Ok(frame)
}

/// Reads a frame; one between leaders holds no other such one.
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
}
