//! A member as its owner sees it, and its task.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::ByLane;
use samara_engine::places::Shares;
use samara_engine::{Driver, Input, NodeRng, Outbox};
use samara_ring::{BroadcastError, Command, Federation, FederationEvent, Metrics, Ring, View};
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::engine::{About, FederationStatus, GroupEngine};
use super::events::{Events, Outlet, outlet};
use super::framed::Framed;
use super::options::Options;
use super::refusals::{Refusal, Refusals};
use crate::hub::{self, BATCH_MAX, Hub, Limits};
use crate::status::{Closed, Counters, Gone, StartError, bind};

const REQUESTS: usize = 64;

#[derive(Clone, Debug)]
pub struct Status {
    /// Counters of the ring of the group; in a federation, of the site.
    pub ring: Metrics,
    /// Only in a federation.
    pub federation: Option<FederationStatus>,
    pub transport: Counters,
    pub lanes: ByLane,
    pub links: usize,
    /// Nodes that this member remembers, with a link or without: the last 1,024 without one, and
    /// all members of the view.
    pub remembered: usize,
    /// Bytes of own messages that wait to be broadcast.
    pub queued_bytes: usize,
    /// Current window: own bytes that the member may have in flight.
    pub window_bytes: u64,
    /// Bytes of messages that the member keeps until all members have them; in a federation, until
    /// all sites have them.
    pub kept_bytes: u64,
    /// Bytes of deliveries that the application has not taken yet.
    pub waiting_bytes: usize,
    /// The seeds without a link, each with the reason why the last attempt to reach it failed.
    pub failed_seeds: BTreeMap<SocketAddr, Closed>,
    /// The last 64 hosts whose nodes the member refused, by reason.
    pub refusals: Vec<Refusal>,
}

/// A request of the owner of a member to its task.
enum Request {
    Status(oneshot::Sender<Status>),
    Leave(oneshot::Sender<()>),
}

/// A member of a group. Cheap to clone.
///
/// It ends with [`leave`](Self::leave). If all clones are dropped first, it ends as in a crash: the
/// others continue without it, and its last messages may be lost.
#[derive(Clone, Debug)]
pub struct Group {
    address: SocketAddr,
    message_bytes_max: usize,
    queue_bytes: usize,
    /// Room in the queue of messages to broadcast, in bytes.
    room: Arc<Semaphore>,
    messages: mpsc::UnboundedSender<Bytes>,
    requests: mpsc::Sender<Request>,
    view: watch::Receiver<Option<Arc<View>>>,
}

