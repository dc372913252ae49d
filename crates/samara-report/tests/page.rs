//! The page is one file that loads nothing, whatever names a scenario has.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::results::{Outcome, Summary};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;
use samara_report::{Report, png, terminal};

fn report(set: &[(&str, &str)]) -> Report {
    let small = [
        ("network.nodes", "40"),
        ("network.topology.degree", "12"),
        ("workload.columns", "8"),
        ("workload.custody", "3"),
        ("workload.blobs", "1"),
        ("workload.warm_up", "3 s"),
        ("workload.deadline", "5 s"),
    ];
    let set: Vec<(String, String)> =
        small.iter().chain(set).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only = ["batch".to_owned(), "node-wide".to_owned()];
    let loaded = load("peerdas", &set, &only, None).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 1, inputs: &Inputs::default(), stop: &stop };
    let results: Vec<Outcome> =
        loaded.points.iter().map(|point| run(point, options, |_| {}).unwrap().outcome()).collect();
    let summary = Summary {
        scenario: "peerdas".to_owned(),
        version: "0".to_owned(),
        seed: 1,
        nodes: 40,
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
fn nothing_is_loaded_from_elsewhere() {
    let page = report(&[]).html();
    for loads in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert_eq!(page.matches("<canvas").count(), 5, "one for all runs, and two panels for each");
}

#[test]
fn names_cannot_break_out() {
    let page = report(&[
        ("scenario.title", "</script><img onerror=alert(1)>&'"),
        ("run.1.label", "</script><script>alert(2)</script>"),
    ])
    .html();
    assert!(!page.contains("<img") && !page.contains("<script>alert"), "text is markup");
    assert!(page.contains("&lt;/script&gt;&lt;img onerror=alert(1)&gt;&amp;&#39;"));
    assert_eq!(page.matches("</script>").count(), 2, "only the page's own scripts end");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let (one, other) = (report(&[]), report(&[]));
    assert_eq!(one.html(), other.html());
    assert_eq!(one.figures(), other.figures());
}

#[test]
fn columns_that_never_come_are_drawn_as_such() {
    // The deadline is over before anything has crossed the network.
    let report = report(&[("workload.deadline", "30 ms")]);
    assert!(report.html().contains("Not every node got all its columns"));
    for (name, svg) in report.figures() {
        let image = png(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&image[1..4], b"PNG");
    }
    assert!(terminal::table(&report).contains("node-wide"));
}

#[test]
fn numbers_are_written_short() {
    assert_eq!(terminal::number(0.0), "0");
    assert_eq!(terminal::number(12.0), "12");
    assert_eq!(terminal::number(1234.5), "1234");
    assert_eq!(terminal::number(2_500_000.5), "2.50 M");
    assert_eq!(terminal::number(0.123_456), "0.123");
}
