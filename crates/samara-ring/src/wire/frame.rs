//! What members say to each other.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{Frame, PeerIdentity};

use super::encode::{data_len, encoded_len};
use crate::{Member, ViewId};
use samara_engine::Shape;

/// What a unit costs in memory besides its content: windows and bounds count it, so that empty messages are bounded too.
pub(crate) const UNIT_OVERHEAD: u64 = 64;

/// A unit on a link between two nodes. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingFrame {
    /// I am here, and this is how things look from here. Direct, to everybody who is connected.
    Heartbeat(Arc<Heartbeat>),
    /// Messages, and what is known to have arrived. Along the shape of the view.
    Data(Arc<Data>),
    /// So much [`Data`] of this view has come over this link.
    Credit {
        /// The view.
        view: ViewId,
        /// Bytes of content, 64 for each frame and unit and 24 for each acknowledgement, since the view was installed or the link came up, whichever was
        /// later.
        bytes: u64,
    },
    /// A new view is proposed.
    Prepare(Arc<Prepare>),
    /// What the answerer has of its view: the answer to [`Prepare`].
    State(Arc<State>),
    /// The answerer has promised a higher proposal.
    Nack {
        /// What was proposed.
        proposal: ViewId,
        /// What was promised.
        promised: ViewId,
    },
    /// This is what I have: send what follows.
    Resume(Arc<Resume>),
    /// Where the old views end.
    Cut(Arc<Cut>),
    /// Everything up to the cut is here.
    Ready {
        /// What was proposed.
        proposal: ViewId,
    },
    /// All are ready: the proposal is the view now.
    Install {
        /// What was proposed.
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
    /// The site of the sender.
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
    /// How many members that has.
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
    /// Bytes of the frame.
    encoded: usize,
}

impl Data {
    /// Units and acknowledgements of a view, in which their ranks and sequence numbers hold.
    pub fn new(view: ViewId, units: Vec<Unit>, acks: Vec<Ack>) -> Self {
        let content = units.iter().map(|unit| unit.bytes.len()).sum();
        let mut data = Self { view, units, acks, content, encoded: 0 };
        data.encoded = data_len(&data);
        data
    }

    /// The view in which these ranks and sequence numbers hold.
    pub const fn view(&self) -> ViewId {
        self.view
    }

    /// Messages or chunks of them.
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
    /// Whether a message begins here.
    pub first: bool,
    /// Whether it ends here.
    pub last: bool,
    /// The content.
    pub bytes: Bytes,
}

/// What is known of an origin's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The rank of the origin.
    pub origin: u16,
    /// All members from the origin to the sender of this, along the ring, have its units up to this one.
    pub reached: u64,
    /// All members have them up to this one.
    pub stable: u64,
}

/// A proposed view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The epoch of the view.
    pub proposal: ViewId,
    /// Its members, by rank.
    pub members: Vec<Member>,
    /// Those who leave: they help to complete their old view.
    pub departing: Vec<Member>,
    /// How messages travel in it.
    pub shape: Shape,
}

/// What a member has of its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What this answers.
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
    /// What is proposed.
    pub proposal: ViewId,
    /// All old views, each once.
    pub views: Vec<OldView>,
}

/// Where an old view ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldView {
    /// Which.
    pub view: ViewId,
    /// For each rank: the last unit that belongs to it.
    pub last: Vec<u64>,
    /// Who comes from it: indices into the members and then the departing ones of the proposal, ascending.
    pub staying: Vec<u16>,
}

impl Frame for RingFrame {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Data(data) => data.encoded,
            frame => encoded_len(frame),
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
