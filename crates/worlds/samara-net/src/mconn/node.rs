//! A node: its options, its owner's handle, its events and status, and the task that drives the
//! hub.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_cat::CatFrame;
use samara_engine::outbox::Lane;
use samara_engine::settings::{Ranges, above};
use samara_engine::{Context, Driver, Engine, NodeRng, Outbox, PeerId as Handle};
use tokio::sync::{mpsc, oneshot};

use super::codec::CatCodec;
use super::handshake::Handshake;
use super::identity::{NodeId, NodeInfo, NodeKey, PeerAddress, is_text};
use super::layer::Channels;
use crate::hub::{self, Hub, Limits, inbound_shares};
use crate::status::{Closed, Counters, Gone, OptionError, Request, StartError, ask, ask_later, bind, check};

const REQUESTS: usize = 1024;

samara_engine::ranges! {
    /// A channel of a connection (`ChannelDescriptor` in `p2p/conn/connection.go`).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Channel {
        /// The channel's number on the wire.
        pub id: u8,
        /// The channel's share of a busy connection, relative to the others.
        #[range(1..)]
        pub priority: u32,
        /// Messages that wait behind the one in transmission. Further messages stay in the
        /// outbox, where they can still be withdrawn.
        #[range(1..)]
        pub queue: usize,
        pub lanes: Vec<Lane>,
        /// Maximum length of a received message in bytes (`RecvMessageCapacity`). Each connection can
        /// hold one message of this length for each channel.
        pub longest_message: usize,
    }
}

/// When packets leave. A full buffer always leaves at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// As soon as there is nothing more to write: no packet waits.
    #[default]
    WhenIdle,
    /// This long after the first packet since the last flush (`FlushThrottleTimeout`, by default
    /// 100 ms in CometBFT).
    Throttle(Duration),
}

samara_engine::ranges! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// The network (chain) of the node. It rejects peers of other networks.
        pub network: String,
        /// The operator's name for this node, in ASCII.
        pub moniker: String,
        /// The version of blocks. The node rejects peers with another one (`BlockProtocol` in
        /// `version/version.go`: 11).
        pub block_version: u64,
        /// Address to listen on; `None` to dial only.
        pub listen: Option<SocketAddr>,
        /// Persistent peers, which the node dials until they are connected.
        pub peers: Vec<PeerAddress>,
        pub flush: Flush,
        /// Bytes of messages on their way from the outbox into the socket, for each link. A link with
        /// nothing on the way takes one message of any length.
        pub in_flight_bytes: usize,
        /// Interval between pings of a peer (60 s in CometBFT).
        #[range(above(Duration::ZERO))]
        pub ping_interval: Duration,
        /// Maximum wait for a pong (45 s in CometBFT).
        #[range(above(Duration::ZERO))]
        pub pong_timeout: Duration,
        pub dial_timeout: Duration,
        #[range(above(Duration::ZERO))]
        pub handshake_timeout: Duration,
        /// Wait before the second attempt to dial. It doubles after each further attempt.
        pub redial_first: Duration,
        pub redial_max: Duration,
        /// Maximum number of links with peers that dialled (`max_num_inbound_peers`).
        pub max_inbound: usize,
        /// Maximum number of links and handshakes with peers of one IPv4 address, or one /64 of IPv6,
        /// that dialled. A /24 (/56) has twice as many, a /16 (/48) four times, and at most three
        /// quarters of `max_inbound`.
        pub max_inbound_per_ip: usize,
        /// Maximum number of handshakes with peers that dialled. A sixteenth of them is for one IPv4
        /// address, or one /64 of IPv6. If all are taken, the oldest one of the prefix with the most
        /// makes room for a further peer.
        #[range(1..)]
        pub max_pending: usize,
        /// Maximum number of unread events. The node drops and counts further ones.
        #[range(1..)]
        pub events: usize,
    }
}

impl Options {
    /// Returns the options of a node of this network: 40 inbound peers and the ping intervals of
    /// CometBFT, and no throttling of packets.
    pub fn new(network: impl Into<String>) -> Self {
        Self {
            network: network.into(),
            moniker: "samara".to_owned(),
            block_version: 11,
            listen: None,
            peers: Vec::new(),
            flush: Flush::WhenIdle,
            in_flight_bytes: 64 << 10,
            ping_interval: Duration::from_secs(60),
            pong_timeout: Duration::from_secs(45),
            dial_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(3),
            redial_first: Duration::from_millis(500),
            redial_max: Duration::from_secs(30),
            max_inbound: 40,
            max_inbound_per_ip: 16,
            max_pending: 32,
            events: 65_536,
        }
    }

