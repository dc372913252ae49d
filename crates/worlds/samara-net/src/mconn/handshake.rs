//! The handshake: turns a socket into a connection with an authenticated peer, by the secret
//! connection and the node infos.

use std::net::SocketAddr;
use std::sync::Arc;

use prost::Message;
use samara_cat::CatFrame;
use samara_engine::{Engine, PeerInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::codec::CatCodec;
use super::identity::{Incompatible, NodeId, NodeInfo, NodeKey, Other, P2P_VERSION, Versions};
use super::layer::Channels;
use super::node::Options;
use super::packets::Receiving;
use super::secret::{SEALED, Secret};
use crate::hub::Attempted;
use crate::link::{Established, connect, set_up};
use crate::status::Closed;

/// Maximum number of unsent bytes in the kernel, where the platform can bound them: a late choice
/// is a better choice.
const NOT_SENT_MAX: u32 = 16 << 10;

pub(super) struct Opened {
    pub(super) stream: TcpStream,
    pub(super) secret: Secret,
    /// Includes the bytes that followed the node info.
    pub(super) receiving: Receiving,
    pub(super) protocol: Arc<str>,
}

/// The peer's description of itself, and the protocol that both sides agreed on.
pub(super) struct Peer {
    pub(super) info: NodeInfo,
    pub(super) protocol: Arc<str>,
}

pub(super) struct Handshake {
    pub(super) key: NodeKey,
    info: NodeInfo,
    pub(super) codec: CatCodec,
    pub(super) options: Options,
}

impl Handshake {
    /// Returns the handshake of a node that listens at this address, or only dials.
    pub(super) fn new(key: NodeKey, codec: CatCodec, options: Options, listen: Option<SocketAddr>) -> Self {
        let info = NodeInfo {
            versions: Versions { p2p: P2P_VERSION, block: options.block_version, app: 0 },
            id: key.id().to_string(),
            // CometBFT requires an address, even of nodes that do not listen.
            listen_addr: format!("tcp://{}", listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 1)))),
            network: options.network.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            channels: codec.offered(),
            moniker: options.moniker.clone(),
            // There is no index of transactions and no RPC.
            other: Other { tx_index: "off".to_owned(), rpc_address: String::new() },
        };
        Self { key, info, codec, options }
    }

    pub(super) async fn dial<E: Engine<Frame = CatFrame> + 'static>(
        &self,
        host: &str,
        expected: NodeId,
    ) -> Attempted<Channels<E>> {
        let stream = connect(host, self.options.dial_timeout).await?;
        let remote = stream.peer_addr().map_err(|error| Closed::Unreachable(error.to_string()))?;
        self.establish(stream, remote, Some(expected)).await
    }

    /// Makes a connection of a socket, which was either accepted or dialled to reach the node
    /// `expected`.
    pub(super) async fn establish<E: Engine<Frame = CatFrame> + 'static>(
        &self,
        mut stream: TcpStream,
        remote: SocketAddr,
        expected: Option<NodeId>,
    ) -> Attempted<Channels<E>> {
        set_up(&stream, NOT_SENT_MAX).map_err(Closed::handshake)?;
        let mut receiving = Receiving::new(self.codec.channels());
        let exchange = async {
            let mut secret = Secret::handshake(&mut stream, &self.key).await?;
            let found = secret.peer();
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                return Err(Closed::from(Incompatible::OtherNode { expected, found: found.to_string() }));
            }
            let info = self.exchange_infos(&mut secret, &mut stream, &mut receiving).await?;
            Ok((secret, info))
        };
        // The timeout covers the whole handshake: an occasional byte does not extend it.
        let exchanged = tokio::time::timeout(self.options.handshake_timeout, exchange).await;
        let (secret, info) = exchanged.map_err(|_| Closed::HandshakeTimeout)??;
        let peer = secret.peer();
        self.info.check(&info, peer)?;
        let none = || Incompatible::Channels { found: info.channels.clone() };
        let protocol = self.codec.agree(&info.channels).ok_or_else(none)?;
        // All nodes of a machine share the loopback address, so it does not distinguish sybils.
        let address = Some(remote.ip()).filter(|ip| !ip.is_loopback());
        let outbound = expected.is_some();
        let about_peer =
            PeerInfo { identity: peer.identity(), outbound, address, protocol: Arc::clone(&protocol) };
        Ok(Established {
            name: peer,
            remote,
            info: about_peer,
            about: Peer { info, protocol: Arc::clone(&protocol) },
            number: None,
            traffic: Arc::default(),
            connection: Opened { stream, secret, receiving, protocol },
        })
    }

    async fn exchange_infos(
        &self,
        secret: &mut Secret,
        stream: &mut TcpStream,
        receiving: &mut Receiving,
    ) -> Result<NodeInfo, Closed> {
        let mut sealed = Vec::new();
        let own = self.info.encode_length_delimited_to_vec();
        secret.seal(&own, &mut sealed).map_err(Closed::handshake)?;
        stream.write_all(&sealed).await.map_err(Closed::handshake)?;
        let mut buffer = [0; SEALED];
        loop {
            if let Some(info) = receiving.info(secret)? {
                return Ok(info);
            }
            let wants = receiving.wants();
            let len = stream.read(&mut buffer[..wants]).await.map_err(Closed::handshake)?;
            if len == 0 {
                return Err(Closed::handshake("the peer hung up"));
            }
            receiving.read(&buffer[..len]);
        }
    }
}
