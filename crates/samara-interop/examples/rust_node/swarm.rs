//! The swarm with rust-libp2p's gossipsub, configured by a `node.toml`.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use libp2p::core::transport::ListenerId;
use libp2p::gossipsub::{
    self, AllowAllSubscriptionFilter, IdentTopic, MaxCountSubscriptionFilter, MessageId, TopicHash,
};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, identify, noise, tcp, yamux};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use samara_gossipsub::Config;
use samara_gossipsub::rpc::{Message, Topic};
use samara_node::Checked;
use samara_node::blocks::column_of;
use samara_node::config::{AuthenticityKind, IdKind};
use toml::{Table, Value};

/// Number of frames that wait for a peer, as many as samara's presets allow (`roomyQueue` of go-node).
const QUEUE: usize = 5_000;
/// Number of attempts to dial an address, since packets can be lost.
const DIAL_TRIES: u32 = 3;

/// The keys of `[gossipsub]` that this node supports.
const KEYS: [&str; 15] = [
    "preset",
    "version",
    "degree",
    "degree_low",
    "degree_high",
    "degree_lazy",
    "degree_score",
    "degree_out",
    "heartbeat",
    "history_length",
    "history_gossip",
    "gossip_factor",
    "idontwant",
    "queue",
    // Without effect: this node publishes no batches.
    "schedule_publish",
];
/// The values of other keys, for which the node behaves as they say.
const VALUES: [(&str, Value); 4] = [
    ("withdraw", Value::Boolean(false)),
    ("flood_publish", Value::Boolean(false)),
    ("gossip_to_turned_away", Value::Boolean(false)),
    ("idontwant_on_publish", Value::Boolean(false)),
];

/// Rejects keys that rust-libp2p's gossipsub cannot support.
pub(crate) fn check(config: &Checked) -> Result<(), String> {
    let written = &config.written;
    let refuse = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
        Err(format!("{key}: found {found}, expected {expected}; remove the key, or use samara's own node"))
    };
    let gossip = Table::try_from(&written.gossipsub).map_err(|error| error.to_string())?;
    for (key, value) in gossip.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())) {
        if key == "parts" {
            let asking =
                value.as_table().filter(|parts| parts.len() == 1).and_then(|parts| parts.get("asking"));
            if asking.and_then(Value::as_str) != Some("everyone") {
                return refuse("gossipsub.parts", value, "only asking = \"everyone\"");
            }
            continue;
        }
        match VALUES.iter().find(|(known, _)| known == key) {
            Some((_, expected)) if expected == value => {}
            Some((_, expected)) => {
                return refuse(&format!("gossipsub.{key}"), value, &expected.to_string());
            }
            None => return refuse(&format!("gossipsub.{key}"), value, "no such key"),
        }
    }
    let version = gossip.get("version").and_then(Value::as_str).unwrap_or("1.2");
    if version != "1.3" {
        return refuse("gossipsub.version", &version, "1.3");
    }
    let messages = (written.messages.authenticity, written.messages.id);
    if messages != (Some(AuthenticityKind::Anonymous), Some(IdKind::Ethereum)) {
        let found = format!("{messages:?}");
        return refuse("messages", &found, "anonymous messages with Ethereum's ids");
    }
    let is_tcp = |address: &Multiaddr| address.iter().any(|part| matches!(part, Protocol::Tcp(_)));
    match config.listen.as_slice() {
        [address] if is_tcp(address) => {}
        found => return refuse("network.listen", &format!("{found:?}"), "one address with TCP"),
    }
    let others = [
        ("network.dial", !config.dial.is_empty()),
        ("metrics", written.metrics.is_some()),
        ("plan", written.plan.publications.is_some() || !written.plan.metrics.is_empty()),
        ("cat", config.cat.is_some()),
        ("ring", config.ring.is_some()),
        ("mix", config.mix.is_some()),
        ("identity.key_file", written.identity.key_file.is_some()),
    ];
    match others.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => refuse(key, &"a value", "none"),
        None => Ok(()),
    }
}

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    identify: identify::Behaviour,
    pub(crate) gossip: gossipsub::Behaviour,
}

/// The swarm, and what it does not remember itself.
pub(crate) struct Host {
    pub(crate) swarm: Swarm<Behaviour>,
    bandwidth: Registry,
    /// The address of each dialled peer, with the number of attempts.
    dialled: HashMap<PeerId, (Multiaddr, u32)>,
}

