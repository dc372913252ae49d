//! The rounds of a node as senders see them: rounds that accept payloads, and finished rounds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use samara_engine::Gauge;
use samara_engine::places::{Places, Shares};
use samara_mix::{Batch, Group, Plan, Sealed, SenderId};
use tokio::sync::{oneshot, watch};
use tonic::Status;

use super::gateway::{Ended, not_open, share_exceeded};
use super::mailbox::Mailbox;
use super::node::Tally;
use super::options::GatewayOptions;
use super::proto::{KeptRounds, OpenRound, OpenRounds};
use super::recipient;

const TIMES_MAX: usize = 1024;
/// A round without payloads ends so much before its time at the nodes would be over: the time for the
/// report that all nodes have precomputed it, and for its batch to reach the engine.
pub(super) const CLOSE_EARLY: Duration = Duration::from_secs(2);

/// Durations of a round, measured at the first node of its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTimes {
    pub round: u64,
    /// Payloads of senders; the rest of the batch was void.
    pub payloads: u32,
    /// From the arrival of the first payload to the result.
    pub slot_max: Duration,
    /// From the arrival of the mean payload to the result.
    pub slot_mean: Duration,
    /// From the completion of the batch to the result.
    pub batch: Duration,
}

samara_engine::counters! {
    /// Counters of the gateway of a node since its start, and its state.
    #[derive(Eq)]
    pub struct GatewayCounters {
        /// Rounds that accept payloads.
        pub rounds_open: usize,
        /// Payloads that wait for their batch to be full.
        pub payloads_gathered: usize,
        /// Batches in the mix.
        pub batches_mixing: usize,
        /// Requests that wait for the end of a round.
        pub waiters: usize,
        /// Accepted payloads.
        pub payloads_taken: u64,
        /// Accepted payloads that their senders withdrew.
        pub payloads_withdrawn: u64,
        /// Batches that were handed to the team.
        pub batches: u64,
        /// Dummies and void slots that completed batches.
        pub slots_filled: u64,
        /// Rounds that failed because too few senders had payloads for them.
        pub rounds_abandoned: u64,
        /// Results that the node keeps.
        pub results_kept: usize,
        /// Bytes of results that the node keeps.
        pub results_kept_bytes: Gauge,
        /// Results that left because others came, or because their time was over.
        pub results_left: u64,
        /// Refused calls of senders, by the limit that they exceeded.
        pub calls_refused[limit]: BTreeMap<&'static str, u64>,
    }
}

/// The state of the gateway of a node.
///
/// The limits of [`GatewayCounters::calls_refused`] are `registrations`, `message_bytes`,
/// `message_slots`, `waiting`, `waiting_address`, `receive_timeout`, `sender_share`, `room`,
/// `waiters`, `results`. It also counts `not_open` (the round accepts no payloads here),
/// `unknown_round` (this node does not have it), `unknown_sender` (no shared secret), and
/// `wrong_form` (another group or another size of the team).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayStatus {
    pub counters: GatewayCounters,
    /// Durations of the last finished rounds, in order of completion.
    pub times: Vec<RoundTimes>,
}

struct Gathering {
    plan: Arc<Plan>,
    slots: Vec<Sealed>,
    /// The sender and the arrival time of each slot.
    entered: Vec<(SenderId, Instant)>,
    /// The latest time for a first payload, so that others have time to follow.
    closes: Option<Instant>,
    of_sender: BTreeMap<SenderId, usize>,
}

impl Gathering {
    fn room(&self) -> usize {
        self.plan.batch as usize - self.slots.len()
    }

    /// Returns true if the payloads come from enough different senders.
    fn is_anonymous(&self, options: &GatewayOptions) -> bool {
        self.of_sender.len() >= options.senders_min as usize
    }

    /// Returns the number of further senders whose payloads the batch needs.
    fn senders_wanted(&self, options: &GatewayOptions) -> u32 {
        options.senders_min.saturating_sub(self.of_sender.len() as u32)
    }

    /// Returns the time at which the round needs no more payloads, or gives up.
    fn due(&self, options: &GatewayOptions) -> Option<Instant> {
        let wait = if self.is_anonymous(options) { options.fill } else { options.hold };
        self.entered.first().map_or(self.closes, |(_, first)| Some(*first + wait))
    }
}

struct Mixing {
    entered: Vec<Instant>,
    full: Instant,
}

pub(super) type Waiter = oneshot::Sender<Result<Arc<Ended>, Status>>;

