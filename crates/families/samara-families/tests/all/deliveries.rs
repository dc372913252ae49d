//! The rows of deliveries of every family agree with its metrics.

use std::sync::Arc;

use samara_family_group::GroupData;
use samara_family_messages::MessagesData;
use samara_family_mix::MixData;
use samara_family_pool::PoolData;
use samara_lab::report::page;
use samara_lab::results::{Data, Findings, Outcome, Rows, Saved, Stored, Used, tables};
use samara_lab::run::{RunOptions, run};

use crate::loaded;

/// Runs the only point of a scenario. Returns its outcome and its table of deliveries.
fn deliveries<D: Data>(scenario: &str, set: &[(&str, &str)], only: &str) -> (Outcome<D>, Rows) {
    let loaded = loaded(scenario, set, &[only], Some(1));
    let options = RunOptions::new(2, &loaded.inputs);
    let measured = run(&loaded.points[0], options, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    let outcome = measured.outcome();
    assert!(outcome.run.absent.is_empty(), "{:?}", outcome.run.absent);
    let all = tables(&*measured, &outcome);
    let table = all.iter().find(|table| table.name() == "deliveries").expect("a table of deliveries");
    let rows = table.make();
    assert_eq!((table.rows(), rows.count > 0), (rows.count, true));
    (outcome.typed().expect("the outcome should belong to the scenario's family"), rows)
}

/// Returns a column without missing values.
fn cells<T: Stored + Copy>(rows: &Rows, name: &str) -> Vec<T> {
    let cells: Vec<T> = rows.cells(name).expect("a column of this type").flatten().copied().collect();
    assert_eq!(cells.len(), rows.count, "{name}");
    cells
}

/// Checks a mean. Metrics come from histograms of three digits.
fn assert_mean(times: &[f64], mean: f64) {
    let found = times.iter().sum::<f64>() / times.len() as f64;
    assert!((found / mean - 1.0).abs() < 1e-3, "{found} ms in rows, {mean} ms in metrics");
}

#[test]
fn messages_have_a_row_for_each_delivery() {
    let set = [("messages.duration", "2 s"), ("messages.rate", "20"), ("messages.cool_down", "10 s")];
    let (result, rows) = deliveries::<MessagesData>("gossip-baselines", &set, "gossipsub");
    let delivered: u32 = result.messages.iter().map(|row| row.delivered).sum();
    assert_eq!((rows.count, delivered), (40 * 94, 40 * 94));
    assert_mean(&cells(&rows, "delivery_latency_ms"), result.metrics.delivery_latency_ms.unwrap().mean);
    let (messages, nodes) = (cells::<u32>(&rows, "message"), cells::<u32>(&rows, "node"));
    let times = cells::<f64>(&rows, "delivery_latency_ms");
    let hops = cells::<u16>(&rows, "hops");
    for (message, row) in (0..).zip(&result.messages) {
        let of_message = || (0..rows.count).filter(|at| messages[*at] == message);
        let last = of_message().max_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap();
        assert!((times[last] - row.dissemination_ms()).abs() < 1e-9, "message {message}");
        assert!(of_message().all(|at| nodes[at] != row.publisher && hops[at] >= 1), "message {message}");
    }
}

#[test]
fn transactions_have_a_row_for_each_addition_to_a_pool() {
    let set = [("pool.clients", "60"), ("pool.spread", "3 s"), ("pool.duration", "12 s")];
    let (result, rows) = deliveries::<PoolData>("cat", &set, "cat");
    let origins = result.transactions.len();
    let pools: u32 = result.transactions.iter().map(|row| row.pools).sum();
    assert_eq!(rows.count, pools as usize - origins, "the origins deliver nothing");
    assert_mean(&cells(&rows, "delivery_latency_ms"), result.metrics.delivery_latency_ms.unwrap().mean);
    for (transaction, node) in cells::<u32>(&rows, "transaction").into_iter().zip(cells::<u32>(&rows, "node"))
    {
        assert_ne!(result.transactions[transaction as usize].origin, node);
    }
}

#[test]
fn members_have_a_row_for_each_delivery() {
    let set = [("network.bandwidth", "100 Mbit/s"), ("group.messages", "200")];
    for run in ["ring", "ring-total", "daisychain"] {
        let (result, rows) = deliveries::<GroupData>("ring", &set, run);
        assert_eq!(rows.count as u64, result.metrics.deliveries, "{run}");
        let (origins, nodes) = (cells::<u32>(&rows, "origin"), cells::<u32>(&rows, "node"));
        let times = cells::<f64>(&rows, "delivery_latency_ms");
        let of_others = (0..rows.count).filter(|at| origins[*at] != nodes[*at]).map(|at| times[at]);
        assert_mean(&of_others.collect::<Vec<_>>(), result.metrics.delivery_latency_ms.unwrap().mean);
        let mut all: Vec<_> = cells::<u64>(&rows, "number").into_iter().zip(origins).zip(nodes).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), rows.count, "{run}: no member delivers a message twice");
    }
}