impl Group {
    /// Starts a member, and waits until it is in a view: that of the seeds, or its own if no seed
    /// answers and [`Options::require_seed`] is unset.
    ///
    /// # Errors
    /// An option is not valid, the node cannot listen on the address, no seed answers within
    /// [`Options::require_seed`], or a seed answers that belongs to another group or has other
    /// options.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub async fn join(options: Options) -> Result<(Self, Events), StartError> {
        Self::join_as::<Ring>(options).await
    }

    /// Starts a member of a site of a federation ([`Options::with_site`]), and waits until it is in a
    /// view of its site, as [`join`](Self::join) does. The site exchanges messages with others as soon
    /// as their leaders are connected.
    ///
    /// All members of a federation have the same group, secret, sizes and names of sites.
    ///
    /// # Errors
    /// As [`join`](Self::join), or the options cannot be those of a federation.
    ///
    /// # Panics
    /// As [`join`](Self::join).
    pub async fn join_site(options: Options) -> Result<(Self, Events<FederationEvent>), StartError> {
        Self::join_as::<Federation>(options).await
    }

    async fn join_as<E: GroupEngine>(options: Options) -> Result<(Self, Events<E::Event>), StartError> {
        let (seeds, within) = (options.seeds.clone(), options.require_seed.unwrap_or(Duration::MAX));
        let (mut group, events) = Self::start_as::<E>(options).await?;
        loop {
            let view = timeout(within, group.view.wait_for(Option::is_some)).await;
            let view = view.map(|view| view.map(|view| view.as_ref().map_or(0, |view| view.len())));
            let members = view.map_or(Ok(0), |view| view.map_err(|_| Gone))?;
            if members > 1 {
                return Ok((group, events));
            }
            let Status { links, failed_seeds, .. } = group.status().await?;
            if let Some((seed, why)) = failed_seeds.iter().find(|(_, why)| why.is_mismatch()) {
                return Err(StartError::Mismatch { seed: *seed, why: why.clone() });
            }
            if members == 1 {
                return Ok((group, events));
            }
            // With a link, a view is on its way.
            if links == 0 {
                let failed = seeds.into_iter().map(|seed| (seed, failed_seeds.get(&seed).cloned()));
                return Err(StartError::NoSeed { within, seeds: failed.collect() });
            }
        }
    }

    /// Starts a member without waiting for a view. Messages wait for the first view.
    ///
    /// # Errors
    /// An option is not valid, or the node cannot listen on the address.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub async fn start(options: Options) -> Result<(Self, Events), StartError> {
        Self::start_as::<Ring>(options).await
    }

    async fn start_as<E: GroupEngine>(mut options: Options) -> Result<(Self, Events<E::Event>), StartError> {
        let (listener, listen) = bind(options.listen).await?;
        options.listen = listen;
        let address = *options.advertise.get_or_insert(options.listen);
        options.check()?;
        let (engine, outbox) = E::create(&options, address)?;
        let (message_bytes_max, queue_bytes) = (engine.message_bytes_max(&options), options.queue_bytes);
        let limits = Limits {
            in_flight_bytes: options.in_flight_bytes,
            pending_max: options.max_pending,
            // Only members have links, and the layer bounds those of a host.
            inbound: Shares::per_host(usize::MAX),
            dials_max: options.config.members_max,
        };
        let driver = Driver::new(engine, Outbox::new(outbox), NodeRng::from_entropy(getrandom::fill)?);
        let hub = Hub::new(driver, Framed::new(&options, address)?, Some(listener), limits, Vec::new());
        let (messages, message_queue) = mpsc::unbounded_channel();
        let (requests, request_queue) = mpsc::channel(REQUESTS);
        let (view_sender, view) = watch::channel(None);
        let (outlet, events) = outlet(options.waiting_bytes);
        let room = Arc::new(Semaphore::new(queue_bytes));
        let member = Member {
            hub,
            messages: message_queue,
            requests: request_queue,
            room: Arc::clone(&room),
            queue_bytes,
            taken: 0,
            waiting: None,
            outlet,
            is_paused: false,
            view: view_sender,
            leaving: Vec::new(),
            has_left: false,
            seeds: options.dialled().collect(),
            failed_seeds: BTreeMap::new(),
            refusals: Refusals::default(),
            linked_seeds: BTreeSet::new(),
        };
        tokio::spawn(member.run());
        let group = Self { address, message_bytes_max, queue_bytes, room, messages, requests, view };
        Ok((group, events))
    }

    /// Returns the name of this member: the address at which others dial it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn view(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// Sends a message to all members, including this one. Waits while the group accepts no more,
    /// which is all the flow control that a sender needs. All members that stay deliver it, whether
    /// this member stays or leaves.
    ///
    /// # Errors
    /// The message is too long, or this member is leaving.
    pub async fn broadcast(&self, message: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let message = message.into();
        let permit = self.room.acquire_many(self.room_for(&message)?).await;
        self.hand_in(message, permit.map_err(|_| BroadcastError::Leaving)?)
    }

    /// Sends a message to all members without waiting.
    ///
    /// # Errors
    /// There is no room for the message, it is too long, or this member is leaving.
    pub fn try_broadcast(&self, message: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let message = message.into();
        let permit = self.room.try_acquire_many(self.room_for(&message)?).map_err(|error| match error {
            TryAcquireError::Closed => BroadcastError::Leaving,
            TryAcquireError::NoPermits => BroadcastError::Full,
        })?;
        self.hand_in(message, permit)
    }

    fn room_for(&self, message: &Bytes) -> Result<u32, BroadcastError> {
        let (found, max) = (message.len(), self.message_bytes_max);
        if found > max {
            return Err(BroadcastError::TooLong { found, max });
        }
        // A message longer than the queue takes all of it.
        Ok(found.clamp(1, self.queue_bytes) as u32)
    }

    fn hand_in(&self, message: Bytes, permit: SemaphorePermit<'_>) -> Result<(), BroadcastError> {
        // The member's task returns the permits when the message has left the queue.
        permit.forget();
        self.messages.send(message).map_err(|_| BroadcastError::Leaving)
    }

    pub async fn status(&self) -> Result<Status, Gone> {
        self.ask(Request::Status).await
    }

    /// Leaves the group. Returns once all members that stay have delivered this member's messages.
    pub async fn leave(&self) -> Result<(), Gone> {
        self.ask(Request::Leave).await
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

/// The task of a member: a hub over framed TCP, the owner's broadcasts, and the deliveries that the
/// application has not taken yet.
struct Member<E: GroupEngine> {
    hub: Hub<Framed<E>>,
    messages: mpsc::UnboundedReceiver<Bytes>,
    requests: mpsc::Receiver<Request>,
    /// The room in the queue of messages, in bytes.
    room: Arc<Semaphore>,
    /// All of the queue, in bytes.
    queue_bytes: usize,
    /// Bytes of the room that messages occupy.
    taken: usize,
    /// A message that the engine has refused until it has room: other sites lag behind.
    waiting: Option<Bytes>,
    outlet: Outlet<E::Event>,
    is_paused: bool,
    view: watch::Sender<Option<Arc<View>>>,
    leaving: Vec<oneshot::Sender<()>>,
    has_left: bool,
    /// Seeds, and contacts of other sites.
    seeds: Vec<SocketAddr>,
    failed_seeds: BTreeMap<SocketAddr, Closed>,
    refusals: Refusals,
    /// The seeds that have had a link.
    linked_seeds: BTreeSet<SocketAddr>,
}

impl<E: GroupEngine> Member<E> {
    /// Runs until the member has left or its owner drops it.
    async fn run(mut self) {
        loop {
            self.hub.driver.fire_timers();
            self.settle();
            if self.has_left {
                return self.finish().await;
            }
            tokio::select! {
                turn = self.hub.next(None) => {
                    if let Some((stream, remote)) = self.hub.handle(turn) {
                        let handshake = Arc::clone(&self.hub.layer.handshake);
                        self.hub.greet(remote, handshake.greet(stream));
                    }
                }
                Some(message) = self.messages.recv(), if self.waiting.is_none() => self.broadcast(message),
                () = self.outlet.wait_for_room(), if self.is_paused => {}
                request = self.requests.recv() => match request {
                    // Each answer fails only if the caller has given up.
                    Some(Request::Status(answer)) => drop(answer.send(self.status())),
                    Some(Request::Leave(answer)) => self.leave(answer),
                    // Links end with the tasks.
                    None => return,
                },
            }
        }
    }

    fn broadcast(&mut self, first: Bytes) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(message) = next.take().or_else(|| self.messages.try_recv().ok()) else { break };
            self.taken += message.len().clamp(1, self.queue_bytes);
            self.hand_in(message);
            if self.waiting.is_some() {
                break;
            }
        }
    }

    /// Hands a message to the engine, which has room for it in a plain group: the semaphore and the
    /// queue count the same. No message follows the request to leave.
    fn hand_in(&mut self, message: Bytes) {
        match self.hub.driver.with(|engine, cx| engine.broadcast(message.clone(), cx)) {
            Err(BroadcastError::Full) => self.waiting = Some(message),
            taken => debug_assert_eq!(taken, Ok(())),
        }
    }

    fn leave(&mut self, answer: oneshot::Sender<()>) {
        self.room.close();
        self.messages.close();
        self.leaving.push(answer);
        self.leave_after_messages();
    }

    /// Leaves with the messages accepted so far.
    fn leave_after_messages(&mut self) {
        while self.waiting.is_none() {
            let Ok(message) = self.messages.try_recv() else {
                return self.hub.driver.input(Input::Command(Command::Leave));
            };
            self.broadcast(message);
        }
    }

    fn status(&mut self) -> Status {
        let lanes = self.hub.lanes();
        let engine = self.hub.driver.engine();
        let ring = engine.ring();
        Status {
            ring: ring.metrics().clone(),
            federation: engine.federation(),
            transport: self.hub.counters(),
            lanes,
            links: self.hub.links.len(),
            remembered: self.hub.links.numbered(),
            queued_bytes: ring.queued_bytes() + self.waiting.as_ref().map_or(0, Bytes::len),
            window_bytes: ring.window_bytes(),
            kept_bytes: engine.kept_bytes(),
            waiting_bytes: self.outlet.bytes(),
            failed_seeds: self.failed_seeds.clone(),
            refusals: self.refusals.all(),
        }
    }

    /// Passes events on, carries out the engine's requests, and returns room in the queue.
    fn settle(&mut self) {
        self.pass_events();
        self.pause_or_resume();
        self.hub.settle();
        while self.pass_events() {}
        self.hub.drain();
        let waiting = self.waiting.as_ref().map_or(0, Bytes::len);
        let queued = (self.hub.driver.engine().ring().queued_bytes() + waiting).min(self.taken);
        if queued < self.taken {
            self.room.add_permits(self.taken - queued);
            self.taken = queued;
        }
    }

    /// Passes events on. Returns true if the engine has got another message, and so has further events.
    fn pass_events(&mut self) -> bool {
        let mut has_more = false;
        for event in self.hub.take_events() {
            let event = match event {
                hub::Event::Engine(event) => event,
                hub::Event::DialFailed(name, why) => {
                    self.note_failure(name, why);
                    continue;
                }
                hub::Event::LinkUp(peer) => {
                    if let Some(link) = self.hub.links.get(peer) {
                        self.failed_seeds.remove(&link.name);
                        if self.seeds.contains(&link.name) {
                            self.linked_seeds.insert(link.name);
                        }
                    }
                    continue;
                }
                hub::Event::Refused(from, why) => {
                    self.refusals.note(from, &why);
                    self.log_refusal(from, &why);
                    continue;
                }
                hub::Event::LinkDown { .. } => continue,
            };
            let payload_bytes = match E::about(&event) {
                About::Room => {
                    if let Some(message) = self.waiting.take() {
                        has_more = true;
                        self.hand_in(message);
                        if !self.leaving.is_empty() {
                            self.leave_after_messages();
                        }
                    }
                    continue;
                }
                About::Refused => continue,
                About::Left => {
                    self.has_left = true;
                    continue;
                }
                About::View(view) => {
                    self.view.send_replace(Some(Arc::clone(view)));
                    0
                }
                About::Delivered(bytes) => bytes,
                About::Other => 0,
            };
            self.outlet.push(event, payload_bytes);
        }
        has_more
    }

    /// Notes why a seed cannot be reached. The log has it again only if the reason changes.
    fn note_failure(&mut self, seed: SocketAddr, mut why: Closed) {
        // Of two connections between the same nodes one is closed; the other one is a link.
        let has_link = self.hub.links.of(&seed).is_some();
        if has_link || seed == self.hub.layer.handshake.own || !self.seeds.contains(&seed) {
            return;
        }
        let was_linked = self.linked_seeds.contains(&seed);
        // A process that ends hangs up like a member that refuses a node, but did not refuse this one.
        if let (true, Closed::Refused(error)) = (was_linked, &why) {
            why = Closed::handshake(error);
        }
        if self.failed_seeds.get(&seed) != Some(&why) {
            let is_joined = self.view.borrow().as_ref().is_some_and(|view| view.len() > 1);
            match (was_linked, is_joined) {
                (true, _) => tracing::warn!(%seed, %why, "lost the link to a seed"),
                (false, true) => tracing::warn!(%seed, %why, "cannot reach a seed"),
                (false, false) => tracing::warn!(%seed, %why, "cannot join through a seed"),
            }
        }
        self.failed_seeds.insert(seed, why);
    }

    /// Logs why this member refused a node that dialled: the node does not learn it. Warnings become
    /// rare, since strangers can cause any number of refusals.
    fn log_refusal(&self, from: SocketAddr, why: &Closed) {
        let count = self.hub.counters.links_closed.get(why.name()).copied().unwrap_or(0);
        if count.is_power_of_two() {
            tracing::warn!(%from, %why, cause = why.name(), count, "refused a node");
        } else {
            tracing::debug!(%from, %why, cause = why.name(), "refused a node");
        }
    }

    fn pause_or_resume(&mut self) {
        if !self.is_paused && self.outlet.is_full() {
            self.is_paused = true;
            self.hub.counters.pauses += 1;
            self.hub.driver.input(Input::Command(Command::Pause));
        } else if self.is_paused && self.outlet.has_room() {
            self.is_paused = false;
            self.hub.driver.input(Input::Command(Command::Unpause));
        }
    }

    async fn finish(mut self) {
        // The notice that this member has left is still owed.
        self.hub.limits.in_flight_bytes = usize::MAX;
        self.hub.drain();
        self.hub.finish().await;
        // Fails only if the caller has given up.
        for answer in self.leaving.drain(..) {
            let _ = answer.send(());
        }
    }
}
