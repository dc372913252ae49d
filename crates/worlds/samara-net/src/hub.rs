//! The hub: one engine, its outbox and its links, independent of the transport.
//!
//! ```text
//! runtime (Group, Node, Member) -> Hub -> engine, outbox
//!                                  |
//!                                  +--> LinkLayer: framed TCP, channels of CometBFT, gRPC
//! ```
//!
//! A [`LinkLayer`] makes connections and moves frames over them, with one task for each link. The
//! hub owns everything else that links have in common: which connections become links, the numbers
//! by which the engine knows peers, which copy leaves next, and all counters. A runtime owns a hub,
//! adds the requests of its application, and drives it:
//!
//! 1. [`Driver::fire_timers`], then [`Hub::settle`], which carries out the engine's link requests;
//! 2. [`Hub::take_events`] for the application, and [`Hub::drain`], which hands copies to links
//!    with room;
//! 3. [`Hub::next`] beside its own requests, and [`Hub::handle`] for the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::outbox::{ByLane, Lane, Outgoing};
use samara_engine::places::{Places, Shares};
use samara_engine::{Driver, Engine, Frame, Input, LinkRequest, PeerId, PeerIdentity};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, sleep_until, timeout_at};

use crate::link::{Established, LINGER, Link, Links, Order, Ports, Report, accept};
use crate::status::{Closed, Counters};

/// The longest wait when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);
/// Reports that the hub handles before any other source gets its turn.
pub(crate) const BATCH_MAX: usize = 64;

pub(crate) type FrameOf<L> = <<L as LinkLayer>::Engine as Engine>::Frame;
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type Attempted<L> = Result<Established<L>, Closed>;

/// How connections are established and how frames travel over them.
pub(crate) trait LinkLayer: Sized + 'static {
    type Engine: Engine;
    /// The name of a node; there is at most one link for each.
    type Name: Copy + Debug + Ord + Send + 'static;
    type Connection: Send + 'static;
    type About: Send + 'static;

    /// Returns the bytes that the layer adds to each frame in
    /// [`Progress`](crate::link::Progress).
    fn framing(&self) -> u32 {
        0
    }

    /// Returns this node's name if both ends of two connections between the same nodes keep the one
    /// that the smaller name dialled. Otherwise the newer connection replaces the older one.
    fn own_name(&self) -> Option<Self::Name>;

    /// Returns the name under which the engine's peer can be dialled.
    fn name(&self, identity: &PeerIdentity) -> Option<Self::Name>;

    /// Returns the identity by which the engine knows a node.
    fn identity(&self, name: &Self::Name) -> PeerIdentity;

    /// Returns true if a new connection may replace a link to the node with the same name.
    fn may_replace(&self, _old: &Link<Self>, _new: &Established<Self>) -> bool {
        true
    }

    fn dial(&self, name: Self::Name) -> Task<Attempted<Self>>;

    fn admit(&self, links: &Links<Self>, new: &Established<Self>) -> Result<(), Closed>;

    /// Moves frames until the connection ends, and reports why.
    fn run(&self, connection: Self::Connection, ports: Ports<FrameOf<Self>>) -> Task<()>;

    /// Asks the engine to forget a peer, so that another one can have its number.
    fn forget(_engine: &mut Self::Engine, _peer: PeerId) -> bool {
        true
    }

    /// Returns the channel for a copy taken from the outbox for this link, and counts
    /// layer-specific copies.
    fn route(
        _engine: &Self::Engine,
        channel: usize,
        _copy: &Outgoing<FrameOf<Self>>,
        _counters: &mut Counters,
    ) -> usize {
        channel
    }
}

/// A queue of a link and the lanes that feed it.
#[derive(Clone, Debug)]
pub(crate) struct ChannelQueue {
    pub(crate) lanes: Vec<Lane>,
    /// Maximum number of frames in the queue.
    pub(crate) frames_max: usize,
}

/// Bounds on the resources that peers can make a hub hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of frames between the outbox and the socket, for each link. A link with nothing in
    /// flight takes one frame of any length.
    pub(crate) in_flight_bytes: usize,
    /// Handshakes with nodes that dialled. If all are taken, a newcomer gets the place of the oldest
    /// one of the prefix with the most.
    pub(crate) pending_max: usize,
    /// Handshakes and links with nodes that dialled, by the prefixes of their addresses.
    pub(crate) inbound: Shares,
    pub(crate) dials_max: usize,
}

