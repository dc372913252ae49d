//! Messages beside the frames of the mix, as prost derives them. `proto/mix-services.proto` is the same for other languages.

use bytes::Bytes;

/// What came has come.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Ack {}

/// Asks for a link, or says that this is the way back of one.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LinkRequest {
    /// Its number, drawn at random by who asks for it.
    #[prost(fixed64, tag = "1")]
    pub link: u64,
}

/// A sender wants to share a secret with a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterRequest {
    /// Its public key: an element.
    #[prost(bytes = "bytes", tag = "1")]
    pub public: Bytes,
}

/// What a node answers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterReply {
    /// Its public key: an element.
    #[prost(bytes = "bytes", tag = "1")]
    pub public: Bytes,
    /// Its number in the pool.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    /// The name of the group.
    #[prost(string, tag = "3")]
    pub group: String,
}

/// Subscribes to the rounds that are ready for payloads.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WatchRequest {}

/// Rounds that this node takes part in, and that are ready for payloads.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OpenRounds {
    /// The oldest first.
    #[prost(message, repeated, tag = "1")]
    pub rounds: Vec<OpenRound>,
}

/// A round that is ready for payloads, as one node of its team announces it. All of them do.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct OpenRound {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// Its nodes in order, by their numbers in the pool.
    #[prost(uint32, repeated, tag = "2")]
    pub team: Vec<u32>,
    /// Payloads that this node still takes for the round; 0 except at the first node of the team.
    #[prost(uint32, tag = "3")]
    pub room: u32,
    /// Payloads of a batch.
    #[prost(uint32, tag = "4")]
    pub batch: u32,
}

/// Payloads for a round.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitRequest {
    /// Which; the same in all messages of a call.
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// Sealed slots.
    #[prost(message, repeated, tag = "2")]
    pub slots: Vec<SealedSlot>,
}

/// A sealed slot.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SealedSlot {
    /// Its two elements.
    #[prost(bytes = "vec", tag = "1")]
    pub elements: Vec<u8>,
    /// Salt, sender and codes.
    #[prost(bytes = "vec", tag = "2")]
    pub credentials: Vec<u8>,
}

/// All payloads of a call were taken.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SubmitReply {
    /// Payloads that the round has room for still.
    #[prost(uint32, tag = "1")]
    pub room: u32,
}

/// Asks what became of a round, and waits for it.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ResultRequest {
    /// Which.
    #[prost(uint64, tag = "1")]
    pub round: u64,
}

/// A part of what came out of a round, in order; or why nothing did.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResultPart {
    /// Why it failed; empty if it did not.
    #[prost(string, tag = "1")]
    pub cause: String,
    /// Who is to blame, one more than the number in the pool; 0 if nobody.
    #[prost(uint32, tag = "2")]
    pub culprit: u32,
    /// Slots.
    #[prost(message, repeated, tag = "3")]
    pub slots: Vec<OutSlot>,
}

/// What came out of a slot.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OutSlot {
    /// 0 content, 1 void, 2 unreadable.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The content.
    #[prost(bytes = "bytes", tag = "2")]
    pub content: Bytes,
}
