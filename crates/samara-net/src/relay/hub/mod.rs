//! The task of a node, or of the scheduler: the engine, its clock, its links, and what senders and the application want.

mod connections;
mod serve;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::outbox::Lane;
use samara_engine::{Input, LinkRequest, PeerId};
use samara_mix::{
    Batch, Command, Config, Event, Mark, Mix, MixFrame, NodeState, Phase, Pool, Secret, SenderId, Transfer,
};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::doors::Doors;
use super::events::{Outlet, What};
use super::gateway::{Board, Ended, Request as GatewayRequest};
use super::identity::Fingerprint;
use super::link::{FromLink, Told};
use super::options::Options;
use super::status::{Closed, Counters, LinkStatus, Status, Tally};
use super::work::{self, Ledger, Worked};
use crate::driver::Driver;
pub(super) use connections::Attempt;
pub(super) use connections::Party;
use connections::{LinkHandle, Pending};
pub(super) use serve::{Served, serve};

/// How long it takes at most to look again although nothing is known to be due.
const IDLE: Duration = Duration::from_secs(3600);
/// What links and threads tell is handled so many at once before anything else gets its turn again.
const AT_ONCE: usize = 64;

/// What the owner of a node wants.
pub(super) enum Request {
    Status(oneshot::Sender<Status>),
    Stop(oneshot::Sender<()>),
    Register(SenderId, Secret),
    Mix(u64, Batch),
}

/// What comes from outside.
pub(super) struct Inbound {
    pub(super) requests: Receiver<Request>,
    pub(super) attempts: Receiver<Attempt>,
    pub(super) attempt_sender: mpsc::Sender<Attempt>,
    pub(super) senders: Receiver<GatewayRequest>,
    pub(super) told: (UnboundedSender<FromLink>, UnboundedReceiver<FromLink>),
}

/// Everything that a node is.
pub(super) struct Hub {
    driver: Driver<Mix>,
    options: Arc<Options>,
    party: Party,
    doors: Doors,
    /// By number.
    links: BTreeMap<u32, LinkHandle>,
    /// By the number of the link: whose it is.
    of_link: BTreeMap<u64, u32>,
    pending: BTreeMap<u32, Pending>,
    tasks: JoinSet<()>,
    inbound: Inbound,
    done: (UnboundedSender<Worked>, UnboundedReceiver<Worked>),
    ledger: Ledger,
    pool: Arc<Pool>,
    jobs_out: usize,
    board: Option<Board>,
    outlet: Outlet,
    ready: Vec<PeerId>,
    looped: Option<Duration>,
    counters: Counters,
    tally: Tally,
    stopping: Option<oneshot::Sender<()>>,
    /// Ends the servers when it is dropped.
    _served: Served,
}

impl Hub {
    #[allow(clippy::too_many_arguments, reason = "called once, with what was made just before")]
    pub(super) fn new(
        driver: Driver<Mix>,
        options: Arc<Options>,
        party: Party,
        doors: Doors,
        inbound: Inbound,
        pool: Pool,
        board: Option<Board>,
        outlet: Outlet,
        tally: Tally,
        served: Served,
    ) -> Self {
        Self {
            driver,
            options,
            party,
            doors,
            links: BTreeMap::new(),
            of_link: BTreeMap::new(),
            pending: BTreeMap::new(),
            tasks: JoinSet::new(),
            inbound,
            done: unbounded_channel(),
            ledger: Ledger::default(),
            pool: Arc::new(pool),
            jobs_out: 0,
            board,
            outlet,
            ready: Vec::new(),
            looped: None,
            counters: Counters::default(),
            tally,
            stopping: None,
            _served: served,
        }
    }

    /// Runs until the owner stops it, or has forgotten it.
    pub(super) async fn run(mut self) {
        let mut wake = Instant::now() + IDLE;
        let mut timer = pin!(sleep_until(wake.into()));
        loop {
            self.driver.fire_timers();
            self.fill_batches();
            self.settle();
            if let Some(answer) = self.stopping.take() {
                self.doors.shut_all();
                // Fails only if the asker has given up.
                let _ = answer.send(());
                return;
            }
            let next = self.next_deadline();
            if next != wake {
                wake = next;
                timer.as_mut().reset(wake.into());
            }
            // All have their turn: whoever connects or sends all the time must not keep rounds from going on.
            tokio::select! {
                Some(first) = self.inbound.told.1.recv() => self.listen_to(first),
                Some(first) = self.done.1.recv() => self.computed(first),
                Some(attempt) = self.inbound.attempts.recv() => self.attempted(attempt),
                Some(request) = self.inbound.senders.recv() => self.obey_sender(request),
                request = self.inbound.requests.recv() => match request {
                    Some(request) => self.handle_command(request),
                    None => break,
                },
                Some(_) = self.tasks.join_next() => {}
                () = &mut timer => {}
            }
        }
        self.doors.shut_all();
    }