/// Returns the shares of inbound links: some for a host, twice and four times as many for a site and
/// a network, but a quarter of all links is left to others.
#[cfg(feature = "mconnection")]
pub(crate) fn inbound_shares(per_host: usize, max: usize) -> Shares {
    let most = (max - max / 4).max(per_host);
    let Shares { host, site, network } = Shares::per_host(per_host);
    Shares { host, site: site.min(most), network: network.min(most) }
}

pub(crate) enum Attempt<L: LinkLayer> {
    Dialled(L::Name, Attempted<L>),
    /// Another node dialled this one's listener. The number is that of its places.
    Greeted(u64, SocketAddr, Attempted<L>),
    /// The layer's own server has accepted a connection.
    Offered(Box<Established<L>>),
}

pub(crate) enum Turn<L: LinkLayer> {
    Report(u64, Report<FrameOf<L>>),
    Attempt(Attempt<L>),
    Accepted(TcpStream, SocketAddr),
    Woken,
}

/// A handshake with a node that dialled.
struct Greeting {
    remote: SocketAddr,
    task: AbortHandle,
}

/// Events of the engine and of links, in order.
pub(crate) enum Event<L: LinkLayer> {
    Engine(<L::Engine as Engine>::Event),
    LinkUp(PeerId),
    LinkDown { peer: PeerId, name: L::Name, why: Closed, lost_copies: usize },
    DialFailed(L::Name, Closed),
    Refused(SocketAddr, Closed),
}

/// The reports of links, each with the number of its link.
type Reports<F> = (UnboundedSender<(u64, Report<F>)>, UnboundedReceiver<(u64, Report<F>)>);

pub(crate) struct Hub<L: LinkLayer> {
    pub(crate) driver: Driver<L::Engine>,
    pub(crate) layer: L,
    pub(crate) links: Links<L>,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    /// Queues of each link. If there are none, all lanes share one queue without a bound on frames.
    channels: Vec<ChannelQueue>,
    listener: Option<TcpListener>,
    dialling: BTreeSet<L::Name>,
    /// Handshakes with nodes that dialled, by the number of their places.
    greetings: BTreeMap<u64, Greeting>,
    pending: Places<u64>,
    /// The places of these, and of links with nodes that dialled.
    inbound: Places<u64>,
    /// The number of the last places.
    greeted: u64,
    connections: u64,
    tasks: JoinSet<()>,
    attempts: (UnboundedSender<Attempt<L>>, UnboundedReceiver<Attempt<L>>),
    reports: Reports<FrameOf<L>>,
    events: Vec<Event<L>>,
    ready: Vec<PeerId>,
    timer: Pin<Box<Sleep>>,
    wake: Instant,
    is_stopping: bool,
}

impl<L: LinkLayer> Hub<L> {
    pub(crate) fn new(
        driver: Driver<L::Engine>,
        layer: L,
        listener: Option<TcpListener>,
        limits: Limits,
        channels: Vec<ChannelQueue>,
    ) -> Self {
        let wake = Instant::now() + IDLE;
        Self {
            driver,
            layer,
            links: Links::new(),
            limits,
            counters: Counters::default(),
            channels,
            listener,
            dialling: BTreeSet::new(),
            greetings: BTreeMap::new(),
            pending: Places::new(limits.pending_max, Shares::of(limits.pending_max)),
            inbound: Places::new(usize::MAX, limits.inbound).with_loopback_shares(),
            greeted: 0,
            connections: 0,
            tasks: JoinSet::new(),
            attempts: unbounded_channel(),
            reports: unbounded_channel(),
            events: Vec::new(),
            ready: Vec::new(),
            timer: Box::pin(sleep_until(wake.into())),
            wake,
            is_stopping: false,
        }
    }

