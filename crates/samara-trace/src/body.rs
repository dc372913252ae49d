//! An event as what happened, when and where, instead of one field per kind.

use crate::event::{
    AddPeer, DeliverMessage, DropRpc, DuplicateMessage, Graft, Join, Leave, Prune, PublishMessage, RecvRpc,
    RejectMessage, RemovePeer, SendRpc, TraceEvent, Type,
};

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($field:ident),)*) => {
        /// What happened: the one field of a [`TraceEvent`] that its type names.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Body {
            $($(#[$doc])* $variant($variant),)*
        }

        impl Body {
            /// Its type.
            pub fn kind(&self) -> Type {
                match self {
                    $(Self::$variant(_) => Type::$variant,)*
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
                    $(Body::$variant(body) => event.$field = Some(body),)*
                }
                event
            }

            /// What happened; `None` if the type is unknown or the field that it names is missing.
            pub fn body(&self) -> Option<Body> {
                Some(match Type::try_from(self.kind?).ok()? {
                    $(Type::$variant => Body::$variant(self.$field.clone()?),)*
                })
            }
        }
    };
}

bodies! {
    /// This node published a message.
    PublishMessage(publish_message),
    /// A message was not delivered.
    RejectMessage(reject_message),
    /// A copy of a message that was known.
    DuplicateMessage(duplicate_message),
    /// A message went to the application.
    DeliverMessage(deliver_message),
    /// The link to a peer is up.
    AddPeer(add_peer),
    /// The link to a peer is down.
    RemovePeer(remove_peer),
    /// An RPC came.
    RecvRpc(recv_rpc),
    /// An RPC was sent.
    SendRpc(send_rpc),
    /// An RPC was lost before it was sent.
    DropRpc(drop_rpc),
    /// This node joined a topic.
    Join(join),
    /// This node left a topic.
    Leave(leave),
    /// A peer is in a mesh now.
    Graft(graft),
    /// A peer is not in a mesh any more.
    Prune(prune),
}
