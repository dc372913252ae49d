//! Tests of `samara compare`.

use serde_json::Value;

use crate::common::{Scratch, text};

/// Creates two results: a scenario with three seeds, and the same with a higher latency. The runs
/// match by their equal parameters.
fn results(name: &str) -> Scratch {
    let results = Scratch::new(&format!("compare-{name}"));
    let run = "run peerdas-small --only batch --only node-wide --quiet --out";
    results.ok(run.split(' ').chain(["fast"]));
    results.ok(run.split(' ').chain(["slow", "--set", "network.latency=80 ms"]));
    results
}

fn compared(results: &Scratch, a: &str, b: &str) -> Value {
    results.json(["compare", a, b, "--format", "json"])
}

#[test]
fn changes_have_intervals_and_significance() {
    let results = results("changes");
    let found = compared(&results, "fast", "slow");
    let changes = found["changes"].as_array().unwrap();
    let of = |run: &str, metric: &str| {
        changes.iter().find(|change| change["run"] == run && change["metric"] == metric).unwrap()
    };
    assert!(changes.len() > 60, "all metrics of two runs: {}", changes.len());
    assert_eq!(changes[0]["metric"], "time_to_custody_ms.mean", "the most important metric first");
    let custody = of("batch", "time_to_custody_ms.mean");
    assert_eq!((custody["better"].as_str(), custody["verdict"].as_str()), (Some("less"), Some("worse")));
    assert!(custody["significant"].as_bool().unwrap() && custody["p"].as_f64().unwrap() < 0.05, "{custody}");
    assert_eq!(custody["a"]["seeds"], 3);
    assert!(custody["a"]["confidence_95"].as_f64().unwrap() > 0.0);
    let incomplete = of("batch", "incomplete");
    assert_eq!(incomplete["verdict"], "same");
    // In the opposite direction the change is an improvement.
    let back = compared(&results, "slow", "fast");
    assert_eq!(back["changes"][0]["verdict"], "better");
    // A sweep over the same seeds has the same figures.
    results.ok("sweep peerdas-small --only batch --only node-wide --out sweep --quiet".split(' '));
    let same = compared(&results, "fast", "sweep");
    assert_eq!(same["identical"], true);
    assert!(same["changes"].as_array().unwrap().iter().all(|change| change["verdict"] == "same"));
}

#[test]
fn crossed_thresholds_set_exit_status() {
    let results = results("thresholds");
    let status = |a: &str, b: &str, thresholds: &[&str]| {
        let mut args = vec!["compare", a, b];
        thresholds.iter().for_each(|threshold| args.extend(["--threshold", threshold]));
        let output = results.samara(args);
        (output.status.code().unwrap(), text(&output.stderr))
    };
    let (code, output) = status("fast", "slow", &["time_to_custody_ms.mean=5%"]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("✗ batch: time_to_custody_ms.mean") && output.contains("allowed"), "{output}");
    assert_eq!(
        status("slow", "fast", &["time_to_custody_ms.mean=5%"]).0,
        0,
        "an improvement crosses no threshold"
    );
    assert_eq!(status("fast", "slow", &["time_to_custody_ms.mean=500%"]).0, 0);
    assert_eq!(status("fast", "slow", &["time_to_custody_ms.mean=1", "incomplete=0"]).0, 1);
    assert_eq!(status("fast", "slow", &["time_to_custody_ms.mean=1 ms"]).0, 1, "a limit with its unit");
    assert_eq!(status("fast", "slow", &["time_to_custody_ms.mean=9 s"]).0, 0);
    assert_eq!(status("fast", "slow", &["incomplete=0", "delivery_ratio=0%"]).0, 0);
    assert_eq!(status("fast", "slow", &["share_of_bound=1%", "batch:incomplete=0"]).0, 1, "more is better");
    assert_eq!(status("slow", "fast", &["time_to_custody_ms.mean=-5%"]).0, 1, "a sign requires the decrease");
    assert_eq!(status("fast", "slow", &["mesh_size=+90%,-90%"]).0, 0);
    for (threshold, what) in [
        ("mesh_size=5%", "mesh_size=+5%,-5%"),
        ("time_to_custody_ms=5%", "time_to_custody_ms.mean"),
        ("delivery_ration=5%", "there is no metric \"delivery_ration\"; did you mean \"delivery_ratio\"?"),
        ("time_to_custody_ms.mean=5 parsecs", "unknown unit \"parsecs\""),
        ("time_to_custody_ms.mean=", "has no number; "),
        ("incomplete", "METRIC=LIMIT"),
        ("incomplete=-", "METRIC=LIMIT"),
        ("incomplete=1,2", "METRIC=LIMIT"),
        ("nobody:incomplete=1", "the runs are batch, node-wide"),
    ] {
        let (code, output) = status("fast", "slow", &[threshold]);
        assert_eq!(code, 2, "{threshold}: {output}");
        assert!(output.contains(what), "{threshold}: {output}");
    }
    let (code, output) = status("fast", "slow", &["delivery_ration=+5%,-5%"]);
    assert!(code == 2 && output.contains("did you mean delivery_ratio"), "{output}");
    // A value that is missing from the second result does not count as unchanged.
    let summary = results.read("slow/summary.json");
    // The run `batch` comes first, with three seeds.
    results.write("slow/summary.json", summary.replacen("\"mesh_size\"", "\"size\"", 3));
    let (code, output) = status("fast", "slow", &["mesh_size=+90%,-90%"]);
    assert!(code == 2 && output.contains("slow has no mesh_size of batch"), "{output}");
    assert_eq!(status("fast", "slow", &["node-wide:mesh_size=+90%,-90%"]).0, 0, "the other run has it");
}