    pub(super) fn check(&self, channels: &[Channel]) -> Result<(), OptionError> {
        self.check_ranges()?;
        let is_ascii = is_text(&self.moniker) && !self.moniker.trim().is_empty();
        check(is_ascii, "moniker", &self.moniker, "ASCII")?;
        for (at, channel) in channels.iter().enumerate() {
            let name = format!("channel {:#04x}", channel.id);
            channel.check_ranges().map_err(|error| error.below(&name))?;
            let is_new = channels[..at].iter().all(|other| other.id != channel.id);
            check(is_new, name, "a duplicate", "one of each id")?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub enum Event<T> {
    Engine(T),
    LinkUp {
        peer: NodeId,
        /// The peer's number in the engine.
        handle: Handle,
        /// The protocol that both sides agreed on.
        protocol: Arc<str>,
        outbound: bool,
        info: NodeInfo,
    },
    LinkDown {
        peer: NodeId,
        /// The peer's number in the engine.
        handle: Handle,
        why: Closed,
        lost_copies: usize,
    },
    DialFailed {
        peer: NodeId,
        why: Closed,
    },
    /// The node rejected a peer that dialled.
    Refused {
        remote: SocketAddr,
        why: Closed,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Peers with a link, by name.
    pub peers: Vec<PeerStatus>,
    pub owed_copies: usize,
    /// Bytes of messages between the outbox and the sockets.
    pub in_flight_bytes: u64,
    /// The counters since the start.
    pub counters: Counters,
}

#[derive(Clone, Debug)]
pub struct PeerStatus {
    pub id: NodeId,
    /// The peer's number in the engine.
    pub handle: Handle,
    /// The protocol that both sides agreed on.
    pub protocol: Arc<str>,
    pub outbound: bool,
    /// The operator's name for the peer.
    pub moniker: String,
    pub owed_copies: usize,
}

/// The copies that a node still owed when it stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    pub left_copies: usize,
    pub left: BTreeMap<NodeId, usize>,
}

/// An engine on the connections of CometBFT: a task that listens, dials, and moves frames.
///
/// [`call`](Self::call) reaches the engine; [`Event`]s come through a queue. Cheap to clone; the
/// node ends with [`stop`](Self::stop), or when the last clone is dropped.
pub struct Node<E: Engine<Frame = CatFrame> + 'static> {
    id: NodeId,
    listen: Option<SocketAddr>,
    requests: mpsc::Sender<Request<Task<E>>>,
}

impl<E: Engine<Frame = CatFrame> + 'static> Clone for Node<E> {
    fn clone(&self) -> Self {
        Self { id: self.id, listen: self.listen, requests: self.requests.clone() }
    }
}

impl<E: Engine<Frame = CatFrame> + 'static> fmt::Debug for Node<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("id", &self.id).field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl<E: Engine<Frame = CatFrame> + 'static> Node<E> {
    /// Starts a node. The owner must read its events: the node drops and counts events that find
    /// the queue full ([`Options::events`]).
    ///
    /// # Errors
    /// An option is not valid, the node cannot listen on the address, or the system has no random
    /// numbers.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub async fn start(
        key: NodeKey,
        options: Options,
        codec: CatCodec,
        engine: E,
        outbox: Outbox<E::Frame>,
    ) -> Result<(Self, mpsc::Receiver<Event<E::Event>>), StartError> {
        options.check(codec.channels())?;
        let (listener, listen) = match options.listen {
            None => (None, None),
            Some(address) => {
                let (listener, address) = bind(address).await?;
                (Some(listener), Some(address))
            }
        };
        let driver = Driver::new(engine, outbox, NodeRng::from_entropy(getrandom::fill)?);
        let id = key.id();
        let limits = Limits {
            in_flight_bytes: options.in_flight_bytes,
            pending_max: options.max_pending,
            inbound: inbound_shares(options.max_inbound_per_ip, options.max_inbound),
            // Each persistent peer has at most one dial at a time.
            dials_max: usize::MAX,
        };
        let queues = codec.queues();
        let (requests, receiver) = mpsc::channel(REQUESTS);
        let (events_in, events) = mpsc::channel(options.events);
        let events_max = options.events;
        let layer = Channels::new(Handshake::new(key, codec, options, listen));
        let hub = Hub::new(driver, layer, listener, limits, queues);
        let task = Task { hub, requests: receiver, events: events_in, events_max, stopping: None };
        tokio::spawn(task.run());
        Ok((Self { id, listen, requests }, events))
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// Returns the address at which others reach this node, if it listens at an address that peers
    /// can dial.
    pub fn address(&self) -> Option<PeerAddress> {
        let host = self.listen.filter(|listen| !listen.ip().is_unspecified())?.to_string();
        Some(PeerAddress { id: self.id, host })
    }

    pub async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut E, &mut Context<'_, E::Frame, E::Event>) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        ask(&self.requests, |task| task.hub.driver.with(call)).await
    }

    pub async fn dial(&self, peer: PeerAddress) -> Result<(), Gone> {
        ask(&self.requests, move |task| task.hub.layer.peers.add(&peer, Instant::now())).await
    }

    /// Ends the link to a peer and stops dialling it. The peer can dial again.
    pub async fn disconnect(&self, peer: NodeId) -> Result<(), Gone> {
        ask(&self.requests, move |task| task.disconnect(peer)).await
    }

    pub async fn status(&self) -> Result<Status, Gone> {
        ask(&self.requests, Task::status).await
    }

    /// Stops the node: no new connections, owed copies may leave for `drain` at most, and peers
    /// receive everything that was sent before their connections close.
    pub async fn stop(&self, drain: Duration) -> Result<Stopped, Gone> {
        ask_later(&self.requests, move |task, answer| {
            task.hub.stop();
            task.stopping = Some((Instant::now() + drain, answer));
        })
        .await
    }
}

