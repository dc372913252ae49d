//! Pages of results are single files that load nothing, and names in a scenario cannot break them.

use std::collections::{BTreeMap, BTreeSet};

use samara_lab::explain::{Explain, Mode};
use samara_lab::report::page;
use samara_lab::results::{Findings, Used};
use samara_lab::run::{RunOptions, run};
use samara_report::{Drawing, Line, Page, Part, Style, png};
use samara_scenario::Overrides;

use crate::{load_overridden, loaded};

/// Returns the page of a scenario with these values of keys and only these runs.
fn report(scenario: &str, set: &[(&str, &str)], only: &[&str]) -> Page {
    report_with(scenario, set, only, true)
}

/// The same, and whether all expectations count. Checks that the page loads nothing.
fn report_with(scenario: &str, set: &[(&str, &str)], only: &[&str], strict: bool) -> Page {
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let only = only.iter().map(|run| (*run).to_owned()).collect();
    let loaded = load_overridden(scenario, &Overrides { set, only, strict, ..Overrides::default() }).unwrap();
    let options = RunOptions::new(1, &loaded.inputs);
    let result = |point| Some(run(point, options, |_, _| {}).unwrap().outcome());
    let results = loaded.points.iter().map(result).collect();
    let page = page(&loaded, &Findings::of(&loaded, results, Used::default()).unwrap());
    let html = page.html();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>"));
    // The namespace of SVG is only a name, which is never loaded. Links load nothing until a reader
    // follows them.
    let own = html.replace("http://www.w3.org/2000/svg", "").replace("href=\"https://github.com/", "");
    for loads in ["http://", "https://", "src=", "<link", "@import", "url("] {
        assert!(!own.contains(loads), "the page has {loads}");
    }
    page
}

/// Returns the names of the figures, and checks that all can be drawn.
fn names(page: &Page) -> Vec<String> {
    let drawn = |(name, svg): (String, String)| {
        assert!(!svg.contains("NaN") && png(&svg).unwrap().starts_with(b"\x89PNG"), "{name}");
        name
    };
    page.figures().into_iter().map(drawn).collect()
}

fn has(page: &Page, figures: &[&str]) {
    let names = names(page);
    for figure in figures {
        assert!(names.iter().any(|name| name == figure), "{figure}: {names:?}");
    }
}

/// Returns the rows of a run in the table for a terminal.
fn rows<'a>(table: &'a str, run: &str) -> Vec<&'a str> {
    table.lines().filter(|line| line.split_whitespace().next() == Some(run)).collect()
}

fn columns(set: &[(&str, &str)]) -> Page {
    let small = [
        ("network.nodes", "40"),
        ("network.topology.degree", "12"),
        ("columns.count", "8"),
        ("columns.custody", "3"),
        ("columns.blobs", "1"),
        ("columns.warm_up", "3 s"),
        ("columns.deadline", "5 s"),
    ];
    report("peerdas", &[&small, set].concat(), &["batch", "node-wide"])
}

#[test]
fn expectations_of_a_changed_builtin_scenario_do_not_count() {
    let set = [("network.nodes", "40"), ("network.topology.degree", "12"), ("columns.deadline", "30 ms")];
    let page = report_with("peerdas", &set, &["batch"], false);
    assert!(page.findings[0].contains("did not finish"), "{:?}", page.findings);
    let html = page.html();
    assert!(html.contains("They describe the built-in scenario"));
    // The mark is that of the terminal.
    assert!(
        html.contains("<li>– Batch, as in the post: incomplete == 0, here 39 nodes</li>")
            && !html.contains("✗"),
        "{html}"
    );
    // One line for all runs.
    let all = report_with("peerdas", &set, &["batch", "sequential"], false).html();
    assert!(all.contains("<li>– incomplete == 0: not met (2 runs)</li>"), "{all}");
    let changes =
        ["network.nodes 1000 -> 40", "network.topology.degree 70 -> 12", "columns.deadline 60 s -> 30 ms"];
    assert_eq!(page.changes, changes);
    let own = [set.as_slice(), &[("expect.incomplete", "== 0")]].concat();
    let page = report_with("peerdas", &own, &["batch"], false);
    assert_eq!(page.findings[0], "1 of 1 expectations fail.");
}

