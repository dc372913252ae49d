//! Nodes that do not keep to the rules of the handshake.

use std::net::SocketAddr;

use ring::hmac;
use samara_net::ring::Group;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::ring::common::PATIENCE;

pub(crate) const OPEN: u8 = 0;
pub(crate) const FIELDS: u8 = 1;
pub(crate) const ENCRYPTED: u8 = 2;

/// The options that all members share, as members with the default ones write them.
pub(crate) const TERMS: &str = "fifo order, shape ring, chunks of 65536 B, batches of 65536 B, \
                     messages of up to 67108864 B, up to 256 members";

/// The knowledge of a node that dials: by default that of a stranger who knows the group "test".
#[derive(Clone)]
pub(crate) struct Attacker {
    pub(crate) magic: [u8; 8],
    pub(crate) group: &'static str,
    pub(crate) secret: &'static [u8],
    pub(crate) protection: u8,
    pub(crate) instance: [u8; 16],
    pub(crate) name: String,
    /// The dialled name, if it differs from the address.
    pub(crate) meant: Option<String>,
    /// The options that all members share.
    pub(crate) terms: String,
}

impl Attacker {
    pub(crate) fn new(name: impl ToString) -> Self {
        Self {
            magic: *b"samring\x02",
            group: "test",
            secret: b"",
            protection: OPEN,
            instance: [9; 16],
            name: name.to_string(),
            meant: None,
            terms: TERMS.to_owned(),
        }
    }

    pub(crate) fn with_secret(name: impl ToString, secret: &'static [u8]) -> Self {
        Self { secret, protection: ENCRYPTED, ..Self::new(name) }
    }

    pub(crate) fn proof(&self, role: &str, said: &[u8]) -> Vec<u8> {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, self.secret);
        let group = hmac::sign(&secret, &[b"samring/2 group ", self.group.as_bytes()].concat());
        let group = hmac::Key::new(hmac::HMAC_SHA256, group.as_ref());
        hmac::sign(&group, &[role.as_bytes(), said].concat()).as_ref().to_vec()
    }

    pub(crate) fn hello(&self) -> Vec<u8> {
        [&self.magic[..], &[self.protection], &[5; 32]].concat()
    }

    /// The bytes after the listener's nonce.
    pub(crate) fn rest(&self, nonce: &[u8], address: SocketAddr) -> Vec<u8> {
        let meant = self.meant.clone().unwrap_or_else(|| address.to_string());
        let mut rest = self.instance.to_vec();
        for name in [&self.name, &meant] {
            rest.push(name.len() as u8);
            rest.extend_from_slice(name.as_bytes());
        }
        rest.extend(self.proof("terms", self.terms.as_bytes()));
        let proof = self.proof("dialler", &[&self.hello(), nonce, &rest].concat());
        [rest, proof].concat()
    }

    /// Dials a member, and does all that it can. The member may hang up at any moment.
    pub(crate) async fn dial(&self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        self.greet(&mut stream, address).await;
        stream
    }

    /// Returns the instance of the member, if it takes this node for one of its group.
    pub(crate) async fn greet(&self, stream: &mut TcpStream, address: SocketAddr) -> Option<[u8; 16]> {
        let mut nonce = [0; 32];
        let mut answer = vec![0; 16 + 1 + self.terms.len() + 32];
        let handshake = async {
            stream.write_all(&self.hello()).await?;
            stream.read_exact(&mut nonce).await?;
            stream.write_all(&self.rest(&nonce, address)).await?;
            stream.read_exact(&mut answer).await
        };
        let answered = timeout(PATIENCE, handshake).await.expect("the member answers or hangs up");
        answered.ok().and_then(|_| answer.first_chunk().copied())
    }

    /// Dials a member, sends these frames after the handshake, and waits until it hangs up.
    pub(crate) async fn attack(&self, address: SocketAddr, bytes: &[u8]) {
        let mut stream = self.dial(address).await;
        // The member may hang up during the write.
        let _ = stream.write_all(bytes).await;
        hung_up(&mut stream).await;
    }
}

/// Reads until the other side hangs up. Returns what it said.
pub(crate) async fn hung_up(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // The other side may reset the connection.
    let closed = async { while stream.read_buf(&mut said).await.is_ok_and(|len| len > 0) {} };
    timeout(PATIENCE, closed).await.expect("the member hangs up");
    said
}

pub(crate) async fn closed(group: &Group, cause: &str) -> u64 {
    let counters = group.status().await.unwrap().transport;
    counters.links_closed.get(cause).copied().unwrap_or(0)
}

pub(crate) async fn wait_for_cause(group: &Group, cause: &str, count: u64) {
    let until = Instant::now() + PATIENCE;
    while closed(group, cause).await < count {
        assert!(Instant::now() < until, "{cause}: {:?}", group.status().await);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The direction of bytes through a [`Proxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToListener,
    ToDialler,
}

/// Changes the bytes that go through a proxy.
pub(crate) type Tamper = Box<dyn FnMut(Way, &mut Vec<u8>) + Send>;

/// Accepts connections, forwards them to `to`, and lets `tamper` change each piece of bytes.
pub(crate) async fn proxy(listener: TcpListener, to: SocketAddr, mut tamper: Tamper) {
    while let Ok((mut near, _)) = listener.accept().await {
        let Ok(mut far) = TcpStream::connect(to).await else { continue };
        let (mut up, mut down) = (Vec::with_capacity(64 << 10), Vec::with_capacity(64 << 10));
        loop {
            let (way, len) = tokio::select! {
                len = near.read_buf(&mut up) => (Way::ToListener, len),
                len = far.read_buf(&mut down) => (Way::ToDialler, len),
            };
            if len.is_ok_and(|len| len == 0) {
                break;
            }
            let (bytes, into) =
                if way == Way::ToListener { (&mut up, &mut far) } else { (&mut down, &mut near) };
            tamper(way, bytes);
            if into.write_all(bytes).await.is_err() {
                break;
            }
            bytes.clear();
        }
    }
}
