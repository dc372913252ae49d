//! What a node of a pool that mixes, or its scheduler, counts.

use std::time::Duration;

use samara_mix::{Cause, NodeState, Phase, RoundState};
use samara_net::relay::{LinkStatus, RoundTimes, Status};

use super::{Number, Rows, metrics};

metrics! { METRICS |relay: Status, rows|
    /// Rounds that are not over, by state
    relay_rounds[state]: Gauge => {
        let mut names: Vec<&str> = NodeState::ALL.iter().map(|state| state.name()).collect();
        names.extend(RoundState::ALL.iter().map(|state| state.name()));
        names.sort_unstable();
        names.dedup();
        let count = |name: &str| *relay.rounds.get(name).unwrap_or(&0) as u64;
        rows.each(names.into_iter().map(|name| (name, count(name))));
    };
    /// Rounds that this one took part in, or made
    relay_rounds_begun: Counter = relay.mix.rounds;
    /// Rounds whose payloads came out
    relay_rounds_completed: Counter = relay.mix.completed;
    /// Rounds that failed
    relay_rounds_failed[cause]: Counter
        => rows.each(Cause::ALL.iter().map(|cause| (cause.name(), relay.mix.failed(*cause))));
    /// Teams that were drawn
    relay_teams_drawn: Counter = relay.mix.draws;
    /// Bytes of slots that are held for rounds
    relay_held_bytes: Gauge = relay.held_bytes;
    /// Jobs that threads have
    relay_jobs: Gauge = relay.jobs_out as u64;
    /// Slots that were worked on
    relay_slots[phase]: Counter
        => rows.each(Phase::ALL.iter().map(|phase| (phase.name(), relay.mix.slots(*phase))));
    /// Slots that came out
    relay_payloads_delivered: Counter = relay.mix.delivered;
    /// Slots that this node voided
    relay_slots_voided[cause]: Counter => rows.each([
        ("unknown_sender", relay.mix.voided.unknown_sender),
        ("wrong_code", relay.mix.voided.wrong_code),
        ("bad_element", relay.mix.voided.bad_element),
        ("repeated", relay.mix.voided.repeated),
    ]);
    /// Slots that came out and hold nothing
    relay_slots_empty[kind]: Counter => rows.each([
        ("void", relay.mix.delivered_void),
        ("unreadable", relay.mix.delivered_unreadable),
    ]);
    /// Input without effect
    relay_ignored[cause]: Counter
        => rows.each(relay.mix.ignored_by_cause().map(|(cause, count)| (cause.name(), count)));
    /// Frames of slots that were sent again
    relay_resent_frames: Counter = relay.mix.resent_frames;
    /// Links that are up
    relay_links: Gauge = relay.links.len() as u64;
    /// The last ping over a link, there and back; no value before the first
    relay_round_trip_seconds[node]: Gauge
        => by_link(relay, rows, |link| link.round_trip.map(|time| time.as_secs_f64()));
    /// The last ping around the team whose first node this is; no value before the first
    relay_loop_seconds: Gauge => rows.known(relay.looped.map(|time| time.as_secs_f64()));
    /// Frames that are owed
    relay_owed_copies[node]: Gauge => by_link(relay, rows, |link| Some(link.owed as u64));
    /// Bytes of frames that are owed
    relay_owed_bytes[node]: Gauge => by_link(relay, rows, |link| Some(link.owed_bytes));
    /// Bytes on their way into HTTP/2
    relay_in_flight_bytes[node]: Gauge => by_link(relay, rows, |link| Some(link.in_flight));
    /// Links that came up
    relay_links_up: Counter = relay.transport.links;
    /// Connections that ended or did not come about
    relay_links_closed[cause]: Counter
        => rows.each(relay.transport.closed.iter().map(|(cause, count)| (*cause, *count)));
    /// Bytes of frames
    relay_bytes[direction]: Counter
        => rows.each([("up", relay.transport.bytes_up), ("down", relay.transport.bytes_down)]);
    /// Frames
    relay_frames[direction]: Counter
        => rows.each([("up", relay.transport.frames_up), ("down", relay.transport.frames_down)]);
    /// Frames that were a call of their own
    relay_unary_calls: Counter = relay.transport.posts;
    /// Frames lost with their links
    relay_lost_copies: Counter = relay.transport.lost_copies;
    /// Events that were not read in time
    relay_events_lost: Counter = relay.transport.events_lost;
    /// Nanoseconds of processors for the work on numbers
    relay_work_cpu_ns: Counter = relay.transport.cpu.as_nanos() as u64;
    /// Rounds that take payloads
    relay_rounds_open: Gauge => rows.known(relay.gateway.as_ref().map(|gateway| gateway.open as u64));
    /// Payloads that wait for their batch
    relay_payloads_gathered: Gauge => rows.known(relay.gateway.as_ref().map(|gateway| gateway.gathered as u64));
    /// Batches on their way
    relay_batches_mixing: Gauge => rows.known(relay.gateway.as_ref().map(|gateway| gateway.mixing as u64));
    /// Requests that wait for the end of a round
    relay_waiters: Gauge => rows.known(relay.gateway.as_ref().map(|gateway| gateway.waiters as u64));
    /// Payloads that were taken
    relay_payloads_taken: Counter => rows.known(relay.gateway.as_ref().map(|gateway| gateway.payloads));
    /// Batches that were handed to the team
    relay_batches: Counter => rows.known(relay.gateway.as_ref().map(|gateway| gateway.batches));
    /// Void slots that filled batches up
    relay_slots_filled: Counter => rows.known(relay.gateway.as_ref().map(|gateway| gateway.filled));
    /// Calls with payloads that were refused
    relay_submissions_refused: Counter => rows.known(relay.gateway.as_ref().map(|gateway| gateway.refused));
    /// From a full batch to what came out, of the last rounds
    relay_batch_latency_seconds[quantile]: Gauge => quantiles(relay, rows, |times| times.batch);
    /// From a payload's entry to its exit, mean of a round, of the last rounds
    relay_slot_latency_seconds[quantile]: Gauge => quantiles(relay, rows, |times| times.slot_mean);
}

/// Adds the value of each link that has one.
fn by_link<V: Into<Number>>(relay: &Status, rows: &mut Rows, value: fn(&LinkStatus) -> Option<V>) {
    for link in &relay.links {
        if let Some(value) = value(link) {
            rows.add([&link.node.to_string()], value);
        }
    }
}

/// Adds the median, the 95th percentile and the maximum over the last rounds, if there are any.
fn quantiles(relay: &Status, rows: &mut Rows, value: fn(&RoundTimes) -> Duration) {
    let rounds = relay.gateway.iter().flat_map(|gateway| &gateway.times);
    let mut all: Vec<f64> = rounds.map(|times| value(times).as_secs_f64()).collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else { return };
    for (name, share) in [("0.5", 0.5), ("0.95", 0.95), ("1", 1.0)] {
        rows.add([name], all[(last as f64 * share).round() as usize]);
    }
}
