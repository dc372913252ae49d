//! A record of all events, and checks of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use samara_engine::Time;
use samara_mix::{Cause, Event, Failure, Mark, NodeState, Outcome, Phase, Plan, RoundState};

/// The events of all hosts.
#[derive(Default)]
pub(crate) struct Record {
    /// Contents that were sent, by round.
    pub(crate) sent: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Deliveries by round and host: the time and the outcomes.
    pub(crate) delivered: BTreeMap<(u64, u32), (Time, Vec<Outcome>)>,
    /// Failures by round and host.
    pub(crate) failed: BTreeMap<(u64, u32), (Time, Failure)>,
    pub(crate) plans: BTreeMap<u64, Arc<Plan>>,
    /// States by round and host, in order.
    pub(crate) states: BTreeMap<(u64, u32), Vec<(Time, NodeState)>>,
    /// The states of rounds at the scheduler.
    pub(crate) rounds: BTreeMap<u64, Vec<(Time, RoundState)>>,
    pub(crate) marks: BTreeMap<(u64, u32, Phase, Mark), Time>,
    pub(crate) drawn: Vec<(Time, usize, Vec<u32>)>,
    /// Batches that entered, by round: the host, the time, and the number of slots.
    pub(crate) entered: BTreeMap<u64, (u32, Time, u32)>,
    /// Pings around teams, with the host and the team.
    pub(crate) loops: Vec<(u32, Vec<u32>, Option<Duration>)>,
    /// Pings over links, by host and other end.
    pub(crate) round_trips: BTreeMap<(u32, u32), Vec<Option<Duration>>>,
    pub(crate) refused: Vec<String>,
    /// Restarted hosts, which need not report the end of earlier rounds.
    pub(crate) restarted: BTreeSet<u32>,
    /// A running hash of all events, if a test sets its first value: text of all events takes a
    /// fifth of the time of a run.
    pub(crate) digest: Option<u64>,
}

impl Record {
    pub(crate) fn take(&mut self, now: Time, host: u32, event: Event) {
        if let Some(digest) = &mut self.digest {
            let text = format!("{now:?} {host} {event:?}");
            for byte in text.bytes() {
                *digest = (*digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        match event {
            Event::Delivered { round, outcomes } => {
                assert!(!self.failed.contains_key(&(round, host)), "round {round} failed and was delivered");
                self.check_marks(round, host);
                let twice = self.delivered.insert((round, host), (now, outcomes));
                assert!(twice.is_none(), "round {round} was delivered twice at {host}");
            }
            Event::Failed { round, failure } => {
                assert!(
                    !self.delivered.contains_key(&(round, host)),
                    "round {round} was delivered and failed"
                );
                let twice = self.failed.insert((round, host), (now, failure));
                assert!(twice.is_none(), "round {round} failed twice at {host}");
            }
            Event::State { round, state } => {
                let states = self.states.entry((round, host)).or_default();
                let follows = states.last().is_none_or(|(_, last)| last.can_become(state));
                assert!(follows, "{state:?} cannot follow {states:?}");
                states.push((now, state));
            }
            Event::Round { round, state } => self.rounds.entry(round).or_default().push((now, state)),
            Event::Open(plan) => {
                self.plans.insert(plan.round, plan);
            }
            Event::Mark { round, phase, mark } => {
                let twice = self.marks.insert((round, host, phase, mark), now);
                assert!(twice.is_none(), "{mark:?} of {phase:?} twice");
            }
            Event::Drawn { team, nodes } => self.drawn.push((now, team, nodes)),
            Event::Refused { error, .. } => self.refused.push(error.to_string()),
            Event::Entered { round, slots } => {
                let twice = self.entered.insert(round, (host, now, slots));
                assert!(twice.is_none(), "round {round} took a batch twice");
            }
            Event::Looped { team, took } => self.loops.push((host, team, took)),
            Event::RoundTrip { node, took } => self.round_trips.entry((host, node)).or_default().push(took),
            Event::Compute(_) | Event::Made { .. } | Event::Paused { .. } => {}
        }
    }

    /// Asserts that all times of a round are known when it is delivered: the metrics that a node
    /// reports after that are complete.
    fn check_marks(&self, round: u64, host: u32) {
        let has = |phase, mark| self.marks.contains_key(&(round, host, phase, mark));
        for phase in [Phase::Decrypt, Phase::Permute] {
            assert!(Mark::ALL.iter().all(|mark| has(phase, *mark)), "{phase:?} of round {round} at {host}");
        }
        let is_last = self.plans.get(&round).is_some_and(|plan| plan.team.last() == Some(&host));
        assert!(is_last || has(Phase::Result, Mark::LastReceived), "the result of round {round} at {host}");
    }

    /// Asserts that the delivered payloads of each round are the sent ones, in the same order at
    /// all nodes. Every node that took part in a round must have reported its end, except for
    /// `excused` nodes.
    pub(crate) fn check(&self, excused: &[u32]) {
        for ((round, host), (_, outcomes)) in &self.delivered {
            let mut came: Vec<Vec<u8>> = outcomes
                .iter()
                .map(|outcome| match outcome {
                    Outcome::Content(content) => content.to_vec(),
                    other => panic!("round {round} at {host}: {other:?}"),
                })
                .collect();
            let (_, first) = self.delivered.range((*round, 0)..).next().unwrap().1;
            assert_eq!(outcomes, first, "round {round} has a different order at {host}");
            came.sort();
            let mut sent = self.sent[round].clone();
            sent.sort();
            assert_eq!(came, sent, "round {round} at {host}");
        }
        for (round, host) in self.states.keys() {
            let is_excused = excused.contains(host) || self.restarted.contains(host);
            if !is_excused && !self.is_running(*round, *host) {
                let ended = self.delivered.contains_key(&(*round, *host))
                    || self.failed.contains_key(&(*round, *host));
                assert!(ended, "host {host} did not report the end of round {round}");
            }
        }
    }

    fn is_running(&self, round: u64, host: u32) -> bool {
        let last = self.states[&(round, host)].last().unwrap().1;
        !matches!(last, NodeState::Completed | NodeState::Error)
    }

    /// Returns the rounds that all nodes of the team delivered.
    pub(crate) fn complete(&self) -> Vec<u64> {
        let has = |round: u64, plan: &Plan| {
            plan.team.iter().all(|node| self.delivered.contains_key(&(round, *node)))
        };
        self.plans.iter().filter(|(round, plan)| has(**round, plan)).map(|(round, _)| *round).collect()
    }

    /// Returns the causes of failed rounds, with the number of nodes that reported each.
    pub(crate) fn causes(&self) -> BTreeMap<Cause, usize> {
        let mut causes = BTreeMap::new();
        for (_, failure) in self.failed.values() {
            *causes.entry(failure.cause).or_default() += 1;
        }
        causes
    }
}
