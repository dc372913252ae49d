//! Nodes whose simulations are compiled in this crate.

use std::ops::Range;

use samara_baselines::{Plumtree, PubSub};
use samara_engine::Engine;
use samara_ring::daisychain::Daisychain;
use samara_ring::{Federation, Ring};
use samara_sim::{ConfigError, FrameCodec, HostConfig, NodeFactory, Reader, SimConfig, Simulation};

use crate::group::GroupMember;
use crate::host::Host;
use crate::messages::{BaselineMember, GossipMember};
use crate::{columns, mix, pool};

/// A node that this crate compiles together with its simulation: a function that is generic over nodes is otherwise compiled where
/// it is called, as that crate is optimised.
// `Engine` is no supertrait, since the bound `GroupMember<B>: Simulated` would then hide what the types of its `Engine` are.
pub trait Simulated {
    /// [`Simulation::with_local_hosts`], with its errors.
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
    Host<columns::Node>,
    Host<GossipMember>,
    Host<BaselineMember<Plumtree>>,
    Host<BaselineMember<PubSub>>,
    GroupMember<Ring>,
    GroupMember<Federation>,
    GroupMember<Daisychain>,
    pool::Node,
    mix::Host,
}

/// How frames and events travel between processes that simulate one network.
pub trait Codec<N: Engine>: FrameCodec<N::Frame> {
    fn write_event(&self, event: &N::Event, out: &mut Vec<u8>);

    /// Reads what [`write_event`](Self::write_event) wrote; `None` if the bytes are something else.
    fn read_event(&self, reader: &mut Reader<'_>) -> Option<N::Event>;
}
