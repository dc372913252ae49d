//! Teams, rounds, phases, and the latency of slots from entry to exit.
//!
//! Slots are indistinguishable, but the sum of their latencies does not depend on which is which:
//! the mean over the pairs "k-th in, k-th out" equals that over the true pairs. The spread is the
//! true one if all slots enter at once, and the smallest possible one otherwise.

use std::collections::{BTreeMap, VecDeque};

use samara_trace::live::{Edge, Event, Latencies, RoundState, Step};
use serde_json::{Value, json};

use super::{View, ms, ms_or_null, short};

/// Maximum number of remembered rounds of a clock, those with the highest numbers.
const ROUNDS_MAX: usize = 256;
/// Maximum number of rounds of a clock that no scheduler has reported, if there is one.
const NAMED_MAX: usize = 64;
/// Maximum number of shown rounds, the newest ones of the clock that appeared last.
const SHOWN_MAX: usize = 16;
const CLOCKS_MAX: usize = 16;
/// Maximum number of remembered phases of all nodes in a round.
const SPANS_MAX: usize = 512;
/// Maximum number of remembered phases of a node in a round.
const PHASES_MAX: usize = 32;
const FLOWS_MAX: usize = 64;
const TEAMS_MAX: usize = 256;
/// Number of latest rounds that rates are computed from.
const RECENT: usize = 64;
/// Teams have stopped if no slots have left for this time, and for twice the longest time between two of
/// the latest rounds.
const STOPPED_NS: u64 = 5_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    teams: BTreeMap<(String, u64), Vec<String>>,
    rounds: BTreeMap<Key, Round>,
    /// The clocks in the order of their appearance, each with the time of its first event.
    clocks: Vec<(String, u64)>,
    through_team: Distribution,
    by_senders: Distribution,
    completed: u64,
    failed: u64,
    /// Some latencies compare times of two clocks.
    is_across: bool,
    /// By clock, the time at which the slots of a round had left, and their number.
    recent: BTreeMap<String, VecDeque<(u64, u64)>>,
    /// The time of the latest line of each of these clocks.
    latest: BTreeMap<String, u64>,
}

type Key = (String, u64);

#[derive(Debug, Default)]
struct Distribution {
    all: Latencies,
    rounds: u64,
}

#[derive(Debug, Default)]
struct Round {
    /// The source of its first line.
    named_by: String,
    team: Option<u64>,
    slots: Option<u64>,
    cause: Option<String>,
    /// Time of the first report of each state.
    states: BTreeMap<RoundState, u64>,
    spans: BTreeMap<(String, String), Span>,
    /// The flow of slots by source.
    flows: BTreeMap<String, Flow>,
    /// Time of the first entry and the last exit, once all slots have left.
    span: Option<(u64, u64)>,
    latencies: Option<Latencies>,
    is_measured: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: Option<u64>,
    end: Option<u64>,
}

impl Rounds {
    /// Records the time of a line.
    pub(super) fn note_time(&mut self, domain: &str, at: u64) {
        if self.recent.contains_key(domain) {
            let latest = self.latest.entry(domain.to_owned()).or_default();
            *latest = at.max(*latest);
        }
    }

    pub(super) fn team(&mut self, domain: &str, team: u64, members: &[String]) {
        let members = members.iter().take(64).map(|member| short(member)).collect();
        self.teams.insert((domain.to_owned(), team), members);
        if self.teams.len() > TEAMS_MAX {
            self.teams.pop_first();
        }
    }