    fn next_deadline(&self) -> Instant {
        let filled = self.board.as_ref().and_then(Board::next_due);
        let next = [self.driver.next_deadline(), filled].into_iter().flatten().min();
        next.unwrap_or_else(|| Instant::now() + IDLE)
    }

    // ---- what is asked ----

    fn handle_command(&mut self, request: Request) {
        match request {
            // Fails only if the asker has given up.
            Request::Status(answer) => drop(answer.send(self.status())),
            Request::Stop(answer) => self.stopping = Some(answer),
            Request::Register(sender, secret) => {
                self.driver.input(Input::Command(Command::Register { sender, secret }));
            }
            Request::Mix(round, batch) => self.driver.input(Input::Command(Command::Mix { round, batch })),
        }
    }

    fn obey_sender(&mut self, request: GatewayRequest) {
        let Some(board) = &mut self.board else { return };
        match request {
            GatewayRequest::Register { sender, secret, answer } => {
                self.driver.input(Input::Command(Command::Register { sender, secret }));
                // Fails only if the asker has given up.
                let _ = answer.send(());
            }
            GatewayRequest::Submit { round, slots, answer } => {
                let taken = board.submit(round, slots, Instant::now());
                let _ = answer.send(taken);
                self.start_full();
            }
            GatewayRequest::Result { round, answer } => board.wait_for(round, answer),
        }
    }

    /// Hands batches to the engine that are full, or have waited for long enough.
    fn fill_batches(&mut self) {
        if let Some(board) = &mut self.board {
            board.fill(Instant::now());
        }
        self.start_full();
    }

    fn start_full(&mut self) {
        let Some(board) = &mut self.board else { return };
        for (round, batch) in board.take_full(Instant::now()) {
            self.driver.input(Input::Command(Command::Mix { round, batch }));
        }
    }

    fn status(&mut self) -> Status {
        let outbox = self.driver.outbox();
        let lanes = outbox.config().lanes.iter().zip(0..);
        let lanes = lanes.map(|(lane, at)| (lane.name, *outbox.counters(Lane(at)))).collect();
        let links = self.links.iter().map(|(node, link)| LinkStatus {
            node: *node,
            outbound: link.outbound,
            round_trip: link.round_trip,
            owed: outbox.pending_to(PeerId(*node)),
            owed_bytes: outbox.pending_bytes_to(PeerId(*node)),
            in_flight: link.in_flight,
            bytes_up: link.bytes_up,
            bytes_down: link.bytes_down,
        });
        let links = links.collect();
        let engine = self.driver.engine();
        let mut rounds = BTreeMap::new();
        for (_, state) in engine.node().into_iter().flat_map(|node| node.rounds()) {
            *rounds.entry(state.name()).or_default() += 1;
        }
        for (_, state) in engine.scheduler().into_iter().flat_map(|scheduler| scheduler.rounds()) {
            *rounds.entry(state.name()).or_default() += 1;
        }
        let teams = engine.scheduler().into_iter().flat_map(|scheduler| scheduler.teams());
        let counters = Counters {
            closed: self.tally.counts(),
            events_lost: self.outlet.lost(),
            ..self.counters.clone()
        };
        Status {
            mix: engine.metrics().clone(),
            transport: counters,
            lanes,
            links,
            looped: self.looped,
            rounds,
            teams: teams.map(<[u32]>::to_vec).collect(),
            jobs_out: self.jobs_out,
            held_bytes: engine.node().map_or(0, |node| node.held_bytes_total()),
            gateway: self.board.as_ref().map(Board::status),
        }
    }

    // ---- what links and threads tell ----

    fn listen_to(&mut self, first: FromLink) {
        let mut next = Some(first);
        for _ in 0..AT_ONCE {
            let Some((number, told)) = next.take().or_else(|| self.inbound.told.1.try_recv().ok()) else {
                break;
            };
            // The link may have been replaced, or closed here.
            let Some(node) = self.of_link.get(&number).copied() else { continue };
            let Some(link) = self.links.get_mut(&node) else { continue };
            let peer = PeerId(node);
            match told {
                Told::Frame(frame, len, share) => {
                    self.counters.frames_down += 1;
                    self.counters.bytes_down += len as u64;
                    link.bytes_down += len as u64;
                    self.driver.input(Input::Frame { peer, frame });
                    drop(share);
                }
                Told::Sent(len) => {
                    self.counters.bytes_up += u64::from(len);
                    link.bytes_up += u64::from(len);
                    link.in_flight -= u64::from(len);
                    self.ready.push(peer);
                }
                Told::Down(why) => self.take_down(node, &why),
            }
        }
    }

