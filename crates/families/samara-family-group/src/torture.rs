//! Random groups, and what they promise.

use crate::application::Counts;
use crate::section::Group;
use samara_ring::Parameters;
use samara_scenario::FaultKind;

use super::course::GroupMeasured;
use super::metrics::{GroupMetrics, group_metrics};
use samara_lab::network;
use samara_lab::torture::{Broken, Draw};

const FAULTS: [&str; 9] =
    ["crash", "vanish", "leave", "partition", "slow", "withhold", "replay", "alter", "flood"];

pub(super) fn draw(draw: &mut Draw) -> bool {
    let least_bps = draw.network(2..=9);
    let kind = draw.pick(&["tcp", "tcp", "quic", "ideal"]);
    draw.set("transport.kind", if kind == "ideal" && draw.has("network.loss") { "tcp" } else { kind });
    draw.set("protocol.kind", "ring");
    if draw.chance(0.4) {
        draw.set("protocol.preset", "ring-total");
    } else {
        draw.maybe(0.4, "protocol.shape", &["ring", "direct", "binary-tree", "double-tree", "by-formula"]);
    }
    draw.maybe(0.3, "protocol.chunk", &["1 kB", "8 kB", "32 kB"]);
    draw.maybe(0.2, "protocol.batch", &["1 kB", "32 kB"]);
    draw.maybe(0.2, "protocol.hop_window", &["256 kB", "1 MB"]);
    draw.maybe(0.2, "protocol.ack_delay", &["1 ms", "50 ms"]);
    let senders = draw.number(1..=draw.nodes());
    draw.set("group.senders", senders);
    // A few seconds of a stream that the slowest link carries.
    let size = draw.factor(20.0, 64e3).round();
    let room = 2.0 * least_bps / 8.0 / size / f64::from(senders);
    let messages = draw.factor(1.0, room.clamp(2.0, 60.0)).round();
    draw.set("group.size", format!("{size} B"));
    draw.set("group.messages", messages as i64);
    if draw.chance(0.4) {
        let rate = draw.factor(1.0, 50.0).round();
        draw.set("group.rate", rate);
    }
    // A group needs time to form if packets are lost.
    draw.set("group.warm_up", "12 s");
    let breaks = draw.chance(0.4);
    if breaks {
        // The first suspicion comes after half a second of silence.
        draw.breaks((11.5, 15.0), 300.0);
    }
    if !breaks || draw.chance(0.3) {
        let most = (draw.nodes() - 1) / 2;
        draw.faults(&FAULTS, (10.0, 18.0), most);
    }
    true
}

pub(super) fn broken(measured: &GroupMeasured) -> Vec<Broken> {
    let scenario = &measured.point.scenario;
    let metrics = group_metrics(measured);
    // Members trust each other: a hostile one can break what the group promises.
    let is_hostile = scenario.faults.iter().any(|fault| fault.kind.is_hostile());
    if is_hostile || scenario.part::<Parameters>().preset.config().is_none() {
        return Vec::new();
    }
    // A wrongly suspected member leaves the view, and misses what the others broadcast meanwhile:
    // only what it delivers is promised.
    let is_calm = metrics.false_suspicions == 0;
    let steady = || scenario.faults.iter().all(|fault| matches!(fault.kind, FaultKind::Slow { .. }));
    let without = |counts: &Counts| counts.views.saturating_sub(counts.installs);
    let uninstalled: u64 = measured.counts.iter().map(without).sum();
    let broken = [
        (
            if steady() && is_calm { uninstalled } else { 0 },
            "the proposer of a view tells each member to install it",
        ),
        (metrics.duplicates, "a member delivers each message once"),
        (metrics.garbled, "members deliver what members broadcast"),
    ];
    let calm = [
        (metrics.lost, "members without a fault deliver all messages of each other and of those that leave"),
        (metrics.order_violations, "members deliver messages in order"),
        (metrics.disagreements, "members without a fault agree on the messages of failed members"),
    ];
    let all = broken.into_iter().chain(calm.into_iter().filter(|_| is_calm));
    all.filter_map(|(count, promise)| Broken::unless(count == 0, promise, || count.to_string()))
        // The bound is that of members that deliver everything.
        .chain(bound(measured, &metrics).filter(|_| is_calm))
        .collect()
}

/// The bound is one of throughput: a downlink receives the first packet of a stream while it arrives,
/// and a short stream can be faster by that. A member does not receive its own messages.
fn bound(measured: &GroupMeasured, metrics: &GroupMetrics) -> Option<Broken> {
    let scenario = &measured.point.scenario;
    let bytes = (metrics.messages * scenario.part::<Group>().size.bytes()) as f64;
    let own = if metrics.senders == metrics.members { 1.0 / metrics.senders as f64 } else { 0.0 };
    let (received, packet) = (bytes * (1.0 - own), f64::from(network::transport(scenario).mss));
    let most = if received > packet { received / (received - packet) } else { f64::INFINITY };
    Broken::unless(metrics.share_of_bound <= most, "no group is faster than its bound", || {
        format!("{} times the bound, at most {most}", metrics.share_of_bound)
    })
}
