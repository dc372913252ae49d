//! The two worlds of an application, and the link layers of real hosts.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use samara_cat::WithCat;
use samara_engine::Engine;
use samara_gossipsub::WithGossipSub;
use samara_mix::{MixFrame, WithMix};
use samara_sim::{App, ConfigError, HostConfig, NodeFactory, SimConfig, Simulation};
use serde::{Deserialize, Serialize};

#[cfg(feature = "net")]
use super::serve::{Open, Serve, serve};
#[cfg(feature = "net")]
use super::{cometbft, framed, grpc, swarm};

/// Returns the name of the protocol that two hosts agree on.
pub type ProtocolOf = Box<dyn Fn(u32, u32) -> Arc<str> + Send + Sync>;

/// Creates a simulation, with the errors of [`Simulation::with_local_hosts`].
pub type Simulate<A> =
    fn(SimConfig, Vec<HostConfig>, NodeFactory<A>, Range<u32>) -> Result<Simulation<A>, ConfigError>;

/// The two worlds of an application: its simulation, and its sockets in real processes.
///
/// The functions are generic over applications, and compiled in the crate that creates this value, at
/// the optimisation level of that crate. The constructors are not inlined: a caller without a call
/// would itself be inlined into crates at lower levels, and the functions compiled there.
#[derive(Debug)]
pub struct Worlds<A: App> {
    pub simulation: Simulate<A>,
    pub sockets: Sockets<A>,
}

impl<A: App> Worlds<A> {
    /// Real hosts have [`Sockets::framed`].
    #[inline(never)]
    pub fn framed() -> Self {
        Self { simulation: Simulation::with_local_hosts, sockets: Sockets::framed() }
    }
}

impl<A: App + WithCat> Worlds<A> {
    /// Real hosts have [`Sockets::cometbft`].
    #[inline(never)]
    pub fn cometbft() -> Self {
        Self { simulation: Simulation::with_local_hosts, sockets: Sockets::cometbft() }
    }
}

impl<A: App + WithMix + Engine<Frame = MixFrame>> Worlds<A> {
    /// Real hosts have [`Sockets::grpc`].
    #[inline(never)]
    pub fn grpc() -> Self {
        Self { simulation: Simulation::with_local_hosts, sockets: Sockets::grpc() }
    }
}

impl<A: App + WithGossipSub + Engine<Event: Send>> Worlds<A> {
    /// Real hosts have [`Sockets::libp2p`].
    #[inline(never)]
    pub fn libp2p() -> Self {
        Self { simulation: Simulation::with_local_hosts, sockets: Sockets::libp2p() }
    }
}

/// How hosts carry the frames of an application.
pub struct Sockets<A: App> {
    pub layer: Layer,
    /// Opens the sockets of a host.
    #[cfg(feature = "net")]
    pub open: Open<A>,
    /// Runs a host until an order to stop.
    #[cfg(feature = "net")]
    pub serve: Serve<A>,
    app: PhantomData<fn(A)>,
}

/// A link layer of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// [`Sockets::framed`].
    Framed,
    /// [`Sockets::cometbft`].
    CometBft,
    /// [`Sockets::grpc`].
    Grpc,
    /// [`Sockets::libp2p`].
    Libp2p,
}

/// A transport below a link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    Quic,
}

impl Layer {
    /// Returns the transports that the layer has.
    pub const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Framed | Self::CometBft | Self::Grpc => &[Transport::Tcp],
            Self::Libp2p => &[Transport::Tcp, Transport::Quic],
        }
    }
}

impl<A: App> Sockets<A> {
    /// Each frame behind its length on a TCP connection. It takes as many bytes as its engine says.
    pub fn framed() -> Self {
        Self {
            layer: Layer::Framed,
            #[cfg(feature = "net")]
            open: framed::open::<A>,
            #[cfg(feature = "net")]
            serve: serve::<A>,
            app: PhantomData,
        }
    }
}

impl<A: App + WithCat> Sockets<A> {
    /// The connections of CometBFT with the channels of the application's pool, in scenarios that
    /// have them (`transport.connection`); else those of [`framed`](Self::framed).
    pub fn cometbft() -> Self {
        Self {
            layer: Layer::CometBft,
            #[cfg(feature = "net")]
            open: cometbft::open::<A>,
            #[cfg(feature = "net")]
            serve: serve::<A>,
            app: PhantomData,
        }
    }
}

impl<A: App + WithMix + Engine<Frame = MixFrame>> Sockets<A> {
    /// Streams of gRPC over TLS, in scenarios with that transport; else those of
    /// [`framed`](Self::framed).
    pub fn grpc() -> Self {
        Self {
            layer: Layer::Grpc,
            #[cfg(feature = "net")]
            open: grpc::open::<A>,
            #[cfg(feature = "net")]
            serve: serve::<A>,
            app: PhantomData,
        }
    }
}

impl<A: App + WithGossipSub + Engine<Event: Send>> Sockets<A> {
    /// A swarm of libp2p over TCP or QUIC, with the wire format of GossipSub and the limit over all
    /// links.
    pub fn libp2p() -> Self {
        Self {
            layer: Layer::Libp2p,
            #[cfg(feature = "net")]
            open: swarm::open::<A>,
            #[cfg(feature = "net")]
            serve: serve::<A>,
            app: PhantomData,
        }
    }
}

impl<A: App> fmt::Debug for Sockets<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layer.fmt(f)
    }
}
