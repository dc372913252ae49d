//! The link layer: packets of several channels on a secret connection. One task for each link also
//! sends and answers pings.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_cat::CatFrame;
use samara_engine::{Engine, Frame, PeerIdentity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep_until;

use super::handshake::{Handshake, Opened, Peer};
use super::identity::{Broken, NodeId, PeerAddress};
use super::node::Options;
use super::packets::{Incoming, Packet, Receiving, Sending};
use super::secret::{SEALED, Secret};
use crate::hub::{Attempted, LinkLayer, Task};
use crate::link::{Established, Links, Order, Ports, Report, Share, hang_up};
use crate::status::Closed;

/// KiB of frames of all peers together that may wait for the engine. The semaphore is fair: peers
/// take turns.
const WAITING_KIB: usize = 32 << 10;
/// Frames of all peers together that may wait for the engine.
const WAITING_FRAMES: usize = 1_024;

#[derive(Clone)]
struct Budget {
    kib: Arc<Semaphore>,
    frames: Arc<Semaphore>,
}

/// The connections of CometBFT, with the persistent peers and the receive budget.
pub(super) struct Channels<E> {
    pub(super) handshake: Arc<Handshake>,
    pub(super) peers: Peers,
    budget: Budget,
    engine: PhantomData<fn() -> E>,
}

impl<E> Channels<E> {
    pub(super) fn new(handshake: Handshake) -> Self {
        let budget = Budget {
            kib: Arc::new(Semaphore::new(WAITING_KIB)),
            frames: Arc::new(Semaphore::new(WAITING_FRAMES)),
        };
        let peers = Peers::new(&handshake.options, Instant::now());
        Self { handshake: Arc::new(handshake), peers, budget, engine: PhantomData }
    }
}

impl<E: Engine<Frame = CatFrame> + 'static> LinkLayer for Channels<E> {
    type Engine = E;
    type Name = NodeId;
    type Connection = Opened;
    type About = Peer;

    fn own_name(&self) -> Option<NodeId> {
        Some(self.handshake.key.id())
    }

    /// Engines know names, not addresses, so a node can dial persistent peers only.
    fn name(&self, identity: &PeerIdentity) -> Option<NodeId> {
        NodeId::from_identity(identity).filter(|id| self.peers.contains(id))
    }

    fn identity(&self, name: &NodeId) -> PeerIdentity {
        name.identity()
    }

    fn dial(&self, name: NodeId) -> Task<Attempted<Self>> {
        let (handshake, host) = (Arc::clone(&self.handshake), self.peers.host(&name));
        Box::pin(async move { handshake.dial(&host, name).await })
    }

    fn admit(&self, links: &Links<Self>, new: &Established<Self>) -> Result<(), Closed> {
        let is_invited = new.info.outbound || self.peers.contains(&new.name);
        let has_room = || links.inbound(None) < self.handshake.options.max_inbound;
        if is_invited || has_room() { Ok(()) } else { Err(Closed::Full) }
    }

    fn run(&self, opened: Opened, ports: Ports<CatFrame>) -> Task<()> {
        let Opened { stream, secret, receiving, protocol } = opened;
        let options = &self.handshake.options;
        let now = Instant::now();
        let connection = Connection {
            sending: Sending::new(self.handshake.codec.channels(), options.flush, now),
            handshake: Arc::clone(&self.handshake),
            secret,
            receiving,
            protocol,
            ports,
            budget: self.budget.clone(),
            inbox: None,
            is_finishing: false,
            ping_at: now + options.ping_interval,
            pong_until: None,
        };
        Box::pin(connection.run(stream))
    }
}

type Reserving = Pin<Box<dyn Future<Output = Option<Share>> + Send>>;
/// A frame that waits for its share of the budget, its length, and the future that waits.
type Inbox = Option<(CatFrame, usize, Reserving)>;

