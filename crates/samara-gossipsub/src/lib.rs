//! GossipSub (v1.0 to v1.2) as a state machine without input and output.
//!
//! [`GossipSub`] is the router; it keeps the contract of [`samara_engine::Engine`], so that the simulator and a runtime on
//! sockets drive the same code. [`Config`] has presets for the specification, for Ethereum and for go-libp2p-pubsub.
//!
//! ```
//! use bytes::Bytes;
//! use samara_engine::outbox::Schedule;
//! use samara_engine::{
//!     Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
//! };
//! use samara_gossipsub::rpc::{Rpc, RpcFrame, SubOpts, Topic};
//! use samara_gossipsub::{Config, GossipSub};
//!
//! let config = Config::ethereum();
//! let mut outbox = Outbox::new(config.outbox_config());
//! let mut node = GossipSub::new(config, PeerIdentity::new(b"me"))?;
//! let (mut rng, mut effects) = (NodeRng::new(1, 0, Purpose::Engine), Effects::default());
//! let mut cx = Context::new(Time::ZERO, &mut rng, &mut outbox, &mut effects);
//!
//! // A driver does this: the node starts, and a peer comes that has joined a topic.
//! node.handle(Input::Start, &mut cx);
//! cx.outbox().link_up(PeerId(0));
//! let info = PeerInfo {
//!     identity: PeerIdentity::new(b"you"),
//!     outbound: true,
//!     address: None,
//!     protocol: "/meshsub/1.2.0".into(),
//! };
//! node.handle(Input::LinkUp { peer: PeerId(0), info }, &mut cx);
//! let topic = Topic::new("column");
//! let joined = SubOpts { subscribe: true, topic: topic.clone(), unknown: Bytes::new() };
//! let frame = RpcFrame::new(Rpc { subscriptions: vec![joined], ..Rpc::default() });
//! node.handle(Input::Frame { peer: PeerId(0), frame }, &mut cx);
//!
//! // An application does this.
//! node.subscribe(&topic, &mut cx);
//! let columns = [b"first", b"other"].map(|data| (topic.clone(), Bytes::from_static(data)));
//! let receipt = node.publish_batch(columns, &Schedule::INTERLEAVED, &mut cx);
//! assert_eq!(receipt.copies(), 2);
//! # Ok::<(), samara_gossipsub::config::ConfigError>(())
//! ```

#![warn(missing_docs)]

mod cache;
pub mod config;
mod engine;
mod memory;
pub mod message_id;
pub mod rpc;
pub mod score;
pub mod signature;
pub mod wire;

pub use cache::SeenStrategy;
pub use config::Config;
pub use engine::{
    Acceptance, BatchReceipt, Command, Cx, Event, GossipSub, Ignored, Metrics, Protocol, PublishError,
    Receipt, Sizes, Trace,
};
