//! Random blocks of columns, and what they promise.

use crate::section::Columns;
use samara_document::Inputs;
use samara_gossipsub::config::Parameters;
use samara_gossipsub::partial::GROUP_TTL_HEARTBEATS;
use samara_pubsub::parameters::{FLOODSUB, PLUMTREE};
use samara_scenario::{FaultKind, TransportKind};

use super::course::ColumnsMeasured;
use super::measure::Delivery;
use samara_lab::network::{self, harmed, is_momentary};
use samara_lab::torture::{Broken, Draw, FAULTS, ROUNDING, is_connected};
use samara_pubsub::promises::{
    gossipsub, is_replaced, offences, sending, survives_changed_meshes, survives_cuts, transport,
    turns_nobody_away,
};

pub(super) fn draw(draw: &mut Draw) -> bool {
    let least_bps = draw.network(3..=14);
    draw.topology();
    transport(draw);
    let mut with_cells = false;
    let kind = draw.number(0..=7);
    match kind {
        0 => {
            draw.set("protocol.kind", FLOODSUB);
            sending(draw);
        }
        1 => {
            draw.set("protocol.kind", PLUMTREE);
            sending(draw);
        }
        _ => {
            gossipsub(draw);
            draw.maybe(0.2, "network.validation_time", &["1 ms", "20 ms"]);
            draw.maybe(0.2, "columns.publisher_subscribes_all", &[false]);
            // A block of cells has at least 320 kB.
            with_cells = kind > 5 && least_bps > 30e6;
        }
    }
    if with_cells {
        cells(draw);
    } else if kind > 1 && draw.chance(0.3) {
        pieces(draw, least_bps);
    } else {
        let count = draw.number(2..=16);
        let custody = draw.number(1..=count);
        draw.set("columns.count", count);
        draw.set("columns.custody", custody);
        // All copies of a block fit onto a link in a few seconds.
        let most = (least_bps / 8.0 * 2.0 / f64::from(draw.nodes()) / 2.0).min(64e3);
        let blob = draw.factor(256.0, most.max(512.0)).round();
        draw.set("columns.blobs", 1);
        draw.set("columns.blob_size", format!("{blob} B"));
    }
    draw.maybe(0.3, "columns.custody_pattern", &["strided"]);
    draw.maybe(0.3, "columns.batch", &[false]);
    let slots = draw.number(1..=2);
    draw.set("columns.slots", slots);
    draw.set("columns.slot_interval", "3 s");
    draw.set("columns.warm_up", "4 s");
    draw.set("columns.deadline", "25 s");
    let breaks = draw.chance(0.4);
    if breaks {
        draw.breaks((0.5, 5.0), 2_000.0);
        if draw.chance(0.7) {
            if draw.chance(0.3) {
                draw.unstable_links((0.2, 8.0));
            }
            return true;
        }
    }
    let most = draw.nodes() / 3;
    let of_cells = ["claim", "invent"];
    let kinds = if with_cells { [&FAULTS[..], &of_cells].concat() } else { FAULTS.to_vec() };
    draw.faults(&kinds, (0.0, 8.0), most);
    true
}

/// Draws a payload in pieces, with or without a code.
fn pieces(draw: &mut Draw, least_bps: f64) {
    let count = draw.number(1..=24);
    draw.set("columns.count", count);
    let most = (least_bps / 8.0 * 2.0 / f64::from(draw.nodes()) / f64::from(count)).min(32e3);
    let size = draw.factor(64.0, most.max(128.0)).round();
    draw.set("columns.pieces.size", format!("{size} B"));
    if draw.chance(0.5) {
        let parity = draw.number(1..=count);
        draw.set("columns.pieces.parity", parity);
    }
    draw.maybe(0.3, "columns.pieces.topics", &["each"]);
    for fault in ["withholding", "silent", "spoofing"] {
        draw.maybe(0.2, &format!("columns.pieces.{fault}"), &["20 %"]);
    }
    if draw.chance(0.2) {
        let omitted = draw.number(0..=count - 1);
        draw.set("columns.pieces.omitted", omitted);
    }
}

/// Draws blocks whose cells spread one by one: the format of Ethereum fixes their size.
fn cells(draw: &mut Draw) {
    let blobs = draw.number(1..=3);
    draw.set("columns.blobs", blobs);
    draw.set("columns.blob_size", "128 KiB");
    draw.set("columns.count", 128);
    let custody = draw.number(1..=16);
    draw.set("columns.custody", custody);
    draw.set("protocol.version", "1.3");
    draw.maybe(0.5, "protocol.parts.asking", &["everyone"]);
    for (key, choices) in [
        ("hits", ["0 %", "50 %", "100 %"]),
        ("private", ["0 %", "50 %", "100 %"]),
        ("upgraded", ["20 %", "70 %", "100 %"]),
        ("push", ["none", "private", "all"]),
    ] {
        draw.maybe(1.0, &format!("columns.cells.{key}"), &choices);
    }
    draw.maybe(0.3, "columns.cells.deployed", &["40 %", "100 %"]);
}

/// The segments whose well nodes, with the publisher, are connected and turn nobody away: nodes forward
/// only what they keep.
fn connected(measured: &ColumnsMeasured, harmed: &[bool]) -> Vec<bool> {
    let scenario = &measured.point.scenario;
    let workload: &Columns = scenario.part();
    let Ok((graph, custody)) = network::graph(scenario, &Inputs::default(), measured.point.seed) else {
        return vec![false; workload.segments() as usize];
    };
    let is_in = |segment: u32| {
        let outside = custody.iter().zip(0..).map(|(kept, node): (&Vec<u32>, u32)| {
            harmed[node as usize] || node != workload.publisher && !kept.contains(&segment)
        });
        let outside: Vec<bool> = outside.collect();
        // Cells travel by requests.
        let has_ways = workload.cells.is_some() || turns_nobody_away(scenario, &graph, &outside);
        has_ways && is_connected(&graph, &outside)
    };
    // Nobody has what the publisher does not send.
    (0..workload.segments()).map(|segment| segment < workload.sent() && is_in(segment)).collect()
}