    pub(super) fn take(&mut self, domain: &str, (source, who): (&str, &str), at: u64, event: &Event) {
        let number = match event {
            Event::Round { round, .. }
            | Event::Phase { round, .. }
            | Event::Slots { round, .. }
            | Event::Latencies { round, .. } => *round,
            _ => return,
        };
        let key = (domain.to_owned(), number);
        let has_state = matches!(event, Event::Round { .. });
        if !self.rounds.contains_key(&key) && !self.make_room(&key, at, source, has_state) {
            return;
        }
        let new = || Round { named_by: source.to_owned(), ..Round::default() };
        let round = self.rounds.entry(key.clone()).or_insert_with(new);
        match event {
            Event::Round { state, team, slots, cause, .. } => {
                let is_new = round.states.insert(*state, at).is_none();
                round.team = team.or(round.team);
                round.slots = slots.or(round.slots);
                round.cause = cause.as_deref().map(short).or(round.cause.take());
                self.completed += u64::from(is_new && *state == RoundState::Completed);
                self.failed += u64::from(is_new && *state == RoundState::Failed);
            }
            Event::Phase { phase, edge, .. } => {
                let name = (who.to_owned(), short(phase));
                let first = (who.to_owned(), String::new());
                let of_node = round.spans.range(first..).take_while(|((node, _), _)| node == who).count();
                let has_room = round.spans.len() < SPANS_MAX && of_node < PHASES_MAX;
                if has_room || round.spans.contains_key(&name) {
                    let span = round.spans.entry(name).or_default();
                    match edge {
                        Edge::Begin => span.begin = Some(at),
                        Edge::End => span.end = Some(at),
                    }
                }
            }
            Event::Slots { step, slots, .. }
                if round.flows.len() < FLOWS_MAX || round.flows.contains_key(source) =>
            {
                round.flows.entry(source.to_owned()).or_default().add(*step, at, *slots);
            }
            Event::Latencies { latencies, .. } if !round.is_measured => {
                round.is_measured = true;
                self.by_senders.all.merge(latencies);
                self.by_senders.rounds += 1;
            }
            _ => {}
        }
        self.settle(&key);
    }

    /// Makes room for a new round, if necessary by removing the oldest. Returns false if the new
    /// one is too old.
    fn make_room(&mut self, (domain, number): &Key, at: u64, source: &str, has_state: bool) -> bool {
        if !self.clocks.iter().any(|(clock, _)| clock == domain) {
            if self.clocks.len() >= CLOCKS_MAX {
                let (oldest, _) = self.clocks.remove(0);
                self.rounds.retain(|(clock, _), _| *clock != oldest);
            }
            self.clocks.push((domain.clone(), at));
        }
        let count = self.of_clock(domain).count();
        let named = self.of_clock(domain).filter(|key| self.rounds[*key].states.is_empty()).count();
        // Any node may name any round. With a scheduler, rounds that it has not reported take a part
        // of the room, and give way to others: first those of the source that names the most.
        let is_part_full = !has_state && named < count && named >= NAMED_MAX;
        let oldest = match count >= ROUNDS_MAX {
            _ if is_part_full => self.named_most(domain),
            true if has_state && named > 0 => self.named_most(domain),
            true => self.of_clock(domain).next(),
            false => return true,
        };
        let Some(oldest) = oldest.cloned() else { return true };
        let is_by_other = self.rounds[&oldest].states.is_empty() && self.rounds[&oldest].named_by != source;
        if oldest.1 > *number && !(is_by_other && (has_state || is_part_full)) {
            return false;
        }
        self.rounds.remove(&oldest).is_some()
    }

    /// The oldest round of the source that has named the most rounds which no scheduler has reported.
    fn named_most(&self, domain: &str) -> Option<&Key> {
        let mut by_source: BTreeMap<&str, (usize, &Key)> = BTreeMap::new();
        for key in self.of_clock(domain) {
            let round = &self.rounds[key];
            if round.states.is_empty() {
                by_source.entry(&round.named_by).or_insert((0, key)).0 += 1;
            }
        }
        by_source.into_values().max_by_key(|(count, _)| *count).map(|(_, oldest)| oldest)
    }

    fn of_clock(&self, domain: &str) -> impl DoubleEndedIterator<Item = &Key> {
        self.rounds.range((domain.to_owned(), 0)..=(domain.to_owned(), u64::MAX)).map(|(key, _)| key)
    }

