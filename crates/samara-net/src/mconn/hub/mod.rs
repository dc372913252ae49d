//! The heart of a node: the engine, its links, and all that happens to them, one after another.

mod connections;
mod frames;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use samara_engine::{Context, Engine, PeerId as Handle};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use self::connections::{Attempt, accept};
use super::codec::Codec;
use super::connection::{FromPeer, Outlets, ToConnection};
use super::handshake::Party;
use super::key::{NodeId, PeerAddress};
use super::link::Links;
use super::options::Channel;
use super::peers::Peers;
use super::send::Progress;
use super::status::{Counters, Event, PeerStatus, Status, Stopped};
use crate::driver::Driver;
use crate::mconn::error::Closed;

/// How long it takes at most to look again although nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);

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
            // All have their turn: whoever connects all the time must not keep frames from being handled.
            tokio::select! {
                Some((connection, progress)) = self.progress.recv() => self.progressed(connection, &progress),
                Some(attempt) = self.attempts.1.recv() => self.attempted(attempt),
                request = self.requests.recv() => match request {
                    Some(request) => self.handle_command(request),
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

    // ---- what is told and asked ----

    pub(super) fn tell(&mut self, event: Event<E::Event>) {
        if self.events.try_send(event).is_err() && !self.events.is_closed() {
            self.counters.events_lost += 1;
        }
    }

    pub(super) fn tell_events(&mut self) {
        for event in self.driver.take_events() {
            self.tell(Event::Engine(event));
        }
    }

    fn handle_command(&mut self, request: Request<E>) {
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
