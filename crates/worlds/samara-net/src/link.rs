//! Links as the hub sees them, and the queues, budgets and sockets that link layers share.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use samara_engine::{PeerId, PeerInfo};
#[cfg(feature = "hosted")]
use tokio::net::TcpSocket;
#[cfg(any(feature = "mconnection", feature = "ring"))]
use tokio::net::ToSocketAddrs;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "ring"))]
use tokio::time::timeout;

use crate::hub::{FrameOf, LinkLayer};
use crate::status::Closed;

/// Maximum number of peers without a link that keep their number: engines remember something about
/// each.
const DEPARTED_MAX: usize = 1_024;
/// Time that a node that hung up waits for its peer to do the same.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// Orders from the hub to the task of a link.
#[derive(Debug)]
pub(crate) enum Order<F> {
    /// Send this frame on a channel (by index).
    Frame { channel: usize, frame: F, len: u32 },
    /// Send the queued frames, and hang up.
    Finish,
}

/// Reports from the task of a link to the hub.
#[derive(Debug)]
pub(crate) enum Report<F> {
    /// A frame of this length arrived, with its share of the receive budget.
    Frame(F, usize, Share),
    Sent(Progress),
    Down(Closed),
}

/// A frame's share of the receive budget: of bytes and, where the layer bounds them, of frames. The
/// hub releases it once the engine has the frame.
#[derive(Debug)]
#[expect(dead_code, reason = "the permits count until they are dropped")]
pub(crate) struct Share(pub(crate) OwnedSemaphorePermit, pub(crate) Option<OwnedSemaphorePermit>);

/// Frames and bytes that left a link since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Frames that left the queue of each channel; empty if the layer has no queues.
    pub(crate) taken: Vec<u32>,
    /// Bytes of frames that the socket accepted, framing included.
    pub(crate) written_bytes: u64,
}

/// Bytes on the wire since the link came up.
#[derive(Debug)]
pub(crate) struct Traffic {
    since: Instant,
    up: AtomicU64,
    down: AtomicU64,
    /// Nanoseconds from `since` to the last arrival.
    heard_ns: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        let counter = AtomicU64::default;
        Self { since: Instant::now(), up: counter(), down: counter(), heard_ns: counter() }
    }
}

impl Traffic {
    pub(crate) fn sent(&self, len: usize) {
        self.up.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, len: usize) {
        self.down.fetch_add(len as u64, Ordering::Relaxed);
        self.hear();
    }

    /// Counts silence from now on.
    pub(crate) fn hear(&self) {
        self.heard_ns.store(self.since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns the time since the last arrival.
    pub(crate) fn silence(&self) -> Duration {
        let heard = Duration::from_nanos(self.heard_ns.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(heard)
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.up.load(Ordering::Relaxed), self.down.load(Ordering::Relaxed))
    }
}

/// The link's end of its queues to and from the hub.
pub(crate) struct Ports<F> {
    pub(crate) number: u64,
    pub(crate) orders: UnboundedReceiver<Order<F>>,
    /// Unbounded: a frame needs a [`Share`], and all other reports follow from the hub's orders.
    pub(crate) reports: UnboundedSender<(u64, Report<F>)>,
    pub(crate) traffic: Arc<Traffic>,
}

impl<F> Ports<F> {
    pub(crate) fn report(&self, report: Report<F>) {
        // Fails only if the node is stopping.
        let _ = self.reports.send((self.number, report));
    }
}

pub(crate) struct Established<L: LinkLayer> {
    pub(crate) name: L::Name,
    pub(crate) remote: SocketAddr,
    pub(crate) info: PeerInfo,
    pub(crate) about: L::About,
    /// The connection's number, if both sides agreed on one.
    pub(crate) number: Option<u64>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) connection: L::Connection,
}

pub(crate) struct Link<L: LinkLayer> {
    pub(crate) connection: u64,
    pub(crate) name: L::Name,
    pub(crate) outbound: bool,
    pub(crate) ip: IpAddr,
    /// The number of its places, if the peer dialled this node's listener.
    pub(crate) place: Option<u64>,
    pub(crate) about: L::About,
    pub(crate) orders: UnboundedSender<Order<FrameOf<L>>>,
    pub(crate) task: AbortHandle,
    pub(crate) traffic: Arc<Traffic>,
    /// Frames in the queue of each channel.
    pub(crate) queued: Vec<u32>,
    /// Bytes handed over that the socket has not accepted yet.
    pub(crate) in_flight: u64,
}

/// All links, by the number of the peer, by its name, and by the number of the connection.
pub(crate) struct Links<L: LinkLayer> {
    by_peer: Vec<Option<Link<L>>>,
    peers: BTreeMap<L::Name, PeerId>,
    connections: BTreeMap<u64, PeerId>,
    /// Peers whose link has ended, oldest first.
    departed: VecDeque<PeerId>,
}

impl<L: LinkLayer> Links<L> {
    pub(crate) const fn new() -> Self {
        Self {
            by_peer: Vec::new(),
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            departed: VecDeque::new(),
        }
    }