/// The rounds of a node, and the senders that wait for them.
pub struct Board {
    node: u32,
    options: GatewayOptions,
    /// Time for which the nodes keep a round without a batch.
    queue_timeout: Option<Duration>,
    group: Group,
    open: BTreeMap<u64, Gathering>,
    /// Precomputed rounds whose payloads go to another node: senders believe a team only if all of
    /// its nodes announce it.
    joined: BTreeMap<u64, Arc<Plan>>,
    mixing: BTreeMap<u64, Mixing>,
    mailbox: Mailbox,
    /// Rounds in which the payloads are on their way through the team.
    running: BTreeSet<u64>,
    /// By round, with the numbers of their places.
    waiters: BTreeMap<u64, Vec<(u64, Waiter)>>,
    places: Places<u64>,
    waited: u64,
    rounds: watch::Sender<OpenRounds>,
    times: VecDeque<RoundTimes>,
    refused: Tally,
    counters: GatewayCounters,
}

impl Board {
    pub fn new(
        node: u32,
        options: GatewayOptions,
        group: Group,
        rounds: watch::Sender<OpenRounds>,
        refused: Tally,
    ) -> Self {
        let waiters_max = options.waiters_max;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mailbox = Mailbox::new(&options, since.as_micros() as u64, Instant::now());
        Self {
            node,
            options,
            queue_timeout: None,
            group,
            open: BTreeMap::new(),
            joined: BTreeMap::new(),
            mixing: BTreeMap::new(),
            mailbox,
            running: BTreeSet::new(),
            waiters: BTreeMap::new(),
            places: Places::new(waiters_max, Shares::of(waiters_max)).with_loopback_shares(),
            waited: 0,
            rounds,
            times: VecDeque::new(),
            refused,
            counters: GatewayCounters::default(),
        }
    }

    /// Returns the board of a node that keeps rounds without a batch for this time.
    pub(super) fn with_queue_timeout(self, time: Duration) -> Self {
        Self { queue_timeout: Some(time), ..self }
    }

    fn announce(&self) {
        let joined = |plan: &Plan| OpenRound {
            round: plan.round,
            team: plan.team.clone(),
            room: 0,
            batch: plan.batch,
            share: 0,
            senders_wanted: 0,
        };
        let open = self.open.values().map(|of| OpenRound {
            room: of.room() as u32,
            share: self.options.sender_share(of.plan.batch),
            senders_wanted: of.senders_wanted(&self.options),
            ..joined(&of.plan)
        });
        let joined = self.joined.values().map(|plan| joined(plan));
        let mut rounds: Vec<OpenRound> = open.chain(joined).collect();
        rounds.sort_by_key(|round| round.round);
        self.rounds.send_replace(OpenRounds { rounds });
    }

    /// Announces a precomputed round. The first node of its team waits until the round accepts
    /// payloads.
    pub(super) fn join(&mut self, plan: Arc<Plan>) {
        if plan.seat_of(self.node) == Some(0) {
            return;
        }
        self.joined.insert(plan.round, plan);
        self.announce();
    }

    /// Records that the round has its payloads.
    pub(super) fn start(&mut self, round: u64) {
        self.leave(round);
        self.running.insert(round);
    }

    /// Withdraws the announcement of [`join`](Self::join): the round has its payloads or has ended.
    fn leave(&mut self, round: u64) {
        if self.joined.remove(&round).is_some() {
            self.announce();
        }
    }

    pub fn open(&mut self, plan: Arc<Plan>) {
        let wait = self.queue_timeout.map(|time| time.saturating_sub(self.options.hold + CLOSE_EARLY));
        let closes = wait.and_then(|wait| Instant::now().checked_add(wait));
        let gathering =
            Gathering { slots: Vec::new(), entered: Vec::new(), closes, of_sender: BTreeMap::new(), plan };
        self.open.insert(gathering.plan.round, gathering);
        self.announce();
    }

    /// Accepts payloads of a sender, all or none of them. Returns the remaining room of the round.
    pub fn submit(
        &mut self,
        round: u64,
        sender: SenderId,
        slots: Vec<Sealed>,
        now: Instant,
    ) -> Result<u32, Status> {
        let refuse = |limit, status| {
            self.refused.count(limit);
            status
        };
        let gathering = self.open.get_mut(&round).ok_or_else(|| refuse("not_open", not_open()))?;
        let team = gathering.plan.team.len();
        if !slots.iter().all(|slot| slot.fits(self.group, team)) {
            let status = "the payload was sealed for another group or a team of another size";
            return Err(refuse("wrong_form", Status::invalid_argument(status)));
        }
        let room = gathering.room();
        if slots.len() > room {
            let status = format!("the round has room for {room} more payloads");
            return Err(refuse("room", Status::resource_exhausted(status)));
        }
        let share = self.options.sender_share(gathering.plan.batch) as usize;
        let of_sender = gathering.of_sender.get(&sender).copied().unwrap_or_default() + slots.len();
        if of_sender > share {
            return Err(refuse("sender_share", share_exceeded(share)));
        }
        gathering.of_sender.insert(sender, of_sender);
        self.counters.payloads_taken += slots.len() as u64;
        gathering.entered.resize(gathering.entered.len() + slots.len(), (sender, now));
        gathering.slots.extend(slots);
        let room = gathering.room() as u32;
        self.announce();
        Ok(room)
    }

