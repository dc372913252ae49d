//! The page of transactions and their pools.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::results::{Outcome, Summary};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;
use samara_report::{Report, png, terminal};

fn report(scenario: &str, set: &[(&str, &str)], only: &[&str]) -> Report {
    let small = [("network.nodes", "16"), ("network.topology.dials", "3"), ("pool.duration", "3 s")];
    let set: Vec<(String, String)> =
        small.iter().chain(set).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    let loaded = load(scenario, &set, &only, None).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 1, inputs: &Inputs::default(), stop: &stop };
    let results: Vec<Outcome> =
        loaded.points.iter().map(|point| run(point, options, |_| {}).unwrap().outcome()).collect();
    let summary = Summary {
        scenario: scenario.to_owned(),
        version: "0".to_owned(),
        seed: 1,
        nodes: 16,
        digest: "d".to_owned(),
        wall_s: 0.0,
        cpu_s: 0.0,
        peak_rss_bytes: 0,
        steps: 0,
        processes: Vec::new(),
        runs: results.iter().map(|result| result.run.clone()).collect(),
    };
    Report::new(&loaded, &summary, &results, (&[], &[]), &[])
}

#[test]
fn only_runs_with_the_same_peers_are_compared() {
    let page = report("cat-adversary", &[], &["silent", "greedy", "silent-2023"]).html();
    let items = page.split("<li>").skip(1).filter_map(|item| item.split("</li>").next());
    let sentences: Vec<&str> =
        items.filter(|item| item.contains("fewer bytes in connections than")).collect();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].contains("CAT of 2023") && !sentences[0].contains("Wants everything"),
        "{sentences:?}"
    );
    // Whoever wants everything has nobody to be compared with.
    let row = page.split("<tr>").find(|row| row.contains(">Wants everything<"));
    assert!(row.is_some_and(|row| row.contains("<td class=\"n\">–</td>")), "{row:?}");
}

/// 20 transactions a second, for three seconds, twice.
#[test]
fn transactions_of_all_seeds_are_counted() {
    let table = terminal::table(&report("cat-real", &[("scenario.seeds", "[1, 2]")], &["cat"]));
    assert!(table.contains("120 transactions in 2 runs, and every valid one reached"), "{table}");
}

#[test]
fn a_sweep_over_sizes_tells_where_flooding_wins() {
    let report = report("cat-size", &[], &["flood-fifo", "cat"]);
    let page = report.html();
    assert!(page.contains("Where the trade turns") && page.contains("On the wire"));
    for tick in ["64 B", "256 B", "1 kB", "4 kB", "16 kB", "64 kB"] {
        assert!(page.contains(&format!("\n{tick}\n")), "the axis shows {tick}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    for (name, svg) in report.figures() {
        assert!(png(&svg).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    assert!(terminal::table(&report).contains("announcements included"));
}

#[test]
fn sweeps_over_several_axes_are_two_maps_for_all_runs() {
    let report = report("cat-timeout", &[("pool.duration", "1 s")], &["cat-2023", "adaptive"]);
    let figures = report.figures();
    let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["map-copies", "map-latency"]);
    for (name, svg) in &figures {
        for text in ["CAT, January 2023", "CAT as it should be, with their flush", "tx/s 40, flush 100 ms"] {
            assert!(svg.contains(text), "{name}: {text}");
        }
    }
    assert!(report.html().contains("class=\"static wide\""));
}
