//! The libp2p swarm of a node: TCP and QUIC, limits on connections, identify, and GossipSub.

use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::{Swarm, identify, noise, tcp, yamux};

use crate::config::Checked;

/// What identify calls the specification of this network: the name that go-libp2p and Kubo use.
const IDENTIFY_PROTOCOL: &str = "ipfs/0.1.0";

/// All that a node does on its connections. The limits come first, so that what they refuse reaches nothing else.
#[derive(NetworkBehaviour)]
pub(crate) struct Host {
    pub(crate) limits: connection_limits::Behaviour,
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    pub(crate) identify: identify::Behaviour,
    pub(crate) gossip: samara_libp2p::Behaviour,
}

/// Builds the swarm; it neither listens nor dials yet.
pub(crate) fn build(key: Keypair, config: &Checked) -> Result<Swarm<Host>, String> {
    let network = &config.written.network;
    let idle = network.idle_timeout.duration();
    let limits = ConnectionLimits::default()
        .with_max_established(Some(network.max_connections))
        .with_max_established_per_peer(Some(network.max_connections_per_peer))
        .with_max_pending_incoming(Some(network.max_pending))
        .with_max_pending_outgoing(Some(network.max_pending));
    let host = |key: &Keypair| -> Result<Host, Box<dyn std::error::Error + Send + Sync>> {
        let identify = identify::Config::new(IDENTIFY_PROTOCOL.to_owned(), key.public())
            .with_agent_version(concat!("samara/", env!("CARGO_PKG_VERSION")).to_owned());
        Ok(Host {
            limits: connection_limits::Behaviour::new(limits),
            identify: identify::Behaviour::new(identify),
            gossip: samara_libp2p::Behaviour::new(key, config.engine.clone(), config.options.clone())?,
        })
    };
    let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| format!("the TCP transport cannot be set up: {error}"))?
        .with_quic()
        .with_behaviour(host)
        .map_err(|error| format!("the node cannot be set up: {error}"))?
        .with_swarm_config(|config| config.with_idle_connection_timeout(idle))
        .build();
    Ok(swarm)
}
