//! Random streams of messages, and what they promise.

use std::time::Duration;

use samara_gossipsub::config::Parameters;
use samara_scenario::Queue;
use samara_scenario::topology::Graph;
use samara_spec::messages::{FLOODSUB, PLUMTREE, RANDOMSUB};
use samara_spec::{Fault, FaultKind, Scenario, TransportKind};

use super::run::MessagesMeasured;
use crate::network::{harmed, is_momentary};
use crate::torture::{Broken, Draw, FAULTS};

pub(crate) fn gossipsub(draw: &mut Draw) {
    draw.set("protocol.kind", "gossipsub");
    draw.maybe(0.7, "protocol.preset", &["spec", "ethereum", "go-libp2p-pubsub"]);
    draw.maybe(0.2, "protocol.version", &["1.1"]);
    draw.maybe(0.5, "protocol.heartbeat", &["300 ms", "700 ms", "1 s"]);
    draw.maybe(0.3, "protocol.heartbeat_order", &["random", "number"]);
    if draw.chance(0.3) {
        let degree = draw.number(3..=8);
        draw.set("protocol.degree", degree);
        let (low, score) = (draw.number(2..=degree - 1), draw.number(0..=degree));
        draw.set("protocol.degree_low", low);
        draw.set("protocol.degree_high", degree + low + 1);
        draw.set("protocol.degree_score", score);
        draw.set("protocol.degree_out", (low - 1).min((degree - 1) / 2));
    }
    for key in ["flood_publish", "idontwant", "idontwant_on_publish", "withdraw"] {
        draw.maybe(0.3, &format!("protocol.{key}"), &[true, false]);
    }
    draw.maybe(0.7, "protocol.gossip_to_turned_away", &[true]);
    draw.maybe(0.3, "protocol.answers", &["frame-per-message", "one-frame"]);
    if draw.chance(0.3) {
        spread(draw);
    }
    sending(draw);
}

/// Draws pushes to some mesh peers, announcements to others, and requests.
fn spread(draw: &mut Draw) {
    for key in ["push_copies", "announce_nearest"] {
        draw.maybe(0.5, &format!("protocol.spread.{key}"), &[1, 2, 4]);
    }
    let ask = draw.pick(&["one", "one", "all"]);
    draw.set("protocol.spread.ask", ask);
    for key in ["count_holders", "publish_to_all"] {
        draw.maybe(0.5, &format!("protocol.spread.{key}"), &[true, false]);
    }
    draw.maybe(0.5, "protocol.spread.announce_delay", &["0 ms", "10 ms"]);
    draw.maybe(0.3, "protocol.spread.pull.retry", &["20 ms", "500 ms"]);
    draw.maybe(0.3, "protocol.spread.pull.offers", &[0, 1, 3]);
    draw.maybe(0.3, "protocol.spread.pull.park_for", &["0 ms", "2 s"]);
}

pub(crate) fn sending(draw: &mut Draw) {
    if !draw.has("protocol.dispatch") {
        draw.maybe(0.5, "protocol.dispatch", &["node", "per-link"]);
    }
    for key in ["protocol.schedule_publish", "protocol.schedule_forward"] {
        if draw.chance(0.4) {
            let kind = draw.pick(&["sequential", "interleaved", "feedback"]);
            draw.set(&format!("{key}.kind"), kind);
        }
    }
}

/// Draws a transport of frames over links. The ideal one does not retransmit.
pub(crate) fn transport(draw: &mut Draw) {
    let kind = draw.pick(&["tcp", "tcp", "quic", "quic", "ideal", "datagram"]);
    draw.set("transport.kind", if kind == "ideal" && draw.has("network.loss") { "tcp" } else { kind });
    if kind == "quic" {
        draw.maybe(0.3, "transport.stack", &["quic-go"]);
    }
}

pub(super) fn draw(draw: &mut Draw) -> bool {
    let least_bps = draw.network(3..=16);
    draw.topology();
    transport(draw);
    match draw.number(0..=5) {
        0 => {
            draw.set("protocol.kind", FLOODSUB);
            draw.maybe(0.3, "protocol.withdraw", &[true, false]);
            sending(draw);
        }
        1 => {
            draw.set("protocol.kind", PLUMTREE);
            draw.maybe(0.3, "protocol.optimization_threshold", &[0, 3, 7]);
            sending(draw);
        }
        2 => draw.set("protocol.kind", RANDOMSUB),
        _ => {
            gossipsub(draw);
            draw.maybe(0.2, "network.validation_time", &["1 ms", "20 ms"]);
        }
    }
    let (rate, nodes) = (draw.factor(1.0, 10.0), f64::from(draw.nodes()));
    // A node that floods has room on its link.
    let most = (0.2 * least_bps / 8.0 / rate / nodes).min(8_000.0);
    let size = draw.factor(16.0, most.max(32.0)).round();
    draw.set("messages.rate", (rate * 100.0).round() / 100.0);
    draw.set("messages.size", format!("{size} B"));
    draw.set("messages.warm_up", "4 s");
    let duration = draw.number(1_000..=4_000);
    draw.set("messages.duration", format!("{duration} ms"));
    draw.set("messages.cool_down", "20 s");
    draw.maybe(0.3, "messages.arrivals", &["poisson"]);
    draw.maybe(0.3, "messages.signed", &[false]);
    let breaks = draw.chance(0.4);
    if breaks {
        draw.breaks((0.5, 4.0 + f64::from(duration) / 2e3), 2_000.0);
    }
    if !breaks || draw.chance(0.3) {
        let most = draw.nodes() / 3;
        draw.faults(&FAULTS, (0.0, 4.0 + f64::from(duration) / 1e3), most);
    }
    if breaks && draw.chance(0.35) {
        draw.unstable_links((0.2, 4.0 + f64::from(duration) / 1e3));
    }
    true
}

