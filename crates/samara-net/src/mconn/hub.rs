//! The heart of a node: the engine, its links, and all that happens to them, one after another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use samara_engine::{Context, Engine, Frame, Input, LinkRequest, PeerId as Handle, PeerInfo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::codec::Codec;
use super::connection::{Connection, FromPeer, Outlets, ToConnection, Traffic};
use super::error::Closed;
use super::handshake::{Established, Party};
use super::key::{NodeId, PeerAddress};
use super::link::{Link, Links};
use super::options::Channel;
use super::peers::Peers;
use super::send::Progress;
use super::status::{Counters, Event, PeerStatus, Status, Stopped};
use crate::driver::Driver;

/// How long it takes at most to look again although nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);
/// Frames that are handled before anything else gets its turn again.
const FRAMES_AT_ONCE: usize = 64;

/// A call of the engine.
pub(super) type Call<E> =
    Box<dyn FnOnce(&mut E, &mut Context<'_, <E as Engine>::Frame, <E as Engine>::Event>) + Send>;

/// What the owner of a node wants.
pub(super) enum Request<E: Engine> {
    Call(Call<E>),
    Dial(PeerAddress),
    Disconnect(NodeId),
    Status(oneshot::Sender<Status>),
    Stop(Duration, oneshot::Sender<Stopped>),
}

/// How an attempt to get a connection ended.
enum Attempt {
    Dialled(NodeId, Result<Established, Closed>),
    Accepted(SocketAddr, Result<Established, Closed>),
}

/// A stop that is under way.
struct Stopping {
    until: Instant,
    answer: oneshot::Sender<Stopped>,
}

/// Everything that a node is.
pub(super) struct Hub<E: Engine, C: Codec<Frame = E::Frame>> {
    driver: Driver<E>,
    party: Arc<Party<C>>,
    channels: Vec<Channel>,
    listener: Option<TcpListener>,
    links: Links<E::Frame>,
    peers: Peers,
    /// Handshakes and links of peers that dialled, by address.
    inbound: BTreeMap<IpAddr, usize>,
    /// Handshakes with peers that dialled.
    pending: usize,
    connections: u64,
    tasks: JoinSet<()>,
    attempts: (UnboundedSender<Attempt>, UnboundedReceiver<Attempt>),
    frames: Receiver<FromPeer<E::Frame>>,
    progress: UnboundedReceiver<(u64, Progress)>,
    outlets: Outlets<E::Frame>,
    requests: Receiver<Request<E>>,
    events: Sender<Event<E::Event>>,
    ready: Vec<Handle>,
    counters: Counters,
    stopping: Option<Stopping>,
}

impl<E, C> Hub<E, C>
where
    E: Engine + 'static,
    E::Event: 'static,
    C: Codec<Frame = E::Frame>,
{
    pub(super) fn new(
        driver: Driver<E>,
        party: Party<C>,
        listener: Option<TcpListener>,
        requests: Receiver<Request<E>>,
        events: Sender<Event<E::Event>>,
    ) -> Self {
        let (frames_in, frames) = mpsc::channel(1024);
        let (progress_in, progress) = mpsc::unbounded_channel();
        let waiting = Arc::new(tokio::sync::Semaphore::new(super::connection::WAITING_KIB));
        Self {
            driver,
            channels: party.codec.channels(),
            peers: Peers::new(&party.options, Instant::now()),
            party: Arc::new(party),
            listener,
            links: Links::new(),
            inbound: BTreeMap::new(),
            pending: 0,
            connections: 0,
            tasks: JoinSet::new(),
            attempts: mpsc::unbounded_channel(),
            frames,
            progress,
            outlets: Outlets { frames: frames_in, waiting, progress: progress_in },
            requests,
            events,
            ready: Vec::new(),
            counters: Counters::default(),
            stopping: None,
        }
    }

    /// Runs until the node is stopped, or its owner has forgotten it.
    pub(super) async fn run(mut self) {
        loop {
            self.driver.fire_timers();
            self.dial_due();
            self.settle();
            if self.is_stopped() {
                return self.say_goodbye().await;
            }
            let wake = self.next_wake();
            tokio::select! {
                // What gives room first: it costs little, and there is only so much of it.
                biased;
                Some((connection, progress)) = self.progress.recv() => self.progressed(connection, &progress),
                Some(attempt) = self.attempts.1.recv() => self.attempted(attempt),
                request = self.requests.recv() => match request {
                    Some(request) => self.obey(request),
                    // Connections end with the tasks.
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {}
                accepted = accept(self.listener.as_ref()) => self.accepted(accepted),
                Some(first) = self.frames.recv() => self.received(first),
                () = sleep_until(wake.into()) => {}
            }
        }
    }

    fn next_wake(&self) -> Instant {
        let stop = self.stopping.as_ref().map(|stopping| stopping.until);
        let next = [self.driver.next_deadline(), self.peers.next(), stop];
        next.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + IDLE)
    }

    // ---- connections come and go ----

    fn dial_due(&mut self) {
        while self.stopping.is_none()
            && let Some(PeerAddress { id, host }) = self.peers.due(Instant::now())
        {
            if self.links.of_peer(&id).is_some() {
                self.peers.is_up(&id);
                continue;
            }
            let (party, attempts) = (Arc::clone(&self.party), self.attempts.0.clone());
            self.tasks.spawn(async move {
                let dialled = party.dial(&host, id).await;
                // Fails only if the node is gone.
                let _ = attempts.send(Attempt::Dialled(id, dialled));
            });
        }
    }

    fn accepted(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        // What fails here is the connection (it was reset in the queue), or the process has no file descriptor left.
        let Ok((stream, remote)) = accepted else { return };
        let options = &self.party.options;
        let of_ip = self.inbound.get(&remote.ip()).copied().unwrap_or(0);
        if self.stopping.is_some()
            || self.pending >= options.max_pending
            || of_ip >= options.max_inbound_per_ip
        {
            return self.refuse(remote, Closed::Full);
        }
        self.pending += 1;
        *self.inbound.entry(remote.ip()).or_insert(0) += 1;
        let (party, attempts) = (Arc::clone(&self.party), self.attempts.0.clone());
        self.tasks.spawn(async move {
            let established = party.establish(stream, remote, None).await;
            // Fails only if the node is gone.
            let _ = attempts.send(Attempt::Accepted(remote, established));
        });
    }

    fn refuse(&mut self, remote: SocketAddr, why: Closed) {
        *self.counters.closed.entry(why.name()).or_insert(0) += 1;
        self.tell(Event::Refused { remote, why });
    }

    fn attempted(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Dialled(id, result) => {
                if let Err(why) = result.and_then(|established| self.admit(established)) {
                    *self.counters.closed.entry(why.name()).or_insert(0) += 1;
                    self.tell(Event::DialFailed { peer: id, why });
                    if self.links.of_peer(&id).is_none() {
                        self.peers.is_down(&id, Instant::now());
                        self.driver.input(Input::DialFailed { identity: id.identity() });
                    }
                }
            }
            Attempt::Accepted(remote, result) => {
                self.pending -= 1;
                if let Err(why) = result.and_then(|established| self.admit(established)) {
                    self.forget_inbound(remote.ip());
                    self.refuse(remote, why);
                }
            }
        }
    }

    fn forget_inbound(&mut self, ip: IpAddr) {
        if let Some(count) = self.inbound.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.inbound.remove(&ip);
            }
        }
    }

    /// Makes a link of a connection, unless there is no room for it or a better one.
    fn admit(&mut self, established: Established) -> Result<(), Closed> {
        let peer = established.peer;
        if self.stopping.is_some() {
            return Err(Closed::Here);
        }
        if let Some(handle) = self.links.of_peer(&peer) {
            let own = self.party.key.id();
            let dialler = |outbound: bool| if outbound { own } else { peer };
            let old = self.links.get(handle).map(|link| dialler(link.outbound));
            // Both sides keep what the smaller one dialled. The same side again has lost the connection that this one believes in.
            if old.is_some_and(|old| dialler(established.outbound) > old) {
                return Err(Closed::Duplicate);
            }
            self.take_down(handle, Closed::Duplicate);
        }
        let inbound = self.links.iter().filter(|(_, link)| !link.outbound).count();
        let invited = established.outbound || self.peers.contains(&peer);
        if !invited && inbound >= self.party.options.max_inbound {
            return Err(Closed::Full);
        }
        self.bring_up(established);
        Ok(())
    }

    fn bring_up(&mut self, established: Established) {
        self.connections += 1;
        let number = self.connections;
        let (orders, receiver) = mpsc::unbounded_channel();
        let Established { peer, remote, outbound, .. } = established;
        let (info, protocol) = (established.info.clone(), Arc::clone(&established.protocol));
        let codec = Arc::clone(&self.party.codec);
        let traffic = Arc::new(Traffic { up: AtomicU64::new(0), down: AtomicU64::new(0) });
        let (connection, stream) = Connection::new(
            number,
            codec,
            established,
            &self.party.options,
            receiver,
            self.outlets.clone(),
            Arc::clone(&traffic),
        );
        let task = self.tasks.spawn(connection.run(stream));
        let handle = self.links.insert(Link {
            connection: number,
            peer,
            info: info.clone(),
            protocol: Arc::clone(&protocol),
            outbound,
            inbound_ip: (!outbound).then_some(remote.ip()),
            orders,
            task,
            traffic,
            queued: vec![0; self.channels.len()],
            in_flight: 0,
        });
        self.counters.links += 1;
        self.peers.is_up(&peer);
        // All nodes of a machine share the loopback address: it says nothing about who is whose sybil.
        let address = Some(remote.ip()).filter(|ip| !ip.is_loopback());
        let about =
            PeerInfo { identity: peer.identity(), outbound, address, protocol: Arc::clone(&protocol) };
        self.driver.outbox().link_up(handle);
        self.tell(Event::LinkUp { peer, handle, protocol, outbound, info });
        self.driver.input(Input::LinkUp { peer: handle, info: about });
    }

    /// Ends a link. Nothing happens if it is gone already.
    fn take_down(&mut self, handle: Handle, why: Closed) {
        let Some(link) = self.links.remove(handle) else { return };
        link.task.abort();
        if let Some(ip) = link.inbound_ip {
            self.forget_inbound(ip);
        }
        self.counters.wire_up += link.traffic.up.load(Ordering::Relaxed);
        self.counters.wire_down += link.traffic.down.load(Ordering::Relaxed);
        *self.counters.closed.entry(why.name()).or_insert(0) += 1;
        self.peers.is_down(&link.peer, Instant::now());
        let lost_copies = self.driver.outbox().link_down(handle);
        self.driver.input(Input::LinkDown { peer: handle });
        // As long as it is known whose number that was.
        self.tell_events();
        self.tell(Event::LinkDown { peer: link.peer, handle, why, lost_copies });
    }

    // ---- frames come and go ----

    fn received(&mut self, first: FromPeer<E::Frame>) {
        let mut next = Some(first);
        for _ in 0..FRAMES_AT_ONCE {
            match next.take().or_else(|| self.frames.try_recv().ok()) {
                None => break,
                Some(FromPeer::Down { connection, why }) => {
                    if let Some(handle) = self.links.of_connection(connection) {
                        self.take_down(handle, why);
                    }
                }
                Some(FromPeer::Frame { connection, frame, share }) => {
                    // The connection may have been replaced, or closed here.
                    let Some(peer) = self.links.of_connection(connection) else { continue };
                    let (len, payload) = (frame.encoded_len() as u64, frame.payload_len() as u64);
                    self.counters.frames_down += 1;
                    self.counters.payload_down += payload;
                    self.counters.control_down += len.saturating_sub(payload);
                    self.driver.input(Input::Frame { peer, frame });
                    drop(share);
                }
            }
        }
    }

    fn progressed(&mut self, connection: u64, progress: &Progress) {
        let Some(handle) = self.links.of_connection(connection) else { return };
        let Some(link) = self.links.get_mut(handle) else { return };
        for (queued, taken) in link.queued.iter_mut().zip(&progress.taken) {
            *queued -= taken;
        }
        link.in_flight -= progress.written_bytes;
        self.ready.push(handle);
    }

    /// Carries out what the engine wants, and hands copies to links with room.
    fn settle(&mut self) {
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Close(handle) => self.take_down(handle, Closed::Here),
                LinkRequest::Dial(identity) => {
                    // Engines know names, not addresses: only peers that are dialled anyway can be reached.
                    let id = NodeId::from_identity(&identity);
                    if !id.is_some_and(|id| self.peers.contains(&id) || self.links.of_peer(&id).is_some()) {
                        self.driver.input(Input::DialFailed { identity });
                    }
                }
            }
        }
        self.tell_events();
        self.drain();
    }

    fn drain(&mut self) {
        let now = self.driver.now();
        let budget = self.party.options.in_flight_bytes;
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.outbox().take_touched(&mut ready);
        while let Some(handle) = ready.pop() {
            let Some(link) = self.links.get_mut(handle) else { continue };
            for (at, channel) in self.channels.iter().enumerate() {
                while link.has_room(at, channel.queue, budget)
                    && let Some(copy) = self.driver.outbox().pop_lanes_for(now, handle, &channel.lanes)
                {
                    link.queued[at] += 1;
                    link.in_flight += u64::from(copy.len);
                    let payload = copy.frame.payload_len() as u64;
                    self.counters.frames_up += 1;
                    self.counters.payload_up += payload;
                    self.counters.control_up += u64::from(copy.len).saturating_sub(payload);
                    // Fails only if the connection has just ended, which is told next.
                    let _ = link.orders.send(ToConnection::Copy(at, copy.frame));
                }
            }
            // A copy that leaves can release one for another link.
            if ready.is_empty() {
                self.driver.outbox().take_touched(&mut ready);
            }
        }
        self.ready = ready;
    }

    // ---- what is told and asked ----

    fn tell(&mut self, event: Event<E::Event>) {
        if self.events.try_send(event).is_err() && !self.events.is_closed() {
            self.counters.events_lost += 1;
        }
    }

    fn tell_events(&mut self) {
        for event in self.driver.take_events() {
            self.tell(Event::Engine(event));
        }
    }

    fn obey(&mut self, request: Request<E>) {
        match request {
            Request::Call(call) => self.driver.with(|engine, cx| call(engine, cx)),
            Request::Dial(peer) => self.peers.add(&peer, Instant::now()),
            Request::Disconnect(peer) => {
                self.peers.remove(&peer);
                if let Some(handle) = self.links.of_peer(&peer) {
                    self.take_down(handle, Closed::Here);
                }
            }
            Request::Status(answer) => {
                // Fails only if the asker has given up.
                let _ = answer.send(self.status());
            }
            Request::Stop(drain, answer) => {
                self.listener = None;
                self.stopping = Some(Stopping { until: Instant::now() + drain, answer });
            }
        }
    }

    fn status(&mut self) -> Status {
        let mut status = Status { counters: self.counters.clone(), ..Status::default() };
        for (handle, link) in self.links.iter() {
            status.counters.wire_up += link.traffic.up.load(Ordering::Relaxed);
            status.counters.wire_down += link.traffic.down.load(Ordering::Relaxed);
            status.in_flight_bytes += link.in_flight;
            status.peers.push(PeerStatus {
                id: link.peer,
                handle,
                protocol: Arc::clone(&link.protocol),
                outbound: link.outbound,
                moniker: link.info.moniker.clone(),
                owed_copies: self.driver.outbox().pending_to(handle),
            });
        }
        status.owed_copies = self.driver.outbox().pending();
        status
    }

    // ---- the end ----

    /// Whether a stop is under way, and everything has left or the time is over.
    fn is_stopped(&mut self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let over = stopping.until <= Instant::now();
        over || (self.driver.outbox().pending() == 0
            && self.links.iter().all(|(_, link)| link.in_flight == 0))
    }

    async fn say_goodbye(mut self) {
        let mut stopped = Stopped { left_copies: self.driver.outbox().pending(), ..Stopped::default() };
        for (handle, link) in self.links.iter() {
            let left = self.driver.outbox().pending_to(handle);
            if left > 0 {
                stopped.left.insert(link.peer, left);
            }
            // Fails only if it has ended already.
            let _ = link.orders.send(ToConnection::Finish);
        }
        // A peer that does not read cannot be waited for.
        let until = Instant::now() + super::connection::LINGER;
        let mut up = self.links.len();
        while up > 0
            && let Ok(Some(last)) = tokio::time::timeout_at(until.into(), self.frames.recv()).await
        {
            if let FromPeer::Down { connection, .. } = last
                && self.links.of_connection(connection).is_some()
            {
                up -= 1;
            }
        }
        if let Some(stopping) = self.stopping.take() {
            // Fails only if the asker has given up.
            let _ = stopping.answer.send(stopped);
        }
    }
}

/// The next connection; never, if nothing is listened on.
async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, SocketAddr)> {
    match listener {
        None => std::future::pending().await,
        Some(listener) => {
            let accepted = listener.accept().await;
            if accepted.is_err() {
                // Out of file descriptors, perhaps: trying again at once would only burn time.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            accepted
        }
    }
}
