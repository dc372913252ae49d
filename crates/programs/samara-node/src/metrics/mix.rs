//! The metrics of a node of a mix pool, or of its scheduler.

use std::time::Duration;

use samara_mix::{Cause, NodeState, Phase, RoundState};
use samara_net::mix::{LinkStatus, RoundTimes, Status};

use super::{Number, Rows, metrics};

metrics! { METRICS |mix: Status, rows|
    /// Rounds in progress, by state
    mix_rounds[state]: Gauge => {
        let mut names: Vec<&str> = NodeState::ALL.iter().map(|state| state.name()).collect();
        names.extend(RoundState::ALL.iter().map(|state| state.name()));
        names.sort_unstable();
        names.dedup();
        let count = |name: &str| *mix.rounds.get(name).unwrap_or(&0) as u64;
        rows.each(names.into_iter().map(|name| (name, count(name))));
    };
    /// Rounds in which this node took part, or that it created
    mix_rounds_begun: Counter = mix.mix.rounds;
    /// Rounds whose payloads came out
    mix_rounds_completed: Counter = mix.mix.completed;
    /// Rounds that failed
    mix_rounds_failed[cause]: Counter
        => rows.each(Cause::ALL.iter().map(|cause| (cause.name(), mix.mix.failed(*cause))));
    /// Teams that were drawn
    mix_teams_drawn: Counter = mix.mix.draws;
    /// Bytes of slots held for rounds
    mix_held_bytes: Gauge = mix.held_bytes;
    /// Jobs assigned to threads
    mix_jobs: Gauge = mix.jobs_out as u64;
    /// Slots processed
    mix_slots[phase]: Counter
        => rows.each(Phase::ALL.iter().map(|phase| (phase.name(), mix.mix.slots(*phase))));
    /// Slots that came out
    mix_payloads_delivered: Counter = mix.mix.delivered;
    /// Slots that this node voided
    mix_slots_voided[cause]: Counter => rows.each([
        ("unknown_sender", mix.mix.voided.unknown_sender),
        ("wrong_code", mix.mix.voided.wrong_code),
        ("bad_element", mix.mix.voided.bad_element),
        ("repeated", mix.mix.voided.repeated),
    ]);
    /// Delivered slots without a payload
    mix_slots_empty[kind]: Counter => rows.each([
        ("void", mix.mix.delivered_void),
        ("unreadable", mix.mix.delivered_unreadable),
    ]);
    /// Input without effect
    mix_ignored[cause]: Counter
        => rows.each(mix.mix.ignored_by_cause().map(|(cause, count)| (cause.name(), count)));
    /// Frames of slots that were retransmitted
    mix_resent_frames: Counter = mix.mix.resent_frames;
    /// Links that are up
    mix_links: Gauge = mix.links.len() as u64;
    /// Round trip of the last ping over a link; no value before the first
    mix_round_trip_seconds[node]: Gauge
        => by_link(mix, rows, |link| link.round_trip.map(|time| time.as_secs_f64()));
    /// The last ping around the team that this node leads; no value before the first
    mix_loop_seconds: Gauge => rows.known(mix.looped.map(|time| time.as_secs_f64()));
    /// Owed frames
    mix_owed_copies[node]: Gauge => by_link(mix, rows, |link| Some(link.owed as u64));
    /// Bytes of owed frames
    mix_owed_bytes[node]: Gauge => by_link(mix, rows, |link| Some(link.owed_bytes));
    /// Bytes being written to HTTP/2
    mix_in_flight_bytes[node]: Gauge => by_link(mix, rows, |link| Some(link.in_flight));
    /// Links closed because too many control frames waited for the peer
    mix_links_overflowed: Counter = mix.mix.overflows;
    /// Links that came up
    mix_links_up: Counter = mix.transport.links;
    /// Connections that ended or were not established
    mix_links_closed[cause]: Counter
        => rows.each(mix.transport.closed.iter().map(|(cause, count)| (*cause, *count)));
    /// Bytes of frames
    mix_bytes[direction]: Counter
        => rows.each([("up", mix.transport.bytes_up), ("down", mix.transport.bytes_down)]);
    /// Frames, in each direction
    mix_frames[direction]: Counter
        => rows.each([("up", mix.transport.frames_up), ("down", mix.transport.frames_down)]);
    /// Frames sent as separate calls
    mix_unary_calls: Counter = mix.transport.posts;
    /// Frames lost with their links
    mix_lost_copies: Counter = mix.transport.lost_copies;
    /// Events that were not read in time
    mix_events_lost: Counter = mix.transport.events_lost;
    /// Nanoseconds of processor time for the cryptographic work
    mix_work_cpu_ns: Counter = mix.transport.cpu.as_nanos() as u64;
    /// Rounds that accept payloads
    mix_rounds_open: Gauge => rows.known(mix.gateway.as_ref().map(|gateway| gateway.open as u64));
    /// Payloads that wait for their batch
    mix_payloads_gathered: Gauge => rows.known(mix.gateway.as_ref().map(|gateway| gateway.gathered as u64));
    /// Batches in progress
    mix_batches_mixing: Gauge => rows.known(mix.gateway.as_ref().map(|gateway| gateway.mixing as u64));
    /// Requests that wait for the end of a round
    mix_waiters: Gauge => rows.known(mix.gateway.as_ref().map(|gateway| gateway.waiters as u64));
    /// Accepted payloads
    mix_payloads_taken: Counter => rows.known(mix.gateway.as_ref().map(|gateway| gateway.payloads));
    /// Batches that were handed to the team
    mix_batches: Counter => rows.known(mix.gateway.as_ref().map(|gateway| gateway.batches));
    /// Dummies and void slots that completed batches
    mix_slots_filled: Counter => rows.known(mix.gateway.as_ref().map(|gateway| gateway.filled));
    /// Rounds that had payloads of too few senders
    mix_rounds_abandoned: Counter => rows.known(mix.gateway.as_ref().map(|gateway| gateway.abandoned));
    /// Refused calls of senders, by limit
    mix_calls_refused[limit]: Counter => rows.each(
        mix.gateway.iter().flat_map(|gateway| gateway.refused.iter().map(|(limit, count)| (*limit, *count))),
    );
    /// Senders that the node shares secrets with
    mix_senders: Gauge = mix.senders as u64;
    /// Senders that left because others came
    mix_senders_evicted: Counter = mix.evicted_senders;
    /// Time from a full batch to its results, over the last rounds
    mix_batch_latency_seconds[quantile]: Gauge => quantiles(mix, rows, |times| times.batch);
    /// Time from the entry of a payload to its exit: the mean of a round, over the last rounds
    mix_slot_latency_seconds[quantile]: Gauge => quantiles(mix, rows, |times| times.slot_mean);
}

/// Adds the value of each link that has one.
fn by_link<V: Into<Number>>(mix: &Status, rows: &mut Rows, value: fn(&LinkStatus) -> Option<V>) {
    for link in &mix.links {
        if let Some(value) = value(link) {
            rows.add([&link.node.to_string()], value);
        }
    }
}

/// Adds the median, the 95th percentile and the maximum over the last rounds, if there are any.
fn quantiles(mix: &Status, rows: &mut Rows, value: fn(&RoundTimes) -> Duration) {
    let rounds = mix.gateway.iter().flat_map(|gateway| &gateway.times);
    let mut all: Vec<f64> = rounds.map(|times| value(times).as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else { return };
    for (name, share) in [("0.5", 0.5), ("0.95", 0.95), ("1", 1.0)] {
        rows.add([name], all[(last as f64 * share).round() as usize]);
    }
}
