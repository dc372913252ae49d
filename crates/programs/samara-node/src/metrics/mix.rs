//! The metrics of a node of a mix pool, or of its scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::{Gauge, Value};
use samara_mix::{NodeState, RoundState};
use samara_net::mix::{GatewayStatus, LinkStatus, RoundTimes, Status};

use super::Table;

samara_engine::counters! {
    struct State {
        /// Rounds in progress, by state.
        rounds_in_progress[state]: BTreeMap<&'static str, usize>,
        /// Bytes of slots held for rounds.
        held_bytes: Gauge,
        /// Jobs assigned to threads.
        jobs_in_progress: usize,
        /// Links that are up.
        links: usize,
        /// Round trip of the last ping over a link; no value before the first.
        round_trip_seconds[node]: BTreeMap<String, f64>,
        /// The last ping around the team that this node leads; no value before the first.
        loop_seconds: Option<f64>,
        /// Owed frames.
        owed_copies[node]: BTreeMap<String, usize>,
        /// Bytes of owed frames.
        owed_bytes[node]: BTreeMap<String, Gauge>,
        /// Bytes being written to HTTP/2.
        in_flight_bytes[node]: BTreeMap<String, Gauge>,
        /// Senders that the node shares secrets with.
        senders: usize,
        /// Senders that left because others came.
        senders_evicted: u64,
    }
}

impl From<&Status> for State {
    fn from(mix: &Status) -> Self {
        let states = NodeState::ALL.iter().map(|state| state.name());
        let states = states.chain(RoundState::ALL.iter().map(|state| state.name()));
        let count = |name: &'static str| (name, mix.rounds.get(name).copied().unwrap_or_default());
        Self {
            rounds_in_progress: states.map(count).collect(),
            held_bytes: Gauge(mix.held_bytes),
            jobs_in_progress: mix.jobs_out,
            links: mix.links.len(),
            round_trip_seconds: by_link(mix, |link| link.round_trip.map(|time| time.as_secs_f64())),
            loop_seconds: mix.looped.map(|time| time.as_secs_f64()),
            owed_copies: by_link(mix, |link| Some(link.owed)),
            owed_bytes: by_link(mix, |link| Some(Gauge(link.owed_bytes))),
            in_flight_bytes: by_link(mix, |link| Some(Gauge(link.in_flight))),
            senders: mix.senders,
            senders_evicted: mix.evicted_senders,
        }
    }
}

samara_engine::counters! {
    struct Times {
        /// Time from a full batch to its results, over the last rounds.
        batch_latency_seconds[quantile]: BTreeMap<&'static str, f64>,
        /// Time from the entry of a payload to its exit: the mean of a round, over the last rounds.
        slot_latency_seconds[quantile]: BTreeMap<&'static str, f64>,
    }
}

impl From<&GatewayStatus> for Times {
    fn from(gateway: &GatewayStatus) -> Self {
        Self {
            batch_latency_seconds: quantiles(gateway, |times| times.batch),
            slot_latency_seconds: quantiles(gateway, |times| times.slot_mean),
        }
    }
}

pub(super) fn add(mix: Option<&Status>, table: &mut impl Table) {
    let gateway = mix.and_then(|mix| mix.gateway.as_ref());
    table.add("mix_", mix.map(|mix| &mix.mix));
    table.add("mix_", mix.map(State::from).as_ref());
    table.add("mix_", mix.map(|mix| &mix.transport));
    table.add("mix_outbox_", mix.map(|mix| &mix.lanes));
    table.add("mix_", gateway.map(|gateway| &gateway.counters));
    table.add("mix_", gateway.map(Times::from).as_ref());
}

/// Returns the value of each link that has one, by the peer's number.
fn by_link<V: Value>(mix: &Status, value: fn(&LinkStatus) -> Option<V>) -> BTreeMap<String, V> {
    mix.links.iter().filter_map(|link| Some((link.node.to_string(), value(link)?))).collect()
}

/// Returns the median, the 95th percentile and the maximum over the last rounds, if there are any.
fn quantiles(gateway: &GatewayStatus, value: fn(&RoundTimes) -> Duration) -> BTreeMap<&'static str, f64> {
    let mut all: Vec<f64> = gateway.times.iter().map(|times| value(times).as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else { return BTreeMap::new() };
    let quantile = |share: f64| all[(last as f64 * share).round() as usize];
    BTreeMap::from([("0.5", quantile(0.5)), ("0.95", quantile(0.95)), ("1", quantile(1.0))])
}
