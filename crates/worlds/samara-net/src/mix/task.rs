//! The task of a node or of the scheduler: a hub over gRPC, the compute threads, and the requests
//! of senders and the owner.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use samara_engine::Input;
use samara_mix::{
    Command, Done, Event, Job, Mark, Mix, NodeState, Phase, Pool, RefuseError, Sealed, Secret, SenderId,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::board::{Board, Waiter};
use super::gateway::Ended;
use super::layer::Grpc;
use super::node::{Happened, LinkStatus, Status, Tally, What};
use super::proto::KeptRounds;
use crate::hub::{self, BATCH_MAX, Hub};
use crate::status::Request;

pub(super) struct Worked {
    done: Done,
    phase: Option<Phase>,
    cpu: Duration,
}

fn work(job: Job) -> Worked {
    let phase = job.phase();
    let (done, cpu) = job.run_timed();
    Worked { done, phase, cpu }
}

pub(super) struct Task {
    pub(super) hub: Hub<Grpc<Mix>>,
    pub(super) requests: Receiver<Request<Self>>,
    pub(super) senders: Receiver<Request<Self>>,
    pub(super) events: Sender<Happened>,
    pub(super) done: (UnboundedSender<Worked>, UnboundedReceiver<Worked>),
    /// Processor time for unfinished phases.
    pub(super) ledger: BTreeMap<(u64, Option<Phase>), Duration>,
    pub(super) pool: Pool,
    pub(super) jobs_out: usize,
    pub(super) board: Option<Board>,
    pub(super) looped: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) stopping: Option<oneshot::Sender<()>>,
    /// The server of senders, which ends when this is dropped.
    pub(super) _servers: JoinSet<()>,
}

impl Task {
    /// Runs until the owner stops or drops it.
    pub(super) async fn run(mut self) {
        loop {
            self.hub.driver.fire_timers();
            self.fill_batches();
            self.take_events();
            self.hub.settle();
            self.take_events();
            self.hub.drain();
            if self.stopping.is_some() {
                break;
            }
            let filled = self.board.as_ref().and_then(Board::next_due);
            tokio::select! {
                turn = self.hub.next(filled) => drop(self.hub.handle(turn)),
                Some(first) = self.done.1.recv() => self.computed(first),
                Some(request) = self.senders.recv() => request(&mut self),
                request = self.requests.recv() => match request {
                    Some(request) => request(&mut self),
                    None => break,
                },
            }
        }
        // End calls that wait for a link, so that the servers can end.
        self.hub.layer.contacts.table.clear();
        if let Some(answer) = self.stopping.take() {
            // Fails only if the caller has given up.
            let _ = answer.send(());
        }
    }

    // ---- requests ----

    pub(super) fn command(&mut self, command: Command) {
        self.hub.driver.input(Input::Command(command));
    }

    /// Registers the secret that this node shares with a sender.
    pub(super) fn register(&mut self, sender: SenderId, secret: Secret) -> Result<(), RefuseError> {
        self.hub.driver.with(|engine, _| engine.register(sender, secret))
    }

    /// Submits payloads of a sender. The answer is the remaining room of the round.
    pub(super) fn submit(
        &mut self,
        round: u64,
        sender: SenderId,
        slots: Vec<Sealed>,
        answer: oneshot::Sender<Result<u32, tonic::Status>>,
    ) {
        let Some(board) = &mut self.board else { return };
        let node = self.hub.driver.engine().node();
        let submitted = if node.is_some_and(|node| node.keyring().contains(sender)) {
            board.submit(round, sender, slots, Instant::now())
        } else {
            Err(board.refuse_unknown())
        };
        // Fails only if the caller has given up.
        let _ = answer.send(submitted);
        self.start_full();
    }

    /// Removes the payloads of a sender. The answer is their number.
    pub(super) fn withdraw(
        &mut self,
        round: u64,
        sender: SenderId,
        answer: oneshot::Sender<Result<u32, tonic::Status>>,
    ) {
        let Some(board) = &mut self.board else { return };
        // Fails only if the caller has given up.
        let _ = answer.send(board.withdraw(round, sender));
    }

    pub(super) fn wait_for(&mut self, round: u64, from: IpAddr, answer: Waiter) {
        if let Some(board) = &mut self.board {
            board.wait_for(round, from, answer);
        }
    }

    /// Lists the rounds whose results this node keeps.
    pub(super) fn kept(&mut self, from: u64, after: u64) -> KeptRounds {
        let board = self.board.as_mut();
        board.map(|board| board.kept(from, after, Instant::now())).unwrap_or_default()
    }

    /// Hands the engine batches that are full or have waited long enough, and rounds that had too
    /// few senders, or nobody's payloads until too late.
    fn fill_batches(&mut self) {
        let Some(board) = &mut self.board else { return };
        let now = Instant::now();
        board.expire(now);
        board.fill(now);
        for round in board.take_abandoned(now) {
            self.command(Command::Abandon { round });
        }
        self.start_full();
    }

    fn start_full(&mut self) {
        let Some(board) = &mut self.board else { return };
        for (round, batch) in board.take_full(Instant::now()) {
            self.command(Command::Mix { round, batch });
        }
    }

