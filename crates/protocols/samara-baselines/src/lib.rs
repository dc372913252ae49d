//! Dissemination protocols to compare GossipSub with, as state machines without I/O: FloodSub and
//! RandomSub ([`PubSub`]), and [`Plumtree`].
//!
//! All three implement [`samara_engine::Engine`], share the [`Command`] and [`Event`] types, and
//! have the methods of [`Baseline`], so that one wrapper serves them all.
//!
//! ```
//! use bytes::Bytes;
//! use samara_baselines::{Baseline, PubSub, PubSubConfig, RpcFrame, SubOpts, Topic};
//! use samara_engine::{
//!     Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
//! };
//!
//! let config = PubSubConfig::default();
//! let mut outbox = Outbox::new(config.common.outbox_config());
//! let mut node = PubSub::floodsub(config, PeerIdentity::new(b"me"))?;
//! let (mut rng, mut effects) = (NodeRng::new(1, 0, Purpose::Engine), Effects::default());
//! let mut cx = Context::new(Time::ZERO, &mut rng, &mut outbox, &mut effects);
//!
//! // The driver starts the node and connects a peer that has joined a topic.
//! node.handle(Input::Start, &mut cx);
//! cx.outbox().link_up(PeerId(0));
//! let identity = PeerIdentity::new(b"you");
//! let info = PeerInfo { identity, outbound: true, address: None, protocol: "".into() };
//! node.handle(Input::LinkUp { peer: PeerId(0), info }, &mut cx);
//! let topic = Topic::new("blocks");
//! let joined = SubOpts { subscribe: true, topic: topic.clone() };
//! let frame = RpcFrame::Subscriptions([joined].into());
//! node.handle(Input::Frame { peer: PeerId(0), frame }, &mut cx);
//!
//! // The application publishes a message.
//! let receipt = node.publish(&topic, Bytes::from_static(b"a block"), &mut cx)?;
//! assert_eq!(receipt.copies, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::disallowed_types)]

mod app;
mod config;
mod core;
mod message;
mod plumtree;
mod pubsub;

pub use app::{Baseline, Command, Cx, Event, Ignored, Metrics, Receipt, RequestError};
pub use config::{Common, PlumtreeConfig, PubSubConfig, Sending};
pub use message::{Graft, IHave, Message, MessageId, PlumtreeFrame, RpcFrame, SubOpts};
pub use plumtree::{Forest, Plumtree, Sizes};
pub use pubsub::PubSub;
pub use samara_engine::Topic;
pub use samara_engine::config::ConfigError;
pub use samara_engine::outbox::LaneCapacity;
