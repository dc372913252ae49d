//! Random pools whose teams mix, and what they promise.

use crate::section::Mix;

use super::course::{FaultWindow, MixMeasured};
use super::metrics::{is_harmed, mix_metrics};
use samara_lab::network::least_timeout;
use samara_lab::torture::{Broken, Draw, FAULTS};

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
    // A round then waits as long as a link may need to return.
    if draw.chance(0.5) {
        draw.set("protocol.precomputation_timeout", "60 s");
        draw.set("protocol.realtime_timeout", "60 s");
    }
    let breaks = draw.chance(0.5);
    if breaks {
        draw.breaks((0.0, 4.0), 6_000.0);
    }
    if !breaks || draw.chance(0.3) {
        let most = draw.nodes() - 1;
        draw.faults(&FAULTS, (0.0, 20.0), most);
    }
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
    // A partition that ends before nodes give each other up costs time and no round.
    let least = least_timeout(&measured.point.scenario).as_nanos() as u64;
    let pause = measured.config.reconnect.max.as_nanos() as u64;
    let ends_in_time = |window: &&FaultWindow| {
        window.is_partition && window.until.saturating_sub(pause + window.from) < least
    };
    let harm: Vec<FaultWindow> = measured.harm.iter().filter(|it| !ends_in_time(it)).copied().collect();
    let rounds = measured.collector.rounds.values();
    let unharmed = rounds.filter(|row| row.cause.is_some() && !is_harmed(row, &harm)).count() as u64;
    let promises = [
        (metrics.wrong, "payloads of a delivered round come out once and unchanged"),
        (metrics.disagreements, "nodes of a team deliver a round in the same order"),
        (metrics.contradictions, "a node delivers a round once, or reports its failure"),
        (unharmed, "no round fails whose nodes have no fault"),
        (if has_team { metrics.unresolved } else { 0 }, "each round ends, and the scheduler says how"),
    ];
    let broken = promises.into_iter();
    broken.filter_map(|(count, promise)| Broken::unless(count == 0, promise, || count.to_string())).collect()
}
