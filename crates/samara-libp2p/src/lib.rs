//! The GossipSub engine in any libp2p swarm.
//!
//! [`Behaviour`] puts the engine that the simulator measures into a swarm. Nothing of the protocol is in this crate: it
//! opens streams, reads and writes frames, keeps the clock, and asks the engine's outbox for the next copy only when a
//! link has room for it, so that the order in which copies leave is the outbox's and not that of buffers on the way.
//!
//! ```no_run
//! use libp2p::futures::StreamExt;
//! use libp2p::swarm::SwarmEvent;
//! use samara_gossipsub::Config;
//! use samara_gossipsub::rpc::Topic;
//! use samara_libp2p::{Behaviour, Event, Options};
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

#![warn(missing_docs)]

mod behaviour;
mod event;
mod handler;
mod identity;

pub use behaviour::Behaviour;
pub use event::{Event, Options, PROTOCOLS, Sizes, Traffic};
pub use handler::Handler;
pub use identity::{KeySigner, KeyVerifier, identity_of, peer_id_of};