#[test]
fn rounds_have_a_row_for_each_node_of_their_team() {
    let set = [("mix.batch", "20"), ("mix.rounds", "8")];
    let (result, rows) = deliveries::<MixData>("mix", &set, "equal");
    let m = &result.metrics;
    assert_eq!(rows.count as u64, m.completed * u64::from(m.team));
    assert!(cells::<u32>(&rows, "slots").iter().all(|slots| *slots == 20));
    let (rounds, teams) = (cells::<u64>(&rows, "round"), cells::<u32>(&rows, "team"));
    let (nodes, times) = (cells::<u32>(&rows, "node"), cells::<f64>(&rows, "delivery_latency_ms"));
    let mut latencies = Vec::new();
    for row in &result.rounds {
        let of_round = || (0..rows.count).filter(|at| rounds[*at] == row.round);
        assert_eq!(of_round().map(|at| nodes[at]).collect::<Vec<_>>(), row.nodes);
        assert!(of_round().all(|at| teams[at] as usize == row.team));
        latencies.push(of_round().map(|at| times[at]).fold(0.0, f64::max));
    }
    assert_mean(&latencies, m.batch_latency_ms.unwrap().mean);
}

/// Rows of messages have no slots and no missing deliveries, so comparisons read the distribution.
#[test]
fn comparisons_take_only_columns_from_deliveries() {
    let set = [("messages.duration", "1 s"), ("messages.rate", "5"), ("messages.cool_down", "5 s")];
    let loaded = loaded("gossip-baselines", &set, &["floodsub"], None);
    let options = RunOptions::new(1, &loaded.inputs);
    let measured = run(&loaded.points[0], options, |_, _| {}).unwrap();
    let outcome = measured.outcome();
    let made =
        tables(&*measured, &outcome).iter().map(|t| (t.name().to_owned(), Arc::new(t.make()))).collect();
    let last = outcome.typed::<MessagesData>().unwrap().latency.last().copied();
    let findings = Findings::of(&loaded, vec![Some(outcome)], Used::default()).unwrap();
    let saved = Saved::in_memory("messages", &findings.summary, vec![made]);
    assert_eq!(saved.time_to_custody(&saved.runs[0]), Ok(None));
    let curve = saved.delivery_latency(&saved.runs[0]).unwrap().unwrap();
    assert_eq!(curve.last().map(|(ms, _)| *ms), last.map(|(ms, _)| ms));
}

#[test]
fn reports_and_summaries_state_why_a_table_is_absent() {
    let set = [("messages.duration", "1 s"), ("messages.rate", "5"), ("messages.cool_down", "5 s")];
    let loaded = loaded("gossip-baselines", &set, &["floodsub", "gossipsub"], None);
    let options = RunOptions::new(1, &loaded.inputs);
    let shown = |reason: Option<&str>| {
        let outcome = |point| {
            let mut outcome = run(point, options, |_, _| {}).unwrap().outcome();
            outcome.run.absent.extend(reason.map(|reason| ("deliveries", reason.to_owned())));
            Some(outcome)
        };
        let results = loaded.points.iter().map(outcome).collect();
        let findings = Findings::of(&loaded, results, Used::default()).unwrap();
        let page = page(&loaded, &findings);
        let run = serde_json::to_value(&findings.summary.runs[0]).unwrap();
        (page.terminal(500), page.html(), run.get("absent").cloned())
    };
    let (terminal, html, absent) = shown(Some("too many"));
    let first = &loaded.points[0].run;
    let sentence = format!("{first} has no deliveries.parquet: too many. In all, 2 runs lack tables");
    assert!(terminal.contains(&sentence), "{terminal}");
    assert!(html.contains(&sentence));
    assert_eq!(absent, Some(serde_json::json!({ "deliveries": "too many" })));
    let (terminal, _, absent) = shown(None);
    assert!(!terminal.contains("has no deliveries") && absent.is_none());
}
