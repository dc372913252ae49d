//! The swarm with rust-libp2p's gossipsub, and the links to the hosts of the run.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use futures::StreamExt;
use libp2p::allow_block_list::{self, AllowedPeers};
use libp2p::core::transport::ListenerId;
use libp2p::gossipsub::{
    self, AllowAllSubscriptionFilter, IdentTopic, MaxCountSubscriptionFilter, MetricsConfig, TopicHash,
};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, identify, noise, tcp, yamux};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};

use crate::contents::Contents;
use crate::orders::Listen;

/// Links stay up as long as the run.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1 << 20);
/// Maximum number of topics of a peer. The default of 100 would ignore the subscriptions of a host that has
/// joined all columns.
const SUBSCRIPTIONS_MAX: usize = 10_000;

const TOKEN_BYTES: usize = 16;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    /// The hosts of the run. It comes first: gossipsub would remember connections that it refuses.
    hosts: allow_block_list::Behaviour<AllowedPeers>,
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    identify: identify::Behaviour,
    pub(crate) gossip: gossipsub::Behaviour,
}

pub(crate) struct Links {
    pub(crate) swarm: Swarm<Behaviour>,
    own: u32,
    /// The name of each host, and where this one dials it.
    hosts: Vec<(PeerId, Multiaddr)>,
    numbers: HashMap<PeerId, u32>,
    /// The hosts to dial as soon as their links are gone.
    again: HashSet<u32>,
    /// The counters of the transport and the library.
    registry: Registry,
}

