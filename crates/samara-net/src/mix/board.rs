//! The rounds of a node as senders see them: rounds that accept payloads, and finished rounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_mix::{Batch, Group, Outcome, Plan, Sealed};
use tokio::sync::{oneshot, watch};
use tonic::Status;

use super::gateway::Ended;
use super::options::GatewayOptions;
use super::proto::{OpenRound, OpenRounds};

const TIMES_MAX: usize = 1024;

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

/// Counters of the gateway of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayStatus {
    pub open: usize,
    /// Payloads that wait for their batch to be full.
    pub gathered: usize,
    /// Number of batches in the mix.
    pub mixing: usize,
    /// Payloads accepted since the start.
    pub payloads: u64,
    pub batches: u64,
    /// Void slots that completed batches.
    pub filled: u64,
    pub refused: u64,
    pub waiters: usize,
    /// Durations of the last finished rounds, in order of completion.
    pub times: Vec<RoundTimes>,
}

struct Gathering {
    plan: Arc<Plan>,
    slots: Vec<Sealed>,
    /// The arrival time of each slot.
    entered: Vec<Instant>,
}

impl Gathering {
    fn room(&self) -> usize {
        self.plan.batch as usize - self.slots.len()
    }
}

struct Mixing {
    entered: Vec<Instant>,
    full: Instant,
}

pub(super) type Waiter = oneshot::Sender<Result<Arc<Ended>, Status>>;

/// The rounds of a node, and the senders that wait for them.
pub(super) struct Board {
    node: u32,
    options: GatewayOptions,
    group: Group,
    open: BTreeMap<u64, Gathering>,
    /// Precomputed rounds whose payloads go to another node: senders believe a team only if all of
    /// its nodes announce it.
    joined: BTreeMap<u64, Arc<Plan>>,
    mixing: BTreeMap<u64, Mixing>,
    /// The last finished rounds, oldest first.
    ended: VecDeque<(u64, Arc<Ended>)>,
    /// The board may have forgotten rounds up to this one.
    forgotten: Option<u64>,
    waiters: BTreeMap<u64, Vec<Waiter>>,
    rounds: watch::Sender<OpenRounds>,
    times: VecDeque<RoundTimes>,
    status: GatewayStatus,
}

impl Board {
    pub(super) fn new(
        node: u32,
        options: GatewayOptions,
        group: Group,
        rounds: watch::Sender<OpenRounds>,
    ) -> Self {
        Self {
            node,
            options,
            group,
            open: BTreeMap::new(),
            joined: BTreeMap::new(),
            mixing: BTreeMap::new(),
            ended: VecDeque::new(),
            forgotten: None,
            waiters: BTreeMap::new(),
            rounds,
            times: VecDeque::new(),
            status: GatewayStatus::default(),
        }
    }

    fn announce(&self) {
        let announcement = |plan: &Plan, room: usize| OpenRound {
            round: plan.round,
            team: plan.team.clone(),
            room: room as u32,
            batch: plan.batch,
        };
        let open = self.open.values().map(|gathering| announcement(&gathering.plan, gathering.room()));
        let joined = self.joined.values().map(|plan| announcement(plan, 0));
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

    /// Withdraws the announcement of [`join`](Self::join): the round has its payloads or has ended.
    pub(super) fn leave(&mut self, round: u64) {
        if self.joined.remove(&round).is_some() {
            self.announce();
        }
    }

    pub(super) fn open(&mut self, plan: Arc<Plan>) {
        self.open.insert(plan.round, Gathering { plan, slots: Vec::new(), entered: Vec::new() });
        self.announce();
    }

    /// Accepts payloads, all or none of them. Returns the remaining room of the round.
    pub(super) fn submit(&mut self, round: u64, slots: Vec<Sealed>, now: Instant) -> Result<u32, Status> {
        let taken = self.take(round, slots, now);
        self.status.refused += u64::from(taken.is_err());
        taken
    }

    fn take(&mut self, round: u64, slots: Vec<Sealed>, now: Instant) -> Result<u32, Status> {
        let gathering = self.open.get_mut(&round);
        let gathering =
            gathering.ok_or_else(|| Status::not_found("the round accepts no payloads at this node"))?;
        let team = gathering.plan.team.len();
        if !slots.iter().all(|slot| slot.fits(self.group, team)) {
            return Err(Status::invalid_argument(
                "the payload was sealed for another group or a team of another size",
            ));
        }
        let room = gathering.room();
        if slots.len() > room {
            return Err(Status::resource_exhausted(format!("the round has room for {room} more payloads")));
        }
        self.status.payloads += slots.len() as u64;
        gathering.entered.resize(gathering.entered.len() + slots.len(), now);
        gathering.slots.extend(slots);
        let room = gathering.room() as u32;
        self.announce();
        Ok(room)
    }

    pub(super) fn fill(&mut self, now: Instant) {
        let fill = self.options.fill;
        for gathering in self.open.values_mut() {
            let is_due = gathering.entered.first().is_some_and(|first| now.duration_since(*first) >= fill);
            if is_due && gathering.room() > 0 {
                self.status.filled += gathering.room() as u64;
                let void = Sealed::void(self.group, gathering.plan.team.len());
                gathering.slots.resize(gathering.plan.batch as usize, void);
            }
        }
    }

    /// Time at which the next [`fill`](Self::fill) is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.open
            .values()
            .filter_map(|gathering| gathering.entered.first())
            .min()
            .map(|at| *at + self.options.fill)
    }