    /// Removes all payloads of a sender from a round that waits for its batch. Returns their number.
    pub fn withdraw(&mut self, round: u64, sender: SenderId) -> Result<u32, Status> {
        let Some(Gathering { slots, entered, of_sender, .. }) = self.open.get_mut(&round) else {
            self.refused.count("not_open");
            return Err(not_withdrawn());
        };
        let count = of_sender.remove(&sender).unwrap_or_default();
        if count > 0 {
            let mut owners = entered.iter().map(|(owner, _)| *owner);
            slots.retain(|_| owners.next() != Some(sender));
            entered.retain(|(owner, _)| *owner != sender);
            self.counters.payloads_withdrawn += count as u64;
            self.announce();
        }
        Ok(count as u32)
    }

    /// Refuses payloads of a sender that the node does not know any more.
    pub(super) fn refuse_unknown(&self) -> Status {
        self.refused.count("unknown_sender");
        Status::failed_precondition("this node shares no secret with the sender; connect again")
    }

    /// Fills batches that have waited and have payloads of enough senders.
    pub(super) fn fill(&mut self, now: Instant) {
        for gathering in self.open.values_mut() {
            let is_due = gathering.due(&self.options).is_some_and(|due| due <= now);
            if is_due && gathering.is_anonymous(&self.options) && gathering.room() > 0 {
                let room = gathering.room();
                self.counters.slots_filled += room as u64;
                let team = gathering.plan.team.len();
                let (group, dummies) = (self.group, self.options.dummies);
                gathering.slots.extend((0..room).map(|_| filling(group, team, dummies)));
            }
        }
    }

    /// Takes the rounds that have waited for too long for payloads of enough senders, and those
    /// without any payload whose nodes would end them before others could follow a first one.
    pub(super) fn take_abandoned(&mut self, now: Instant) -> Vec<u64> {
        let options = &self.options;
        let is_abandoned =
            |of: &Gathering| !of.is_anonymous(options) && of.due(options).is_some_and(|due| due <= now);
        let rounds = self.open.iter().filter(|(_, of)| is_abandoned(of));
        let rounds: Vec<u64> = rounds.map(|(round, _)| *round).collect();
        if !rounds.is_empty() {
            self.open.retain(|round, _| !rounds.contains(round));
            self.counters.rounds_abandoned += rounds.len() as u64;
            self.announce();
        }
        rounds
    }