#[test]
fn page_and_comment_report_the_same_changes() {
    let results = results("page");
    let args = "compare fast slow --html c.html --format markdown --threshold time_to_custody_ms.mean=5%";
    let output = results.samara(args.split(' '));
    assert_eq!(output.status.code(), Some(1));
    let markdown = text(&output.stdout);
    assert!(markdown.starts_with("**Thresholds are exceeded:**"), "{markdown}");
    assert!(
        markdown.contains("| batch | `time_to_custody_ms.mean` |") && markdown.contains("**worse**"),
        "{markdown}"
    );
    assert!(!markdown.contains("| `incomplete` |"), "unchanged metrics are left out");
    let page = results.read("c.html");
    for part in
        ["Exceeded thresholds", "Changes", "Distributions of times", "time to custody", "delivery latency"]
    {
        assert!(page.contains(part), "{part}");
    }
    // The figure of changes, and two distributions for each of the two runs.
    assert_eq!(page.matches("<figure").count(), 5);
    let difference = page.find("network.latency").expect("the key that differs");
    assert!(difference < page.rfind("Distributions of times").unwrap(), "the difference comes first");
    for loads in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(loads), "the page has {loads}");
    }
}

#[test]
fn reports_different_scenarios_and_versions() {
    let results = results("others");
    let summary = results.read("slow/summary.json");
    let other = summary.replace("\"scenario\": \"peerdas-small\"", "\"scenario\": \"mine\"");
    results.write("slow/summary.json", other.replacen("\"version\": \"", "\"version\": \"9.", 1));
    let output = results.ok(["compare", "fast", "slow"]);
    assert!(output.contains("Different scenarios: peerdas-small and mine"), "{output}");
    assert!(output.contains("Different versions: ") && output.contains("9."), "{output}");
    results.ok("run peerdas-small --only sequential --seed 1 --quiet --out else".split(' '));
    let error = results.refused(["compare", "fast", "else"]);
    let remedy = "no run in common: the first has batch, node-wide, the second sequential; --pair RUN=RUN";
    assert!(error.contains(remedy), "{error}");
}

#[test]
fn runs_with_other_names_are_compared_in_pairs() {
    let results = results("pairs");
    let args = "compare fast fast --pair batch=node-wide --threshold incomplete=0";
    let output = results.ok(args.split(' '));
    assert!(
        output.contains("batch, beside node-wide") && !output.to_lowercase().contains("only in"),
        "{output}"
    );
    let other = "run peerdas-small --only batch --set network.nodes=18 --seed 1 --quiet --out less";
    results.ok(other.split(' '));
    let error = results.refused(["compare", "fast", "less"]);
    assert!(error.contains("those with the same name differ in nodes; --pair RUN=RUN"), "{error}");
    assert!(
        results.ok(["compare", "fast", "less", "--pair", "batch=batch", "--all"]).contains("delivery_ratio")
    );
    let error = results.refused(["compare", "fast", "less", "--pair", "batch=nobody"]);
    assert!(error.contains("pair batch=nobody: less has no run nobody; its runs are batch"), "{error}");
    let error = results.refused(["compare", "fast", "less", "--pair", "batch"]);
    assert!(error.contains("\"batch\" is not RUN=RUN"), "{error}");
    let error = results.refused(["compare", "fast"]);
    assert!(error.contains("`samara compare fast --pair RUN=RUN`"), "{error}");
    let own = results.ok(["compare", "fast", "--pair", "batch=batch"]);
    assert!(own.contains("fast (first)") && own.contains("fast (second)"), "{own}");
    let keys = results.ok(["compare", "fast", "less", "--pair", "batch=batch"]);
    assert!(keys.replace('\n', " ").contains("Different keys: network.nodes 20 and 18"), "{keys}");
}

