//! The page is one file that loads nothing, whatever names a scenario has.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::results::{Findings, Used};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;
use samara_report::{Report, png, terminal};

fn report(set: &[(&str, &str)]) -> Report {
    let small = [
        ("network.nodes", "40"),
        ("network.topology.degree", "12"),
        ("columns.count", "8"),
        ("columns.custody", "3"),
        ("columns.blobs", "1"),
        ("columns.warm_up", "3 s"),
        ("columns.deadline", "5 s"),
    ];
    let set: Vec<(String, String)> =
        small.iter().chain(set).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only = ["batch".to_owned(), "node-wide".to_owned()];
    let loaded = load("peerdas", &set, &only, None).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 1, inputs: &Inputs::default(), stop: &stop };
    let result = |point| Some(run(point, options, |_| {}).unwrap().outcome());
    let results = loaded.points.iter().map(result).collect();
    Report::of(&loaded, &Findings::of(&loaded, results, Used::default()).unwrap())
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
fn a_deadline_that_nobody_meets_is_the_first_thing_said() {
    // The deadline is over before anything has crossed the network.
    let report = report(&[("columns.deadline", "30 ms"), ("scenario.seeds", "[1, 2]")]);
    let said = "batch, node-wide: 78 of 78 nodes did not finish in 30 ms, over 2 seeds";
    let (table, page) = (terminal::table(&report), report.html());
    assert!(table.starts_with(&format!("{said}\n")), "{table}");
    let [batch, node_wide] = ["&quot;Batch, as in the post&quot;", "&quot;One order in every node&quot;"];
    let said = format!("{batch}, {node_wide}: 78 of 78 nodes did not finish in 30 ms, over 2 seeds.");
    assert_eq!(lead(&page), ["12 of 12 expectations fail.", &said]);
    assert!(page.contains("class=\"headline bad\""));
    for text in [&table, &page] {
        assert!(!text.contains("NaN") && !text.contains("no time") && text.contains('–'), "{text}");
    }
    for (name, svg) in report.figures() {
        assert!(!svg.contains("NaN"), "{name}");
        let image = png(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&image[1..4], b"PNG");
    }
}

#[test]
fn a_run_with_incomplete_nodes_has_no_share_of_the_bound_and_is_not_the_fastest() {
    let report = report(&[("columns.deadline", "650 ms"), ("run.7.set.\"workload.deadline\"", "5 s")]);
    let table = terminal::table(&report);
    let row = |run: &str| table.lines().find(|line| line.trim_start().starts_with(run)).unwrap().to_owned();
    let [batch, node_wide] = ["batch ", "node-wide "].map(row);
    assert!(batch.contains(" – ") && !batch.contains('*') && !node_wide.contains('–'), "{table}");
    assert!(node_wide.contains('*'), "{table}");
    let page = report.html();
    let lead = lead(&page);
    assert!(lead[1].ends_with("of 39 nodes did not finish in 0.65 s."), "{lead:?}");
    assert_eq!(lead[2], "Times are those of the nodes that did.");
    assert!(lead[3].starts_with("The fastest run is &quot;One order in every node&quot;"), "{lead:?}");
}

#[test]
fn an_edge_is_green_if_everything_is_complete_and_as_expected() {
    let complete = report(&[]).html();
    assert!(complete.contains("class=\"headline\""));
    let failed = report(&[("expect.incomplete", "== 1")]).html();
    assert!(failed.contains("class=\"headline bad\""));
    assert_eq!(lead(&failed)[0], "2 of 6 expectations fail.");
}

/// The key sentences of a page.
fn lead(page: &str) -> Vec<&str> {
    let section = page.split("<section class=\"headline").nth(1).unwrap().split("</section>").next().unwrap();
    section.split("<li>").skip(1).map(|item| item.split("</li>").next().unwrap()).collect()
}

#[test]
fn numbers_are_written_short() {
    assert_eq!(terminal::number(0.0), "0");
    assert_eq!(terminal::number(12.0), "12");
    assert_eq!(terminal::number(1234.5), "1234");
    assert_eq!(terminal::number(2_500_000.5), "2.50 M");
    assert_eq!(terminal::number(0.123_456), "0.123");
}