#[test]
fn columns_have_a_curve_for_each_run_and_two_panels_for_each() {
    let page = columns(&[]);
    assert_eq!(page.html().matches(" data-kind=").count(), 5);
    assert_eq!(page.html().matches("<canvas").count(), 7, "a lane of the race for each run");
    assert_eq!(names(&page).len(), 7, "one for each file");
}

#[test]
fn medians_are_shown_by_the_publishers_region() {
    let seeds = |seeds| {
        let set = [("network.nodes", "30"), ("network.topology.degree", "12"), ("scenario.seeds", seeds)];
        let page = report("payload-geography", &set, &["phase"]);
        page.sections.into_iter().find(|section| section.heading == "By the publisher's region")
    };
    let section = seeds("[1, 2, 3, 4, 5, 6]").unwrap();
    let [Part::Table(table)] = section.parts.as_slice() else { panic!("one table") };
    let regions = &table.headings[1..];
    let of = |heading: &String| heading.split(['(', ' ']).find_map(|word| word.parse::<usize>().ok());
    assert!(regions.len() > 1 && regions.iter().filter_map(of).sum::<usize>() == 6, "{regions:?}");
    assert!(table.rows[0].cells.iter().all(|cell| cell.contains("ms")), "{:?}", table.rows[0].cells);
    // A single region compares nothing.
    assert!(seeds("[1]").is_none());
}

#[test]
fn items_of_all_kinds_have_curves_paths_and_a_race() {
    let small = [("network.nodes", "30"), ("network.topology", "{ degree = 8 }")];
    let messages = [("messages.duration", "2 s"), ("messages.warm_up", "3 s"), ("messages.cool_down", "3 s")];
    let pool = [("pool.clients", "20"), ("pool.spread", "1 s"), ("pool.duration", "8 s")];
    let group = [("group.messages", "200")];
    for (scenario, set, runs, nodes, item) in [
        ("gossip-baselines", [&small[..], &messages].concat(), ["floodsub", "plumtree"], 30, "message"),
        ("cat", [&small[..], &pool].concat(), ["cat", "flood-fifo"], 30, "transaction"),
        ("ring", group.to_vec(), ["ring", "direct"], 4, "message"),
    ] {
        let page = report(scenario, &set, &runs);
        let parts = page.sections.iter().flat_map(|section| &section.parts);
        let explorers: Vec<_> = parts.filter(|part| matches!(part, Part::Explorer(_))).collect();
        let [Part::Explorer(explorer)] = explorers.as_slice() else { panic!("{scenario} has no curves") };
        assert_eq!((explorer.each[0].0.as_str(), explorer.panels.len()), (item, 2));
        for panel in &explorer.panels {
            let items = panel.publishers.len();
            assert!((8..=16).contains(&items), "{scenario}: {items} items");
            assert_eq!(panel.arrivals.len(), items * (nodes - 1), "all nodes but the publisher");
            let hops = |node: u32, item: u16| {
                let of = |one: &&samara_report::Arrival| (one.node, one.item) == (node, item);
                panel.arrivals.iter().find(of).map_or(0, |one| one.hops)
            };
            for one in panel.arrivals.iter().filter(|one| one.nanos.is_some()) {
                assert_eq!(one.hops, hops(one.from, one.item) + 1, "{scenario}: {one:?}");
                let is_start = one.from == panel.publishers[&one.item];
                assert!(is_start == (one.hops == 1), "paths begin at the publisher: {one:?}");
            }
        }
    }
}

