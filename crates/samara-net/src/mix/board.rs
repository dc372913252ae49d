//! The rounds of a node as senders see them: those that take payloads, and those that are over.

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

/// How long the payloads of a round took, at its first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTimes {
    pub round: u64,
    /// Payloads of senders in it; the rest of the batch was void.
    pub payloads: u32,
    /// From the arrival of the first payload until all came out.
    pub slot_max: Duration,
    /// The same for the mean payload.
    pub slot_mean: Duration,
    /// From the moment in which the batch was full until all came out.
    pub batch: Duration,
}

/// Counters of the gateway of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayStatus {
    pub open: usize,
    /// Payloads that wait for their batch to be full.
    pub gathered: usize,
    /// Batches that are on their way.
    pub mixing: usize,
    /// Payloads that were accepted since the start.
    pub payloads: u64,
    pub batches: u64,
    /// Void slots that completed batches.
    pub filled: u64,
    pub refused: u64,
    pub waiters: usize,
    /// The last batches that came out, in that order.
    pub times: Vec<RoundTimes>,
}

struct Gathering {
    plan: Arc<Plan>,
    slots: Vec<Sealed>,
    /// The arrival of each.
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
    /// Precomputed rounds whose payloads another node takes: senders believe a team only if all of its
    /// nodes announce it.
    joined: BTreeMap<u64, Arc<Plan>>,
    mixing: BTreeMap<u64, Mixing>,
    /// The last rounds that are over, the oldest first.
    ended: VecDeque<(u64, Arc<Ended>)>,
    /// Rounds up to this one may have been forgotten.
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

    /// Announces a precomputed round. The first node of its team waits until the round takes payloads.
    pub(super) fn join(&mut self, plan: Arc<Plan>) {
        if plan.seat_of(self.node) == Some(0) {
            return;
        }
        self.joined.insert(plan.round, plan);
        self.announce();
    }

    /// Withdraws the announcement of [`join`](Self::join): the round has its payloads, or is over.
    pub(super) fn leave(&mut self, round: u64) {
        if self.joined.remove(&round).is_some() {
            self.announce();
        }
    }

    pub(super) fn open(&mut self, plan: Arc<Plan>) {
        self.open.insert(plan.round, Gathering { plan, slots: Vec::new(), entered: Vec::new() });
        self.announce();
    }

    /// Accepts payloads, all or none of them. Returns how many more the round has room for.
    pub(super) fn submit(&mut self, round: u64, slots: Vec<Sealed>, now: Instant) -> Result<u32, Status> {
        let taken = self.take(round, slots, now);
        self.status.refused += u64::from(taken.is_err());
        taken
    }

    fn take(&mut self, round: u64, slots: Vec<Sealed>, now: Instant) -> Result<u32, Status> {
        let gathering = self.open.get_mut(&round);
        let gathering = gathering.ok_or_else(|| Status::not_found("the round takes no payloads here"))?;
        let team = gathering.plan.team.len();
        if !slots.iter().all(|slot| slot.fits(self.group, team)) {
            return Err(Status::invalid_argument("sealed for another group, or a team of another size"));
        }
        let room = gathering.room();
        if slots.len() > room {
            return Err(Status::resource_exhausted(format!("the round has room for {room} more")));
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

    /// The next time at which [`fill`](Self::fill) has something to do.
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

    /// Ends a round, and answers those who wait for it.
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
            // Fails only if the asker has given up.
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

    /// Answers how a round ended, as soon as it has.
    pub(super) fn wait_for(&mut self, round: u64, answer: Waiter) {
        let known = self.ended.iter().find(|(ended, _)| *ended == round);
        let is_known_to_run = self.open.contains_key(&round) || self.mixing.contains_key(&round);
        let answer_now = match known {
            Some((_, ended)) => Some(Ok(Arc::clone(ended))),
            None if !is_known_to_run && self.forgotten.is_some_and(|oldest| round <= oldest) => {
                Some(Err(Status::not_found("the round is over, and its result is not kept any more")))
            }
            None => None,
        };
        if let Some(answered) = answer_now {
            // Fails only if the asker has given up.
            return drop(answer.send(answered));
        }
        if self.waiters() >= self.options.waiters_max {
            self.waiters.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
        }
        if self.waiters() >= self.options.waiters_max {
            return drop(answer.send(Err(Status::resource_exhausted("as many wait as may"))));
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