    pub(super) fn take_full(&mut self, now: Instant) -> Vec<(u64, Batch)> {
        let full: Vec<u64> =
            self.open.iter().filter(|(_, of)| of.room() == 0).map(|(round, _)| *round).collect();
        if full.is_empty() {
            return Vec::new();
        }
        let mut batches = Vec::new();
        for round in full {
            let Some(Gathering { slots, entered, .. }) = self.open.remove(&round) else { continue };
            match Batch::new(&slots) {
                Ok(batch) => {
                    self.mixing.insert(round, Mixing { entered, full: now });
                    self.status.batches += 1;
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
        if self.open.remove(&round).is_some() {
            self.announce();
        }
        if self.ended.iter().any(|(known, _)| *known == round) {
            return;
        }
        if let Some(mixing) = self.mixing.remove(&round)
            && matches!(ended, Ended::Delivered(_))
        {
            self.note_times(round, &mixing, now);
        }
        let ended = Arc::new(ended);
        for waiter in self.waiters.remove(&round).into_iter().flatten() {
            // Fails only if the waiter has given up.
            let _ = waiter.send(Ok(Arc::clone(&ended)));
        }
        self.ended.push_back((round, ended));
        if self.ended.len() > self.options.results_max
            && let Some((oldest, _)) = self.ended.pop_front()
        {
            self.forgotten = self.forgotten.max(Some(oldest));
        }
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

    /// Sends the result of a round, once it has ended.
    pub(super) fn wait_for(&mut self, round: u64, answer: Waiter) {
        let known = self.ended.iter().find(|(ended, _)| *ended == round);
        let is_known_to_run = self.open.contains_key(&round) || self.mixing.contains_key(&round);
        let answer_now = match known {
            Some((_, ended)) => Some(Ok(Arc::clone(ended))),
            None if !is_known_to_run && self.forgotten.is_some_and(|oldest| round <= oldest) => {
                Some(Err(Status::not_found("the round has ended, and this node no longer has its result")))
            }
            None => None,
        };
        if let Some(answered) = answer_now {
            // Fails only if the waiter has given up.
            return drop(answer.send(answered));
        }
        if self.waiters() >= self.options.waiters_max {
            self.waiters.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
        }
        if self.waiters() >= self.options.waiters_max {
            return drop(answer.send(Err(Status::resource_exhausted("too many requests wait for results"))));
        }
        self.waiters.entry(round).or_default().push(answer);
    }

    fn waiters(&self) -> usize {
        self.waiters.values().map(Vec::len).sum()
    }

    pub(super) fn status(&self) -> GatewayStatus {
        GatewayStatus {
            open: self.open.len(),
            gathered: self.open.values().map(|gathering| gathering.slots.len()).sum(),
            mixing: self.mixing.len(),
            waiters: self.waiters(),
            times: self.times.iter().copied().collect(),
            ..self.status.clone()
        }
    }
}

/// The number of an outcome on the wire.
pub(super) fn kind(outcome: &Outcome) -> u32 {
    match outcome {
        Outcome::Content(_) => 0,
        Outcome::Void => 1,
        Outcome::Unreadable => 2,
    }
}

#[cfg(test)]
mod tests;
