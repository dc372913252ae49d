//! Random pools whose teams mix, and what they promise.

use samara_spec::mix::Mix;

use super::metrics::mix_metrics;
use super::run::MixMeasured;
use crate::torture::{Broken, Draw, FAULTS};

pub(super) fn draw(draw: &mut Draw) -> bool {
    draw.network(3..=7);
    draw.set("transport.kind", "grpc");
    draw.set("protocol.kind", "cmix");
    draw.maybe(0.5, "protocol.call", &["streamed", "unary"]);
    let realtime = draw.number(1..=6);
    draw.set("protocol.realtime_max", realtime);
    let precomputing = draw.number(1..=3);
    draw.set("protocol.precomputing_max", precomputing);
    draw.set("protocol.rounds_max", realtime + precomputing + 2);
    draw.maybe(0.3, "protocol.rounds_per_draw", &[1, 2, 5]);
    draw.maybe(0.3, "protocol.reconnect_limit", &["16 s", "20 s"]);
    draw.maybe(0.3, "protocol.shape", &["direct", "ring", "binary-tree", "double-tree"]);
    let team = draw.number(2..=draw.nodes());
    draw.set("mix.team", team);
    let teams = draw.number(1..=2);
    draw.set("mix.teams", teams);
    let batch = draw.number(1..=12);
    draw.set("mix.batch", batch);
    let rounds = draw.number(2..=10);
    draw.set("mix.rounds", rounds);
    if draw.chance(0.6) {
        draw.set("mix.stock", 0);
    }
    let most = draw.nodes() - 1;
    draw.faults(&FAULTS, (0.0, 20.0), most);
    true
}

pub(super) fn broken(measured: &MixMeasured) -> Vec<Broken> {
    let metrics = mix_metrics(measured);
    // A hostile node can change payloads, which no node notices (docs/protocols/mix.md).
    let is_hostile = measured.point.scenario.faults.iter().any(|fault| fault.kind.is_hostile());
    if is_hostile {
        return Vec::new();
    }
    let mix: &Mix = measured.point.scenario.part();
    let lost = measured.point.scenario.faults.iter().filter(|fault| fault.until.is_none());
    let lost: usize = lost.filter_map(|fault| fault.nodes.as_ref()).map(Vec::len).sum();
    // Without enough nodes for a team, the rest of the rounds cannot start.
    let has_team = lost + mix.team as usize <= measured.point.scenario.network.nodes as usize;
    let promises = [
        (metrics.wrong, "payloads of a delivered round come out once and unchanged"),
        (metrics.disagreements, "nodes of a team deliver a round in the same order"),
        (metrics.contradictions, "a node delivers a round once, or reports its failure"),
        (metrics.failed_unharmed, "no round fails whose nodes have no fault"),
        (if has_team { metrics.unresolved } else { 0 }, "each round ends, and the scheduler says how"),
    ];
    let broken = promises.into_iter();
    broken.filter_map(|(count, promise)| Broken::unless(count == 0, promise, || count.to_string())).collect()
}