/// Two runs of one result differ in the keys that they set, and have their names.
#[test]
fn paired_runs_have_their_own_keys_and_names() {
    let results = Scratch::new("compare-own");
    let run = "run ring --only direct --only ring --set group.messages=50 --seed 1 --quiet --out r";
    results.ok(run.split(' '));
    let own = results.ok("compare r --pair direct=ring --html c.html".split(' '));
    assert!(own.contains("first: r, direct\nsecond: r, ring\n"), "{own}");
    let line = own.replace('\n', " ");
    assert!(line.contains("Different keys: protocol.preset direct and ring"), "{own}");
    assert!(!results.read("c.html").contains("have the same configuration"));
}

/// Real nodes do not count some figures: their zeros are no improvement.
#[test]
fn figures_that_real_nodes_do_not_measure_are_not_compared() {
    let results = Scratch::new("compare-real");
    let run = "run ring --only ring --set group.messages=50 --seed 1 --quiet --out";
    results.ok(run.split(' ').chain(["simulated"]));
    results.ok(run.split(' ').chain(["real"]));
    let mut summary: Value = serde_json::from_str(&results.read("real/summary.json")).unwrap();
    summary["runs"][0]["real"] = serde_json::json!({});
    results.write("real/summary.json", summary.to_string());
    let found = compared(&results, "simulated", "real");
    let metrics: Vec<&str> =
        found["changes"].as_array().unwrap().iter().filter_map(|change| change["metric"].as_str()).collect();
    assert!(metrics.contains(&"lost") && !metrics.contains(&"retransmissions"), "{metrics:?}");
    let notes = found["notes"].as_array().unwrap();
    assert!(notes.contains(&"not measured in real: retransmissions".into()), "{notes:?}");
    let error = results.refused(["compare", "simulated", "real", "--threshold", "retransmissions=5%"]);
    assert!(error.contains("no run has this metric"), "{error}");
}

#[test]
fn points_of_a_sweep_are_compared_with_all_their_seeds() {
    let scratch = Scratch::new("compare-points");
    let grid = "network.latency=40 ms,80 ms";
    let sweep = [
        "sweep",
        "peerdas-small",
        "--only",
        "batch",
        "--grid",
        grid,
        "--seeds",
        "2",
        "--quiet",
        "--out",
        "s",
    ];
    scratch.ok(sweep);
    let summary: Value = serde_json::from_str(&scratch.read("s/summary.json")).unwrap();
    let runs = summary["runs"].as_array().unwrap();
    let at = |latency: &str| {
        let run = runs.iter().find(|run| run["parameters"]["network.latency"] == latency);
        format!("s/points/{}", run.unwrap()["id"].as_str().unwrap())
    };
    let (fast, slow) = (at("40 ms"), at("80 ms"));
    let found = compared(&scratch, &fast, &slow);
    let first = &found["changes"][0];
    assert_eq!(
        (first["metric"].as_str(), &first["a"]["seeds"]),
        (Some("time_to_custody_ms.mean"), &2.into())
    );
    assert!(first["difference"].as_f64().unwrap() > 30.0, "{first}");
    assert!(found["notes"].to_string().contains("network.latency 40 ms and 80 ms"), "{}", found["notes"]);
    let file = slow.clone() + ".json";
    assert_eq!(compared(&scratch, &slow, &file)["changes"][0]["verdict"], "same");
    let error = scratch.refused(["compare", "s/points/3", &slow]);
    let listed = "the sweep has no such point; its points are ";
    assert!(error.contains(listed) && error.contains("(batch, seed 1, network.latency 40 ms)"), "{error}");
}

