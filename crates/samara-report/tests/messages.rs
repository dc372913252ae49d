//! The page of a stream of messages.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::results::{Outcome, Summary};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;
use samara_report::{Report, png, terminal};

fn report(set: &[(&str, &str)], only: &[&str]) -> Report {
    let small = [("messages.duration", "2 s"), ("messages.rate", "20"), ("messages.warm_up", "4 s")];
    let set: Vec<(String, String)> =
        small.iter().chain(set).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    let loaded = load("gossip-study", &set, &only, None).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 1, inputs: &Inputs::default(), stop: &stop };
    let results: Vec<Outcome> =
        loaded.points.iter().map(|point| run(point, options, |_| {}).unwrap().outcome()).collect();
    let summary = Summary {
        scenario: "gossip-study".to_owned(),
        version: "0".to_owned(),
        seed: 1,
        nodes: 95,
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
fn a_series_has_its_figures_and_its_rows() {
    let report = report(&[], &["1b", "1c", "2b"]);
    let page = report.html();
    for loads in ["http://", "https://", "src=", "@import", "url("] {
        // The namespace of SVG is a name, nothing is loaded from it.
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(loads), "the page has {loads}");
    }
    for text in ["Phase 2, series 1: topology", "Phase 2, series 2: latency of 100 ms", "1c: m = 12"] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg").count(), 8, "four figures for each of two series");
    assert!(!page.contains("Where queues overflowed"), "nothing was lost");
    assert!(page.contains("every one of them reached every node"));
    let names: Vec<String> = report.figures().into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"phase-2-series-1-topology-hops".to_owned()), "{names:?}");
    for (name, svg) in report.figures() {
        assert!(png(&svg).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    let table = terminal::table(&report);
    assert!(table.contains("1b") && table.contains("incomplete"), "{table}");
}

#[test]
fn losses_are_told_by_node_and_link() {
    let page = report(
        &[("protocol.queue", "1"), ("protocol.overflow", "drop-newest"), ("messages.rate", "60")],
        &["2a"],
    )
    .html();
    assert!(page.contains("Where queues overflowed"));
    assert!(page.contains("did not reach every node"));
}

#[test]
fn messages_that_reach_nobody_in_time_have_no_figures() {
    let report = report(&[("network.loss", "99.9 %")], &["1b", "1c"]);
    let (table, page) = (terminal::table(&report), report.html());
    assert!(
        page.contains("class=\"headline bad\"") && page.contains("80 of 80 messages did not reach"),
        "{table}"
    );
    for text in [&table, &page].into_iter().chain(report.figures().iter().map(|(_, svg)| svg)) {
        assert!(!text.contains("NaN"), "{text}");
    }
    assert!(table.contains('–'), "{table}");
}

#[test]
fn names_cannot_break_out() {
    let page = report(
        &[("run.4.label", "</svg><script>alert(1)</script>"), ("run.4.series", "<img onerror=alert(2)>")],
        &["1a"],
    )
    .html();
    assert!(!page.contains("<script>alert") && !page.contains("<img onerror"));
}