    fn computed(&mut self, first: Worked) {
        let mut next = Some(first);
        for _ in 0..AT_ONCE {
            let Some(Worked { done, phase, cpu }) = next.take().or_else(|| self.done.1.try_recv().ok())
            else {
                break;
            };
            self.jobs_out -= 1;
            self.counters.cpu += cpu;
            self.ledger.add(done.round(), phase, cpu);
            self.driver.input(Input::Command(Command::Computed(done)));
        }
    }

    /// Carries out what the engine wants, and hands copies to links with room.
    fn settle(&mut self) {
        for event in self.driver.take_events() {
            self.take_event(event);
        }
        for request in self.driver.take_links() {
            match request {
                LinkRequest::Close(peer) => self.take_down(peer.0, &Closed::Here),
                LinkRequest::Dial(identity) => {
                    let number = Fingerprint::of_peer(&identity).and_then(|of| self.party.number_of(of));
                    match number {
                        Some(number) => self.dial(number),
                        None => self.driver.input(Input::DialFailed { identity }),
                    }
                }
            }
        }
        self.drain();
    }

    fn take_event(&mut self, event: Event) {
        if let Event::Compute(job) = event {
            self.jobs_out += 1;
            let done = self.done.0.clone();
            // Fails only if this node ends.
            self.pool.spawn(move || drop(done.send(work::run(job))));
            return;
        }
        match &event {
            Event::RoundTrip { node, took: Some(took) } => {
                if let Some(link) = self.links.get_mut(node) {
                    link.round_trip = Some(*took);
                }
            }
            Event::Looped { took: Some(took), .. } => self.looped = Some(*took),
            _ => {}
        }
        if let Some(board) = &mut self.board {
            match &event {
                Event::Open(plan) => board.open(Arc::clone(plan)),
                Event::State { round, state: NodeState::Standby } => {
                    let plan = self.driver.engine().node().and_then(|node| node.plan(*round));
                    if let Some(plan) = plan {
                        board.join(Arc::clone(plan));
                    }
                }
                Event::State { round, state: NodeState::Realtime } => board.leave(*round),
                Event::Delivered { round, outcomes } => {
                    board.end(*round, Ended::Delivered(outcomes.clone()), Instant::now());
                }
                Event::Failed { round, failure } => {
                    let cause = failure.cause.name().to_owned();
                    board.end(*round, Ended::Failed { cause, culprit: failure.culprit }, Instant::now());
                }
                Event::Refused { round: Some(round), error } => {
                    board.end(
                        *round,
                        Ended::Failed { cause: error.to_string(), culprit: None },
                        Instant::now(),
                    );
                }
                _ => {}
            }
        }
        self.note_work(&event);
        self.outlet.tell(What::Event(event));
    }

    /// Tells what processors did for a phase that is through, and forgets what they did for rounds that are over.
    fn note_work(&mut self, event: &Event) {
        let (round, phase) = match event {
            Event::Mark { round, phase, mark: Mark::LastFinished } => (*round, Some(*phase)),
            Event::Mark { round, phase: Phase::PrecomputeDecrypt, mark: Mark::FirstReceived } => {
                (*round, None)
            }
            Event::Delivered { round, .. } | Event::Failed { round, .. } => {
                return self.ledger.forget(*round);
            }
            _ => return,
        };
        let cpu = self.ledger.take(round, phase);
        self.outlet.tell(What::Worked { round, phase, cpu });
    }

    fn drain(&mut self) {
        let now = self.driver.now();
        let budget = self.options.in_flight_bytes as u64;
        let mut ready = std::mem::take(&mut self.ready);
        self.driver.outbox().take_touched(&mut ready);
        for peer in ready.drain(..) {
            let Some(link) = self.links.get_mut(&peer.0) else { continue };
            while link.in_flight < budget
                && let Some(copy) = self.driver.outbox().pop_for(now, peer)
            {
                link.in_flight += u64::from(copy.len);
                self.counters.frames_up += 1;
                if is_post(self.driver.engine(), &copy.frame) {
                    self.counters.posts += 1;
                    link.lanes.post(copy.frame, copy.len);
                } else {
                    link.lanes.stream(copy.lane.0 as usize, copy.frame, copy.len);
                }
            }
        }
        self.ready = ready;
    }
}

/// Whether a frame is a call of its own: all slots of a phase at once, where the scheduler wants it so.
fn is_post(engine: &Mix, frame: &MixFrame) -> bool {
    let MixFrame::Slots(piece) = frame else { return false };
    let plan = engine.node().and_then(|node| node.plan(piece.round));
    plan.is_some_and(|plan| plan.transfer == Transfer::Unary)
}

/// Lanes of a link: what is said, real time, and precomputation.
const LANES: usize = Config::PRECOMPUTATION.0 as usize + 1;