    /// Records the latencies of a round whose slots have all left.
    fn settle(&mut self, key: &Key) {
        let Some(round) = self.rounds.get_mut(key) else { return };
        if round.latencies.is_some() || round.states.contains_key(&RoundState::Failed) {
            return;
        }
        let first = round.flows.iter().find(|(_, flow)| total(&flow.entered) > 0);
        let Some((source, first)) = first else { return };
        let has_all = |flow: &Flow| total(&flow.left) >= total(&first.entered);
        // Exits on the clock that measured the entries are preferred. Another clock is used only
        // without them.
        let is_over = round.states.contains_key(&RoundState::Completed);
        let are_all_in = is_over || round.slots.is_none_or(|slots| total(&first.entered) >= slots);
        if !are_all_in {
            return;
        }
        let other =
            || round.flows.iter().find(|(name, flow)| *name != source && has_all(flow)).map(|(_, flow)| flow);
        let (exit, is_across) = if has_all(first) {
            (first, false)
        } else if let Some(other) = other().filter(|_| is_over) {
            (other, true)
        } else {
            return;
        };
        let latencies = first.latencies(exit);
        round.span = first.span(exit);
        self.is_across |= is_across;
        self.through_team.all.merge(&latencies);
        self.through_team.rounds += 1;
        if let Some((_, out_at)) = round.span {
            let recent = self.recent.entry(key.0.clone()).or_default();
            recent.push_back((out_at, latencies.count()));
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
        round.latencies = Some(latencies);
        round.flows.clear();
    }

    pub(super) fn view(&self, view: &mut View) {
        let teams: Vec<Value> = self
            .teams
            .iter()
            .map(|((domain, team), members)| json!({ "clock": domain, "team": team, "members": members }))
            .collect();
        view.insert("teams".to_owned(), teams.into());
        let mut ids = Vec::new();
        if let Some((clock, base)) = self.clocks.last() {
            // Rounds that only nodes name may not exist, if there is a scheduler.
            let is_stated = |key: &&Key| !self.rounds[*key].states.is_empty();
            let has_states = self.of_clock(clock).any(|key| is_stated(&key));
            let newest = self.of_clock(clock).rev().filter(|key| !has_states || is_stated(key));
            let shown: Vec<&Key> = newest.take(SHOWN_MAX).collect();
            for key in shown.into_iter().rev() {
                let id = format!("round/{}/{}", key.0, key.1);
                view.insert(id.clone(), self.rounds[key].view(key, *base));
                ids.push(id);
            }
        }
        view.insert("rounds".to_owned(), ids.into());
        view.insert("outcomes".to_owned(), self.outcomes());
        let latency = json!({
            "team": self.through_team.view(),
            "senders": self.by_senders.view(),
            "across_clocks": self.is_across,
        });
        view.insert("latency".to_owned(), latency);
    }

    fn outcomes(&self) -> Value {
        if self.rounds.is_empty() {
            return Value::Null;
        }
        let is_over = |round: &&Round| {
            round.states.contains_key(&RoundState::Completed)
                || round.states.contains_key(&RoundState::Failed)
        };
        let is_realtime =
            |round: &&Round| round.states.contains_key(&RoundState::Realtime) && !is_over(round);
        let knows_states = self.rounds.values().any(|round| !round.states.is_empty());
        let known = |count: u64| if knows_states { Value::from(count) } else { Value::Null };
        json!({
            "completed": known(self.completed),
            "failed": known(self.failed),
            "realtime": known(self.rounds.values().filter(is_realtime).count() as u64),
            "payloads_per_s": self.payloads_per_s(),
        })
    }

    /// Slots that left per second over the latest rounds, of the clock with the most rounds. Zero once the
    /// teams have stopped.
    fn payloads_per_s(&self) -> Option<f64> {
        let (clock, recent) = self.recent.iter().max_by_key(|(_, recent)| recent.len())?;
        let mut recent: Vec<(u64, u64)> = recent.iter().copied().collect();
        recent.sort_unstable();
        let (first, last) = (recent.first()?, recent.last()?);
        let slots: u64 = recent[1..].iter().map(|(_, slots)| slots).sum();
        let span = last.0 - first.0;
        let gaps = recent.iter().zip(&recent[1..]).map(|((one, _), (next, _))| next - one);
        let silence = self.latest.get(clock).map_or(0, |latest| latest.saturating_sub(last.0));
        if silence > STOPPED_NS.max(2 * gaps.max().unwrap_or(0)) {
            return Some(0.0);
        }
        (span > 0).then(|| slots as f64 * 1e9 / span as f64)
    }
}

impl Round {
    fn view(&self, (domain, number): &Key, base: u64) -> Value {
        let at = |ns: u64| ms(ns as f64 - base as f64);
        let at_or_null = |ns: Option<u64>| ns.map_or(Value::Null, at);
        // Late reports of nodes do not move a round back.
        let state = self.states.keys().next_back();
        let states: Vec<Value> = self.states.iter().map(|(state, ns)| json!([state, at(*ns)])).collect();
        let spans: Vec<Value> = self
            .spans
            .iter()
            .map(|((node, phase), span)| json!([node, phase, at_or_null(span.begin), at_or_null(span.end)]))
            .collect();
        let latency = self.latencies.as_ref();
        json!({
            "clock": domain,
            "round": number,
            "team": self.team,
            "slots": self.slots,
            "cause": self.cause,
            "state": state,
            "states": states,
            "spans": spans,
            "entered_ms": self.span.map_or(Value::Null, |(entered, _)| at(entered)),
            "left_ms": self.span.map_or(Value::Null, |(_, left)| at(left)),
            "latency_mean_ms": latency.and_then(Latencies::mean_ns).map_or(Value::Null, ms),
            "latency_max_ms": ms_or_null(latency.and_then(Latencies::max_ns)),
        })
    }
}

impl Distribution {
    /// Null while the distribution is empty.
    fn view(&self) -> Value {
        let Some(mean) = self.all.mean_ns() else { return Value::Null };
        let quantile = |share| ms_or_null(self.all.quantile_ns(share));
        let buckets: Vec<Value> =
            self.all.buckets().map(|(value, count)| json!([ms(value as f64), count])).collect();
        json!({
            "slots": self.all.count(),
            "rounds": self.rounds,
            "mean_ms": ms(mean),
            "min_ms": ms_or_null(self.all.min_ns()),
            "p50_ms": quantile(0.5),
            "p95_ms": quantile(0.95),
            "p99_ms": quantile(0.99),
            "max_ms": ms_or_null(self.all.max_ns()),
            "buckets": buckets,
        })
    }
}

/// Maximum number of remembered pieces of a round. Further ones are merged into the last.
const PIECES_MAX: usize = 4096;

/// Entries and exits of slots at one source: times and numbers.
#[derive(Clone, Debug, Default)]
struct Flow {
    entered: Vec<(u64, u64)>,
    left: Vec<(u64, u64)>,
}

impl Flow {
    fn add(&mut self, step: Step, at_ns: u64, slots: u64) {
        let pieces = match step {
            Step::Entered => &mut self.entered,
            Step::Left => &mut self.left,
        };
        let is_full = pieces.len() >= PIECES_MAX;
        match pieces.last_mut() {
            Some(last) if last.0 == at_ns || is_full => last.1 = last.1.saturating_add(slots),
            _ => pieces.push((at_ns, slots)),
        }
    }

    /// Time of the first entry here and of the last exit at `left_at`.
    fn span(&self, left_at: &Self) -> Option<(u64, u64)> {
        let entered = self.entered.iter().map(|(at, _)| *at).min()?;
        let left = left_at.left.iter().map(|(at, _)| *at).max()?;
        Some((entered, left))
    }

    /// Latencies of slots that entered here and left at `other`, paired in order.
    fn latencies(&self, other: &Self) -> Latencies {
        let sorted = |pieces: &[(u64, u64)]| {
            let mut pieces = pieces.to_vec();
            pieces.sort_unstable();
            pieces
        };
        let mut latencies = Latencies::default();
        let mut left = sorted(&other.left).into_iter();
        let mut leaving = left.next();
        for (entered_at, mut slots) in sorted(&self.entered) {
            while slots > 0 {
                let Some((left_at, there)) = leaving else { return latencies };
                let both = slots.min(there);
                latencies.add(left_at.saturating_sub(entered_at), both);
                slots -= both;
                leaving = if there > both { Some((left_at, there - both)) } else { left.next() };
            }
        }
        latencies
    }
}

fn total(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().fold(0, |sum, (_, slots)| sum.saturating_add(*slots))
}