#[test]
fn faults_after_the_end_of_a_run_are_reported() {
    let scratch = Scratch::new("late");
    let fault = "fault=[{ kind = \"crash\", at = \"25 s\", nodes = [1] }]";
    let args = ["run", "peerdas-small", "--only", "batch", "--set", fault, "--quiet", "--out", "r"];
    let output = scratch.ok(args);
    assert!(
        output.contains("fault.0 had no effect in 3 of 3 runs: all traffic ended before it."),
        "{output}"
    );
    let summary: Value = serde_json::from_str(&scratch.read("r/summary.json")).unwrap();
    assert_eq!(summary["runs"][0]["late_faults"], serde_json::json!([0]));
    assert!(output.contains("by 30 s"), "the deadline of the scenario has a column: {output}");
    scratch.ok(["sweep", "peerdas-small", "--only", "batch", "--set", fault, "--out", "s"]);
    assert!(
        scratch
            .read("s/report.html")
            .contains("fault.0 had no effect in 3 of 3 runs: all traffic ended before it.")
    );
}

#[test]
fn one_seed_decides_nothing() {
    let results = Scratch::new("compare-undecided");
    let run = "run peerdas-small --only batch --seed 1 --quiet --out";
    results.ok(run.split(' ').chain(["fast"]));
    results.ok(run.split(' ').chain(["slow", "--set", "network.latency=80 ms"]));
    let found = compared(&results, "fast", "slow");
    let verdicts: Vec<&str> =
        found["changes"].as_array().unwrap().iter().filter_map(|change| change["verdict"].as_str()).collect();
    assert!(verdicts.contains(&"undecided"), "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| ["undecided", "same"].contains(verdict)), "{verdicts:?}");
    results.ok("compare fast slow --html c.html".split(' '));
    let page = results.read("c.html");
    let first = page.split("class=\"finding\">").nth(1).unwrap();
    let (first, others) = first.split_once("</p>").unwrap();
    assert!(first.starts_with("batch: ") && first.contains("%, which one seed cannot test)."), "{first}");
    assert!(others.contains("One seed cannot tell a change from noise. Repeat both results"), "{page}");
}

#[test]
fn index_lists_results_with_verdicts() {
    let results = Scratch::new("index");
    results.ok("run peerdas-small --only batch --seed 1 --quiet --out all/good".split(' '));
    let late = "run peerdas-small --only batch --seed 1 --quiet --out all/bad&ly --set columns.deadline=1ms";
    results.samara(late.split(' '));
    results.write("all/note.txt", "not a result");
    let output = results.ok(["report", "all"]);
    assert!(output.contains("index all/index.html"), "{output}");
    let page = results.read("all/index.html");
    assert!(page.contains("1 of 2 results fails or is unfinished."), "{page}");
    assert!(
        page.contains("href=\"good/report.html\"") && page.contains("href=\"bad%26ly/report.html\""),
        "{page}"
    );
    assert!(page.contains("src=\"good/figures/means.svg\""), "{page}");
    assert!(results.path("all/good/figures/means.svg").exists());
    assert!(page.contains("samara run peerdas-small --only batch --seed 1 --quiet --out all/good"), "{page}");
    let error = results.refused(["report", "all/good"]);
    assert!(error.contains("no results; expected directories"), "{error}");
}

/// A result may have 100,000 points. Nothing looks at each pair of runs of the two results, which would
/// take minutes.
#[test]
fn many_runs_are_compared_in_time() {
    let scratch = Scratch::new("many-runs");
    let write = |directory: &str, parameter: &str| {
        let run = |at: u32| {
            format!(
                "{{\"name\": \"r{at}\", \"parameters\": {{\"seed\": 1, \"{parameter}\": {at}}}, \
                 \"metrics\": {{\"copies\": {at}}}}}"
            )
        };
        let runs: Vec<String> = (0..20_000).map(run).collect();
        let runs = runs.join(", ");
        let text = format!(
            "{{\"scenario\": \"s\", \"version\": \"1\", \"digest\": \"{directory}\", \"runs\": [{runs}]}}"
        );
        std::fs::create_dir_all(scratch.path(directory)).unwrap();
        scratch.write(&format!("{directory}/summary.json"), text);
    };
    [("a", "x"), ("b", "x"), ("c", "y")].into_iter().for_each(|(directory, key)| write(directory, key));
    let start = std::time::Instant::now();
    let shown = scratch.ok(["compare", "a", "b", "--format", "markdown", "--threshold", "copies=+0,-0"]);
    assert!(shown.contains("20000 figures") || shown.contains("20,000 figures"), "{shown:.200}");
    let error = scratch.refused(["compare", "a", "c"]);
    assert!(error.contains("those with the same name differ in x, y"), "{error:.200}");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
