//! The messages, as prost derives them. `proto/mix.proto` is the same schema for other languages.

use bytes::Bytes;

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Envelope {
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub body: Option<Body>,
}

/// What a frame says.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Body {
    /// Every node, to everybody it has a link to: which life of it this is. Also a sign of life.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// The scheduler, to the nodes of a team: a new round.
    #[prost(message, tag = "2")]
    Create(Create),
    /// The scheduler, to the nodes of a team: the round can take its batch.
    #[prost(message, tag = "3")]
    Queued(Round),
    /// The scheduler, to the nodes of a team, and any of these to the others: the round is over.
    #[prost(message, tag = "4")]
    End(End),
    /// A node, to the scheduler: how far it is with a round.
    #[prost(message, tag = "5")]
    Status(Status),
    /// A node, to the next one or (complete) to all: the key of the team.
    #[prost(message, tag = "6")]
    Share(Share),
    /// A node, to the next one, or results to others: slots.
    #[prost(message, tag = "7")]
    Slots(Slots),
    /// A node, to one that it had slots from: it has all of the phase.
    #[prost(message, tag = "8")]
    Received(Received),
    /// A node, to the next one: a ping around the team.
    #[prost(message, tag = "9")]
    Ping(Ping),
    /// A node, to anybody it has a link to, and back: a ping over the link.
    #[prost(message, tag = "10")]
    Echo(Echo),
}

/// Which life of a node this is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Hello {
    /// Drawn at random when it starts.
    #[prost(fixed64, tag = "1")]
    pub incarnation: u64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Round {
    #[prost(uint64, tag = "1")]
    pub round: u64,
}

/// A new round.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Create {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The nodes of the team, in order, by their numbers in the pool.
    #[prost(uint32, repeated, tag = "2")]
    pub team: Vec<u32>,
    #[prost(uint32, tag = "3")]
    pub batch: u32,
    /// Slots that are worked on, and sent, together: in the precomputation.
    #[prost(uint32, tag = "4")]
    pub precomputation_slots: u32,
    /// The same in real time.
    #[prost(uint32, tag = "5")]
    pub realtime_slots: u32,
    /// Whether phases send all slots in one frame, once they are through.
    #[prost(bool, tag = "6")]
    pub unary: bool,
    /// The shape of the broadcast of results: 0 ring, 1 direct, 2 binary tree, 3 double tree.
    #[prost(uint32, tag = "7")]
    pub shape: u32,
}

/// The end of a round.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct End {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// Why it failed; 0 if it did not.
    #[prost(uint32, tag = "2")]
    pub cause: u32,
    /// Whose fault it was, one more than the number in the pool; 0 if nobody's.
    #[prost(uint32, tag = "3")]
    pub culprit: u32,
}

/// How far a node is with a round.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The state of the node.
    #[prost(uint32, tag = "2")]
    pub state: u32,
}

/// A part of the key of a team.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Share {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The seat of the node that it began at.
    #[prost(uint32, tag = "2")]
    pub origin: u32,
    /// Whether it has been at all nodes.
    #[prost(bool, tag = "3")]
    pub is_complete: bool,
    #[prost(bytes = "bytes", tag = "4")]
    pub key: Bytes,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Slots {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// What is to be done with them.
    #[prost(uint32, tag = "2")]
    pub phase: u32,
    /// The place of the first one in the batch.
    #[prost(uint32, tag = "3")]
    pub first: u32,
    /// Their elements, slot by slot.
    #[prost(bytes = "bytes", tag = "4")]
    pub elements: Bytes,
    /// Salt, sender and codes, slot by slot; only for real-time decryption.
    #[prost(bytes = "bytes", tag = "5")]
    pub credentials: Bytes,
}

/// All slots of a phase have come.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Received {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    #[prost(uint32, tag = "2")]
    pub phase: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ping {
    /// A round of the team.
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// Drawn at random by the first node.
    #[prost(fixed64, tag = "2")]
    pub number: u64,
    #[prost(uint32, tag = "3")]
    pub seat: u32,
}

/// A ping over a link, or the answer to it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Echo {
    /// Drawn at random by who asks.
    #[prost(fixed64, tag = "1")]
    pub number: u64,
    #[prost(bool, tag = "2")]
    pub is_answer: bool,
}
