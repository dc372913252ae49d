//! The transfer with quinn's QUIC.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::NewRenoConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
};
use samara_emulation::Relay;
use samara_sim::UDP_PAYLOAD;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::linux::{Case, Failure};

const SERVER_NAME: &str = "receiver";
/// The window of go-libp2p and rust-libp2p; quinn's own 1.25 MB would bound the larger transfers.
const RECEIVE_WINDOW: u32 = 10 << 20;
/// The initial window of RFC 9002 section 7.2 in packets of [`UDP_PAYLOAD`] bytes, as in the
/// simulator.
const INITIAL_WINDOW: u64 = 10 * UDP_PAYLOAD as u64;

/// Maximum delay of an acknowledgement (RFC 9000 section 18.2, and quinn).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Keys, and the runtime of the tasks.
pub(crate) struct Settings {
    runtime: Runtime,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

/// One connection with an open stream, and its endpoints.
struct Path {
    send: SendStream,
    receive: RecvStream,
    connections: [Connection; 2],
    endpoints: [Endpoint; 2],
}

/// NewReno, without the features that the simulator does not model, as far as quinn can disable
/// them: packets have their full size from the start, without path MTU discovery. quinn cannot
/// disable pacing.
pub(crate) fn as_in_the_model() -> Arc<TransportConfig> {
    let mut reno = NewRenoConfig::default();
    reno.initial_window(INITIAL_WINDOW);
    let mut config = common();
    config
        .congestion_controller_factory(Arc::new(reno))
        .initial_mtu(UDP_PAYLOAD as u16)
        .mtu_discovery_config(None);
    Arc::new(config)
}

/// CUBIC, 12,000 bytes of initial window, path MTU discovery from 1,200 bytes on.
pub(crate) fn defaults() -> Arc<TransportConfig> {
    Arc::new(common())
}

/// Disables segmentation offload, which the emulated device lacks.
fn common() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .enable_segmentation_offload(false);
    config
}

impl Settings {
    pub(crate) fn new() -> Result<Self, Failure> {
        let key = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        Ok(Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            certificate: key.cert.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.key_pair.serialize_der()),
        })
    }

    /// Returns the time from the first write to the last read, for each pair.
    pub(crate) fn transfer(
        &self,
        relay: &Relay,
        case: &Case,
        transport: &Arc<TransportConfig>,
    ) -> Result<Vec<Duration>, Failure> {
        self.runtime.block_on(async {
            let mut paths = Vec::new();
            for pair in &case.pairs {
                paths.push(self.fresh_path(relay, *pair, transport, case.latency).await?);
            }
            let payload: Arc<[u8]> = vec![7; case.bytes].into();
            let start = Instant::now();
            let mut transfers = JoinSet::new();
            for (index, path) in paths.into_iter().enumerate() {
                let payload = payload.clone();
                transfers.spawn(async move { path.run(&payload).await.map(|end| (index, end - start)) });
            }
            let mut times = vec![Duration::ZERO; case.pairs.len()];
            while let Some(done) = transfers.join_next().await {
                let (index, time) = done??;
                times[index] = time;
            }
            Ok(times)
        })
    }

    /// Returns a connection whose handshake lost no packet: a loss there would halve the window
    /// before the transfer.
    async fn fresh_path(
        &self,
        relay: &Relay,
        pair: (u32, u32),
        transport: &Arc<TransportConfig>,
        latency: Duration,
    ) -> Result<Path, Failure> {
        loop {
            let path = self.path(relay, pair, transport.clone()).await?;
            // By then, the last packets of the handshake have arrived and are acknowledged.
            tokio::time::sleep(4 * latency + MAX_ACK_DELAY).await;
            if path.connections[0].stats().path.congestion_events == 0 {
                return Ok(path);
            }
        }
    }

    async fn path(
        &self,
        relay: &Relay,
        (from, to): (u32, u32),
        transport: Arc<TransportConfig>,
    ) -> Result<Path, Failure> {
        let mut server =
            ServerConfig::with_single_cert(vec![self.certificate.clone()], self.key.clone_key().into())?;
        server.transport_config(transport.clone());
        let listener = Endpoint::server(server, SocketAddr::new(relay.bind_address(to).into(), 0))?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
        client.transport_config(transport);
        let mut dialler = Endpoint::client(SocketAddr::new(relay.bind_address(from).into(), 0))?;
        dialler.set_default_client_config(client);
        let address = SocketAddr::new(relay.dial_address(from, to).into(), listener.local_addr()?.port());
        let accept = async {
            let incoming = listener.accept().await.ok_or("the listening endpoint is closed")?;
            Ok::<_, Failure>(incoming.await?)
        };
        let (dialled, accepted) = tokio::join!(dialler.connect(address, SERVER_NAME)?, accept);
        let (dialled, accepted) = (dialled?, accepted?);
        // The peer learns of a stream by its first byte.
        let mut send = dialled.open_uni().await?;
        send.write_all(&[0]).await?;
        let mut receive = accepted.accept_uni().await?;
        receive.read_exact(&mut [0]).await?;
        Ok(Path { send, receive, connections: [dialled, accepted], endpoints: [dialler, listener] })
    }
}

impl Path {
    async fn run(mut self, payload: &[u8]) -> Result<Instant, Failure> {
        let receive = async {
            let mut left = payload.len();
            while left > 0 {
                let chunk = self.receive.read_chunk(left, true).await?.ok_or("the stream ended early")?;
                left -= chunk.bytes.len();
            }
            Ok::<_, Failure>(Instant::now())
        };
        let (sent, received) = tokio::join!(self.send.write_all(payload), receive);
        sent?;
        for connection in self.connections {
            connection.close(VarInt::from_u32(0), b"done");
        }
        for endpoint in self.endpoints {
            endpoint.close(VarInt::from_u32(0), b"done");
        }
        received
    }
}