#[test]
fn a_run_has_one_colour_in_all_figures() {
    let small = [("network.nodes", "30"), ("network.topology", "{ degree = 8 }")];
    let messages = [("messages.duration", "2 s"), ("messages.warm_up", "3 s"), ("messages.cool_down", "3 s")];
    let pool = [("pool.clients", "20"), ("pool.spread", "1 s"), ("pool.duration", "8 s")];
    for (scenario, set, runs) in [
        ("gossip-baselines", [&small[..], &messages].concat(), ["gossipsub", "plumtree"]),
        ("cat", [&small[..], &pool].concat(), ["cat", "flood-fifo"]),
        ("ring", vec![("group.messages", "200")], ["ring", "direct"]),
        ("mix", vec![("mix.rounds", "4"), ("mix.batch", "16")], ["alpha", "today"]),
        (
            "peerdas",
            vec![("network.nodes", "40"), ("network.topology.degree", "12")],
            ["staggered", "node-wide"],
        ),
    ] {
        let page = report(scenario, &set, &runs);
        let parts = page.sections.iter().flat_map(|section| &section.parts);
        let figures = parts.flat_map(|part| match part {
            Part::Figures(figures) => figures.as_slice(),
            Part::Explorer(explorer) => explorer.figures.as_slice(),
            _ => &[],
        });
        let mut colours: BTreeMap<&str, BTreeSet<Option<usize>>> = BTreeMap::new();
        for figure in page.figure.iter().chain(figures) {
            let Drawing::Lines(lines) = &figure.drawing else { continue };
            let is_of_run = |line: &&Line| matches!(line.style, Style::Plain | Style::Shares | Style::Area);
            for line in lines.lines.iter().filter(is_of_run) {
                colours.entry(&line.label).or_default().insert(line.colour);
            }
        }
        assert!(colours.values().all(|of_run| of_run.len() == 1), "{scenario}: {colours:?}");
    }
}

#[test]
fn runs_keep_their_colours_when_others_are_left_out() {
    let set = [("network.nodes", "40"), ("network.topology.degree", "12"), ("columns.blobs", "1")];
    let colours = |only: &[&str]| -> BTreeMap<String, usize> {
        let page = report("peerdas", &set, only);
        let explorer = page.sections.iter().flat_map(|section| &section.parts).find_map(|part| match part {
            Part::Explorer(explorer) => Some(explorer),
            _ => None,
        });
        let panels = &explorer.unwrap().panels;
        panels.iter().map(|panel| (panel.label.clone(), panel.colour)).collect()
    };
    let all = colours(&[]);
    assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 9, "{all:?}");
    for (label, colour) in colours(&["node-wide", "staggered"]) {
        assert_eq!(all[&label], colour, "{label}");
    }
}

#[test]
fn names_cannot_inject_markup_or_scripts() {
    let page = columns(&[
        ("scenario.title", "</script><img onerror=alert(1)>&'"),
        ("run.1.label", "</script><script>alert(2)</script>"),
    ])
    .html();
    assert!(!page.contains("<img") && !page.contains("<script>alert"), "text must be escaped");
    assert!(page.contains("&lt;/script&gt;&lt;img onerror=alert(1)&gt;&amp;'"));
    assert_eq!(page.matches("</script>").count(), 3, "only the page's own scripts end");
    let figures =
        [("run.4.label", "</svg><script>alert(1)</script>"), ("run.4.series", "<img onerror=alert(2)>")];
    let page = messages(&figures, &["1a"]).html();
    assert!(!page.contains("<script>alert") && !page.contains("<img onerror"));
    let label = ("run.0.label", "</svg></script><img onerror=alert(3)>");
    for page in [
        report("ring-rounds", &[label], &["direct", "ring"]),
        report("mix-pool", &[("mix.batch", "20"), ("mix.rounds", "20"), label], &["crash"]),
        pool("cat", &[label], &["flood-fifo"]),
    ] {
        let html = page.html();
        assert!(!html.contains("<img") && html.contains("&lt;img onerror=alert(3)&gt;"), "{}", page.kind);
    }
}

#[test]
fn equal_results_give_equal_bytes() {
    let (one, other) = (columns(&[]), columns(&[]));
    assert_eq!(one.files(), other.files());
}

