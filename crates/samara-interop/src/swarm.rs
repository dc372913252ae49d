//! The libp2p host: TCP, Noise and Yamux on port 9000, identify, and the engine.

use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::{Swarm, identify, noise, tcp, yamux};
use samara_gossipsub::Config;
use samara_gossipsub::wire::Limits;
use samara_libp2p::Options;

/// The port of all nodes.
pub(crate) const PORT: u16 = 9000;

/// As the name that go-libp2p gives its network.
const IDENTIFY_PROTOCOL: &str = "ipfs/0.1.0";

/// Connections stay: nobody dials them again. The other runners have no limit.
const IDLE_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

/// What a node does on its connections.
#[derive(NetworkBehaviour)]
pub(crate) struct Host {
    /// go-libp2p-pubsub speaks only to peers whose protocols it has learnt from identify.
    pub(crate) identify: identify::Behaviour,
    pub(crate) gossip: samara_libp2p::Behaviour,
}

/// Builds a host that neither listens nor dials yet.
///
/// # Errors
/// A text: a transport or the engine cannot be set up.
pub(crate) fn build(key: Keypair, config: Config) -> Result<Swarm<Host>, String> {
    let options = Options {
        limits: Limits::with_frame_bytes(config.max_rpc_bytes),
        report_frames: true,
        ..Options::default()
    };
    let host = |key: &Keypair| -> Result<Host, Box<dyn std::error::Error + Send + Sync>> {
        let identify = identify::Config::new(IDENTIFY_PROTOCOL.to_owned(), key.public())
            .with_agent_version(concat!("samara-interop/", env!("CARGO_PKG_VERSION")).to_owned());
        Ok(Host {
            identify: identify::Behaviour::new(identify),
            gossip: samara_libp2p::Behaviour::new(key, config, options)?,
        })
    };
    let swarm = libp2p::SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| format!("the TCP transport cannot be set up: {error}"))?
        .with_behaviour(host)
        .map_err(|error| format!("the node cannot be set up: {error}"))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(IDLE_TIMEOUT))
        .build();
    Ok(swarm)
}
