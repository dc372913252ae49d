//! The page of broadcasts in a group.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::reference;
use samara_lab::results::{Outcome, Summary, relate};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;
use samara_report::{Report, png, terminal};

fn report(scenario: &str, set: &[(&str, &str)], only: &[&str]) -> Report {
    let set: Vec<(String, String)> =
        set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    let loaded = load(scenario, &set, &only, Some(1)).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 1, inputs: &Inputs::default(), stop: &stop };
    let mut results: Vec<Outcome> =
        loaded.points.iter().map(|point| run(point, options, |_| {}).unwrap().outcome()).collect();
    relate(&loaded, &mut results);
    let summary = Summary {
        scenario: scenario.to_owned(),
        version: "0".to_owned(),
        seed: 1,
        nodes: 4,
        digest: "d".to_owned(),
        wall_s: 0.0,
        cpu_s: 0.0,
        peak_rss_bytes: 0,
        steps: 0,
        processes: Vec::new(),
        runs: results.iter().map(|result| result.run.clone()).collect(),
    };
    let known = reference::known(&loaded, &results);
    Report::new(&loaded, &summary, &results, (&[], &known), &[])
}

fn names(report: &Report) -> Vec<String> {
    report.figures().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn runs_stand_beside_the_post_and_each_has_its_links() {
    let report = report("ring", &[("group.messages", "200")], &["direct", "ring", "direct-1", "ring-1"]);
    let page = report.html();
    for text in
        ["Direct, N-1 copies", "post of 2010, DAISYCHAIN", "nothing was lost", "What bytes are", "Rounds"]
    {
        assert!(page.contains(text), "{text}");
    }
    for loads in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(loads), "the page has {loads}");
    }
    let names = names(&report);
    for figure in ["throughput", "uplinks", "latency", "links"] {
        assert!(names.contains(&figure.to_owned()), "{figure}: {names:?}");
    }
    for (name, svg) in report.figures() {
        assert!(png(&svg).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    let table = terminal::table(&report);
    assert!(table.contains("MB/node/s") && table.contains("ring-1"), "{table}");
}

#[test]
fn the_schedules_of_the_post_are_drawn() {
    let report = report("ring-rounds", &[], &["direct", "ring"]);
    let names = names(&report);
    for figure in ["schedule-ring", "schedule-direct"] {
        assert!(names.contains(&figure.to_owned()), "{figure}: {names:?}");
    }
    assert!(report.html().contains("10 messages from member 0 to 9 others in 18 rounds"));
}

#[test]
fn a_sweep_over_the_rate_has_latency_against_throughput() {
    let set = [("group.duration", "500 ms"), ("network.nodes", "4"), ("sweep.axis.0.values", "[20.0, 90.0]")];
    let report = report("ring-latency", &set, &["direct", "ring"]);
    let names = names(&report);
    for figure in ["price", "price-p99", "sweep-throughput"] {
        assert!(names.contains(&figure.to_owned()), "{figure}: {names:?}");
    }
}
