//! Limits against spam, and when copies are taken back.

use std::time::Duration;

use super::SubscriptionFilter;

/// Limits of lazy gossip (specification v1.1, "Spam protection measures"). Per peer, and counted anew at each heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipLimits {
    /// Most ids in an IHAVE, and most ids asked of a peer.
    pub ihave_ids_max: usize,
    /// Most RPCs with IHAVE that are looked at.
    pub ihave_messages_max: u32,
    /// Most ids in IWANT that are looked at.
    pub iwant_ids_max: usize,
    /// How often one message is sent to one peer in answer to IWANT.
    pub retransmissions_max: u32,
    /// How long a peer has for what it announced and was asked for.
    pub iwant_follow_up: Duration,
    /// Most promises that are followed up at a time.
    pub promises_max: usize,
}

/// IDONTWANT (specification v1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IDontWantConfig {
    /// Whether it is sent. What peers send is honoured in any case.
    pub send: bool,
    /// Sent for payloads of at least so many bytes.
    pub threshold_bytes: usize,
    /// Whether it is sent for own messages too, before their first copy: peers that are about to get it from others first
    /// will not send it back.
    pub on_publish: bool,
    /// Whether the own messages of a batch share RPCs of as many ids as allowed; go-libp2p-pubsub sends one for each.
    pub aggregate_own: bool,
    /// Most ids of one RPC that are looked at, and most ids that are sent in one.
    pub ids_per_rpc_max: usize,
    /// Most RPCs with IDONTWANT that are looked at, per peer and heartbeat.
    pub rpcs_per_heartbeat_max: u32,
    /// How many heartbeats an id is remembered.
    pub ttl_heartbeats: u64,
    /// Most ids that are remembered per peer.
    pub ids_per_peer_max: u32,
}

/// When copies that are owed, but have not left, are taken back. Nothing of it is in the specification; go-libp2p-pubsub does
/// none of it, rust-libp2p the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdraw {
    /// The peer said IDONTWANT.
    pub on_idontwant: bool,
    /// The peer sent a copy itself.
    pub on_copy: bool,
    /// The peer announced the message by IHAVE.
    pub on_ihave: bool,
    /// The peer asked for the message by IWANT: the copy it is owed already keeps its place, and is not doubled.
    pub on_iwant: bool,
}

impl Withdraw {
    /// A copy that is owed leaves.
    pub const NEVER: Self = Self { on_idontwant: false, on_copy: false, on_ihave: false, on_iwant: false };
    /// Whatever the peer already has is not sent.
    pub const ALWAYS: Self = Self { on_idontwant: true, on_copy: true, on_ihave: true, on_iwant: true };
}

/// Limits of what peers subscribe to.
#[derive(Clone, Debug)]
pub struct SubscriptionLimits {
    /// An RPC with more changes is not looked at.
    pub per_rpc_max: usize,
    /// Most topics of one peer that are remembered.
    pub per_peer_max: usize,
    /// Which topics are remembered.
    pub filter: SubscriptionFilter,
}