struct Task<E: Engine<Frame = CatFrame> + 'static> {
    hub: Hub<Channels<E>>,
    requests: mpsc::Receiver<Request<Self>>,
    events: mpsc::Sender<Event<E::Event>>,
    events_max: usize,
    /// A stop in progress: the deadline for copies to leave, and the caller that waits for the end.
    stopping: Option<(Instant, oneshot::Sender<Stopped>)>,
}

impl<E: Engine<Frame = CatFrame> + 'static> Task<E> {
    /// Runs until the node is stopped or its owner drops it.
    async fn run(mut self) {
        loop {
            self.hub.driver.fire_timers();
            self.dial_due();
            self.hub.settle();
            self.pass_events();
            self.hub.drain();
            if self.is_stopped() {
                return self.finish().await;
            }
            let stop = self.stopping.as_ref().map(|(until, _)| *until);
            let deadline = [self.hub.layer.peers.next(), stop].into_iter().flatten().min();
            tokio::select! {
                turn = self.hub.next(deadline) => {
                    if let Some((stream, remote)) = self.hub.handle(turn) {
                        let handshake = Arc::clone(&self.hub.layer.handshake);
                        self.hub.greet(remote, async move { handshake.establish(stream, remote, None).await });
                    }
                }
                request = self.requests.recv() => match request {
                    Some(request) => request(&mut self),
                    // Connections end with the tasks.
                    None => return,
                },
            }
        }
    }

    fn dial_due(&mut self) {
        while self.stopping.is_none()
            && let Some(id) = self.hub.layer.peers.due(Instant::now())
        {
            if self.hub.links.of(&id).is_some() {
                self.hub.layer.peers.is_up(&id);
            } else {
                self.hub.dial(id);
            }
        }
    }

    fn disconnect(&mut self, peer: NodeId) {
        self.hub.layer.peers.remove(&peer);
        if let Some((handle, _)) = self.hub.links.of(&peer) {
            self.hub.take_down(handle, Closed::Here);
        }
    }

    fn status(&mut self) -> Status {
        let mut status = Status { counters: self.hub.counters(), ..Status::default() };
        for (handle, link) in self.hub.links.iter() {
            status.in_flight_bytes += link.in_flight;
            status.peers.push(PeerStatus {
                id: link.name,
                handle,
                protocol: Arc::clone(&link.about.protocol),
                outbound: link.outbound,
                moniker: link.about.info.moniker.clone(),
                owed_copies: self.hub.driver.outbox().pending_to(handle),
            });
        }
        status.owed_copies = self.hub.driver.outbox().pending();
        status
    }

    /// Passes events on, and notes when to dial again.
    fn pass_events(&mut self) {
        for event in self.hub.take_events() {
            let peers = &mut self.hub.layer.peers;
            let event = match event {
                hub::Event::Engine(event) => Event::Engine(event),
                hub::Event::LinkUp(handle) => {
                    let Some(link) = self.hub.links.get(handle) else { continue };
                    peers.is_up(&link.name);
                    let (protocol, info) = (Arc::clone(&link.about.protocol), link.about.info.clone());
                    Event::LinkUp { peer: link.name, handle, protocol, outbound: link.outbound, info }
                }
                hub::Event::LinkDown { peer: handle, name: peer, why, lost_copies } => {
                    if self.hub.links.of(&peer).is_none() {
                        peers.is_down(&peer, Instant::now());
                    }
                    Event::LinkDown { peer, handle, why, lost_copies }
                }
                hub::Event::DialFailed(peer, why) => {
                    if self.hub.links.of(&peer).is_none() {
                        peers.is_down(&peer, Instant::now());
                    }
                    Event::DialFailed { peer, why }
                }
                // Strangers can cause any number of these, so they get no more than half of the
                // queue.
                hub::Event::Refused(..) if self.events.capacity() <= self.events_max / 2 => continue,
                hub::Event::Refused(remote, why) => Event::Refused { remote, why },
            };
            if self.events.try_send(event).is_err() && !self.events.is_closed() {
                self.hub.counters.events_lost += 1;
            }
        }
    }

    /// Returns true if a stop is in progress and everything has left or its time is over.
    fn is_stopped(&mut self) -> bool {
        let Some((until, _)) = &self.stopping else { return false };
        *until <= Instant::now()
            || (self.hub.driver.outbox().pending() == 0
                && self.hub.links.iter().all(|(_, link)| link.in_flight == 0))
    }

    async fn finish(mut self) {
        let outbox = self.hub.driver.outbox();
        let mut stopped = Stopped { left_copies: outbox.pending(), ..Stopped::default() };
        for (handle, link) in self.hub.links.iter() {
            let left = outbox.pending_to(handle);
            if left > 0 {
                stopped.left.insert(link.name, left);
            }
        }
        self.hub.finish().await;
        if let Some((_, answer)) = self.stopping.take() {
            // Fails only if the caller has given up.
            let _ = answer.send(stopped);
        }
    }
}
