//! The engines on real sockets.
//!
//! [`Behaviour`] puts the GossipSub engine that the simulator measures into any libp2p swarm. Nothing of the protocol is
//! in this crate: it opens streams, reads and writes frames, keeps the clock, and asks the engine's outbox for the next copy only when a
//! link has room for it, so that the order in which copies leave is the outbox's and not that of buffers on the way.
//!
//! `mconn` puts any engine whose frames have a codec on the connections of Tendermint, CometBFT and celestia-core: that of the
//! transaction pool, for one. `ring` is a member of a group that broadcasts over framed TCP, `relay` a node of a pool that mixes over gRPC. Each
//! is a feature: `libp2p` (on by default), `mconnection`, `ring`, `relay`.
//!
#![cfg_attr(feature = "libp2p", doc = "```no_run")]
#![cfg_attr(not(feature = "libp2p"), doc = "```ignore")]
//! use libp2p::futures::StreamExt;
//! use libp2p::swarm::SwarmEvent;
//! use samara_gossipsub::Config;
//! use samara_gossipsub::rpc::Topic;
//! use samara_net::{Behaviour, Event, Options};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut swarm = libp2p::SwarmBuilder::with_new_identity()
//!     .with_tokio()
//!     .with_tcp(Default::default(), libp2p::noise::Config::new, libp2p::yamux::Config::default)?
//!     .with_behaviour(|key| Behaviour::new(key, Config::go_libp2p_pubsub(), Options::default()).unwrap())?
//!     .build();
//! swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
//! let topic = Topic::new("chat");
//! swarm.behaviour_mut().subscribe(&topic);
//! loop {
//!     if let SwarmEvent::Behaviour(Event::Message { message, from, .. }) = swarm.select_next_some().await {
//!         println!("{} bytes from {from:?}", message.data.len());
//!     }
//! }
//! # }
//! ```

#[cfg(feature = "libp2p")]
mod behaviour;
mod driver;
#[cfg(feature = "libp2p")]
mod event;
#[cfg(feature = "libp2p")]
mod handler;
#[cfg(feature = "libp2p")]
mod identity;
#[cfg(feature = "mconnection")]
pub mod mconn;
#[cfg(feature = "libp2p")]
mod options;
#[cfg(feature = "libp2p")]
mod peer;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "ring")]
pub mod ring;
#[cfg(feature = "libp2p")]
mod upgrade;

pub use driver::Driver;
#[cfg(feature = "libp2p")]
pub use {
    behaviour::Behaviour,
    event::{Event, Traffic},
    handler::Handler,
    identity::{KeySigner, KeyVerifier, identity_of, peer_id_of},
    options::{Options, PROTOCOLS},
    peer::Sizes,
};
