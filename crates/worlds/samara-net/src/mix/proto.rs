//! Messages beside the frames of the mix, as prost derives them. `proto/mix-services.proto` is the
//! same schema for other languages.

use bytes::Bytes;

/// An empty acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ack {}

/// Requests a link, or confirms the way back of a link.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LinkRequest {
    /// The link's number, which the requesting side draws at random.
    #[prost(fixed64, tag = "1")]
    pub link: u64,
}

/// A sender's request to share a secret with a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterRequest {
    /// The sender's public key, an element of the group.
    #[prost(bytes = "bytes", tag = "1")]
    pub public: Bytes,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterReply {
    /// The node's public key, an element of the group.
    #[prost(bytes = "bytes", tag = "1")]
    pub public: Bytes,
    #[prost(uint32, tag = "2")]
    pub node: u32,
    #[prost(string, tag = "3")]
    pub group: String,
}

/// Subscribes to the rounds that are ready for payloads.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchRequest {}

/// Rounds of this node that are ready for payloads.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OpenRounds {
    /// Open rounds, oldest first.
    #[prost(message, repeated, tag = "1")]
    pub rounds: Vec<OpenRound>,
}

/// A round that is ready for payloads, as one node of its team announces it. All nodes of the team
/// announce it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct OpenRound {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The nodes of the team in order, by their numbers in the pool.
    #[prost(uint32, repeated, tag = "2")]
    pub team: Vec<u32>,
    /// Payloads that this node still accepts for the round; 0 except at the first node of the team.
    #[prost(uint32, tag = "3")]
    pub room: u32,
    #[prost(uint32, tag = "4")]
    pub batch: u32,
    /// Payloads that one sender may submit for the round; 0 except at the first node of the team.
    #[prost(uint32, tag = "5")]
    pub share: u32,
    /// Different senders whose payloads the batch still needs; 0 except at the first node of the team.
    #[prost(uint32, tag = "6")]
    pub senders_wanted: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitRequest {
    /// The round, the same in all messages of a call.
    #[prost(uint64, tag = "1")]
    pub round: u64,
    #[prost(message, repeated, tag = "2")]
    pub slots: Vec<SealedSlot>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SealedSlot {
    /// The two elements of the sealed payload.
    #[prost(bytes = "vec", tag = "1")]
    pub elements: Vec<u8>,
    /// Salt, sender and codes.
    #[prost(bytes = "vec", tag = "2")]
    pub credentials: Vec<u8>,
}

/// The node accepted all payloads of a call.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SubmitReply {
    /// Payloads for which the round still has room.
    #[prost(uint32, tag = "1")]
    pub room: u32,
}

/// Withdraws all payloads of the sender from a round that has not begun to mix.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WithdrawRequest {
    #[prost(uint64, tag = "1")]
    pub round: u64,
}

/// The round has no payload of the sender any more.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WithdrawReply {
    /// Payloads that were removed.
    #[prost(uint32, tag = "1")]
    pub payloads: u32,
}

/// Requests the result of a round, and waits for its end.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResultRequest {
    #[prost(uint64, tag = "1")]
    pub round: u64,
}

/// A part of the payloads of a round, in order; or the cause of its failure.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResultPart {
    /// The cause of the failure; empty if there was none.
    #[prost(string, tag = "1")]
    pub cause: String,
    /// The number of the node to blame plus one; 0 if there is none.
    #[prost(uint32, tag = "2")]
    pub culprit: u32,
    #[prost(message, repeated, tag = "3")]
    pub slots: Vec<OutSlot>,
}

/// Requests the list of rounds whose results the node keeps.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct KeptRequest {
    /// The lowest round of interest.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The position of the last answer; 0 for all.
    #[prost(uint64, tag = "2")]
    pub after: u64,
}

/// Rounds whose results the node keeps, in the order of their ends: the next part of them, empty at the
/// end.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeptRounds {
    #[prost(message, repeated, tag = "1")]
    pub rounds: Vec<KeptRound>,
    /// The position of the last one, for the next request.
    #[prost(uint64, tag = "2")]
    pub after: u64,
    /// The number after the highest round whose result the node had and has no more; 0 if there is
    /// none.
    #[prost(uint64, tag = "3")]
    pub gone: u64,
    /// The node has the results of all of its rounds that ended within these last seconds.
    #[prost(uint64, tag = "4")]
    pub reach_s: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct KeptRound {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The slots of the batch; 0 if the round failed.
    #[prost(uint32, tag = "2")]
    pub slots: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OutSlot {
    /// 0 content, 1 void, 2 unreadable.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(bytes = "bytes", tag = "2")]
    pub content: Bytes,
}
