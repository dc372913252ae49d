//! The heart of a member: the engine, its links, and all that happens to them, one after another.

mod connections;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use samara_engine::outbox::Lane;
use samara_engine::{Input, LinkRequest, PeerId};
use samara_ring::{Command, Event, Ring, View};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use self::connections::{Attempt, accept};
use super::events::Outlet;
use super::hello::address_of;
use super::link::{FromLink, LINGER, LinkOptions, Order, Told};
use super::links::Links;
use super::options::Options;
use super::receive::PREFIX;
use super::status::{Closed, Counters, Status};
use crate::driver::Driver;

/// How long it takes at most to look again although nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);
/// What links tell and the application broadcasts is handled so many at once before anything else gets its turn again.
const AT_ONCE: usize = 64;

/// What the owner of a member wants.
pub(super) enum Request {
    Leave(oneshot::Sender<()>),
    Status(oneshot::Sender<Status>),
}

/// What comes from the owner.
pub(super) struct Inbound {
    pub(super) messages: UnboundedReceiver<Bytes>,
    pub(super) requests: Receiver<Request>,
    /// The room in the queue of messages, in bytes.
    pub(super) room: Arc<Semaphore>,
}

/// Everything that a member is.
pub(super) struct Hub {
    driver: Driver<Ring>,
    address: SocketAddr,
    options: Options,
    link_options: Arc<LinkOptions>,
    group: u64,
    listener: TcpListener,
    links: Links,
    dialling: BTreeSet<SocketAddr>,
    /// Handshakes with nodes that dialled.
    pending: usize,
    connections: u64,
    tasks: JoinSet<()>,
    attempts: (UnboundedSender<Attempt>, UnboundedReceiver<Attempt>),
    told: (UnboundedSender<FromLink>, UnboundedReceiver<FromLink>),
    inbound: Inbound,
    /// Bytes of the queue's room that messages take.
    taken: usize,
    outlet: Outlet,
    is_paused: bool,
    view: watch::Sender<Option<Arc<View>>>,
    ready: Vec<PeerId>,
    counters: Counters,
    leaving: Vec<oneshot::Sender<()>>,
    has_left: bool,
}

impl Hub {
    pub(super) fn new(
        driver: Driver<Ring>,
        address: SocketAddr,
        options: Options,
        listener: TcpListener,
        inbound: Inbound,
        outlet: Outlet,
        view: watch::Sender<Option<Arc<View>>>,
    ) -> Self {
        Self {
            driver,
            address,
            link_options: Arc::new(options.link_options()),
            group: options.group_number(),
            options,
            listener,
            links: Links::default(),
            dialling: BTreeSet::new(),
            pending: 0,
            connections: 0,
            tasks: JoinSet::new(),
            attempts: mpsc::unbounded_channel(),
            told: mpsc::unbounded_channel(),
            inbound,
            taken: 0,
            outlet,
            is_paused: false,
            view,
            ready: Vec::new(),
            counters: Counters::default(),
            leaving: Vec::new(),
            has_left: false,
        }
    }

    /// Runs until the member has left, or its owner has forgotten it.
    pub(super) async fn run(mut self) {
        let mut wake = Instant::now() + IDLE;
        let mut timer = pin!(sleep_until(wake.into()));
        loop {
            self.driver.fire_timers();
            self.settle();
            if self.has_left {
                return self.say_goodbye().await;
            }
            let next = self.driver.next_deadline().unwrap_or_else(|| Instant::now() + IDLE);
            if next != wake {
                wake = next;
                timer.as_mut().reset(wake.into());
            }
            // All have their turn: whoever connects all the time must not keep frames from being handled.
            tokio::select! {
                Some(first) = self.told.1.recv() => self.listen_to(first),
                Some(message) = self.inbound.messages.recv() => self.broadcast(message),
                () = self.outlet.wait_for_room(), if self.is_paused => {}
                Some(attempt) = self.attempts.1.recv() => self.attempted(attempt),
                request = self.inbound.requests.recv() => match request {
                    Some(request) => self.handle_command(request),
                    // Links end with the tasks.
                    None => return,
                },
                accepted = accept(&self.listener) => self.accepted(accepted),
                Some(_) = self.tasks.join_next() => {}
                () = &mut timer => {}
            }
        }
    }

    // ---- what is asked ----

    fn broadcast(&mut self, first: Bytes) {
        let mut next = Some(first);
        for _ in 0..AT_ONCE {
            let Some(message) = next.take().or_else(|| self.inbound.messages.try_recv().ok()) else { break };
            self.taken += message.len().clamp(1, self.options.queue_bytes);
            // There is room: the semaphore counts what the queue counts. And nothing is taken after the wish to leave.
            let taken = self.driver.with(|ring, cx| ring.broadcast(message, cx));
            debug_assert_eq!(taken, Ok(()));
        }
    }

