//! What a node of a pool that mixes, or its scheduler, counts.

use std::fmt::Error;
use std::time::Duration;

use samara_mix::{Cause, Metrics, NodeState, Phase, RoundState};
use samara_net::mix::{GatewayStatus, Status};

use super::Out;

pub(super) fn encode(status: &Status, out: &mut Out<'_>) -> Result<(), Error> {
    rounds(status, out)?;
    slots(&status.mix, out)?;
    links(status, out)?;
    transport(status, out)?;
    match &status.gateway {
        Some(gateway) => senders(gateway, out),
        None => Ok(()),
    }
}

fn rounds(status: &Status, out: &mut Out<'_>) -> Result<(), Error> {
    let mix = &status.mix;
    let mut names: Vec<&str> = NodeState::ALL.iter().map(|state| state.name()).collect();
    names.extend(RoundState::ALL.iter().map(|state| state.name()));
    names.sort_unstable();
    names.dedup();
    let states = names.iter().map(|name| ([("state", *name)], *status.rounds.get(name).unwrap_or(&0) as f64));
    out.gauges("mix_rounds", "Rounds that are not over, by state", states)?;
    out.counter("mix_rounds_begun", "Rounds that this one took part in, or made", mix.rounds)?;
    out.counter("mix_rounds_completed", "Rounds whose payloads came out", mix.completed)?;
    let failed = Cause::ALL.iter().map(|cause| ([("cause", cause.name())], mix.failed(*cause)));
    out.counters("mix_rounds_failed", "Rounds that failed", failed)?;
    out.counter("mix_teams_drawn", "Teams that were drawn", mix.draws)?;
    out.gauge("mix_held_bytes", "Bytes of slots that are held for rounds", status.held_bytes as f64)?;
    out.gauge("mix_jobs", "Jobs that threads have", status.jobs_out as f64)
}

fn slots(mix: &Metrics, out: &mut Out<'_>) -> Result<(), Error> {
    let worked = Phase::ALL.iter().map(|phase| ([("phase", phase.name())], mix.slots(*phase)));
    out.counters("mix_slots", "Slots that were worked on", worked)?;
    out.counter("mix_payloads_delivered", "Slots that came out", mix.delivered)?;
    let voided = mix.voided;
    let voided = [
        ("unknown_sender", voided.unknown_sender),
        ("wrong_code", voided.wrong_code),
        ("bad_element", voided.bad_element),
        ("repeated", voided.repeated),
    ];
    let voided = voided.map(|(cause, count)| ([("cause", cause)], count));
    out.counters("mix_slots_voided", "Slots that this node voided", voided)?;
    let empty = [("void", mix.delivered_void), ("unreadable", mix.delivered_unreadable)];
    let empty = empty.map(|(kind, count)| ([("kind", kind)], count));
    out.counters("mix_slots_empty", "Slots that came out and hold nothing", empty)?;
    let ignored = mix.ignored_by_cause().map(|(cause, count)| ([("cause", cause.name())], count));
    out.counters("mix_ignored", "What came and had no effect", ignored)?;
    out.counter("mix_resent_frames", "Frames of slots that were sent again", mix.resent_frames)
}

fn links(status: &Status, out: &mut Out<'_>) -> Result<(), Error> {
    let names: Vec<String> = status.links.iter().map(|link| link.node.to_string()).collect();
    let links = || status.links.iter().zip(&names);
    out.gauge("mix_links", "Links that are up", status.links.len() as f64)?;
    // No value as long as there is none.
    let round_trips = links().filter_map(|(link, name)| {
        link.round_trip.map(|time| ([("node", name.as_str())], time.as_secs_f64()))
    });
    out.gauges("mix_round_trip_seconds", "The last ping over a link, there and back", round_trips)?;
    if let Some(looped) = status.looped {
        let help = "The last ping around the team whose first node this is";
        out.gauge("mix_loop_seconds", help, looped.as_secs_f64())?;
    }
    let owed = links().map(|(link, name)| ([("node", name.as_str())], link.owed as f64));
    out.gauges("mix_owed_copies", "Frames that are owed", owed)?;
    let owed = links().map(|(link, name)| ([("node", name.as_str())], link.owed_bytes as f64));
    out.gauges("mix_owed_bytes", "Their bytes", owed)?;
    let in_flight = links().map(|(link, name)| ([("node", name.as_str())], link.in_flight as f64));
    out.gauges("mix_in_flight_bytes", "Bytes on their way into HTTP/2", in_flight)
}

fn transport(status: &Status, out: &mut Out<'_>) -> Result<(), Error> {
    let transport = &status.transport;
    out.counter("mix_links_up", "Links that came up", transport.links)?;
    let closed = transport.closed.iter().map(|(cause, count)| ([("cause", *cause)], *count));
    out.counters("mix_links_closed", "Connections that ended or did not come about", closed)?;
    let bytes = [("up", transport.bytes_up), ("down", transport.bytes_down)];
    let bytes = bytes.map(|(way, bytes)| ([("direction", way)], bytes));
    out.counters("mix_bytes", "Bytes of frames", bytes)?;
    let frames = [("up", transport.frames_up), ("down", transport.frames_down)];
    let frames = frames.map(|(way, frames)| ([("direction", way)], frames));
    out.counters("mix_frames", "Frames", frames)?;
    out.counter("mix_unary_calls", "Frames that were a call of their own", transport.posts)?;
    out.counter("mix_lost_copies", "Frames lost with their links", transport.lost_copies)?;
    out.counter("mix_events_lost", "Events that were not read in time", transport.events_lost)?;
    let cpu = transport.cpu.as_nanos() as u64;
    out.counter("mix_work_cpu_ns", "Nanoseconds of processors for the work on numbers", cpu)
}

fn senders(gateway: &GatewayStatus, out: &mut Out<'_>) -> Result<(), Error> {
    out.gauge("mix_rounds_open", "Rounds that take payloads", gateway.open as f64)?;
    out.gauge("mix_payloads_gathered", "Payloads that wait for their batch", gateway.gathered as f64)?;
    out.gauge("mix_batches_mixing", "Batches on their way", gateway.mixing as f64)?;
    out.gauge("mix_waiters", "Requests that wait for the end of a round", gateway.waiters as f64)?;
    out.counter("mix_payloads_taken", "Payloads that were taken", gateway.payloads)?;
    out.counter("mix_batches", "Batches that were handed to the team", gateway.batches)?;
    out.counter("mix_slots_filled", "Void slots that filled batches up", gateway.filled)?;
    out.counter("mix_submissions_refused", "Calls with payloads that were refused", gateway.refused)?;
    let times = |value: fn(&samara_net::mix::RoundTimes) -> Duration| {
        let mut all: Vec<f64> = gateway.times.iter().map(|times| value(times).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let of_rounds = [
        ("mix_batch_latency_seconds", "From a full batch to what came out", times(|times| times.batch)),
        (
            "mix_slot_latency_seconds",
            "From a payload's entry to its exit, mean of a round",
            times(|times| times.slot_mean),
        ),
    ];
    for (name, help, all) in of_rounds {
        // The last rounds; no value as long as there is none.
        let Some(last) = all.len().checked_sub(1) else { continue };
        let at = |share: f64| all[(last as f64 * share).round() as usize];
        let quantiles = [("0.5", at(0.5)), ("0.95", at(0.95)), ("1", at(1.0))];
        out.gauges(name, help, quantiles.map(|(quantile, value)| ([("quantile", quantile)], value)))?;
    }
    Ok(())
}