#[test]
fn missed_deadlines_come_first() {
    // The deadline ends before any copy has crossed the network.
    let page = columns(&[("columns.deadline", "30 ms"), ("scenario.seeds", "[1, 2]")]);
    let missed = "batch, node-wide: 78 of 78 nodes did not finish in 30 ms, over 2 seeds";
    let (table, html) = (page.terminal(500), page.html());
    assert!(table.starts_with(&format!("{missed}.\n")), "{table}");
    let [batch, node_wide] = ["\"Batch, as in the post\"", "\"One order in every node\""];
    let missed = format!("{batch}, {node_wide}: 78 of 78 nodes did not finish in 30 ms, over 2 seeds.");
    let impossible =
        "The mean cannot be less than 207 ms, so no schedule meets the deadline of 30 ms at all nodes.";
    assert_eq!(page.findings, ["12 of 12 expectations fail.", &missed, impossible]);
    assert!(html.contains("class=\"headline bad\""));
    assert!(table.contains(impossible), "the terminal says so too: {table}");
    for text in [&table, &html] {
        assert!(!text.contains("NaN") && !text.contains("no time") && text.contains('–'), "{text}");
    }
    names(&page);
    let small = ["network.nodes=40", "network.topology.degree=12", "columns.count=8", "columns.custody=3"];
    let small = small.into_iter().chain(["columns.blobs=1", "columns.warm_up=3 s", "columns.deadline=30 ms"]);
    let small: Vec<(&str, &str)> = small.filter_map(|key| key.split_once('=')).collect();
    let all = report("peerdas", &small, &[]).terminal(500);
    assert!(all.starts_with("all 9 runs: 39 of 39 nodes did not finish in 30 ms.\n"), "{all}");
}

#[test]
fn figures_of_completion_have_the_deadline_and_bars_say_whose_they_are() {
    let near = columns(&[("columns.deadline", "650 ms")]);
    let html = near.html();
    assert!(html.contains("\"deadline\":[650.0,\"deadline 650 ms\"]"));
    // The curve of the bound of 39 nodes, which both runs share.
    assert!(html.contains("<i class=\"lower\"></i>lower bound</span>"));
    let bounds = html.split("\"bounds\":[[").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    assert_eq!(bounds.split(',').count(), 39);
    assert!(html.contains("class=\"bar part\"") && html.contains(" of 39 nodes finished</small>"));
    let custody = near.figures().into_iter().find(|(name, _)| name == "custody").unwrap().1;
    assert!(custody.contains("deadline 650 ms"), "{custody}");
    // An axis up to a distant deadline would have no room for the curves.
    let far = columns(&[]).html();
    assert!(far.contains("\"deadline\":null") && far.contains("deadline 5 s, right of the figure"));
    assert!(!far.contains("class=\"bar part\"") && !far.contains("nodes finished"));
}

#[test]
fn incomplete_runs_have_no_share_of_the_bound_and_are_never_fastest() {
    let page = columns(&[("columns.deadline", "650 ms"), ("run.7.set.\"columns.deadline\"", "5 s")]);
    let table = page.terminal(500);
    let [batch, node_wide] = ["batch", "node-wide"].map(|run| rows(&table, run)[0]);
    assert!(batch.ends_with(" –") && !batch.contains('*') && !node_wide.contains('–'), "{table}");
    assert!(node_wide.contains('*'), "{table}");
    let lead = &page.findings;
    assert_eq!(lead[1], "All nodes finish in 5 s with \"One order in every node\".");
    assert!(lead[2].ends_with("of 39 nodes did not finish in 650 ms."), "{lead:?}");
    let times = "Times of \"Batch, as in the post\" are those of the complete nodes, so the mean can be less \
                 than the bound.";
    assert_eq!(lead[3], times);
    // A terminal has the names of runs.
    assert!(table.contains(&times.replace("Batch, as in the post", "batch")), "{table}");
    assert!(lead[4].starts_with("The fastest run is \"One order in every node\""), "{lead:?}");
}

#[test]
fn headline_is_good_if_all_nodes_complete_and_expectations_hold() {
    let complete = columns(&[]).html();
    assert!(complete.contains("class=\"headline\""));
    let failed = columns(&[("expect.incomplete", "== 1")]);
    assert!(failed.html().contains("class=\"headline bad\""));
    assert_eq!(failed.findings[0], "2 of 6 expectations fail.");
}

/// Returns the number of runs with curves of single items.
fn page_panels(page: &Page) -> usize {
    let parts = page.sections.iter().flat_map(|section| &section.parts);
    let panels = |part: &Part| if let Part::Explorer(explorer) = part { explorer.panels.len() } else { 0 };
    parts.map(panels).sum()
}

fn messages(set: &[(&str, &str)], only: &[&str]) -> Page {
    let small = [("messages.duration", "2 s"), ("messages.rate", "20"), ("messages.warm_up", "4 s")];
    report("gossip-study", &[&small, set].concat(), only)
}

