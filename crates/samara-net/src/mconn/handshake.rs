//! The handshake: turns a socket into a connection with an authenticated peer, by the secret
//! connection and the node infos.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prost::Message;
use samara_cat::CatFrame;
use samara_engine::{Engine, PeerInfo};
use tendermint_p2p::secret_connection::{DATA_MAX_SIZE, PublicKey, SecretConnection, TAG_SIZE, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::codec::CatCodec;
use super::identity::{Incompatible, NodeId, NodeInfo, NodeKey};
use super::layer::Channels;
use super::node::Options;
use super::packets::Receiving;
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
}

/// The peer's description of itself, and the protocol that both sides agreed on.
pub(super) struct Peer {
    pub(super) info: NodeInfo,
    pub(super) protocol: Arc<str>,
}

pub(super) struct Handshake {
    pub(super) key: NodeKey,
    pub(super) info: NodeInfo,
    pub(super) codec: CatCodec,
    pub(super) options: Options,
}

impl Handshake {
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
        stream: TcpStream,
        remote: SocketAddr,
        expected: Option<NodeId>,
    ) -> Attempted<Channels<E>> {
        set_up(&stream, NOT_SENT_MAX).map_err(Closed::handshake)?;
        let deadline = Instant::now() + self.options.handshake_timeout;
        let (mut secret, mut stream) = self.agree_on_keys(stream, deadline).await?;
        let peer = secret.peer();
        if let Some(expected) = expected.filter(|expected| *expected != peer) {
            return Err(Incompatible::OtherNode { expected, found: peer.to_string() }.into());
        }
        let mut receiving = Receiving::new(self.codec.channels());
        let infos = self.exchange_infos(&mut secret, &mut stream, &mut receiving);
        let info = match tokio::time::timeout_at(deadline.into(), infos).await {
            Ok(info) => info?,
            Err(_) => return Err(Closed::HandshakeTimeout),
        };
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
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Closed::HandshakeTimeout,
            _ => Closed::Handshake(error.to_string()),
        };
        let stream = stream.into_std().map_err(failed)?;
        stream.set_nonblocking(false).map_err(failed)?;
        let key = self.key.clone();
        let handshake = move || Secret::handshake(stream, &key, deadline);
        // The crate panics if a peer seals extra bytes with its signature. The panic ends this task
        // alone.
        let done = tokio::task::spawn_blocking(handshake).await;
        let done = done.map_err(|_| Closed::Handshake("unexpected bytes behind the signature".into()))?;
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

// ---- the secret connection of Tendermint ----
//
// The crate `tendermint-p2p` implements it: X25519, a transcript hash, ChaCha20-Poly1305 and
// Ed25519 (`p2p/conn/secret_connection.go`). That crate reads and writes a blocking stream. Its
// handshake runs on a thread of its own, with a deadline. Afterwards it works on bytes in memory,
// one sealed frame at a time, so that a connection is an ordinary task.

/// Maximum plaintext of a sealed frame in bytes (`dataMaxSize`).
pub(super) const PLAIN_MAX: usize = DATA_MAX_SIZE;
/// Length of every sealed frame, full or not: a length of 4 bytes, the plaintext, a tag.
pub(super) const SEALED: usize = 4 + DATA_MAX_SIZE + TAG_SIZE;

/// A secret connection that reads and writes memory.
pub(super) struct Secret {
    connection: SecretConnection<Line>,
    line: Line,
    peer: NodeId,
}

impl Secret {
    /// Agrees on keys and authenticates the other end. Blocks, until `deadline` at most.
    ///
    /// # Errors
    /// The other end breaks the protocol, is silent, or hangs up.
    pub(super) fn handshake(
        stream: std::net::TcpStream,
        key: &NodeKey,
        deadline: Instant,
    ) -> io::Result<(Self, std::net::TcpStream)> {
        let line = Line(Arc::new(Mutex::new(Ends::Socket { stream, deadline })));
        let connection = SecretConnection::new(line.clone(), key.signing(), Version::V0_34)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
        let PublicKey::Ed25519(peer) = connection.remote_pubkey();
        let memory = Ends::Memory { sealed: Vec::with_capacity(SEALED), incoming: Vec::new() };
        match std::mem::replace(&mut *line.ends(), memory) {
            Ends::Socket { stream, .. } => {
                Ok((Self { connection, line: line.clone(), peer: NodeId::of(&peer) }, stream))
            }
            Ends::Memory { .. } => Err(io::Error::other("the handshake needs a socket")),
        }
    }

    pub(super) const fn peer(&self) -> NodeId {
        self.peer
    }

    /// Seals bytes, in frames of at most [`PLAIN_MAX`], and appends the frames.
    pub(super) fn seal(&mut self, plain: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        self.connection.write_all(plain)?;
        if let Ends::Memory { sealed, .. } = &mut *self.line.ends() {
            into.append(sealed);
        }
        Ok(())
    }

    /// Opens one sealed frame of [`SEALED`] bytes and appends its content. Returns the number of
    /// bytes appended.
    ///
    /// # Errors
    /// The sender does not have the key, or frames are missing.
    pub(super) fn open(&mut self, frame: &[u8], into: &mut Vec<u8>) -> io::Result<usize> {
        if let Ends::Memory { incoming, .. } = &mut *self.line.ends() {
            incoming.extend_from_slice(frame);
        }
        // Room for any frame, so that the crate never keeps a remainder.
        let mut plain = [0; PLAIN_MAX];
        let len = self.connection.read(&mut plain)?;
        into.extend_from_slice(&plain[..len]);
        Ok(len)
    }
}

/// The stream that the crate reads and writes.
#[derive(Clone)]
struct Line(Arc<Mutex<Ends>>);

enum Ends {
    Socket {
        stream: std::net::TcpStream,
        deadline: Instant,
    },
    /// After the handshake: one frame at a time in either direction.
    Memory {
        sealed: Vec<u8>,
        incoming: Vec<u8>,
    },
}

impl Line {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        // No operation on it can be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(deadline: Instant) -> io::Result<std::time::Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut *self.ends() {
            Ends::Socket { stream, deadline } => {
                // The timeout covers the whole handshake: an occasional byte does not extend it.
                stream.set_read_timeout(Some(left(*deadline)?))?;
                stream.read(into)
            }
            Ends::Memory { incoming, .. } => {
                let len = into.len().min(incoming.len());
                into[..len].copy_from_slice(&incoming[..len]);
                incoming.drain(..len);
                Ok(len)
            }
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.ends() {
            Ends::Socket { stream, deadline } => {
                stream.set_write_timeout(Some(left(*deadline)?))?;
                stream.write(bytes)
            }
            Ends::Memory { sealed, .. } => {
                sealed.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates both ends of a secret connection. The dialling node has the secret of ones, the other
/// one that of twos.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn pair() -> io::Result<(Secret, Secret)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let deadline = Instant::now() + std::time::Duration::from_secs(10);
    let dialler = std::thread::spawn(move || {
        let stream = std::net::TcpStream::connect(address)?;
        Secret::handshake(stream, &NodeKey::from_secret([1; 32]), deadline)
    });
    let (stream, _) = listener.accept()?;
    let (accepted, _) = Secret::handshake(stream, &NodeKey::from_secret([2; 32]), deadline)?;
    let (dialled, _) = dialler.join().map_err(|_| io::Error::other("the dialling end panics"))??;
    assert_eq!(dialled.peer(), NodeKey::from_secret([2; 32]).id());
    assert_eq!(accepted.peer(), NodeKey::from_secret([1; 32]).id());
    Ok((dialled, accepted))
}
