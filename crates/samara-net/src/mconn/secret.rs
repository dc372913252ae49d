//! The secret connection of Tendermint, by the crate `tendermint-p2p`: X25519, a transcript hash, ChaCha20-Poly1305 and
//! Ed25519 (`p2p/conn/secret_connection.go`).
//!
//! That crate reads and writes a blocking stream. Its handshake runs on a thread of its own, against a deadline. From then on it
//! is given bytes in memory, one sealed frame at a time, so that a connection is one task like any other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tendermint_p2p::secret_connection::{DATA_MAX_SIZE, PublicKey, SecretConnection, TAG_SIZE, Version};

use super::identity::{NodeId, NodeKey};

/// The most plaintext of a sealed frame (`dataMaxSize`).
pub(super) const PLAIN_MAX: usize = DATA_MAX_SIZE;
/// Bytes of every sealed frame, full or not: a length of 4 bytes, the plaintext, a tag.
pub(super) const SEALED: usize = 4 + DATA_MAX_SIZE + TAG_SIZE;

/// A secret connection whose bytes come from and go to memory.
pub(super) struct Secret {
    connection: SecretConnection<Line>,
    line: Line,
    peer: NodeId,
}

impl Secret {
    /// Agrees on keys and finds out who is at the other end. Blocks, until `deadline` at most.
    ///
    /// # Errors
    /// The other end says something else, or nothing, or hangs up.
    pub(super) fn handshake(
        stream: TcpStream,
        key: &NodeKey,
        deadline: Instant,
    ) -> io::Result<(Self, TcpStream)> {
        let line = Line(Arc::new(Mutex::new(Ends::Socket { stream, deadline })));
        let connection = SecretConnection::new(line.clone(), key.signing(), Version::V0_34)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
        let PublicKey::Ed25519(peer) = connection.remote_pubkey();
        let memory = Ends::Memory { sealed: Vec::with_capacity(SEALED), incoming: Vec::new() };
        match std::mem::replace(&mut *line.ends(), memory) {
            Ends::Socket { stream, .. } => {
                Ok((Self { connection, line: line.clone(), peer: NodeId::of(&peer) }, stream))
            }
            Ends::Memory { .. } => Err(io::Error::other("a handshake without a socket")),
        }
    }

    /// Who is at the other end.
    pub(super) const fn peer(&self) -> NodeId {
        self.peer
    }

    /// Seals bytes, in frames of at most [`PLAIN_MAX`], and appends the frames.
    ///
    /// # Errors
    /// None is known.
    pub(super) fn seal(&mut self, plain: &[u8], into: &mut Vec<u8>) -> io::Result<()> {
        self.connection.write_all(plain)?;
        if let Ends::Memory { sealed, .. } = &mut *self.line.ends() {
            into.append(sealed);
        }
        Ok(())
    }

    /// Opens one sealed frame of [`SEALED`] bytes and appends what is in it. Returns how many bytes that are.
    ///
    /// # Errors
    /// Whoever sealed it does not have the key, or frames are missing.
    pub(super) fn open(&mut self, frame: &[u8], into: &mut Vec<u8>) -> io::Result<usize> {
        if let Ends::Memory { incoming, .. } = &mut *self.line.ends() {
            incoming.extend_from_slice(frame);
        }
        // Room for any frame, so that the crate never has to keep a rest.
        let mut plain = [0; PLAIN_MAX];
        let len = self.connection.read(&mut plain)?;
        into.extend_from_slice(&plain[..len]);
        Ok(len)
    }
}

/// What the crate reads and writes.
#[derive(Clone)]
struct Line(Arc<Mutex<Ends>>);

enum Ends {
    /// During the handshake.
    Socket { stream: TcpStream, deadline: Instant },
    /// After it: one frame at a time in either direction.
    Memory { sealed: Vec<u8>, incoming: Vec<u8> },
}

impl Line {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        // Nothing in here can be left half done.
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
                // A byte now and then does not extend the time.
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