struct Connection {
    handshake: Arc<Handshake>,
    secret: Secret,
    receiving: Receiving,
    /// The protocol that both sides agreed on.
    protocol: Arc<str>,
    sending: Sending,
    ports: Ports<CatFrame>,
    budget: Budget,
    inbox: Inbox,
    is_finishing: bool,
    ping_at: Instant,
    pong_until: Option<Instant>,
}

impl Connection {
    async fn run(mut self, mut stream: TcpStream) {
        let why = match self.exchange(&mut stream).await {
            Ok(()) => hang_up(&mut stream).await,
            Err(why) => why,
        };
        self.report_progress();
        self.ports.report(Report::Down(why));
    }

    /// Reads and writes until the connection breaks, or everything has left after the order to
    /// finish.
    async fn exchange(&mut self, stream: &mut TcpStream) -> Result<(), Closed> {
        let (mut reader, mut writer) = stream.split();
        let mut buffer = [0; SEALED];
        loop {
            self.take_in()?;
            self.sending.work(&mut self.secret, Instant::now()).map_err(Closed::ended)?;
            self.report_progress();
            if self.is_finishing && self.sending.is_idle() {
                return Ok(());
            }
            let wants = self.receiving.wants();
            let wake = self.next_wake();
            let unsent = self.sending.unsent();
            tokio::select! {
                share = reserved(&mut self.inbox), if self.inbox.is_some() => self.deliver(share)?,
                len = reader.read(&mut buffer[..wants]), if self.inbox.is_none() => {
                    let len = len.map_err(Closed::ended)?;
                    if len == 0 {
                        return Err(Closed::ended(ErrorKind::UnexpectedEof));
                    }
                    self.ports.traffic.received(len);
                    self.receiving.read(&buffer[..len]);
                }
                len = writer.write(unsent), if !unsent.is_empty() => {
                    let len = len.map_err(Closed::ended)?;
                    self.ports.traffic.sent(len);
                    self.sending.wrote(len);
                }
                order = self.ports.orders.recv(), if !self.is_finishing => {
                    self.handle_order(order.unwrap_or(Order::Finish));
                }
                () = sleep_until(wake.into()) => self.check_pings()?,
            }
        }
    }

    /// Takes received messages up to the next frame, which waits in the inbox.
    fn take_in(&mut self) -> Result<(), Closed> {
        while self.inbox.is_none() {
            match self.receiving.next(&mut self.secret)? {
                None => break,
                Some(Incoming::Ping) => self.sending.push_packet(&Packet::PONG, Instant::now()),
                Some(Incoming::Pong) => self.pong_until = None,
                Some(Incoming::Message { channel, bytes }) => {
                    let len = bytes.len();
                    let frame = self.handshake.codec.decode(&bytes);
                    let frame = frame.map_err(|error| Broken::Frame { channel, error })?;
                    self.inbox = Some((frame, len, self.reserve(len)));
                }
            }
        }
        Ok(())
    }

    /// Waits for a share of the budget. The caller keeps the future until it is done: a new one
    /// would be the last in the queue.
    fn reserve(&self, len: usize) -> Reserving {
        let kib = len.div_ceil(1024).clamp(1, WAITING_KIB) as u32;
        let budget = self.budget.clone();
        Box::pin(async move {
            let kib = budget.kib.acquire_many_owned(kib).await.ok()?;
            let place: OwnedSemaphorePermit = budget.frames.acquire_owned().await.ok()?;
            Some(Share(kib, Some(place)))
        })
    }

    fn deliver(&mut self, share: Option<Share>) -> Result<(), Closed> {
        let share = share.ok_or(Closed::Here)?;
        if let Some((frame, len, _)) = self.inbox.take() {
            self.ports.report(Report::Frame(frame, len, share));
        }
        Ok(())
    }

    fn handle_order(&mut self, order: Order<CatFrame>) {
        match order {
            Order::Frame { channel, frame, .. } => {
                let bytes = self.handshake.codec.encode(&frame);
                debug_assert_eq!(bytes.len(), frame.encoded_len());
                let on = self.handshake.codec.route(&self.protocol, channel, &frame);
                self.sending.push(channel, on, bytes);
            }
            Order::Finish => self.is_finishing = true,
        }
    }