/// Returns true if the nodes without a fault are connected among themselves.
pub(crate) fn is_connected(graph: &Graph, harmed: &[bool]) -> bool {
    let neighbours = graph.neighbours();
    let Some(first) = harmed.iter().position(|harmed| !harmed) else { return true };
    let mut reached = vec![false; harmed.len()];
    let mut stack = vec![first];
    while let Some(node) = stack.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            let peers = neighbours[node].iter().map(|peer| *peer as usize);
            stack.extend(peers.filter(|peer| !harmed[*peer] && !reached[*peer]));
        }
    }
    reached.iter().zip(harmed).all(|(reached, harmed)| *reached || *harmed)
}

/// Returns true if changes of meshes lose no message.
///
/// A node that loses a mesh peer grafts another one at its next heartbeat. The specification's
/// gossip leaves that peer out from then on, although it has not received the latest messages.
pub(crate) fn survives_changed_meshes(scenario: &Scenario) -> bool {
    let changes = |fault: &Fault| matches!(fault.kind, FaultKind::Crash | FaultKind::Vanish);
    let gossipsub = scenario.find::<Parameters>();
    !scenario.faults.iter().any(changes)
        || gossipsub.is_none_or(|parameters| parameters.build(None).gossip_to_turned_away)
}

/// Returns true if nodes still have what they announced when the request for it comes, although links
/// are cut for a moment.
///
/// Nodes keep a message for some heartbeats. Transports double the time between their attempts: what a
/// cut delays arrives at most as long after the cut as it lasted.
fn answers_after_cuts(scenario: &Scenario) -> bool {
    let cuts = scenario.faults.iter().filter(|fault| fault.kind == FaultKind::Cut);
    let lengths = cuts.filter_map(|fault| Some(fault.until?.nanos().saturating_sub(fault.at.nanos())));
    // One may begin before the attempt after another.
    let cut = Duration::from_nanos(lengths.sum());
    let Some(parameters) = scenario.find::<Parameters>().filter(|_| !cut.is_zero()) else { return true };
    let config = parameters.build(None);
    let kept = config.heartbeat_interval * (config.history_length as u32 - 1);
    2 * cut + trip(scenario) * 4 + Duration::from_secs(1) < kept
}

/// Returns true if no GRAFT can cross the PRUNE of a peer that it made too many: that counts as
/// misbehaviour, as in go-libp2p-pubsub. A peer that adds to its mesh learns within two trips whether it
/// was added, and removes peers at its heartbeat.
fn grafts_between_heartbeats(scenario: &Scenario) -> bool {
    let heartbeat = |parameters: &Parameters| parameters.build(None).heartbeat_interval;
    scenario.find::<Parameters>().is_none_or(|parameters| heartbeat(parameters) > 2 * trip(scenario))
}

/// Returns true if cuts for a moment lose no message: those that nodes get on request only are still
/// there.
pub(crate) fn survives_cuts(scenario: &Scenario) -> bool {
    let parameters = scenario.find::<Parameters>();
    parameters.is_none_or(|parameters| parameters.build(None).spread.is_none())
        || answers_after_cuts(scenario)
}

/// Returns the time of the longest way from one node to another.
fn trip(scenario: &Scenario) -> Duration {
    let network = &scenario.network;
    let latency = match &network.regions {
        Some(regions) => {
            regions.latency.iter().flatten().map(|span| span.duration()).max().unwrap_or_default()
        }
        None => network.latency.duration(),
    };
    latency + network.jitter.duration()
}

/// Time in which a message is under way at most, in nanoseconds: links that are replaced meanwhile
/// lose it.
const UNDER_WAY_NANOS: u64 = 10_000_000_000;