impl Host {
    /// Starts to listen, and subscribes to the topics.
    pub(crate) fn start(config: &Checked) -> Result<Self, String> {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&config.written.identity.seed.unwrap_or_default().to_le_bytes());
        let key = Keypair::ed25519_from_bytes(secret).map_err(|error| error.to_string())?;
        let mut bandwidth = Registry::default();
        // The default of 100 would ignore the subscriptions of a node that has joined all columns.
        let subscriptions = config.options.limits.subscriptions;
        let filter = MaxCountSubscriptionFilter {
            filter: AllowAllSubscriptionFilter {},
            max_subscribed_topics: subscriptions,
            max_subscriptions_per_request: subscriptions,
        };
        let (author, options) = (gossipsub::MessageAuthenticity::Anonymous, gossip(config)?);
        let gossip = gossipsub::Behaviour::new_with_subscription_filter(author, options, filter)?;
        let idle_timeout = config.written.network.idle_timeout.duration();
        let mut swarm = libp2p::SwarmBuilder::with_existing_identity(key)
            .with_tokio()
            .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
            .map_err(|error| format!("cannot set up the TCP transport: {error}"))?
            .with_bandwidth_metrics(&mut bandwidth)
            .with_behaviour(|key| Behaviour {
                identify: identify::Behaviour::new(identify::Config::new(
                    "ipfs/0.1.0".to_owned(),
                    key.public(),
                )),
                gossip,
            })
            .map_err(|error| format!("cannot set up the node: {error}"))?
            .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(idle_timeout))
            .build();
        for topic in &config.topics {
            let gossip = &mut swarm.behaviour_mut().gossip;
            let name = IdentTopic::new(topic.as_str());
            if config.cells.is_some() && column_of(topic).is_some() {
                gossip.enable_partials_for_topic(name.hash(), true);
            }
            gossip.subscribe(&name).map_err(|error| format!("topics: {:?}: {error}", topic.as_str()))?;
        }
        for address in &config.listen {
            let _: ListenerId =
                swarm.listen_on(address.clone()).map_err(|error| format!("network.listen: {error}"))?;
        }
        Ok(Self { swarm, bandwidth, dialled: HashMap::new() })
    }

    pub(crate) fn peer_id(&self) -> PeerId {
        *self.swarm.local_peer_id()
    }

    /// Waits for the address on which the node listens.
    pub(crate) async fn listening(&mut self) -> Result<Multiaddr, String> {
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { address, .. } => return Ok(address),
                SwarmEvent::ListenerError { error, .. } => return Err(format!("network.listen: {error}")),
                _ => {}
            }
        }
    }

    /// Dials an address with a peer id in the background.
    pub(crate) fn dial(&mut self, address: &str) -> Result<(), String> {
        let wrong = |error: &dyn std::fmt::Display| format!("address: found {address:?}: {error}");
        let parsed: Multiaddr = address.parse().map_err(|error| wrong(&error))?;
        let Some(Protocol::P2p(peer)) = parsed.iter().last() else {
            return Err(wrong(&"expected a peer id at its end"));
        };
        self.dialled.insert(peer, (parsed, 0));
        self.dial_again(peer);
        Ok(())
    }

    /// Dials a peer, unless that was attempted often enough.
    pub(crate) fn dial_again(&mut self, peer: PeerId) {
        let Some((address, tries)) = self.dialled.get_mut(&peer).filter(|(_, tries)| *tries < DIAL_TRIES)
        else {
            return;
        };
        *tries += 1;
        let dial = DialOpts::peer_id(peer).addresses(vec![address.clone()]).build();
        if let Err(error) = self.swarm.dial(dial) {
            tracing::warn!(%peer, %error, "cannot dial");
        }
    }

    /// Returns the bytes of all streams: written and read, without Noise, Yamux and TCP.
    pub(crate) fn bandwidth(&self) -> (u64, u64) {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.bandwidth) {
            tracing::warn!(%error, "cannot count bytes");
        }
        let sum = |direction: &str| {
            let lines = text.lines().filter(|line| line.contains(direction));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        (sum("direction=\"Outbound\""), sum("direction=\"Inbound\""))
    }
}

/// Returns the id of a message, by the function that samara's own node has.
pub(crate) fn id_of(config: &Config, topic: &TopicHash, data: &[u8]) -> MessageId {
    let message = Message::new(Topic::new(topic.as_str()), data.to_vec().into());
    MessageId::new(config.message_id.id(&message).as_bytes())
}

fn gossip(config: &Checked) -> Result<gossipsub::Config, String> {
    let (own, engine) = (&config.engine, config.engine.clone());
    let id = move |message: &gossipsub::Message| id_of(&engine, &message.topic, &message.data);
    let threshold = if own.idontwant.send { own.idontwant.threshold_bytes } else { usize::MAX };
    gossipsub::ConfigBuilder::default()
        .mesh_n(own.mesh.d)
        .mesh_n_low(own.mesh.d_low)
        .mesh_n_high(own.mesh.d_high)
        .retain_scores(own.mesh.d_score)
        .mesh_outbound_min(own.mesh.d_out)
        .gossip_lazy(own.mesh.d_lazy)
        .gossip_factor(own.mesh.gossip_factor)
        .history_length(own.history_length)
        .history_gossip(own.history_gossip)
        // That of go-libp2p-pubsub. The library waits for five seconds by default.
        .heartbeat_initial_delay(Duration::from_millis(100))
        .heartbeat_interval(own.heartbeat_interval)
        .fanout_ttl(own.fanout_ttl)
        .prune_backoff(own.prune_backoff)
        .unsubscribe_backoff(own.unsubscribe_backoff)
        .duplicate_cache_time(own.seen_ttl)
        .idontwant_message_size_threshold(threshold)
        .flood_publish(false)
        .connection_handler_queue_len(config.written.gossipsub.queue.unwrap_or(QUEUE))
        .max_transmit_size(own.max_rpc_bytes)
        .validation_mode(gossipsub::ValidationMode::Anonymous)
        .message_id_fn(id)
        .build()
        .map_err(|error| error.to_string())
}
