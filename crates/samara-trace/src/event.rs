//! The events, as `pb/trace.proto` of go-libp2p-pubsub has them.
//!
//! Field numbers are those of the protobuf; names in JSON are those that Go's `encoding/json` gives to the generated
//! structs. Written by hand, so that no compiler of protobuf is needed to build this crate.

use serde::{Deserialize, Serialize};

use crate::base64;

/// One event at one node (`TraceEvent`). Made by [`TraceEvent::new`], read by [`TraceEvent::body`].
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TraceEvent {
    /// 1: what happened.
    #[prost(enumeration = "Type", optional, tag = "1")]
    #[serde(rename = "type", with = "crate::kind", skip_serializing_if = "Option::is_none")]
    pub kind: Option<i32>,
    /// 2: at which node: the bytes of its peer id.
    #[prost(bytes = "vec", optional, tag = "2")]
    #[serde(rename = "peerID", with = "base64::optional", skip_serializing_if = "base64::is_empty")]
    pub peer_id: Option<Vec<u8>>,
    /// 3: when, in nanoseconds since 1970 by the node's clock.
    #[prost(int64, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// 4
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_message: Option<PublishMessage>,
    /// 5
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_message: Option<RejectMessage>,
    /// 6
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_message: Option<DuplicateMessage>,
    /// 7
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_message: Option<DeliverMessage>,
    /// 8
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_peer: Option<AddPeer>,
    /// 9
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_peer: Option<RemovePeer>,
    /// 10
    #[prost(message, optional, tag = "10")]
    #[serde(rename = "recvRPC", skip_serializing_if = "Option::is_none")]
    pub recv_rpc: Option<RecvRpc>,
    /// 11
    #[prost(message, optional, tag = "11")]
    #[serde(rename = "sendRPC", skip_serializing_if = "Option::is_none")]
    pub send_rpc: Option<SendRpc>,
    /// 12
    #[prost(message, optional, tag = "12")]
    #[serde(rename = "dropRPC", skip_serializing_if = "Option::is_none")]
    pub drop_rpc: Option<DropRpc>,
    /// 13
    #[prost(message, optional, tag = "13")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// 14
    #[prost(message, optional, tag = "14")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leave: Option<Leave>,
    /// 15
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graft: Option<Graft>,
    /// 16
    #[prost(message, optional, tag = "16")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<Prune>,
}

/// What can happen (`TraceEvent.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Type {
    /// `PUBLISH_MESSAGE`
    PublishMessage = 0,
    /// `REJECT_MESSAGE`
    RejectMessage = 1,
    /// `DUPLICATE_MESSAGE`
    DuplicateMessage = 2,
    /// `DELIVER_MESSAGE`
    DeliverMessage = 3,
    /// `ADD_PEER`
    AddPeer = 4,
    /// `REMOVE_PEER`
    RemovePeer = 5,
    /// `RECV_RPC`
    RecvRpc = 6,
    /// `SEND_RPC`
    SendRpc = 7,
    /// `DROP_RPC`
    DropRpc = 8,
    /// `JOIN`
    Join = 9,
    /// `LEAVE`
    Leave = 10,
    /// `GRAFT`
    Graft = 11,
    /// `PRUNE`
    Prune = 12,
}

/// A message of the protobuf: its fields are optional strings, optional bytes, or whatever else is given with its
/// attributes.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        message!(@ [$(#[$doc])*] $name [] $($fields)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* bytes $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(bytes = "vec", optional, tag = $tag)]
            #[serde(rename = $json, with = "base64::optional", skip_serializing_if = "base64::is_empty")]
            pub $field: Option<Vec<u8>>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* many_bytes $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(bytes = "vec", repeated, tag = $tag)]
            #[serde(rename = $json, with = "base64::repeated", skip_serializing_if = "Vec::is_empty")]
            pub $field: Vec<Vec<u8>>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* string $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(string, optional, tag = $tag)]
            #[serde(rename = $json, skip_serializing_if = "Option::is_none")]
            pub $field: Option<String>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* bool $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(bool, optional, tag = $tag)]
            #[serde(rename = $json, skip_serializing_if = "Option::is_none")]
            pub $field: Option<bool>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* one($inner:ty) $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(message, optional, tag = $tag)]
            #[serde(rename = $json, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$inner>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*] $(#[$fdoc:meta])* many($inner:ty) $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        message!(@ [$($doc)*] $name [$($done)*
            $(#[$fdoc])*
            #[prost(message, repeated, tag = $tag)]
            #[serde(rename = $json, deserialize_with = "crate::kind::null_as_empty", skip_serializing_if = "Vec::is_empty")]
            pub $field: Vec<$inner>,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*]) => {
        $($doc)*
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($done)* }
    };
}