    /// Time at which the next [`fill`](Self::fill), [`take_abandoned`](Self::take_abandoned) or
    /// [`expire`](Self::expire) is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let rounds = self.open.values().filter_map(|gathering| gathering.due(&self.options));
        rounds.chain(self.mailbox.due()).min()
    }

    pub(super) fn take_full(&mut self, now: Instant) -> Vec<(u64, Batch)> {
        let is_full = |of: &Gathering| of.room() == 0 && of.is_anonymous(&self.options);
        let full: Vec<u64> =
            self.open.iter().filter(|(_, of)| is_full(of)).map(|(round, _)| *round).collect();
        if full.is_empty() {
            return Vec::new();
        }
        let mut batches = Vec::new();
        for round in full {
            let Some(Gathering { slots, entered, .. }) = self.open.remove(&round) else { continue };
            match Batch::new(&slots) {
                Ok(batch) => {
                    let entered = entered.into_iter().map(|(_, at)| at).collect();
                    self.mixing.insert(round, Mixing { entered, full: now });
                    self.counters.batches += 1;
                    batches.push((round, batch));
                }
                // Impossible: all of them fit.
                Err(error) => self.end(round, Ended::Failed { cause: error.to_string(), culprit: None }, now),
            }
        }
        self.announce();
        batches
    }

    /// Ends a round, and sends the result to its waiters.
    pub(super) fn end(&mut self, round: u64, ended: Ended, now: Instant) {
        self.leave(round);
        self.running.remove(&round);
        if self.open.remove(&round).is_some() {
            self.announce();
        }
        if self.mailbox.contains(round) {
            return;
        }
        if let Some(mixing) = self.mixing.remove(&round)
            && matches!(ended, Ended::Delivered(_))
        {
            self.note_times(round, &mixing, now);
        }
        let ended = Arc::new(ended);
        for (number, waiter) in self.waiters.remove(&round).into_iter().flatten() {
            self.places.free(&number);
            // Fails only if the waiter has given up.
            let _ = waiter.send(Ok(Arc::clone(&ended)));
        }
        self.mailbox.push(round, ended, now);
    }

    /// Drops the results whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.mailbox.expire(now);
    }

    /// Lists the rounds whose results this node keeps.
    pub(super) fn kept(&mut self, from: u64, after: u64, now: Instant) -> KeptRounds {
        self.mailbox.list(from, after, now)
    }

    fn note_times(&mut self, round: u64, mixing: &Mixing, now: Instant) {
        let waited = mixing.entered.iter().map(|at| now.duration_since(*at));
        let payloads = mixing.entered.len() as u32;
        let times = RoundTimes {
            round,
            payloads,
            slot_max: waited.clone().max().unwrap_or_default(),
            slot_mean: waited.sum::<Duration>() / payloads.max(1),
            batch: now.duration_since(mixing.full),
        };
        if self.times.len() >= TIMES_MAX {
            self.times.pop_front();
        }
        self.times.push_back(times);
    }

    /// Sends the result of a round to an address, once the round has ended. Rounds that this node
    /// does not have may never end, so nobody waits for them here.
    pub(super) fn wait_for(&mut self, round: u64, from: IpAddr, answer: Waiter) {
        if let Some(ended) = self.mailbox.get(round) {
            // Fails only if the waiter has given up.
            return drop(answer.send(Ok(Arc::clone(ended))));
        }
        let is_here = self.open.contains_key(&round)
            || self.joined.contains_key(&round)
            || self.mixing.contains_key(&round)
            || self.running.contains(&round);
        if !is_here {
            let has_ended = self.mailbox.gone().is_some_and(|gone| round <= gone);
            self.refused.count("unknown_round");
            let status = if has_ended {
                "the round has ended, and this node no longer has its result"
            } else {
                "this node does not have the round"
            };
            return drop(answer.send(Err(Status::not_found(status))));
        }
        self.waited += 1;
        let number = self.waited;
        let mut taken = self.places.take_or_evict(number, Some(from));
        if taken.is_err() {
            self.forget_closed();
            taken = self.places.take_or_evict(number, Some(from));
        }
        match taken {
            Ok(None) => {}
            Ok(Some(evicted)) => self.evict(evicted),
            Err(_) => {
                self.refused.count("waiters");
                return drop(answer.send(Err(waiters_full())));
            }
        }
        self.waiters.entry(round).or_default().push((number, answer));
    }

    /// Frees the places of waiters that have given up.
    fn forget_closed(&mut self) {
        let places = &mut self.places;
        self.waiters.retain(|_, waiters| {
            waiters.retain(|(number, waiter)| {
                let is_closed = waiter.is_closed();
                if is_closed {
                    places.free(number);
                }
                !is_closed
            });
            !waiters.is_empty()
        });
    }

    /// Ends the wait that has lost its place to a newcomer.
    fn evict(&mut self, evicted: u64) {
        self.refused.count("waiters");
        for waiters in self.waiters.values_mut() {
            if let Some(at) = waiters.iter().position(|(number, _)| *number == evicted) {
                let (_, waiter) = waiters.remove(at);
                // Fails only if the waiter has given up.
                return drop(waiter.send(Err(waiters_full())));
            }
        }
    }

    fn waiters(&self) -> usize {
        self.waiters.values().map(Vec::len).sum()
    }

    pub(super) fn status(&self) -> GatewayStatus {
        let counters = GatewayCounters {
            rounds_open: self.open.len(),
            payloads_gathered: self.open.values().map(|gathering| gathering.slots.len()).sum(),
            batches_mixing: self.mixing.len(),
            waiters: self.waiters(),
            results_kept: self.mailbox.len(),
            results_kept_bytes: Gauge(self.mailbox.bytes() as u64),
            results_left: self.mailbox.left(),
            calls_refused: self.refused.counts(),
            ..self.counters.clone()
        };
        GatewayStatus { counters, times: self.times.iter().copied().collect() }
    }
}

fn not_withdrawn() -> Status {
    Status::not_found("the round does not wait for payloads at this node: it mixes, or is over")
}

fn waiters_full() -> Status {
    Status::resource_exhausted("too many requests wait for results")
}

/// A slot that fills a batch. A dummy comes out like a payload for a recipient that nobody is. Nothing
/// keeps its content.
fn filling(group: Group, team: usize, is_dummy: bool) -> Sealed {
    let content = is_dummy.then(|| recipient::dummy(group.content_bytes()).ok()).flatten();
    let dummy = content.and_then(|content| Sealed::dummy(group, team, &content).ok());
    dummy.unwrap_or_else(|| Sealed::void(group, team))
}

#[cfg(test)]
mod tests;