    /// Returns the number for a peer whose link comes up: its previous number, or a new one, or the
    /// number of the longest departed peer that `forget` agrees to forget.
    pub(crate) fn number(&mut self, name: L::Name, mut forget: impl FnMut(PeerId) -> bool) -> PeerId {
        if let Some(known) = self.peers.get(&name) {
            self.departed.retain(|peer| peer != known);
            return *known;
        }
        let is_full = self.departed.len() >= DEPARTED_MAX;
        let oldest = self.departed.iter().position(|peer| is_full && forget(*peer));
        let peer = match oldest.and_then(|at| self.departed.remove(at)) {
            Some(peer) => {
                self.peers.retain(|_, other| *other != peer);
                peer
            }
            None => {
                self.by_peer.push(None);
                PeerId(self.by_peer.len() as u32 - 1)
            }
        };
        self.peers.insert(name, peer);
        peer
    }

    pub(crate) fn insert(&mut self, peer: PeerId, link: Link<L>) {
        self.connections.insert(link.connection, peer);
        self.by_peer[peer.index()] = Some(link);
    }

    pub(crate) fn remove(&mut self, peer: PeerId) -> Option<Link<L>> {
        let link = self.by_peer.get_mut(peer.index())?.take()?;
        self.connections.remove(&link.connection);
        self.departed.push_back(peer);
        Some(link)
    }

    pub(crate) fn get(&self, peer: PeerId) -> Option<&Link<L>> {
        self.by_peer.get(peer.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Link<L>> {
        self.by_peer.get_mut(peer.index())?.as_mut()
    }

    pub(crate) fn of(&self, name: &L::Name) -> Option<(PeerId, &Link<L>)> {
        let peer = *self.peers.get(name)?;
        Some((peer, self.get(peer)?))
    }

    /// Returns the peer of a connection; `None` if the connection was replaced or closed.
    pub(crate) fn of_connection(&self, connection: u64) -> Option<PeerId> {
        self.connections.get(&connection).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of peers that have a number, with a link or without.
    #[cfg(feature = "ring")]
    pub(crate) fn numbered(&self) -> usize {
        self.by_peer.len()
    }

    /// Counts the links that peers at the host of an address dialled, or at any host if it is
    /// `None`.
    pub(crate) fn inbound(&self, ip: Option<IpAddr>) -> usize {
        let is_at = |link: &Link<L>| ip.is_none_or(|ip| host(ip) == host(link.ip));
        self.iter().filter(|(_, link)| !link.outbound && is_at(link)).count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Link<L>)> {
        self.peers.values().filter_map(|peer| Some((*peer, self.get(*peer)?)))
    }
}

/// Returns the host of an address, for limits: a host with IPv6 has all addresses of a prefix of 64
/// bits, because a provider gives each customer at least that many.
pub fn host(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
        ip => ip,
    }
}

/// Waits for the next connection, or for ever without a listener.
pub(crate) async fn accept(listener: Option<&TcpListener>) -> Option<(TcpStream, SocketAddr)> {
    match listener {
        None => std::future::pending().await,
        Some(listener) => match listener.accept().await {
            Ok(accepted) => Some(accepted),
            Err(_) => {
                // The connection was reset in the queue, or the process is out of file descriptors.
                // An immediate retry would only use up processor time.
                tokio::time::sleep(Duration::from_millis(50)).await;
                None
            }
        },
    }
}

#[cfg(any(feature = "mconnection", feature = "ring"))]
pub(crate) async fn connect(to: impl ToSocketAddrs, within: Duration) -> Result<TcpStream, Closed> {
    let stream = timeout(within, TcpStream::connect(to)).await.map_err(|_| Closed::HandshakeTimeout)?;
    stream.map_err(|error| Closed::Unreachable(error.to_string()))
}

/// Connects from an own address: an emulated network knows hosts by their addresses.
#[cfg(feature = "hosted")]
pub(crate) async fn connect_from(own: IpAddr, to: SocketAddr) -> Result<TcpStream, Closed> {
    let unreachable = |error: std::io::Error| Closed::Unreachable(error.to_string());
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(unreachable)?;
    socket.bind(SocketAddr::new(own, 0)).map_err(unreachable)?;
    socket.connect(to).await.map_err(unreachable)
}

/// Sets the options of a socket: no delay, and a bound on the unsent bytes in the kernel
/// (`TCP_NOTSENT_LOWAT`, where the platform has it), since nothing can overtake them.
pub(crate) fn set_up(stream: &TcpStream, not_sent_bytes: u32) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(not_sent_bytes)?;
    #[cfg(not(target_os = "linux"))]
    let _ = not_sent_bytes;
    Ok(())
}

/// Ends a connection so that the peer receives everything: closing a socket with unread bytes would
/// reset it.
#[cfg(any(feature = "hosted", feature = "mconnection", feature = "ring"))]
pub(crate) async fn hang_up(stream: &mut TcpStream) -> Closed {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let drain = async {
        stream.shutdown().await?;
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).await? > 0 {}
        std::io::Result::Ok(())
    };
    // The connection ends whatever the result.
    let _ = timeout(LINGER, drain).await;
    Closed::Here
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn a_host_has_one_address_or_one_prefix() {
        let host = |text: &str| host(text.parse().unwrap()).to_string();
        assert_eq!(host("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(host("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(host("192.0.2.1"), "192.0.2.1");
    }
}
