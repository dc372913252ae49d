//! Node types whose simulations and sockets this crate compiles.

use samara_baselines::{Forest, Plumtree, PubSub};
use samara_gossipsub::GossipSub;
use samara_hosts::Worlds;
use samara_ring::daisychain::Daisychain;
use samara_ring::{Federation, Ring};
use samara_sim::App;

use crate::group::GroupMember;
use crate::host::Host;
use crate::messages::{BaselineMember, GossipMember};
use crate::{columns, mix, pool};

/// A node type whose two worlds this crate compiles.
///
/// A function that is generic over node types is otherwise compiled in the crate that calls it, at
/// the optimisation level of that crate.
// `App` is not a supertrait: the bound `GroupMember<B>: Compiled` would then hide the associated
// types of its `Engine`.
pub trait Compiled {
    /// Returns the simulation and the sockets of these nodes.
    fn worlds() -> Worlds<Self>
    where
        Self: App + Sized;
}

macro_rules! compiled {
    ($sockets:ident: $($node:ty),* $(,)?) => {$(
        impl Compiled for $node {
            fn worlds() -> Worlds<Self> {
                Worlds::$sockets()
            }
        }
    )*};
}

compiled! {
    libp2p:
    Host<columns::Node<GossipSub>>,
    Host<GossipMember>,
}

compiled! {
    cometbft:
    pool::Node,
}

compiled! {
    framed:
    Host<columns::Node<PubSub>>,
    Host<columns::Node<Forest>>,
    Host<BaselineMember<Plumtree>>,
    Host<BaselineMember<PubSub>>,
    GroupMember<Ring>,
    GroupMember<Federation>,
    GroupMember<Daisychain>,
}

compiled! {
    grpc:
    mix::Host,
}
