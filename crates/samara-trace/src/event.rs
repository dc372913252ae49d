//! The events, as `pb/trace.proto` of go-libp2p-pubsub has them.
//!
//! Field numbers are those of the protobuf; names in JSON are those that Go's `encoding/json` gives to
//! the generated structs. Written by hand, so that building this crate needs no protobuf compiler.

use serde::{Deserialize, Serialize};

use crate::json;

/// Messages of the protobuf. Fields are optional or repeated; each has its number and its name in JSON.
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

/// The kinds of events, each with its number, its name in the protobuf, its field of [`TraceEvent`] and
/// the content of that field.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $number:literal $type_name:literal $field:ident: $kind:ident = $tag:literal $json:literal {
            $($fields:tt)*
        }
    )*) => {
        /// One event at one node (`TraceEvent`). Made by [`TraceEvent::new`], read by [`TraceEvent::body`].
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct TraceEvent {
            #[prost(enumeration = "Type", optional, tag = "1")]
            #[serde(rename = "type", with = "json::kind", skip_serializing_if = "Option::is_none")]
            pub kind: Option<i32>,
            /// The bytes of the node's peer id.
            #[prost(bytes = "vec", optional, tag = "2")]
            #[serde(rename = "peerID", with = "json::optional", skip_serializing_if = "json::is_empty")]
            pub peer_id: Option<Vec<u8>>,
            /// The time in nanoseconds since 1970 by the node's clock.
            #[prost(int64, optional, tag = "3")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub timestamp: Option<i64>,
            $(
                $(#[$doc])*
                #[prost(message, optional, tag = $tag)]
                #[serde(rename = $json, skip_serializing_if = "Option::is_none")]
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
            pub(crate) const NAMES: &[&str] = &[$($type_name),*];

            /// Its name in the protobuf, for example `DELIVER_MESSAGE`.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        /// The content of an event: the one field of a [`TraceEvent`] that its type names.
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
            /// An event at the node with this id, at this time in nanoseconds since 1970.
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

            /// The content; `None` if the type is unknown or the field that it names is missing.
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
    /// A message was not delivered.
    1 "REJECT_MESSAGE" reject_message: RejectMessage = "5" "rejectMessage" {
        bytes message_id = "1" "messageID",
        bytes received_from = "2" "receivedFrom",
        /// The reason: one of [`reason`], or another one.
        string reason = "3" "reason",
        string topic = "4" "topic",
    }
    /// A copy of a message that was known.
    2 "DUPLICATE_MESSAGE" duplicate_message: DuplicateMessage = "6" "duplicateMessage" {
        bytes message_id = "1" "messageID",
        bytes received_from = "2" "receivedFrom",
        string topic = "3" "topic",
    }
    /// A message went to the application.
    3 "DELIVER_MESSAGE" deliver_message: DeliverMessage = "7" "deliverMessage" {
        bytes message_id = "1" "messageID",
        string topic = "2" "topic",
        /// The sender; the node itself if it published the message.
        bytes received_from = "3" "receivedFrom",
    }
    /// The link to a peer is up.
    4 "ADD_PEER" add_peer: AddPeer = "8" "addPeer" {
        bytes peer_id = "1" "peerID",
        string proto = "2" "proto",
    }
    /// The link to a peer is down.
    5 "REMOVE_PEER" remove_peer: RemovePeer = "9" "removePeer" {
        bytes peer_id = "1" "peerID",
    }
    6 "RECV_RPC" recv_rpc: RecvRpc = "10" "recvRPC" {
        bytes received_from = "1" "receivedFrom",
        one(RpcMeta) meta = "2" "meta",
    }
    7 "SEND_RPC" send_rpc: SendRpc = "11" "sendRPC" {
        bytes send_to = "1" "sendTo",
        one(RpcMeta) meta = "2" "meta",
    }
    /// An RPC was lost before it was sent.
    8 "DROP_RPC" drop_rpc: DropRpc = "12" "dropRPC" {
        bytes send_to = "1" "sendTo",
        one(RpcMeta) meta = "2" "meta",
    }
    9 "JOIN" join: Join = "13" "join" {
        string topic = "1" "topic",
    }
    10 "LEAVE" leave: Leave = "14" "leave" {
        /// Not field 1: so it is in go-libp2p-pubsub.
        string topic = "2" "topic",
    }
    /// A peer is in a mesh now.
    11 "GRAFT" graft: Graft = "15" "graft" {
        bytes peer_id = "1" "peerID",
        string topic = "2" "topic",
    }
    /// A peer is not in a mesh any more.
    12 "PRUNE" prune: Prune = "16" "prune" {
        bytes peer_id = "1" "peerID",
        string topic = "2" "topic",
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
        /// Whether the topic was joined, rather than left.
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
    /// Several events (`TraceEventBatch`): what go's remote tracer sends, between gzip and a length.
    TraceEventBatch {
        many(TraceEvent) batch = "1" "batch",
    }
}

/// The reasons for rejections, as go-libp2p-pubsub names them (`tracer.go`, "rejection reasons").
pub mod reason {
    /// The signature that the policy asks for is missing.
    pub const MISSING_SIGNATURE: &str = "missing signature";
    /// A signature where the policy allows none.
    pub const UNEXPECTED_SIGNATURE: &str = "unexpected signature";
    /// An author or a number where the policy allows none.
    pub const UNEXPECTED_AUTH_INFO: &str = "unexpected auth info";
    pub const INVALID_SIGNATURE: &str = "invalid signature";
    /// Too many messages wait for their validation.
    pub const VALIDATION_THROTTLED: &str = "validation throttled";
    /// The application says that the message is invalid.
    pub const VALIDATION_FAILED: &str = "validation failed";
    /// The application says that the message is of no interest.
    pub const VALIDATION_IGNORED: &str = "validation ignored";
    /// A message in this node's name, from somebody else.
    pub const SELF_ORIGIN: &str = "self originated message";
}
