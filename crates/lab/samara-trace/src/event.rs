//! The events of `pb/trace.proto` of go-libp2p-pubsub.
//!
//! Field numbers are those of the protobuf. Names in JSON are those that Go's `encoding/json` gives
//! to the generated structs. Written by hand, so that building this crate needs no protobuf
//! compiler.

use serde::{Deserialize, Serialize};

use crate::json;

/// Defines messages of the protobuf. Fields are optional or repeated; each has its number and its
/// name in JSON.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($fields:tt)* })+) => {
        $(messages!(@ [$(#[$doc])*] $name [] $($fields)*);)+
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* bytes $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [bytes = "vec", optional]
            [with = "json::optional", skip_serializing_if = "json::is_empty"] [Option<Vec<u8>>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* many_bytes $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [bytes = "vec", repeated]
            [with = "json::repeated", skip_serializing_if = "Vec::is_empty"] [Vec<Vec<u8>>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* string $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [string, optional]
            [skip_serializing_if = "Option::is_none"] [Option<String>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* bool $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [bool, optional]
            [skip_serializing_if = "Option::is_none"] [Option<bool>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* int64 $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [int64, optional]
            [skip_serializing_if = "Option::is_none"] [Option<i64>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* one($inner:ty) $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [message, optional]
            [skip_serializing_if = "Option::is_none"] [Option<$inner>] $($rest)*);
    };
    (@ $head:tt $name:ident $done:tt $(#[$doc:meta])* many($inner:ty) $($rest:tt)*) => {
        messages!(@field $head $name $done [$(#[$doc])*] [message, repeated]
            [deserialize_with = "json::null_as_empty", skip_serializing_if = "Vec::is_empty"] [Vec<$inner>] $($rest)*);
    };
    (@field $head:tt $name:ident [$($done:tt)*] [$($doc:tt)*] [$($prost:tt)*] [$($serde:tt)*] [$type:ty]
        $field:ident = $tag:literal $json:literal, $($rest:tt)*) => {
        messages!(@ $head $name [$($done)*
            #[doc = concat!("Field ", $tag, " of the protobuf.\n\n")]
            $($doc)*
            #[prost($($prost)*, tag = $tag)]
            #[serde(rename = $json, $($serde)*)]
            pub $field: $type,
        ] $($rest)*);
    };
    (@ [$($doc:tt)*] $name:ident [$($done:tt)*]) => {
        $($doc)*
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($done)* }
    };
}

/// Defines the kinds of events, each with its number, its name in the protobuf, its field of
/// [`TraceEvent`] and the content of that field. In brackets are the names of earlier releases, which
/// are read as well.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $number:literal $type_name:literal $([$old_type_name:literal])? $field:ident: $kind:ident =
            $tag:literal $json:literal $([$old_json:literal])? {
            $($fields:tt)*
        }
    )*) => {
        /// One event at one node (`TraceEvent`). Use [`TraceEvent::new`] to create it and
        /// [`TraceEvent::body`] to read it.
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct TraceEvent {
            #[prost(enumeration = "Type", optional, tag = "1")]
            #[serde(rename = "type", with = "json::kind", skip_serializing_if = "Option::is_none")]
            pub kind: Option<i32>,
            /// The node's peer id in bytes.
            #[prost(bytes = "vec", optional, tag = "2")]
            #[serde(rename = "peerID", with = "json::optional", skip_serializing_if = "json::is_empty")]
            pub peer_id: Option<Vec<u8>>,
            /// The time on the node's clock, in nanoseconds since 1970.
            #[prost(int64, optional, tag = "3")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub timestamp: Option<i64>,
            $(
                $(#[$doc])*
                #[prost(message, optional, tag = $tag)]
                #[serde(rename = $json, $(alias = $old_json,)? skip_serializing_if = "Option::is_none")]
                pub $field: Option<$kind>,
            )*
        }

        /// The kinds of events (`TraceEvent.Type`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
        #[repr(i32)]
        pub enum Type {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Type {
            /// The names in the protobuf, by number.
            const NAMES: &[&str] = &[$($type_name),*];

            /// Returns the kind with this name in the newest or an earlier release.
            pub(crate) fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($type_name $(| $old_type_name)? => Some(Self::$kind),)*
                    _ => None,
                }
            }

            /// The name of the kind in the protobuf, for example `DELIVER_MESSAGE`.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        /// The content of an event: the field of a [`TraceEvent`] that its type selects.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body {
            $($(#[$doc])* $kind($kind),)*
        }

        impl Body {
            pub fn kind(&self) -> Type {
                match self {
                    $(Self::$kind(_) => Type::$kind,)*
                }
            }
        }

        impl TraceEvent {
            /// Creates an event at the node with this id, at this time in nanoseconds since 1970.
            pub fn new(peer_id: &[u8], timestamp: i64, body: Body) -> Self {
                let mut event = Self {
                    kind: Some(body.kind() as i32),
                    peer_id: Some(peer_id.to_vec()),
                    timestamp: Some(timestamp),
                    ..Self::default()
                };
                match body {
                    $(Body::$kind(body) => event.$field = Some(body),)*
                }
                event
            }

            /// The fields of the protobuf, by number.
            pub(crate) const FIELDS: &[&str] = &["1", "2", "3", $($tag),*];

            /// The content. `None` if the type is unknown or its field is missing.
            pub fn body(&self) -> Option<Body> {
                Some(match Type::try_from(self.kind?).ok()? {
                    $(Type::$kind => Body::$kind(self.$field.clone()?),)*
                })
            }
        }

        messages! { $($(#[$doc])* $kind { $($fields)* })* }
    };
}

events! {
    0 "PUBLISH_MESSAGE" publish_message: PublishMessage = "4" "publishMessage" {
        bytes message_id = "1" "messageID",
        string topic = "2" "topic",
    }
    /// The node rejected a message.
    1 "REJECT_MESSAGE" reject_message: RejectMessage = "5" "rejectMessage" {
        bytes message_id = "1" "messageID",
        bytes received_from = "2" "receivedFrom",
        /// The reason: one of the constants in [`reason`], or another text.
        string reason = "3" "reason",
        string topic = "4" "topic",
    }
    /// The node received another copy of a known message.
    2 "DUPLICATE_MESSAGE" duplicate_message: DuplicateMessage = "6" "duplicateMessage" {
        bytes message_id = "1" "messageID",
        bytes received_from = "2" "receivedFrom",
        string topic = "3" "topic",
    }
    /// The node delivered a message to the application.
    3 "DELIVER_MESSAGE" deliver_message: DeliverMessage = "7" "deliverMessage" {
        bytes message_id = "1" "messageID",
        string topic = "2" "topic",
        /// The sender, or the node itself if it published the message.
        bytes received_from = "3" "receivedFrom",
    }
    /// The link to a peer went up.
    4 "ON_NEW_OUTBOUND_STREAM" ["ADD_PEER"] add_peer: AddPeer = "8" "onNewOutboundStream" ["addPeer"] {
        bytes peer_id = "1" "peerID",
        string proto = "2" "proto",
    }
    /// The link to a peer went down.
    5 "ON_CLOSED_OUTBOUND_STREAM" ["REMOVE_PEER"] remove_peer: RemovePeer =
        "9" "onClosedOutboundStream" ["removePeer"] {
        bytes peer_id = "1" "peerID",
    }
    6 "RECV_RPC" recv_rpc: RecvRpc = "10" "recvRPC" {
        bytes received_from = "1" "receivedFrom",
        one(RpcMeta) meta = "2" "meta",
    }
    /// The node sent an RPC. go-libp2p-pubsub reports it when the RPC enters the peer's queue.
    7 "SEND_RPC" send_rpc: SendRpc = "11" "sendRPC" {
        bytes send_to = "1" "sendTo",
        one(RpcMeta) meta = "2" "meta",
    }
    /// The node dropped an RPC before sending it.
    8 "DROP_RPC" drop_rpc: DropRpc = "12" "dropRPC" {
        bytes send_to = "1" "sendTo",
        one(RpcMeta) meta = "2" "meta",
    }
    9 "JOIN" join: Join = "13" "join" {
        string topic = "1" "topic",
    }
    10 "LEAVE" leave: Leave = "14" "leave" {
        /// Field 2, as in go-libp2p-pubsub, which has no field 1.
        string topic = "2" "topic",
    }
    /// The node added a peer to a mesh.
    11 "GRAFT" graft: Graft = "15" "graft" {
        bytes peer_id = "1" "peerID",
        string topic = "2" "topic",
    }
    /// The node removed a peer from a mesh.
    12 "PRUNE" prune: Prune = "16" "prune" {
        bytes peer_id = "1" "peerID",
        string topic = "2" "topic",
    }
    /// The node has handed an RPC to the transport: go-libp2p-pubsub since v0.19.
    13 "SEND_RPC_COMPLETED" send_rpc_completed: SendRpcCompleted = "17" "sendRPCCompleted" {
        bytes send_to = "1" "sendTo",
        one(RpcMeta) meta = "2" "meta",
        /// Nanoseconds that the write to the stream took. It ended at the time of the event.
        int64 write_nanos = "3" "writeDurationNanos",
    }
}

messages! {
    /// The content of an RPC, without payloads.
    RpcMeta {
        many(MessageMeta) messages = "1" "messages",
        many(SubMeta) subscription = "2" "subscription",
        one(ControlMeta) control = "3" "control",
    }
    MessageMeta {
        bytes message_id = "1" "messageID",
        string topic = "2" "topic",
    }
    /// A change of a subscription.
    SubMeta {
        /// True if the node joined the topic, false if it left.
        bool subscribe = "1" "subscribe",
        string topic = "2" "topic",
    }
    ControlMeta {
        many(ControlIHaveMeta) ihave = "1" "ihave",
        many(ControlIWantMeta) iwant = "2" "iwant",
        many(ControlGraftMeta) graft = "3" "graft",
        many(ControlPruneMeta) prune = "4" "prune",
        many(ControlIDontWantMeta) idontwant = "5" "idontwant",
    }
    ControlIHaveMeta {
        string topic = "1" "topic",
        many_bytes message_ids = "2" "messageIDs",
    }
    ControlIWantMeta {
        many_bytes message_ids = "1" "messageIDs",
    }
    ControlGraftMeta {
        string topic = "1" "topic",
    }
    ControlPruneMeta {
        string topic = "1" "topic",
        many_bytes peers = "2" "peers",
    }
    ControlIDontWantMeta {
        many_bytes message_ids = "1" "messageIDs",
    }
    /// Several events (`TraceEventBatch`), which go's remote tracer sends behind a length, packed
    /// with gzip.
    TraceEventBatch {
        many(TraceEvent) batch = "1" "batch",
    }
}

/// Reasons for rejections, with the names of go-libp2p-pubsub (`tracer.go`, "rejection reasons").
pub mod reason {
    /// The message has no signature, but the policy requires one.
    pub const MISSING_SIGNATURE: &str = "missing signature";
    /// The message has a signature, but the policy allows none.
    pub const UNEXPECTED_SIGNATURE: &str = "unexpected signature";
    /// The message has an author or a number, but the policy allows none.
    pub const UNEXPECTED_AUTH_INFO: &str = "unexpected auth info";
    pub const INVALID_SIGNATURE: &str = "invalid signature";
    /// Too many messages are waiting for validation.
    pub const VALIDATION_THROTTLED: &str = "validation throttled";
    /// The application declared the message invalid.
    pub const VALIDATION_FAILED: &str = "validation failed";
    /// The application declared the message irrelevant.
    pub const VALIDATION_IGNORED: &str = "validation ignored";
    /// The message names this node as its author, but came from a peer.
    pub const SELF_ORIGIN: &str = "self originated message";
}