message! {
    /// This node published a message.
    PublishMessage {
        /// 1
        bytes message_id = "1" "messageID",
        /// 2
        string topic = "2" "topic",
    }
}
message! {
    /// A message was not delivered.
    RejectMessage {
        /// 1
        bytes message_id = "1" "messageID",
        /// 2: who sent it.
        bytes received_from = "2" "receivedFrom",
        /// 3: why, in one of the words of [`reason`](crate::reason) or others.
        string reason = "3" "reason",
        /// 4
        string topic = "4" "topic",
    }
}
message! {
    /// A copy of a message that was known.
    DuplicateMessage {
        /// 1
        bytes message_id = "1" "messageID",
        /// 2: who sent it.
        bytes received_from = "2" "receivedFrom",
        /// 3
        string topic = "3" "topic",
    }
}
message! {
    /// A message went to the application.
    DeliverMessage {
        /// 1
        bytes message_id = "1" "messageID",
        /// 2
        string topic = "2" "topic",
        /// 3: who sent it; the node itself if it published it.
        bytes received_from = "3" "receivedFrom",
    }
}
message! {
    /// The link to a peer is up.
    AddPeer {
        /// 1: who.
        bytes peer_id = "1" "peerID",
        /// 2: the protocol of the link.
        string proto = "2" "proto",
    }
}
message! {
    /// The link to a peer is down.
    RemovePeer {
        /// 1: who.
        bytes peer_id = "1" "peerID",
    }
}
message! {
    /// An RPC came.
    RecvRpc {
        /// 1: from whom.
        bytes received_from = "1" "receivedFrom",
        /// 2: what is in it.
        one(RpcMeta) meta = "2" "meta",
    }
}
message! {
    /// An RPC was sent.
    SendRpc {
        /// 1: to whom.
        bytes send_to = "1" "sendTo",
        /// 2: what is in it.
        one(RpcMeta) meta = "2" "meta",
    }
}
message! {
    /// An RPC was lost before it was sent.
    DropRpc {
        /// 1: for whom it was.
        bytes send_to = "1" "sendTo",
        /// 2: what is in it.
        one(RpcMeta) meta = "2" "meta",
    }
}
message! {
    /// This node joined a topic.
    Join {
        /// 1
        string topic = "1" "topic",
    }
}
message! {
    /// This node left a topic.
    Leave {
        /// 2 (not 1: so it is in the protobuf).
        string topic = "2" "topic",
    }
}
message! {
    /// A peer is in a mesh now.
    Graft {
        /// 1: who.
        bytes peer_id = "1" "peerID",
        /// 2
        string topic = "2" "topic",
    }
}
message! {
    /// A peer is not in a mesh any more.
    Prune {
        /// 1: who.
        bytes peer_id = "1" "peerID",
        /// 2
        string topic = "2" "topic",
    }
}
message! {
    /// What is in an RPC, without payloads.
    RpcMeta {
        /// 1
        many(MessageMeta) messages = "1" "messages",
        /// 2
        many(SubMeta) subscription = "2" "subscription",
        /// 3
        one(ControlMeta) control = "3" "control",
    }
}
message! {
    /// A message in an RPC.
    MessageMeta {
        /// 1
        bytes message_id = "1" "messageID",
        /// 2
        string topic = "2" "topic",
    }
}
message! {
    /// A change of a subscription.
    SubMeta {
        /// 1: joined or left.
        bool subscribe = "1" "subscribe",
        /// 2
        string topic = "2" "topic",
    }
}
message! {
    /// Control messages of an RPC.
    ControlMeta {
        /// 1
        many(ControlIHaveMeta) ihave = "1" "ihave",
        /// 2
        many(ControlIWantMeta) iwant = "2" "iwant",
        /// 3
        many(ControlGraftMeta) graft = "3" "graft",
        /// 4
        many(ControlPruneMeta) prune = "4" "prune",
        /// 5
        many(ControlIDontWantMeta) idontwant = "5" "idontwant",
    }
}
message! {
    /// IHAVE.
    ControlIHaveMeta {
        /// 1
        string topic = "1" "topic",
        /// 2
        many_bytes message_ids = "2" "messageIDs",
    }
}
message! {
    /// IWANT.
    ControlIWantMeta {
        /// 1
        many_bytes message_ids = "1" "messageIDs",
    }
}
message! {
    /// GRAFT.
    ControlGraftMeta {
        /// 1
        string topic = "1" "topic",
    }
}
message! {
    /// PRUNE.
    ControlPruneMeta {
        /// 1
        string topic = "1" "topic",
        /// 2: recommended peers.
        many_bytes peers = "2" "peers",
    }
}
message! {
    /// IDONTWANT.
    ControlIDontWantMeta {
        /// 1
        many_bytes message_ids = "1" "messageIDs",
    }
}
message! {
    /// Several events (`TraceEventBatch`): what go's remote tracer sends, between gzip and a length.
    TraceEventBatch {
        /// 1
        many(TraceEvent) batch = "1" "batch",
    }
}