    pub(super) fn status(&mut self) -> Status {
        let lanes = self.hub.lanes();
        let mut transport = self.hub.counters();
        for (cause, count) in self.tally.counts() {
            *transport.links_closed.entry(cause).or_insert(0) += count;
        }
        let outbox = self.hub.driver.outbox();
        let links = self.hub.links.iter().map(|(peer, link)| {
            let (bytes_up, bytes_down) = link.traffic.counts();
            LinkStatus {
                node: link.name,
                outbound: link.outbound,
                round_trip: link.about,
                owed: outbox.pending_to(peer),
                owed_bytes: outbox.pending_bytes_to(peer),
                in_flight: link.in_flight,
                bytes_up,
                bytes_down,
            }
        });
        let links = links.collect();
        let engine = self.hub.driver.engine();
        let mut rounds = BTreeMap::new();
        for (_, state) in engine.node().into_iter().flat_map(|node| node.rounds()) {
            *rounds.entry(state.name()).or_default() += 1;
        }
        for (_, state) in engine.scheduler().into_iter().flat_map(|scheduler| scheduler.rounds()) {
            *rounds.entry(state.name()).or_default() += 1;
        }
        let teams = engine.scheduler().into_iter().flat_map(|scheduler| scheduler.teams());
        Status {
            mix: engine.metrics().clone(),
            transport,
            lanes,
            links,
            looped: self.looped,
            rounds,
            teams: teams.map(<[u32]>::to_vec).collect(),
            jobs_out: self.jobs_out,
            held_bytes: engine.node().map_or(0, |node| node.held_bytes_total()),
            senders: engine.node().map_or(0, |node| node.keyring().len()),
            evicted_senders: engine.node().map_or(0, |node| node.keyring().evicted()),
            gateway: self.board.as_ref().map(Board::status),
        }
    }

    // ---- compute threads and the engine ----

    fn computed(&mut self, first: Worked) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(Worked { done, phase, cpu }) = next.take().or_else(|| self.done.1.try_recv().ok())
            else {
                break;
            };
            self.jobs_out -= 1;
            self.hub.counters.work_cpu_seconds += cpu;
            *self.ledger.entry((done.round(), phase)).or_default() += cpu;
            self.command(Command::Computed(done));
        }
    }

    fn take_events(&mut self) {
        for event in self.hub.take_events() {
            match event {
                hub::Event::Engine(Event::Compute(job)) => {
                    self.jobs_out += 1;
                    let done = self.done.0.clone();
                    // Fails only if this node is stopping.
                    self.pool.spawn(move || drop(done.send(work(job))));
                }
                hub::Event::Engine(event) => self.take_event(event),
                hub::Event::LinkUp(peer) => {
                    if let Some(link) = self.hub.links.get_mut(peer) {
                        tracing::info!(node = link.name, "connected to a node");
                    }
                }
                hub::Event::LinkDown { name, why, lost_copies, .. } => {
                    tracing::warn!(node = name, %why, lost_copies, "lost the link to a node");
                }
                // The hub has counted and logged both, and a node that is down causes many.
                hub::Event::DialFailed(..) | hub::Event::Refused(..) => {}
            }
        }
    }

    fn take_event(&mut self, event: Event) {
        match &event {
            Event::RoundTrip { node, took: Some(took) } => {
                let peer = self.hub.links.of(node).map(|(peer, _)| peer);
                if let Some(link) = peer.and_then(|peer| self.hub.links.get_mut(peer)) {
                    link.about = Some(*took);
                }
            }
            Event::Looped { took: Some(took), .. } => self.looped = Some(*took),
            _ => {}
        }
        self.update_board(&event);
        self.note_work(&event);
        self.push(What::Event(event));
    }

    fn update_board(&mut self, event: &Event) {
        let Some(board) = &mut self.board else { return };
        let now = Instant::now();
        match event {
            Event::Open(plan) => board.open(Arc::clone(plan)),
            Event::State { round, state: NodeState::Standby } => {
                let plan = self.hub.driver.engine().node().and_then(|node| node.plan(*round));
                if let Some(plan) = plan {
                    board.join(Arc::clone(plan));
                }
            }
            Event::State { round, state: NodeState::Realtime } => board.start(*round),
            Event::Delivered { round, outcomes } => {
                board.end(*round, Ended::Delivered(outcomes.clone()), now);
            }
            Event::Failed { round, failure } => {
                let cause = failure.cause.name().to_owned();
                board.end(*round, Ended::Failed { cause, culprit: failure.culprit }, now);
            }
            Event::Refused { round: Some(round), error } => {
                board.end(*round, Ended::Failed { cause: error.to_string(), culprit: None }, now);
            }
            _ => {}
        }
    }

    /// Reports the processor time of a finished phase, and forgets finished rounds.
    fn note_work(&mut self, event: &Event) {
        let (round, phase) = match event {
            Event::Mark { round, phase, mark: Mark::LastFinished } => (*round, Some(*phase)),
            Event::Mark { round, phase: Phase::PrecomputeDecrypt, mark: Mark::FirstReceived } => {
                (*round, None)
            }
            Event::Delivered { round, .. } | Event::Failed { round, .. } => {
                return self.ledger.retain(|(of, _), _| of != round);
            }
            _ => return,
        };
        let cpu = self.ledger.remove(&(round, phase)).unwrap_or_default();
        self.push(What::Worked { round, phase, cpu });
    }

    fn push(&mut self, what: What) {
        let happened = Happened { at: SystemTime::now(), what };
        // An application that has dropped its end loses nothing.
        if let Err(TrySendError::Full(_)) = self.events.try_send(happened) {
            self.hub.counters.events_lost += 1;
        }
    }
}
