//! From a socket to a connection with somebody: secret connection, node infos, and whether to talk at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use prost::Message;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::codec::Codec;
use super::error::Closed;
use super::info::{Incompatible, NodeInfo};
use super::key::{NodeId, NodeKey};
use super::options::Options;
use super::receive::Receiving;
use super::secret::Secret;
use super::wire::InfoMessage;

/// Bytes in the kernel that have not left yet, at most, where the platform can bound them: what is chosen late is chosen well.
#[cfg(target_os = "linux")]
const NOT_SENT_MAX: u32 = 16 << 10;

/// A connection on which packets can be exchanged.
pub(super) struct Established {
    pub(super) stream: TcpStream,
    pub(super) secret: Secret,
    /// With what came already behind the node info.
    pub(super) receiving: Receiving,
    pub(super) peer: NodeId,
    pub(super) info: NodeInfo,
    pub(super) protocol: Arc<str>,
    pub(super) remote: SocketAddr,
    pub(super) outbound: bool,
}

/// What both directions need for it.
pub(super) struct Party<C> {
    pub(super) key: NodeKey,
    pub(super) info: NodeInfo,
    pub(super) codec: Arc<C>,
    pub(super) options: Options,
}

impl<C: Codec> Party<C> {
    /// Dials.
    pub(super) async fn dial(&self, host: &str, expected: NodeId) -> Result<Established, Closed> {
        let connect = tokio::time::timeout(self.options.dial_timeout, TcpStream::connect(host));
        let stream = connect.await.map_err(|_| Closed::HandshakeTimeout)?;
        let stream = stream.map_err(|error| Closed::Unreachable(error.to_string()))?;
        let remote = stream.peer_addr().map_err(|error| Closed::Unreachable(error.to_string()))?;
        self.establish(stream, remote, Some(expected)).await
    }

    /// Makes a connection of a socket that was dialled (`expected` is who must be there) or accepted.
    pub(super) async fn establish(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        expected: Option<NodeId>,
    ) -> Result<Established, Closed> {
        let failed = |error: std::io::Error| Closed::Handshake(error.to_string());
        stream.set_nodelay(true).map_err(failed)?;
        #[cfg(target_os = "linux")]
        SockRef::from(&stream).set_tcp_notsent_lowat(NOT_SENT_MAX).map_err(failed)?;
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
        let outbound = expected.is_some();
        Ok(Established { stream, secret, receiving, peer, info, protocol, remote, outbound })
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
        let failed = |error: std::io::Error| Closed::Handshake(error.to_string());
        let mut sealed = Vec::new();
        let own = InfoMessage::from(&self.info).encode_length_delimited_to_vec();
        secret.seal(&own, &mut sealed).map_err(failed)?;
        stream.write_all(&sealed).await.map_err(failed)?;
        let mut buffer = [0; super::secret::SEALED];
        loop {
            if let Some(info) = receiving.info(secret)? {
                return Ok(info);
            }
            let wants = receiving.wants();
            let len = stream.read(&mut buffer[..wants]).await.map_err(failed)?;
            if len == 0 {
                return Err(Closed::Handshake("it hung up".to_owned()));
            }
            receiving.read(&buffer[..len]);
        }
    }
}
