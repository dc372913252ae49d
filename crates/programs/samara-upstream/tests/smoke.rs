//! rust-libp2p's `tests/smoke.rs`, which uses the public interface alone, with `samara-libp2p` in the
//! swarms: messages reach all nodes of random networks.

#![cfg(upstream)]

// The test imports a crate of this name.
extern crate self as libp2p_gossipsub;

use std::convert::Infallible;
use std::time::Duration;

use libp2p_identity::{Keypair, PeerId};
use libp2p_swarm::NetworkBehaviour;
use samara_libp2p::{Authenticity, Config, ConfigError, Options, PublishError, Receipt, SubscriptionError};

/// Topics have their names on the wire in both libraries.
pub use samara_libp2p::Topic as IdentTopic;

include!(concat!(env!("OUT_DIR"), "/smoke.rs"));

/// The author of a node's messages.
pub enum MessageAuthenticity {
    /// The node. The behaviour takes its name from a key, which the test does not pass on.
    Author(PeerId),
}

/// The fields that messages must have.
pub enum ValidationMode {
    /// None, which is what nodes without signatures accept.
    Permissive,
}

/// The configuration of a node: the values that the test sets.
#[derive(Clone)]
pub struct ConfigBuilder(Config);

impl Default for ConfigBuilder {
    /// Returns the defaults of the library.
    fn default() -> Self {
        let spread = Some(Duration::ZERO);
        let authenticity = Authenticity::unsigned();
        let (deliver_own, report_subscriptions) = (false, true);
        Self(Config {
            heartbeat_spread: spread,
            authenticity,
            deliver_own,
            report_subscriptions,
            ..Config::spec()
        })
    }
}

impl ConfigBuilder {
    pub fn heartbeat_initial_delay(&mut self, delay: Duration) -> &mut Self {
        self.0.heartbeat_initial_delay = delay;
        self
    }

    pub fn heartbeat_interval(&mut self, interval: Duration) -> &mut Self {
        self.0.heartbeat_interval = interval;
        self
    }

    pub fn history_length(&mut self, heartbeats: usize) -> &mut Self {
        self.0.history_length = heartbeats;
        self
    }

    pub fn history_gossip(&mut self, heartbeats: usize) -> &mut Self {
        self.0.history_gossip = heartbeats;
        self
    }

    pub fn validation_mode(&mut self, mode: ValidationMode) -> &mut Self {
        match mode {
            ValidationMode::Permissive => self,
        }
    }

    pub fn build(&self) -> Result<Config, Infallible> {
        Ok(self.0.clone())
    }
}

/// Events with the names that the test matches.
#[derive(Debug)]
pub enum Event {
    Subscribed {},
    Message {},
    Other {},
}

impl From<samara_libp2p::Event> for Event {
    fn from(event: samara_libp2p::Event) -> Self {
        match event {
            samara_libp2p::Event::Subscription { joined: true, .. } => Self::Subscribed {},
            samara_libp2p::Event::Message { .. } => Self::Message {},
            _ => Self::Other {},
        }
    }
}

/// The behaviour, with the constructor of rust-libp2p.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p_swarm::derive_prelude", to_swarm = "Event")]
pub struct Behaviour {
    inner: samara_libp2p::Behaviour,
}

impl Behaviour {
    pub fn new(author: MessageAuthenticity, config: Config) -> Result<Self, ConfigError> {
        let MessageAuthenticity::Author(_) = author;
        let inner = samara_libp2p::Behaviour::new(&Keypair::generate_ed25519(), config, Options::default())?;
        Ok(Self { inner })
    }

    pub fn subscribe(&mut self, topic: &IdentTopic) -> Result<bool, SubscriptionError> {
        self.inner.subscribe(topic)
    }

    pub fn publish(&mut self, topic: IdentTopic, data: Vec<u8>) -> Result<Receipt, PublishError> {
        self.inner.publish(topic, data)
    }
}