#[test]
fn each_series_of_messages_has_figures_and_rows() {
    let page = messages(&[], &["1b", "1c", "2b"]);
    let html = page.html();
    for text in ["Phase 2, series 1: topology", "Phase 2, series 2: latency of 100 ms", "1c: m = 12"] {
        assert!(html.contains(text), "{text}");
    }
    let panels = 2 * page_panels(&page);
    assert_eq!(html.matches("<figure").count() - panels, 1 + 8, "the means, and four for each of two series");
    assert!(!html.contains("Queue overflows"), "no copies were lost");
    assert!(html.contains("all of them reached every node"));
    has(&page, &["phase-2-series-1-topology-hops"]);
    let table = page.terminal(500);
    assert!(rows(&table, "1b").len() == 1 && table.contains("incomplete"), "{table}");
}

#[test]
fn lost_messages_are_listed_by_node_and_link() {
    let queue = [("protocol.queue", "1"), ("protocol.overflow", "drop-newest"), ("messages.rate", "60")];
    let page = messages(&queue, &["2a"]).html();
    assert!(page.contains("Queue overflows"));
    assert!(page.contains("did not reach every node"));
}

#[test]
fn undelivered_messages_have_no_curves() {
    let page = messages(&[("network.loss", "99.9 %")], &["1b", "1c"]);
    let (table, html) = (page.terminal(500), page.html());
    assert!(
        html.contains("class=\"headline bad\"") && html.contains("80 of 80 messages did not reach"),
        "{table}"
    );
    assert!(!table.contains("NaN") && !html.contains("NaN") && table.contains('–'), "{table}");
    names(&page);
}

fn pool(scenario: &str, set: &[(&str, &str)], only: &[&str]) -> Page {
    let small = [("network.nodes", "16"), ("network.topology.dials", "3"), ("pool.duration", "3 s")];
    report(scenario, &[&small, set].concat(), only)
}

#[test]
fn only_pools_with_the_same_peers_are_compared() {
    let page = pool("cat-adversary", &[], &["silent", "greedy", "silent-2023"]);
    let is_comparison = |sentence: &&String| sentence.contains("fewer bytes in connections than");
    let sentences: Vec<&String> = page.findings.iter().filter(is_comparison).collect();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].contains("CAT of 2023") && !sentences[0].contains("Requests everything"),
        "{sentences:?}"
    );
    // The pool that requests everything has no comparable run.
    let html = page.html();
    let row = html.split("<tr>").find(|row| row.contains(">Requests everything<"));
    assert!(row.is_some_and(|row| row.contains("<td class=\"n\">–</td>")), "{row:?}");
}

/// The pool with the fewest bytes and the least time is compared with the first run of the file, not with
/// the slowest one.
#[test]
fn pools_are_compared_with_the_first_run() {
    let set = [
        ("network.nodes", "16"),
        ("network.topology.dials", "3"),
        ("pool.duration", "3 s"),
        ("pool.clients", "60"),
    ];
    let only = ["flood-fifo", "cat-2026", "cat"];
    let loaded = loaded("cat", &set, &only, None);
    let outcome = |point| {
        let explain = Explain::new(Mode::Every(1));
        let options = RunOptions { explain: &explain, ..RunOptions::new(1, &loaded.inputs) };
        Some(run(point, options, |_, _| {}).unwrap().outcome())
    };
    let results = loaded.points.iter().map(outcome).collect();
    let page = page(&loaded, &Findings::of(&loaded, results, Used::default()).unwrap());
    let found = |text: &str| page.findings.iter().find(|sentence| sentence.contains(text));
    let [bytes, time] = ["fewer bytes in connections than", "The difference by cause"].map(found);
    let [bytes, time] = [bytes.expect("a sentence on bytes"), time.expect("a sentence on causes")];
    for sentence in [bytes, time] {
        assert!(sentence.contains("Flooding, v0") && sentence.contains("CAT as it should be"), "{sentence}");
        assert!(!sentence.contains("August 2026"), "{sentence}");
    }
}