    /// Waits for the next turn, until `deadline` at most. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self, deadline: Option<Instant>) -> Turn<L> {
        let next = [self.driver.next_deadline(), deadline].into_iter().flatten().min();
        let next = next.unwrap_or_else(|| Instant::now() + IDLE);
        if next != self.wake {
            self.wake = next;
            self.timer.as_mut().reset(next.into());
        }
        // Random order: a peer that connects all the time must not delay the handling of frames.
        tokio::select! {
            Some((connection, report)) = self.reports.1.recv() => Turn::Report(connection, report),
            Some(attempt) = self.attempts.1.recv() => Turn::Attempt(attempt),
            accepted = accept(self.listener.as_ref()) => match accepted {
                Some((stream, remote)) => Turn::Accepted(stream, remote),
                None => Turn::Woken,
            },
            Some(_) = self.tasks.join_next() => Turn::Woken,
            () = &mut self.timer => Turn::Woken,
        }
    }

    /// Handles a turn. Returns a connection that the runtime must [`greet`](Self::greet).
    pub(crate) fn handle(&mut self, turn: Turn<L>) -> Option<(TcpStream, SocketAddr)> {
        match turn {
            Turn::Report(connection, report) => self.handle_reports((connection, report)),
            Turn::Attempt(attempt) => {
                // The peer may dial again at once when its link ends: the cause came before.
                for _ in 0..self.reports.1.len() {
                    let Ok(report) = self.reports.1.try_recv() else { break };
                    self.handle_report(report);
                }
                self.handle_attempt(attempt);
            }
            Turn::Accepted(stream, remote) => {
                self.greeted += 1;
                if self.take_places(self.greeted, remote) {
                    return Some((stream, remote));
                }
                self.refuse(remote, Closed::Full);
            }
            Turn::Woken => {}
        }
        None
    }

    /// Carries out the engine's link requests.
    pub(crate) fn settle(&mut self) {
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Close(peer) => self.take_down(peer, Closed::Here),
                LinkRequest::Dial(identity) => match self.layer.name(&identity) {
                    Some(name) => self.dial(name),
                    None => {
                        self.count(&Closed::NoAddress);
                        self.driver.input(Input::DialFailed { identity });
                    }
                },
            }
        }
    }

    /// Takes the events since the last call, for the application.
    pub(crate) fn take_events(&mut self) -> Vec<Event<L>> {
        self.gather_events();
        std::mem::take(&mut self.events)
    }

    fn gather_events(&mut self) {
        self.events.extend(self.driver.take_events().into_iter().map(Event::Engine));
    }

    fn push_event(&mut self, event: Event<L>) {
        self.gather_events();
        self.events.push(event);
    }

    /// Returns the counters, including the bytes of links that are up.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        for (_, link) in self.links.iter() {
            let (up, down) = link.traffic.counts();
            counters.bytes_up += up;
            counters.bytes_down += down;
        }
        counters
    }

    pub(crate) fn lanes(&mut self) -> ByLane {
        self.driver.outbox().by_lane()
    }

    pub(crate) fn count(&mut self, why: &Closed) {
        *self.counters.links_closed.entry(why.name()).or_insert(0) += 1;
    }

    // ---- connections ----

    /// Dials a node, unless it has a link or is being dialled.
    pub(crate) fn dial(&mut self, name: L::Name) {
        if self.is_stopping || self.links.of(&name).is_some() || self.dialling.contains(&name) {
            return;
        }
        // The engine dials again later.
        if self.dialling.len() >= self.limits.dials_max {
            return self.count(&Closed::Full);
        }
        self.dialling.insert(name);
        let (dial, attempts) = (self.layer.dial(name), self.attempts.0.clone());
        self.tasks.spawn(async move {
            // Fails only if the node is stopping.
            let _ = attempts.send(Attempt::Dialled(name, dial.await));
        });
    }

    /// Takes the places of a handshake. A silent one may lose its own, and then ends.
    fn take_places(&mut self, number: u64, remote: SocketAddr) -> bool {
        let from = Some(remote.ip());
        if self.inbound.take(number, from).is_err() {
            return false;
        }
        let Ok(evicted) = self.pending.take_or_evict(number, from) else {
            self.inbound.free(&number);
            return false;
        };
        if let Some(evicted) = evicted {
            self.inbound.free(&evicted);
            if let Some(Greeting { remote, task }) = self.greetings.remove(&evicted) {
                task.abort();
                self.refuse(remote, Closed::Evicted);
            }
        }
        true
    }

    /// Performs the handshake with the node that [`handle`](Self::handle) has just returned.
    pub(crate) fn greet(
        &mut self,
        remote: SocketAddr,
        greeting: impl Future<Output = Attempted<L>> + Send + 'static,
    ) {
        let (attempts, number) = (self.attempts.0.clone(), self.greeted);
        let task = self.tasks.spawn(async move {
            // Fails only if the node is stopping.
            let _ = attempts.send(Attempt::Greeted(number, remote, greeting.await));
        });
        self.greetings.insert(number, Greeting { remote, task });
    }

    /// Returns the queues for a layer with its own server: connections, and reports of links.
    #[cfg(feature = "mix")]
    #[allow(clippy::type_complexity, reason = "a pair of channels")]
    pub(crate) fn inlets(&self) -> (UnboundedSender<Attempt<L>>, UnboundedSender<(u64, Report<FrameOf<L>>)>) {
        (self.attempts.0.clone(), self.reports.0.clone())
    }

    fn refuse(&mut self, remote: SocketAddr, why: Closed) {
        tracing::debug!(%remote, %why, "refused a connection");
        self.count(&why);
        self.push_event(Event::Refused(remote, why));
    }

    fn handle_attempt(&mut self, attempt: Attempt<L>) {
        match attempt {
            Attempt::Dialled(name, result) => {
                self.dialling.remove(&name);
                let Err(why) = result.and_then(|new| self.admit(new, None)) else { return };
                tracing::debug!(?name, %why, "a dial failed");
                self.count(&why);
                self.push_event(Event::DialFailed(name, why));
                if self.links.of(&name).is_none() {
                    self.driver.input(Input::DialFailed { identity: self.layer.identity(&name) });
                }
            }
            Attempt::Greeted(number, remote, result) => {
                // It may have lost its places at the same moment, and is refused already.
                if self.greetings.remove(&number).is_none() {
                    return;
                }
                self.pending.free(&number);
                if let Err(why) = result.and_then(|new| self.admit(new, Some(number))) {
                    self.inbound.free(&number);
                    self.refuse(remote, why);
                }
            }
            Attempt::Offered(new) => {
                let remote = new.remote;
                if let Err(why) = self.admit(*new, None) {
                    self.refuse(remote, why);
                }
            }
        }
    }

    /// Turns a connection into a link, unless there is no room for it or the existing link wins.
    /// `place` is the number of its places.
    fn admit(&mut self, new: Established<L>, place: Option<u64>) -> Result<(), Closed> {
        if self.is_stopping {
            return Err(Closed::Here);
        }
        if let Some((peer, old)) = self.links.of(&new.name) {
            if !self.layer.may_replace(old, &new) {
                return Err(Closed::NameTaken);
            }
            // If the same side dialled again, it has lost the connection that this node still
            // considers alive.
            if let Some(own) = self.layer.own_name() {
                let dialler = |outbound: bool| if outbound { own } else { new.name };
                if dialler(new.info.outbound) > dialler(old.outbound) {
                    return Err(Closed::Duplicate);
                }
            }
            self.take_down(peer, Closed::Duplicate);
        }
        self.layer.admit(&self.links, &new)?;
        self.bring_up(new, place);
        Ok(())
    }

    fn bring_up(&mut self, new: Established<L>, place: Option<u64>) {
        let Established { name, remote, info, about, number, traffic, connection } = new;
        self.connections += 1;
        let number = number.unwrap_or(self.connections);
        let (orders, receiver) = unbounded_channel();
        let reports = self.reports.0.clone();
        let ports = Ports { number, orders: receiver, reports, traffic: Arc::clone(&traffic) };
        let task = self.tasks.spawn(self.layer.run(connection, ports));
        let driver = &mut self.driver;
        let peer = self.links.number(name, |departed| driver.with(|engine, _| L::forget(engine, departed)));
        tracing::debug!(?name, outbound = info.outbound, "a link is up");
        let link = Link {
            connection: number,
            name,
            outbound: info.outbound,
            ip: remote.ip(),
            place,
            about,
            orders,
            task,
            traffic,
            queued: vec![0; self.channels.len()],
            in_flight: 0,
        };
        self.links.insert(peer, link);
        self.counters.links_up += 1;
        self.driver.outbox().link_up(peer);
        self.push_event(Event::LinkUp(peer));
        self.driver.input(Input::LinkUp { peer, info });
    }

    /// Ends a link. Does nothing if it has ended already.
    pub(crate) fn take_down(&mut self, peer: PeerId, why: Closed) {
        let Some(link) = self.links.remove(peer) else { return };
        link.task.abort();
        if let Some(place) = link.place {
            self.inbound.free(&place);
        }
        tracing::debug!(name = ?link.name, %why, "a link is down");
        let (up, down) = link.traffic.counts();
        self.counters.bytes_up += up;
        self.counters.bytes_down += down;
        self.count(&why);
        let lost_copies = self.driver.outbox().link_down(peer);
        self.counters.lost_copies += lost_copies as u64;
        self.driver.input(Input::LinkDown { peer });
        // After all events of the engine that use the peer's number.
        self.push_event(Event::LinkDown { peer, name: link.name, why, lost_copies });
    }

    // ---- frames ----

    fn handle_reports(&mut self, first: (u64, Report<FrameOf<L>>)) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(report) = next.take().or_else(|| self.reports.1.try_recv().ok()) else { break };
            self.handle_report(report);
        }
    }

    fn handle_report(&mut self, (connection, report): (u64, Report<FrameOf<L>>)) {
        // The connection may have been replaced, or closed here.
        let Some(peer) = self.links.of_connection(connection) else { return };
        match report {
            Report::Frame(frame, len, share) => {
                let payload = frame.payload_len() as u64;
                self.counters.frames_down += 1;
                self.counters.payload_bytes_down += payload;
                self.counters.control_bytes_down += (len as u64).saturating_sub(payload);
                self.driver.input(Input::Frame { peer, frame });
                drop(share);
            }
            Report::Sent(progress) => {
                let Some(link) = self.links.get_mut(peer) else { return };
                for (queued, taken) in link.queued.iter_mut().zip(&progress.taken) {
                    *queued -= taken;
                }
                link.in_flight -= progress.written_bytes;
                self.ready.push(peer);
            }
            Report::Down(why) => self.take_down(peer, why),
        }
    }

    pub(crate) fn drain(&mut self) {
        let now = self.driver.now();
        let (budget, framing) = (self.limits.in_flight_bytes as u64, self.layer.framing());
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.outbox().take_touched(&mut ready);
        while let Some(peer) = ready.pop() {
            let Some(link) = self.links.get_mut(peer) else { continue };
            for at in 0..self.channels.len().max(1) {
                let channel = self.channels.get(at);
                while (link.in_flight == 0 || link.in_flight < budget)
                    && channel.is_none_or(|channel| (link.queued[at] as usize) < channel.frames_max)
                    && let Some(copy) = match channel {
                        None => self.driver.pop(|outbox| outbox.pop_for(now, peer)),
                        Some(channel) => {
                            self.driver.pop(|outbox| outbox.pop_lanes_for(now, peer, &channel.lanes))
                        }
                    }
                {
                    if let Some(queued) = link.queued.get_mut(at) {
                        *queued += 1;
                    }
                    link.in_flight += u64::from(copy.len + framing);
                    let payload = copy.frame.payload_len() as u64;
                    self.counters.frames_up += 1;
                    self.counters.payload_bytes_up += payload;
                    self.counters.control_bytes_up += u64::from(copy.len).saturating_sub(payload);
                    let channel = L::route(self.driver.engine(), at, &copy, &mut self.counters);
                    // Fails only if the link has just ended; its last report says so.
                    let _ = link.orders.send(Order::Frame { channel, frame: copy.frame, len: copy.len });
                }
            }
            // A copy that leaves can release a copy for another link.
            if ready.is_empty() {
                self.driver.outbox().take_touched(&mut ready);
            }
        }
        self.ready = ready;
    }

    // ---- the end ----

    pub(crate) fn stop(&mut self) {
        self.listener = None;
        self.is_stopping = true;
    }

    /// Has all links send their queued frames and hang up, and waits for them. A peer that does not
    /// read delays this by [`LINGER`] at most.
    pub(crate) async fn finish(&mut self) {
        for (_, link) in self.links.iter() {
            // Fails only if the link has ended already.
            let _ = link.orders.send(Order::Finish);
        }
        let until = Instant::now() + LINGER;
        while self.links.len() > 0
            && let Ok(Some((connection, report))) = timeout_at(until.into(), self.reports.1.recv()).await
        {
            if let (Report::Down(_), Some(peer)) = (report, self.links.of_connection(connection)) {
                self.links.remove(peer);
            }
        }
    }
}
