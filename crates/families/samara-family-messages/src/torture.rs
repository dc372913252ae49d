//! Random streams of messages, and what they promise.

use samara_document::topology::Graph;
use samara_pubsub::parameters::{FLOODSUB, PLUMTREE, RANDOMSUB};
use samara_pubsub::promises::{
    gossipsub, is_replaced, offences, sending, survives_changed_meshes, survives_cuts, transport,
    turns_nobody_away,
};
use samara_scenario::{Fault, FaultKind, Scenario, TransportKind};

use super::course::MessagesMeasured;
use samara_lab::network::{harmed, is_momentary};
use samara_lab::torture::{Broken, Draw, FAULTS, is_connected};

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

/// Returns true if every node without a fault gets every message that another one publishes.
///
/// Nodes that only leave or vanish do not keep the others from it. Nobody promises it across a
/// partition, past hostile nodes, over links that lose frames, or with full queues; RandomSub sends
/// to random peers; GossipSub needs [gossip to peers that enter a mesh](survives_changed_meshes) and
/// [to those that leave it](turns_nobody_away), and
/// a node that announces must [keep the message](survives_cuts) until the request comes.
fn promises_delivery(
    measured: &MessagesMeasured,
    scenario: &Scenario,
    graph: &Graph,
    harmed: &[bool],
) -> bool {
    let ends = |kind: &FaultKind| {
        matches!(kind, FaultKind::Crash {} | FaultKind::Vanish {} | FaultKind::Slow { .. })
    };
    scenario.faults.iter().all(|fault| ends(&fault.kind) || is_momentary(fault, scenario))
        && !matches!(scenario.transport.kind, TransportKind::Datagram { .. })
        && scenario.selected.protocol() != RANDOMSUB
        && measured.collector.lost.is_empty()
        && survives_changed_meshes(scenario)
        && survives_cuts(scenario)
        && turns_nobody_away(scenario, graph, harmed)
        && is_connected(graph, harmed)
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
    let kept = measured.counts.iter().map(|counts| counts.kept_unwanted_copies).sum();
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