#[test]
fn time_to_all_nodes_is_marked_if_some_transactions_did_not_reach_all() {
    let set = [
        ("network.nodes", "16"),
        ("pool.rate", "20"),
        ("pool.duration", "3 s"),
        ("pool.block_interval", "0 s"),
    ];
    let crash = ("fault", r#"[{ kind = "crash", at = "6500 ms", nodes = [7] }]"#);
    let table = |set: &[(&str, &str)]| report("cat-1000", set, &[]).terminal(500);
    let (some, all) = (table(&[&set[..], &[crash]].concat()), table(&set));
    assert!(some.contains("to all") && some.contains(" ms *"), "{some}");
    assert!(!all.contains(" ms *") && all.contains("100.0 %"), "{all}");
}

/// Two seeds with 20 transactions a second for three seconds.
#[test]
fn transactions_of_all_seeds_are_counted() {
    let table = pool("cat-real", &[("scenario.seeds", "[1, 2]")], &["cat"]).terminal(500);
    assert!(table.contains("120 transactions in 1 run of 2 seeds; every valid one reached"), "{table}");
}

#[test]
fn sweep_over_sizes_reports_the_break_even_points() {
    let page = pool("cat-size", &[], &["flood-fifo", "cat"]);
    let html = page.html();
    assert!(html.contains("Break-even points") && html.contains("On the wire"));
    let figures: String = page.figures().into_iter().map(|(_, svg)| svg).collect();
    for tick in ["64 B", "256 B", "1 kB", "4 kB", "16 kB", "64 kB"] {
        assert!(figures.contains(&format!("\n{tick}\n")), "the axis shows {tick}");
    }
    assert_eq!(names(&page).len(), 4);
    assert!(page.terminal(500).contains("including announcements"));
}

#[test]
fn sweeps_over_several_axes_have_two_maps() {
    let page = pool("cat-timeout", &[("pool.duration", "1 s")], &["cat-2023", "adaptive"]);
    assert_eq!(names(&page), ["map-copies", "map-latency"]);
    for (name, svg) in page.figures() {
        for text in ["CAT, January 2023", "CAT as it should be, with their flush", "tx/s 40, flush 100 ms"] {
            assert!(svg.contains(text), "{name}: {text}");
        }
    }
    assert!(page.html().contains("class=\"drawn wide\""));
}

#[test]
fn group_report_has_links_and_purposes_of_bytes() {
    let page = report("ring", &[("group.messages", "200")], &["direct", "ring", "direct-1", "ring-1"]);
    let html = page.html();
    for text in ["Direct, N-1 copies", "no losses", "Bytes by purpose", "Rounds"] {
        assert!(html.contains(text), "{text}");
    }
    has(&page, &["throughput", "uplinks", "latency", "links"]);
    let table = page.terminal(500);
    assert!(table.contains("MB/node/s") && rows(&table, "ring-1").len() == 1, "{table}");
}

#[test]
fn schedules_and_figures_of_the_post_are_shown() {
    let page = report("ring-rounds", &[], &["direct", "ring"]);
    assert!(page.html().contains("daisychain, Switch usage") && page.html().contains("reproduced"));
    has(&page, &["schedule-ring", "schedule-direct"]);
    assert!(page.html().contains("10 messages from member 0 to 9 others in 18 rounds"));
}

#[test]
fn sweep_over_the_rate_draws_latency_against_throughput() {
    let set = [("group.duration", "500 ms"), ("network.nodes", "4"), ("sweep.axis.0.values", "[20.0, 90.0]")];
    let page = report("ring-latency", &set, &["direct", "ring"]);
    has(&page, &["price", "price-p99", "sweep-throughput"]);
}

#[test]
fn mix_report_has_timelines_and_causes() {
    let small = [("mix.batch", "20"), ("mix.rounds", "10")];
    let page = report("mix", &small, &["equal", "today"]);
    assert!(page.html().contains("Limits") && page.findings[0].contains("none failed"));
    assert!(names(&page).iter().any(|name| name.starts_with("timeline-")), "{:?}", names(&page));
    let page = report("mix-pool", &[("mix.batch", "20"), ("mix.rounds", "20")], &["restart"]);
    has(&page, &["rounds-restart"]);
    let small = [("mix.rounds", "3"), ("sweep.axis.0.values", "[84]")];
    let page = report("mix-window", &small, &["unary", "kept"]);
    assert!(page.terminal(500).contains("published figures left out"), "they describe unchanged keys");
    assert!(names(&page).iter().any(|name| name.starts_with("first-hop-")));
}
