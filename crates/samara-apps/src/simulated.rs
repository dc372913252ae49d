//! Node types whose simulations this crate compiles.

use std::ops::Range;

use samara_baselines::{Forest, Plumtree, PubSub};
use samara_engine::Engine;
use samara_gossipsub::GossipSub;
use samara_ring::daisychain::Daisychain;
use samara_ring::jgroups::Jgroups;
use samara_ring::{Federation, Ring};
use samara_sim::{ConfigError, HostConfig, NodeFactory, SimConfig, Simulation};

use crate::group::GroupMember;
use crate::host::Host;
use crate::messages::{BaselineMember, GossipMember};
use crate::{columns, mix, pool};

/// A node type whose simulation this crate compiles.
///
/// A function that is generic over node types is otherwise compiled in the crate that calls it, at
/// the optimisation level of that crate.
// `Engine` is not a supertrait: the bound `GroupMember<B>: Simulated` would then hide the
// associated types of its `Engine`.
pub trait Simulated {
    /// Calls [`Simulation::with_local_hosts`] and returns its errors.
    fn simulation(
        config: SimConfig,
        hosts: Vec<HostConfig>,
        factory: NodeFactory<Self>,
        local: Range<u32>,
    ) -> Result<Simulation<Self>, ConfigError>
    where
        Self: Engine + Sized;
}

macro_rules! simulated {
    ($($node:ty),* $(,)?) => {$(
        impl Simulated for $node {
            fn simulation(
                config: SimConfig,
                hosts: Vec<HostConfig>,
                factory: NodeFactory<Self>,
                local: Range<u32>,
            ) -> Result<Simulation<Self>, ConfigError> {
                Simulation::with_local_hosts(config, hosts, factory, local)
            }
        }
    )*};
}

simulated! {
    Host<columns::Node<GossipSub>>,
    Host<columns::Node<PubSub>>,
    Host<columns::Node<Forest>>,
    Host<GossipMember>,
    Host<BaselineMember<Plumtree>>,
    Host<BaselineMember<PubSub>>,
    GroupMember<Ring>,
    GroupMember<Federation>,
    GroupMember<Daisychain>,
    GroupMember<Jgroups>,
    pool::Node,
    mix::Host,
}