/// Returns, for the time of a publication, whether a connection was replaced while the message was
/// under way, or so shortly before that nodes did not have two heartbeats to form their meshes over
/// the new one.
pub(crate) fn is_replaced(scenario: &Scenario) -> impl Fn(u64) -> bool {
    let heartbeat = scenario
        .find::<Parameters>()
        .map_or(Duration::ZERO, |parameters| parameters.build(None).heartbeat_interval);
    let network = &scenario.network;
    // A handshake of four round trips, the topics, and GRAFTs.
    let mut settled = 2 * heartbeat + 12 * trip(scenario) + Duration::from_secs(1);
    let is_lossless = network.loss.fraction() == 0.0
        && network.downlink_queue == Queue::default()
        && !network.uplink_queue.is_behind();
    if !is_lossless {
        // Handshakes are tried again after 1, 2 and 4 s.
        settled += Duration::from_secs(7);
    }
    let replaces = |fault: &&Fault| matches!(fault.kind, FaultKind::Reset | FaultKind::Reconnect);
    let times: Vec<u64> = scenario.faults.iter().filter(replaces).map(|fault| fault.at.nanos()).collect();
    move |published| {
        times.iter().any(|at| published < at + settled.as_nanos() as u64 && *at < published + UNDER_WAY_NANOS)
    }
}

/// Returns true if every node without a fault gets every message that another one publishes.
///
/// Nodes that only leave or vanish do not keep the others from it. Nobody promises it across a
/// partition, past hostile nodes, over links that lose frames, or with full queues; RandomSub sends
/// to random peers; GossipSub needs [gossip to peers that enter a mesh](survives_changed_meshes), and
/// a node that announces must [keep the message](survives_cuts) until the request comes.
fn promises_delivery(
    measured: &MessagesMeasured,
    scenario: &Scenario,
    graph: &Graph,
    harmed: &[bool],
) -> bool {
    let ends = |kind| matches!(kind, FaultKind::Crash | FaultKind::Vanish | FaultKind::Slow);
    scenario.faults.iter().all(|fault| ends(fault.kind) || is_momentary(fault, scenario))
        && scenario.transport.kind != TransportKind::Datagram
        && scenario.selected.protocol() != RANDOMSUB
        && measured.collector.lost.is_empty()
        && survives_changed_meshes(scenario)
        && survives_cuts(scenario)
        && is_connected(graph, harmed)
}

/// Checks the sums over all nodes of copies that stayed owed to peers that do not want them, and of
/// misbehaviours of peers, which lower their scores.
pub(crate) fn offences([kept, misbehaviours]: [u64; 2], scenario: &Scenario) -> impl Iterator<Item = Broken> {
    let kept = Broken::unless(kept == 0, "a node withdraws the copies that a peer does not want", || {
        format!("{kept} copies stayed")
    });
    let all_are_well = scenario.faults.iter().all(|fault| is_momentary(fault, scenario));
    // A request or an answer that a datagram loses is a broken promise to its peer.
    let all_are_well = all_are_well
        && answers_after_cuts(scenario)
        && grafts_between_heartbeats(scenario)
        && scenario.transport.kind != TransportKind::Datagram;
    let blamed = Broken::unless(
        misbehaviours == 0 || !all_are_well,
        "no peer without a fault loses score by misbehaviour",
        || format!("{misbehaviours} misbehaviours"),
    );
    kept.into_iter().chain(blamed)
}

pub(super) fn broken(measured: &MessagesMeasured, graph: Option<&Graph>) -> Vec<Broken> {
    let scenario = &measured.point.scenario;
    let harmed = harmed(scenario, measured.point.seed);
    let well: Vec<usize> = (0..harmed.len()).filter(|node| !harmed[*node]).collect();
    let collector = &measured.collector;
    let repeated: u64 = well.iter().map(|node| collector.repeated[*node]).sum();
    let mut broken = Vec::new();
    // Nodes of an experiment do not check signatures: a changed message is another one.
    let is_forged = |fault: &Fault| fault.kind.forges();
    broken.extend(Broken::unless(
        repeated == 0 || scenario.faults.iter().any(is_forged),
        "a node without a fault delivers each message once, and only published ones",
        || format!("{repeated} further deliveries"),
    ));
    let kept = measured.counts.iter().map(|counts| counts.kept_unwanted).sum();
    let misbehaviours = measured.counts.iter().map(|counts| counts.misbehaviours).sum();
    broken.extend(offences([kept, misbehaviours], scenario));
    if graph.is_some_and(|graph| promises_delivery(measured, scenario, graph, &harmed)) {
        let is_replaced = is_replaced(scenario);
        let published = (0..)
            .zip(&collector.rows)
            .filter(|(_, row)| !harmed[row.publisher as usize] && !is_replaced(row.published));
        let missing: usize = published
            .map(|(message, _)| well.iter().filter(|node| !collector.has(message, **node as u32)).count())
            .sum();
        broken.extend(Broken::unless(
            missing == 0,
            "a message of a node without a fault reaches all such nodes",
            || format!("{missing} deliveries are missing"),
        ));
    }
    broken
}