pub(super) fn broken(measured: &ColumnsMeasured) -> Vec<Broken> {
    let (scenario, collector) = (&measured.point.scenario, &measured.collector);
    let workload: &Columns = scenario.part();
    let seed = measured.point.seed;
    let mut harmed = harmed(scenario, seed);
    // Behind nodes that answer no request, others may miss pieces, and nodes that request none miss
    // some themselves.
    let faulty = workload.faulty(scenario.network.nodes, seed);
    let faulty = [faulty.withholding, faulty.silent, faulty.spoofing].concat();
    faulty.iter().for_each(|host| harmed[*host as usize] = true);
    let [kept, misbehaviours] = measured.offences;
    // Faulty nodes do not send the pieces that they announce.
    let misbehaviours = if faulty.is_empty() { misbehaviours } else { 0 };
    let mut broken: Vec<Broken> = offences([kept, misbehaviours], scenario).collect();
    let first = collector.copies.iter().filter(|row| row.first && !is_harmed(&harmed, row.host));
    let mut seen: Vec<(u32, u32)> = first.map(|row| (row.host, row.segment)).collect();
    let copies = seen.len();
    seen.sort_unstable();
    seen.dedup();
    broken.extend(Broken::unless(
        seen.len() == copies,
        "a node without a fault delivers each column once",
        || format!("{} further deliveries", copies - seen.len()),
    ));
    // Hostile nodes that make up content can be faster than the content that they imitate.
    let is_forged = scenario.faults.iter().any(|fault| fault.kind.forges());
    let below = if is_forged { None } else { below_the_bound(measured) };
    broken.extend(Broken::unless(below.is_none(), "no node is complete before its bound", || {
        let (place, time, bound) = below.unwrap_or_default();
        format!("node {place} after {time} ms, bound {bound} ms")
    }));
    let ends = |kind: &FaultKind| {
        use FaultKind::{Claim, Crash, Invent, Slow, Vanish};
        matches!(kind, Crash {} | Vanish {} | Slow { .. } | Claim { .. } | Invent { .. })
    };
    let is_coded = workload.pieces.is_some();
    let promises = scenario.faults.iter().all(|fault| ends(&fault.kind) || is_momentary(fault, scenario))
        && !matches!(scenario.transport.kind, TransportKind::Datagram { .. })
        && collector.queue_drops == 0
        && survives_cuts(scenario)
        && (workload.cells.is_some() || survives_changed_meshes(scenario));
    if promises {
        let connected = connected(measured, &harmed);
        let lacking = |block: &[Delivery]| {
            let arrived = block.iter().filter(|delivery| delivery.delivered()).count();
            // With a code, a node needs any of its pieces.
            let is_done = is_coded && arrived >= collector.needed_of(block.len());
            let lacks = |of: &&Delivery| !is_done && !of.delivered() && connected[of.segment as usize];
            block.iter().filter(lacks).count()
        };
        let (late, is_replaced) = (late_slots(measured), is_replaced(scenario));
        let counts = |block: &&[Delivery]| {
            let slot = block[0].slot;
            let is_late = late.contains(&slot) || is_replaced(measured.published[slot as usize]);
            !is_late && !is_harmed(&harmed, block[0].host)
        };
        let missing: usize = collector.blocks().filter(counts).map(lacking).sum();
        broken.extend(Broken::unless(
            missing == 0,
            "a column reaches all nodes without a fault that keep it",
            || format!("{missing} deliveries are missing"),
        ));
    }
    broken
}

/// Returns the slots in which cells need half of the time for which nodes remember a block, or more:
/// on links that lose much, some may then come after that time.
fn late_slots(measured: &ColumnsMeasured) -> Vec<u32> {
    let scenario = &measured.point.scenario;
    let (Some(parameters), Some(_)) = (scenario.find::<Parameters>(), &scenario.part::<Columns>().cells)
    else {
        return Vec::new();
    };
    let remembered = parameters.config.heartbeat_interval.as_nanos() as u64 * GROUP_TTL_HEARTBEATS;
    let is_late = |delivery: &Delivery| {
        let published = measured.published[delivery.slot as usize];
        delivery.delivered() && 2 * delivery.at.saturating_sub(published) > remembered
    };
    let late = measured.collector.blocks().filter(|block| block.iter().any(is_late));
    late.map(|block| block[0].slot).collect()
}

/// Returns the place, the time and the bound in milliseconds of a node that is complete too early.
fn below_the_bound(measured: &ColumnsMeasured) -> Option<(usize, f64, f64)> {
    let bounds: Vec<f64> = measured.curve.points().map(|(ms, _)| ms).collect();
    (0..).zip(&measured.published).find_map(|(slot, published)| {
        let times = measured.collector.custody_ms(slot, *published);
        let mut times: Vec<f64> = times.into_iter().filter_map(|(_, time)| time).collect();
        times.sort_unstable_by(f64::total_cmp);
        let places = times.into_iter().zip(&bounds).enumerate();
        // Each packet takes a whole number of nanoseconds, rounded down.
        let mut early = places.filter(|(_, (time, bound))| time * (1.0 + ROUNDING) + 1e-3 < **bound);
        early.next().map(|(place, (time, bound))| (place, time, *bound))
    })
}

fn is_harmed(harmed: &[bool], host: u32) -> bool {
    harmed.get(host as usize).copied().unwrap_or(false)
}