    fn next_wake(&self) -> Instant {
        let flush = self.sending.next_flush();
        [flush, self.pong_until].into_iter().flatten().fold(self.ping_at, Instant::min)
    }

    fn check_pings(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let options = &self.handshake.options;
        if self.inbox.is_some() && self.pong_until.is_some() {
            // The pong may have arrived unread, as this node is not reading.
            self.pong_until = Some(now + options.pong_timeout);
        }
        if self.pong_until.is_some_and(|until| until <= now) {
            return Err(Closed::PongTimeout);
        }
        if self.ping_at <= now {
            self.ping_at = now + options.ping_interval;
            self.sending.push_packet(&Packet::PING, now);
            self.pong_until.get_or_insert(now + options.pong_timeout);
        }
        Ok(())
    }

    fn report_progress(&mut self) {
        if let Some(progress) = self.sending.take_progress() {
            self.ports.report(Report::Sent(progress));
        }
    }
}

/// Waits for the share of the frame in the inbox.
async fn reserved(inbox: &mut Inbox) -> Option<Share> {
    match inbox {
        Some((_, _, reserving)) => reserving.as_mut().await,
        None => std::future::pending().await,
    }
}

// ---- persistent peers and their redials ----

#[derive(Debug)]
struct Persistent {
    host: String,
    /// Time of the next dial; `None` during a dial and while there is a link.
    dial_at: Option<Instant>,
    /// Wait after the next failure.
    wait: Duration,
}

#[derive(Debug)]
pub(super) struct Peers {
    persistent: BTreeMap<NodeId, Persistent>,
    first: Duration,
    longest: Duration,
}

impl Peers {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let first = options.redial_first;
        let mut peers = Self { persistent: BTreeMap::new(), first, longest: options.redial_max.max(first) };
        options.peers.iter().for_each(|peer| peers.add(peer, now));
        peers
    }

    pub(super) fn add(&mut self, peer: &PeerAddress, now: Instant) {
        let known = self.persistent.entry(peer.id).or_insert_with(|| Persistent {
            host: String::new(),
            dial_at: Some(now),
            wait: self.first,
        });
        known.host.clone_from(&peer.host);
    }

    pub(super) fn remove(&mut self, peer: &NodeId) {
        self.persistent.remove(peer);
    }

    pub(super) fn contains(&self, peer: &NodeId) -> bool {
        self.persistent.contains_key(peer)
    }

    /// Returns the address of a peer, or an empty text if it is not persistent.
    pub(super) fn host(&self, peer: &NodeId) -> String {
        self.persistent.get(peer).map(|peer| peer.host.clone()).unwrap_or_default()
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<NodeId> {
        let is_due = |peer: &Persistent| peer.dial_at.is_some_and(|at| at <= now);
        let (id, peer) = self.persistent.iter_mut().find(|(_, peer)| is_due(peer))?;
        peer.dial_at = None;
        Some(*id)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.persistent.values().filter_map(|peer| peer.dial_at).min()
    }

    /// Notes that a link is up, in either direction.
    pub(super) fn is_up(&mut self, peer: &NodeId) {
        if let Some(peer) = self.persistent.get_mut(peer) {
            peer.dial_at = None;
            peer.wait = self.first;
        }
    }

    /// Notes that a link is down or a dial failed. Shortens the wait by up to half at random: two
    /// nodes that dial each other must not do so in step for ever.
    pub(super) fn is_down(&mut self, peer: &NodeId, now: Instant) {
        if let Some(peer) = self.persistent.get_mut(peer) {
            // Without random numbers the waits have their full length.
            let random = getrandom::u32().unwrap_or(0);
            let less = peer.wait / 2 * (random >> 16) / (1 << 16);
            peer.dial_at = Some(now + peer.wait - less);
            peer.wait = (peer.wait * 2).min(self.longest);
        }
    }
}
