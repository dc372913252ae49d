//! The constants of the transport, and what quinn makes of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::{PeerId, tls};
use quinn::congestion::{ControllerFactory, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::client::Resumption;
use quinn::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;

use super::flow::{Flow, Watched};

/// QUIC version 1 (RFC 9000 section 15), that of `/quic-v1`.
const VERSION: u32 = 1;

/// Maximum number of bytes that a listener keeps for a peer, and for all peers, before it accepts or
/// refuses them: several times a first flight of 10 packets (RFC 9002 section 7.2).
const EARLY_BYTES: u64 = 64 << 10;
const EARLY_BYTES_TOTAL: u64 = 16 << 20;

/// The constants of a [`Transport`](super::Transport). Both ends of a connection may have different
/// ones.
#[derive(Clone)]
pub struct Config {
    /// The longest time that a handshake takes, in either direction.
    pub handshake_timeout: Duration,
    /// A connection on which nothing arrives for this time ends. Both ends count with the shorter of
    /// their times (RFC 9000 section 10.1).
    pub idle_timeout: Duration,
    /// A connection on which nothing arrives for this time sends a PING; shorter than `idle_timeout`.
    pub keep_alive: Duration,
    /// Maximum number of streams of the peer that are open at once.
    pub streams_max: u32,
    /// Maximum number of bytes of one stream that the peer may send before they are read.
    pub stream_window: u32,
    /// The same for all streams of a connection together.
    pub connection_window: u32,
    /// Maximum number of handshakes that peers have begun and not finished, over all listeners. From
    /// the half on, a peer must first prove its address with a Retry packet (RFC 9000 section 8.1.2),
    /// and beyond it is refused.
    pub handshakes_max: usize,
    /// The congestion control of each connection.
    pub congestion: Arc<dyn ControllerFactory + Send + Sync>,
}

impl Default for Config {
    /// The times, streams and windows of libp2p's own QUIC, 128 handshakes, and CUBIC, the default of
    /// quinn.
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(5),
            streams_max: 256,
            stream_window: 10_000_000,
            connection_window: 15_000_000,
            handshakes_max: 128,
            congestion: Arc::new(CubicConfig::default()),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("handshake_timeout", &self.handshake_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("keep_alive", &self.keep_alive)
            .field("streams_max", &self.streams_max)
            .field("stream_window", &self.stream_window)
            .field("connection_window", &self.connection_window)
            .field("handshakes_max", &self.handshakes_max)
            .finish_non_exhaustive()
    }
}

/// Makes the configurations of quinn. Those of a connection hold its [`Flow`].
pub(super) struct Quinn {
    config: Config,
    client: Arc<QuicClientConfig>,
    server: ServerConfig,
    pub(super) endpoint: EndpointConfig,
}

impl Quinn {
    pub(super) fn new(config: Config, key: &Keypair) -> Result<Self, super::Error> {
        let no_tls = |error: &dyn fmt::Display| super::Error::Tls(error.to_string());
        let mut client = tls::make_client_config(key, None).map_err(|error| no_tls(&error))?;
        // Peers are known by their keys, and all have the same name here: neither the name nor a
        // session of it says anything about the peer.
        client.enable_sni = false;
        client.resumption = Resumption::disabled();
        let mut server = tls::make_server_config(key).map_err(|error| no_tls(&error))?;
        server.send_tls13_tickets = 0;
        let client = QuicClientConfig::try_from(client).map_err(|error| no_tls(&error))?;
        let server = QuicServerConfig::try_from(server).map_err(|error| no_tls(&error))?;
        let mut server = ServerConfig::with_crypto(Arc::new(server));
        // A swarm knows a connection by its addresses.
        server.migration(false);
        server.incoming_buffer_size(EARLY_BYTES).incoming_buffer_size_total(EARLY_BYTES_TOTAL);
        let mut endpoint = endpoint(key);
        endpoint.supported_versions(vec![VERSION]);
        Ok(Self { config, client: Arc::new(client), server, endpoint })
    }

    /// Returns the configuration of a listener.
    pub(super) fn listener(&self) -> ServerConfig {
        self.server.clone()
    }

    /// Returns the configuration of a connection that a peer opens.
    pub(super) fn inbound(&self, flow: &Arc<Flow>) -> Arc<ServerConfig> {
        let mut server = self.server.clone();
        server.transport_config(self.transport(flow));
        Arc::new(server)
    }

    /// Returns the configuration of a connection that this node opens.
    pub(super) fn outbound(&self, flow: &Arc<Flow>) -> ClientConfig {
        let mut client = ClientConfig::new(Arc::clone(&self.client) as _);
        client.version(VERSION).transport_config(self.transport(flow));
        client
    }

    fn transport(&self, flow: &Arc<Flow>) -> Arc<TransportConfig> {
        let config = &self.config;
        let mut transport = TransportConfig::default();
        let idle = u32::try_from(config.idle_timeout.as_millis()).unwrap_or(u32::MAX);
        transport
            // libp2p has streams in both directions only, and no datagrams.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .max_concurrent_bidi_streams(VarInt::from_u32(config.streams_max))
            .stream_receive_window(VarInt::from_u32(config.stream_window))
            .receive_window(VarInt::from_u32(config.connection_window))
            .max_idle_timeout(Some(VarInt::from_u32(idle).into()))
            .keep_alive_interval(Some(config.keep_alive))
            // It shows round trips to everybody on the path (RFC 9000 section 17.4).
            .allow_spin(false)
            .congestion_controller_factory(Arc::new(Watched {
                flow: Arc::clone(flow),
                inner: Arc::clone(&config.congestion),
            }));
        Arc::new(transport)
    }
}

/// Returns the configuration of a socket. With the same key after a restart, old connections of peers
/// end at once (RFC 9000 section 10.3): their ids are still known as those of this node, and the reset
/// has the token that the peer received. A key without secret to derive from has no such resets.
fn endpoint(key: &Keypair) -> EndpointConfig {
    let secrets = key
        .derive_secret(b"samara quic stateless reset")
        .zip(key.derive_secret(b"samara quic connection ids"));
    let Some((reset, ids)) = secrets else { return EndpointConfig::default() };
    let mut config = EndpointConfig::new(Arc::new(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reset)));
    let ids = u64::from_be_bytes(*ids.first_chunk().expect("32 bytes"));
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    config
}

/// Returns the peer at the other end, by the certificate that its handshake has verified.
pub(super) fn peer_of(connection: &quinn::Connection) -> Option<PeerId> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<quinn::rustls::pki_types::CertificateDer<'static>>>().ok()?;
    Some(tls::certificate::parse(chain.first()?).ok()?.peer_id())
}