    fn handle_command(&mut self, request: Request) {
        match request {
            Request::Leave(answer) => {
                // What was taken until now leaves with it; nothing is taken any more.
                self.inbound.room.close();
                self.inbound.messages.close();
                while let Ok(message) = self.inbound.messages.try_recv() {
                    self.broadcast(message);
                }
                self.leaving.push(answer);
                self.driver.input(Input::Command(Command::Leave));
            }
            Request::Status(answer) => {
                // Fails only if the asker has given up.
                let _ = answer.send(self.status());
            }
        }
    }

    fn status(&mut self) -> Status {
        let outbox = self.driver.outbox();
        let lanes = outbox.config().lanes.iter().zip(0..);
        let lanes = lanes.map(|(lane, at)| (lane.name, *outbox.counters(Lane(at)))).collect();
        let ring = self.driver.engine();
        Status {
            ring: ring.metrics().clone(),
            transport: self.counters.clone(),
            lanes,
            links: self.links.len(),
            queued_bytes: ring.queued_bytes(),
            window_bytes: ring.window_bytes(),
            kept_bytes: ring.kept_bytes(),
            waiting_bytes: self.outlet.bytes(),
        }
    }

    // ---- what links tell ----

    fn listen_to(&mut self, first: FromLink) {
        let mut next = Some(first);
        for _ in 0..AT_ONCE {
            let Some((connection, told)) = next.take().or_else(|| self.told.1.try_recv().ok()) else { break };
            // The connection may have been replaced, or closed here.
            let Some(peer) = self.links.of_connection(connection) else { continue };
            match told {
                Told::Frame(frame, len, share) => {
                    self.counters.frames_down += 1;
                    self.counters.bytes_down += len as u64;
                    self.driver.input(Input::Frame { peer, frame });
                    drop(share);
                }
                Told::Sent(len) => {
                    self.counters.bytes_up += len as u64;
                    if let Some(link) = self.links.get_mut(peer) {
                        link.in_flight -= len as u64;
                        self.ready.push(peer);
                    }
                }
                Told::Down(why) => self.take_down(peer, &why),
            }
        }
    }

    /// Carries out what the engine wants, and hands copies to links with room.
    fn settle(&mut self) {
        // What the owner has broadcast in the meantime is as good.
        self.tell_events();
        self.pause_or_go_on();
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Close(peer) => self.take_down(peer, &Closed::Here),
                LinkRequest::Dial(identity) => match address_of(&identity) {
                    Some(address) => self.dial(address),
                    None => {
                        self.count(&Closed::NoAddress);
                        self.driver.input(Input::DialFailed { identity });
                    }
                },
            }
        }
        self.drain();
        let queued = self.driver.engine().queued_bytes().min(self.taken);
        if queued < self.taken {
            self.inbound.room.add_permits(self.taken - queued);
            self.taken = queued;
        }
    }

    fn tell_events(&mut self) {
        for event in self.driver.take_events() {
            match event {
                // Of what the owner never sees: the room in the queue is counted by the semaphore.
                Event::Room | Event::Refused(_) => {}
                Event::Left => self.has_left = true,
                event => {
                    if let Event::View(view) = &event {
                        self.view.send_replace(Some(Arc::clone(view)));
                    }
                    self.outlet.tell(event);
                }
            }
        }
    }

    fn pause_or_go_on(&mut self) {
        if !self.is_paused && self.outlet.is_full() {
            self.is_paused = true;
            self.counters.pauses += 1;
            self.driver.input(Input::Command(Command::Pause));
        } else if self.is_paused && self.outlet.has_room() {
            self.is_paused = false;
            self.driver.input(Input::Command(Command::Unpause));
            self.tell_events();
        }
    }

    fn drain(&mut self) {
        let now = self.driver.now();
        let budget = self.options.in_flight_bytes as u64;
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.outbox().take_touched(&mut ready);
        for peer in ready.drain(..) {
            let Some(link) = self.links.get_mut(peer) else { continue };
            while link.in_flight < budget
                && let Some(copy) = self.driver.outbox().pop_for(now, peer)
            {
                link.in_flight += u64::from(copy.len) + PREFIX as u64;
                self.counters.frames_up += 1;
                // Fails only if the link has just ended, which is told next.
                let _ = link.orders.send(Order::Frame(copy.frame, copy.len));
            }
        }
        self.ready = ready;
    }

    // ---- the end ----

    async fn say_goodbye(mut self) {
        // What is owed still: the news that this member has left.
        self.options.in_flight_bytes = usize::MAX;
        self.drain();
        for link in self.links.iter() {
            // Fails only if it has ended already.
            let _ = link.orders.send(Order::Finish);
        }
        // One that does not read cannot be waited for.
        let until = Instant::now() + LINGER;
        while self.links.len() > 0
            && let Ok(Some((connection, told))) =
                tokio::time::timeout_at(until.into(), self.told.1.recv()).await
        {
            if let (Told::Down(_), Some(peer)) = (told, self.links.of_connection(connection)) {
                self.links.remove(peer);
            }
        }
        // Each fails only if the asker has given up.
        for answer in self.leaving.drain(..) {
            let _ = answer.send(());
        }
    }
}
