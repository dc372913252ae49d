//! The handshake: from a socket to a connection with a known peer by the secret connection and the node infos.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use samara_engine::{Engine, PeerInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::codec::Codec;
use super::identity::{Incompatible, InfoMessage, NodeId, NodeInfo, NodeKey};
use super::layer::Channels;
use super::options::Options;
use super::packets::Receiving;
use super::secret::{SEALED, Secret};
use crate::hub::Attempted;
use crate::link::{Established, set_up};
use crate::status::Closed;

/// Bytes in the kernel that have not left yet, at most, where the platform can bound them: what is chosen late is chosen well.
const NOT_SENT_MAX: u32 = 16 << 10;

/// A connection on which packets can be exchanged.
pub(super) struct Opened {
    pub(super) stream: TcpStream,
    pub(super) secret: Secret,
    /// With the bytes that came behind the node info.
    pub(super) receiving: Receiving,
}

/// What a peer said of itself, and the protocol that both sides agreed on.
pub(super) struct Peer {
    pub(super) info: NodeInfo,
    pub(super) protocol: Arc<str>,
}

/// What a handshake needs, in either direction.
pub(super) struct Handshake<C> {
    pub(super) key: NodeKey,
    pub(super) info: NodeInfo,
    pub(super) codec: Arc<C>,
    pub(super) options: Options,
}

impl<C: Codec> Handshake<C> {
    /// Dials.
    pub(super) async fn dial<E>(&self, host: &str, expected: NodeId) -> Attempted<Channels<E, C>>
    where
        E: Engine<Frame = C::Frame> + 'static,
    {
        let connect = tokio::time::timeout(self.options.dial_timeout, TcpStream::connect(host));
        let stream = connect.await.map_err(|_| Closed::HandshakeTimeout)?;
        let stream = stream.map_err(|error| Closed::Unreachable(error.to_string()))?;
        let remote = stream.peer_addr().map_err(|error| Closed::Unreachable(error.to_string()))?;
        self.establish(stream, remote, Some(expected)).await
    }

    /// Makes a connection of a socket that was dialled (`expected` is who must be there) or accepted.
    pub(super) async fn establish<E>(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        expected: Option<NodeId>,
    ) -> Attempted<Channels<E, C>>
    where
        E: Engine<Frame = C::Frame> + 'static,
    {
        set_up(&stream, NOT_SENT_MAX).map_err(Closed::handshake)?;
        let deadline = Instant::now() + self.options.handshake_timeout;
        let (mut secret, mut stream) = self.agree_on_keys(stream, deadline).await?;
        let peer = secret.peer();
        if let Some(expected) = expected.filter(|expected| *expected != peer) {
            return Err(Incompatible::OtherNode { expected, found: peer.to_string() }.into());
        }
        let mut receiving = Receiving::new(&self.codec.channels());
        let infos = self.exchange_infos(&mut secret, &mut stream, &mut receiving);
        let info = match tokio::time::timeout_at(deadline.into(), infos).await {
            Ok(info) => info?,
            Err(_) => return Err(Closed::HandshakeTimeout),
        };
        self.info.check(&info, peer)?;
        let none = || Incompatible::Channels { found: info.channels.clone() };
        let protocol = self.codec.agree(&info.channels).ok_or_else(none)?;
        // All nodes of a machine share the loopback address: it does not tell sybils apart.
        let address = Some(remote.ip()).filter(|ip| !ip.is_loopback());
        let outbound = expected.is_some();
        let about_peer =
            PeerInfo { identity: peer.identity(), outbound, address, protocol: Arc::clone(&protocol) };
        Ok(Established {
            name: peer,
            remote,
            info: about_peer,
            about: Peer { info, protocol },
            number: None,
            traffic: Arc::default(),
            connection: Opened { stream, secret, receiving },
        })
    }

    async fn agree_on_keys(
        &self,
        stream: TcpStream,
        deadline: Instant,
    ) -> Result<(Secret, TcpStream), Closed> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Closed::HandshakeTimeout,
            _ => Closed::Handshake(error.to_string()),
        };
        let stream = stream.into_std().map_err(failed)?;
        stream.set_nonblocking(false).map_err(failed)?;
        let key = self.key.clone();
        let handshake = move || Secret::handshake(stream, &key, deadline);
        // The crate panics where a peer seals more bytes with its signature than belong there: that ends this task alone.
        let done = tokio::task::spawn_blocking(handshake).await;
        let done =
            done.map_err(|_| Closed::Handshake("a signature with bytes that do not belong there".into()))?;
        if Instant::now() >= deadline {
            return Err(Closed::HandshakeTimeout);
        }
        let (secret, stream) = done.map_err(failed)?;
        stream.set_nonblocking(true).map_err(failed)?;
        Ok((secret, TcpStream::from_std(stream).map_err(failed)?))
    }

    async fn exchange_infos(
        &self,
        secret: &mut Secret,
        stream: &mut TcpStream,
        receiving: &mut Receiving,
    ) -> Result<NodeInfo, Closed> {
        let mut sealed = Vec::new();
        let own = InfoMessage::from(&self.info).encode_length_delimited_to_vec();
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
