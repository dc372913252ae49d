//! Random pools of transactions, and what they promise.

use samara_cat::config::{Parameters, Preset};
use samara_document::Inputs;
use samara_scenario::{FaultKind, Scenario};

use super::course::TransactionsMeasured;
use super::metrics::transaction_metrics;
use samara_lab::network::{self, harmed};
use samara_lab::torture::is_connected;
use samara_lab::torture::{Broken, Draw, FAULTS};

pub(super) fn draw(draw: &mut Draw) -> bool {
    let least_bps = draw.network(3..=12);
    draw.topology();
    draw.set("transport.kind", "tcp");
    // Of the presets, only `cat` promises anything.
    let preset = if draw.chance(0.6) {
        "cat"
    } else {
        draw.pick(&["cat-2023", "cat2-2023", "cat-merged", "flood-fifo", "seen-only"])
    };
    draw.set("protocol.preset", preset);
    let rate = draw.factor(1.0, 30.0).round();
    let most = (0.2 * least_bps / 8.0 / rate / f64::from(draw.nodes())).min(4_800.0);
    let size = draw.factor(120.0, most.max(240.0)).round();
    draw.set("pool.rate", rate);
    draw.set("pool.size", format!("{size} B"));
    draw.set("pool.warm_up", "3 s");
    let duration = draw.number(1_000..=5_000);
    draw.set("pool.duration", format!("{duration} ms"));
    draw.set("pool.cool_down", "20 s");
    draw.maybe(0.5, "pool.block_interval", &["2 s", "5 s", "60 s"]);
    draw.maybe(0.3, "pool.arrivals", &["poisson"]);
    draw.maybe(0.3, "pool.signed", &[false]);
    draw.maybe(0.2, "pool.invalid", &["10 %"]);
    draw.maybe(0.2, "network.validation_time", &["1 ms", "10 ms"]);
    if draw.chance(0.5) {
        // Nodes that announce and do not answer make others ask again.
        let adversary = draw.pick(&["silent", "silent", "garbage", "pusher", "greedy", "announcer"]);
        let mut group = toml::Table::new();
        group.insert("name".to_owned(), "hostile".into());
        group.insert("share".to_owned(), "20 %".into());
        group.insert("adversary".to_owned(), adversary.into());
        draw.set("pool.group", vec![toml::Value::Table(group)]);
    }
    let breaks = draw.chance(0.4);
    if breaks {
        draw.breaks((0.5, 3.0 + f64::from(duration) / 1e3), 2_000.0);
    }
    if !breaks || draw.chance(0.3) {
        let most = draw.nodes() / 3;
        draw.faults(&FAULTS, (0.0, 3.0 + f64::from(duration) / 1e3), most);
    }
    true
}

/// Returns true if every transaction reaches all honest nodes that run meanwhile.
fn promises_delivery(measured: &TransactionsMeasured, scenario: &Scenario) -> bool {
    let ends = |kind: &FaultKind| {
        matches!(kind, FaultKind::Crash {} | FaultKind::Vanish {} | FaultKind::Slow { .. })
    };
    let hostile: Vec<bool> = measured.uptime.honest.iter().map(|honest| !honest).collect();
    let harmed = harmed(scenario, measured.point.seed);
    let outside: Vec<bool> = hostile.iter().zip(harmed).map(|(hostile, harmed)| *hostile || harmed).collect();
    let graph = network::graph(scenario, &Inputs::default(), measured.point.seed);
    scenario.faults.iter().all(|fault| ends(&fault.kind) || network::is_momentary(fault, scenario))
        && graph.is_ok_and(|(graph, _)| is_connected(&graph, &outside) && is_connected(&graph, &hostile))
}

pub(super) fn broken(measured: &TransactionsMeasured) -> Vec<Broken> {
    let scenario = &measured.point.scenario;
    let metrics = transaction_metrics(measured);
    let mut broken = Vec::new();
    let parameters: &Parameters = scenario.part();
    if parameters.preset == Preset::Cat && metrics.queue_drops == 0 && promises_delivery(measured, scenario) {
        broken.extend(Broken::unless(
            metrics.incomplete == 0,
            "a valid transaction reaches all honest nodes that run",
            || format!("{} transactions did not", metrics.incomplete),
        ));
    }
    // Builds with debug assertions check this after each input.
    broken.extend(Broken::unless(
        measured.idle_slots_max == 0,
        "no request waits for a peer with a free slot",
        || format!("{} peers of a node had one", measured.idle_slots_max),
    ));
    let config = crate::section::config(scenario);
    broken.extend(Broken::unless(
        metrics.keys_max <= config.limits.keys as u64,
        "a node remembers at most as many keys as configured",
        || format!("{} keys, allowed are {}", metrics.keys_max, config.limits.keys),
    ));
    broken
}