impl Links {
    /// Starts to listen, and joins the topics.
    pub(crate) fn new(
        listen: &Listen,
        gossip: gossipsub::Config,
        contents: &Contents,
        has_cells: bool,
    ) -> Result<Self, String> {
        let (own, at) = (listen.host, listen.address);
        let mut token = [0; TOKEN_BYTES];
        hex::decode_to_slice(&listen.token, &mut token).map_err(|error| format!("token: {error}"))?;
        let name = |number: u32| key(&token, number).public().to_peer_id();
        let hosts: Vec<(PeerId, Multiaddr)> =
            (0..).zip(&listen.peers).map(|(number, at)| (name(number), address(*at))).collect();
        if own as usize >= hosts.len() {
            return Err(format!("host: found {own}, expected a number below {}", hosts.len()));
        }
        // Otherwise libp2p would share the address with whatever listens there.
        TcpListener::bind(at).map_err(|error| format!("address: {at}: {error}"))?;
        let mut registry = Registry::default();
        let filter = MaxCountSubscriptionFilter {
            filter: AllowAllSubscriptionFilter {},
            max_subscribed_topics: SUBSCRIPTIONS_MAX,
            max_subscriptions_per_request: SUBSCRIPTIONS_MAX,
        };
        let author = gossipsub::MessageAuthenticity::Anonymous;
        let topics = contents.topics.len();
        let metrics = MetricsConfig {
            max_topics: topics,
            max_never_subscribed_topics: topics,
            ..MetricsConfig::default()
        };
        let gossip = gossipsub::Behaviour::new_with_subscription_filter(author, gossip, filter)?
            .with_metrics(&mut registry, metrics);
        let mut allowed = allow_block_list::Behaviour::default();
        hosts.iter().for_each(|(peer, _)| _ = allowed.allow_peer(*peer));
        let key = key(&token, own);
        let identify = identify::Config::new("ipfs/0.1.0".to_owned(), key.public());
        let behaviour = Behaviour { hosts: allowed, identify: identify::Behaviour::new(identify), gossip };
        let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
            .with_tokio()
            .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
            .map_err(|error| format!("the transport: {error}"))?
            .with_bandwidth_metrics(&mut registry)
            .with_behaviour(|_| behaviour)
            .map_err(|error| format!("the swarm: {error}"))?
            .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_TIMEOUT))
            .build();
        let numbers = hosts.iter().map(|(peer, _)| *peer).zip(0..).collect();
        let mut links = Self { swarm, own, hosts, numbers, again: HashSet::new(), registry };
        links.join(contents, has_cells)?;
        let listening = links.swarm.listen_on(address(at));
        let _: ListenerId = listening.map_err(|error| format!("address: {at}: {error}"))?;
        Ok(links)
    }

    fn join(&mut self, contents: &Contents, has_cells: bool) -> Result<(), String> {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        if has_cells {
            // The host can publish any column, and asks for cells of those that it joins.
            for (topic, segment) in contents.topics.iter().zip(0..) {
                gossip.enable_partials_for_topic(topic.clone(), contents.joins.contains(&segment));
            }
        }
        for segment in &contents.joins {
            let topic = IdentTopic::new(contents.topic(*segment).as_str());
            gossip.subscribe(&topic).map_err(|error| format!("topic {:?}: {error}", topic.to_string()))?;
        }
        Ok(())
    }

    /// Waits until the host listens.
    pub(crate) async fn listening(&mut self) -> Result<(), String> {
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { .. } => return Ok(()),
                SwarmEvent::ListenerError { error, .. } => return Err(format!("address: {error}")),
                _ => {}
            }
        }
    }

    /// Returns an error unless there is such another host.
    pub(crate) fn check(&self, host: u32) -> Result<(), String> {
        let hosts = self.hosts.len();
        if host as usize >= hosts || host == self.own {
            return Err(format!("host: found {host}, expected another number below {hosts}"));
        }
        Ok(())
    }

    /// Returns the number of a host.
    pub(crate) fn number(&self, peer: &PeerId) -> Option<u32> {
        self.numbers.get(peer).copied()
    }

    /// Dials a host in the background. The socket has the port at which the host listens, or another one if
    /// that would be the same connection again. The route determines its address in an emulated network.
    pub(crate) fn dial(&mut self, host: u32) {
        let (peer, address) = &self.hosts[host as usize];
        let dial = DialOpts::peer_id(*peer).addresses(vec![address.clone()]).build();
        if let Err(error) = self.swarm.dial(dial) {
            tracing::info!(host, %error, "not dialled");
        }
    }

    pub(crate) fn reconnect(&mut self, host: u32) {
        let (peer, _) = self.hosts[host as usize];
        match self.swarm.disconnect_peer_id(peer) {
            Ok(()) => _ = self.again.insert(host),
            Err(()) => self.dial(host),
        }
    }

    /// Handles the end of the last connection to a host.
    pub(crate) fn disconnected(&mut self, peer: &PeerId) {
        if let Some(host) = self.number(peer).filter(|host| self.again.remove(host)) {
            self.dial(host);
        }
    }

    /// Returns the number of peers in the mesh of a topic.
    pub(crate) fn mesh(&self, topic: &TopicHash) -> usize {
        self.swarm.behaviour().gossip.mesh_peers(topic).count()
    }

    pub(crate) fn counted(&self) -> Counted {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::warn!(%error, "cannot count");
        }
        let sum = |name: &str, label: &str| {
            let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        Counted {
            bytes_sent: sum("libp2p_bandwidth_bytes_total{", "direction=\"Outbound\""),
            bytes_received: sum("libp2p_bandwidth_bytes_total{", "direction=\"Inbound\""),
            copies_sent: sum("topic_msg_sent_counts_total{", ""),
            copy_bytes_sent: sum("topic_msg_sent_bytes_total{", ""),
            copies_received: sum("topic_msg_recv_counts_unfiltered_total{", ""),
            copy_bytes_received: sum("topic_msg_recv_bytes_unfiltered_total{", ""),
            withdrawn: sum("removed_queued_messages_total ", ""),
        }
    }
}

/// The counters of the transport and the library.
pub(crate) struct Counted {
    /// Bytes of all streams: without Noise, Yamux and TCP.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Messages, and frames with cells, that went to queues. Each message has a frame of its own. The bytes
    /// are those of messages with their topics, and of bodies with cells.
    pub(crate) copies_sent: u64,
    pub(crate) copy_bytes_sent: u64,
    /// Messages, without cells.
    pub(crate) copies_received: u64,
    pub(crate) copy_bytes_received: u64,
    /// Messages that left queues since the peer does not want them any more.
    pub(crate) withdrawn: u64,
}

/// Returns the key of a host, by which all hosts know the names of all.
fn key(token: &[u8; TOKEN_BYTES], host: u32) -> Keypair {
    let mut seed = Sha256::new();
    seed.update(b"the key of a host of a run");
    seed.update(token);
    seed.update(host.to_le_bytes());
    Keypair::ed25519_from_bytes(seed.finalize()).expect("32 bytes are a key")
}

fn address(at: SocketAddr) -> Multiaddr {
    Multiaddr::from(at.ip()).with(Protocol::Tcp(at.port()))
}
