//! Promises of publish-subscribe, and the draw of scenarios in which a search looks for broken
//! promises.

use std::time::Duration;

use samara_document::Queue;
use samara_document::topology::Graph;
use samara_gossipsub::Config;
use samara_gossipsub::config::Parameters;
use samara_lab::network::is_momentary;
use samara_lab::torture::{Broken, Draw};
use samara_scenario::{Fault, FaultKind, Scenario, TransportKind};

pub fn gossipsub(draw: &mut Draw) {
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
    draw.maybe(0.7, "protocol.gossip_to_pruned", &[true]);
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

pub fn sending(draw: &mut Draw) {
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
pub fn transport(draw: &mut Draw) {
    let kind = draw.pick(&["tcp", "tcp", "quic", "quic", "ideal", "datagram"]);
    draw.set("transport.kind", if kind == "ideal" && draw.has("network.loss") { "tcp" } else { kind });
    if kind == "quic" {
        draw.maybe(0.3, "transport.stack", &["quic-go"]);
    }
}

/// Returns true if changes of meshes lose no message.
///
/// A node that loses a mesh peer grafts another one at its next heartbeat. The specification's
/// gossip leaves that peer out from then on, although it has not received the latest messages.
pub fn survives_changed_meshes(scenario: &Scenario) -> bool {
    let changes = |fault: &Fault| matches!(fault.kind, FaultKind::Crash {} | FaultKind::Vanish {});
    let gossipsub = scenario.find::<Parameters>();
    !scenario.faults.iter().any(changes)
        || gossipsub.is_none_or(|parameters| parameters.config.gossip_to_pruned)
}

/// Returns true if no node turns a peer away that may have no other way: each has room in its mesh for
/// all its links to nodes that are not `outside`, or announces messages to peers that it pruned.
///
/// A node with more than D_high links prunes some of them, which can be the only ones of a peer. Until
/// that peer is in the mesh again, it depends on gossip to peers drawn at random.
pub fn turns_nobody_away(scenario: &Scenario, graph: &Graph, outside: &[bool]) -> bool {
    let parameters = scenario.find::<Parameters>();
    parameters.is_none_or(|parameters| keeps_all_links(&parameters.config, graph, outside))
}

fn keeps_all_links(config: &Config, graph: &Graph, outside: &[bool]) -> bool {
    let links = |peers: &Vec<u32>| peers.iter().filter(|peer| !outside[**peer as usize]).count();
    let inside = graph.neighbours().into_iter().zip(outside).filter(|(_, is_outside)| !**is_outside);
    config.gossip_to_pruned || inside.map(|(peers, _)| links(&peers)).all(|links| links <= config.mesh.d_high)
}

/// Returns true if nodes still have what they announced when the request for it comes, although links
/// are cut for a moment.
///
/// Nodes keep a message for some heartbeats. Transports double the time between their attempts: what a
/// cut delays arrives at most as long after the cut as it lasted.
fn answers_after_cuts(scenario: &Scenario) -> bool {
    let cuts = scenario.faults.iter().filter(|fault| matches!(fault.kind, FaultKind::Cut { .. }));
    let lengths = cuts.filter_map(|fault| Some(fault.until?.nanos().saturating_sub(fault.at.nanos())));
    // One may begin before the attempt after another.
    let cut = Duration::from_nanos(lengths.sum());
    let Some(parameters) = scenario.find::<Parameters>().filter(|_| !cut.is_zero()) else { return true };
    let config = &parameters.config;
    let kept = config.heartbeat_interval * (config.history_length as u32 - 1);
    2 * cut + trip(scenario) * 4 + Duration::from_secs(1) < kept
}

/// Returns true if no GRAFT can cross the PRUNE of a peer that it made too many: that counts as
/// misbehaviour, as in go-libp2p-pubsub. A peer that adds to its mesh learns within two trips whether it
/// was added, and removes peers at its heartbeat.
fn grafts_between_heartbeats(scenario: &Scenario) -> bool {
    let heartbeat = |parameters: &Parameters| parameters.config.heartbeat_interval;
    scenario.find::<Parameters>().is_none_or(|parameters| heartbeat(parameters) > 2 * trip(scenario))
}

/// Returns true if cuts for a moment lose no message: those that nodes get on request only are still
/// there.
pub fn survives_cuts(scenario: &Scenario) -> bool {
    let parameters = scenario.find::<Parameters>();
    parameters.is_none_or(|parameters| parameters.config.spread.is_none()) || answers_after_cuts(scenario)
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
pub fn is_replaced(scenario: &Scenario) -> impl Fn(u64) -> bool {
    let heartbeat = scenario
        .find::<Parameters>()
        .map_or(Duration::ZERO, |parameters| parameters.config.heartbeat_interval);
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
    let replaces =
        |fault: &&Fault| matches!(fault.kind, FaultKind::Reset { .. } | FaultKind::Reconnect { .. });
    let times: Vec<u64> = scenario.faults.iter().filter(replaces).map(|fault| fault.at.nanos()).collect();
    move |published| {
        times.iter().any(|at| published < at + settled.as_nanos() as u64 && *at < published + UNDER_WAY_NANOS)
    }
}

/// Checks the sums over all nodes of copies that stayed owed to peers that do not want them, and of
/// misbehaviours of peers, which lower their scores.
pub fn offences([kept, misbehaviours]: [u64; 2], scenario: &Scenario) -> impl Iterator<Item = Broken> {
    let kept = Broken::unless(kept == 0, "a node withdraws the copies that a peer does not want", || {
        format!("{kept} copies stayed")
    });
    let all_are_well = scenario.faults.iter().all(|fault| is_momentary(fault, scenario));
    // A request or an answer that a datagram loses is a broken promise to its peer.
    let all_are_well = all_are_well
        && answers_after_cuts(scenario)
        && grafts_between_heartbeats(scenario)
        && !matches!(scenario.transport.kind, TransportKind::Datagram { .. });
    let blamed = Broken::unless(
        misbehaviours == 0 || !all_are_well,
        "no peer without a fault loses score by misbehaviour",
        || format!("{misbehaviours} misbehaviours"),
    );
    kept.into_iter().chain(blamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_with_more_links_than_its_mesh_takes_turns_peers_away() {
        let star = Graph { nodes: 7, edges: (1..7).map(|leaf| (0, leaf)).collect() };
        let mut config = Config { gossip_to_pruned: false, ..Config::default() };
        config.mesh.d_high = 5;
        let mut outside = vec![false; 7];
        assert!(!keeps_all_links(&config, &star, &outside), "six links, of which five fit");
        outside[3] = true;
        assert!(keeps_all_links(&config, &star, &outside), "five links are left");
        config.gossip_to_pruned = true;
        assert!(keeps_all_links(&config, &star, &[false; 7]), "pruned peers get gossip");
    }
}
