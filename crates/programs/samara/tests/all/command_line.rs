//! Tests of the command line through its program.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::common::{Scratch, names, text};

/// Arguments of a run of about one second, with further ones.
fn small_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let small = "run peerdas --only batch --set network.nodes=60 --set network.topology.degree=20 \
                 --set columns.count=16 --set columns.custody=4 --set columns.blobs=1 --set";
    small.split_whitespace().chain(["columns.warm_up=5 s"]).chain(args.iter().copied()).collect()
}

fn small(scratch: &Scratch, args: &[&str]) -> Output {
    scratch.samara(small_args(args))
}

/// Starts a run; [`Child::wait_with_output`] waits for its end.
#[cfg(unix)]
fn start(scratch: &Scratch, args: &[&str]) -> Child {
    scratch.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(unix)]
fn send(signal: &str, child: &Child) {
    let args = [&format!("-{signal}"), &child.id().to_string()];
    assert!(Command::new("kill").args(args).status().unwrap().success());
}

#[cfg(unix)]
fn wait_until_exists(path: &Path) {
    let start = std::time::Instant::now();
    while !path.exists() {
        assert!(start.elapsed().as_secs() < 120, "{} does not appear", path.display());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn version_names_the_commit_that_results_name() {
    let scratch = Scratch::new("version");
    let commit = scratch.json(small_args(&["--format", "json", "--out", "r"]))["origin"]["commit"].clone();
    let commit = commit.as_str().unwrap();
    let of_commit = if commit.is_empty() { String::new() } else { format!(" ({commit})") };
    assert_eq!(scratch.ok(["--version"]), format!("samara {}{of_commit}\n", env!("CARGO_PKG_VERSION")));
}

/// Returns a scalar of `CITATION.cff`.
fn cited<'a>(file: &'a str, key: &str) -> &'a str {
    let value = file.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("CITATION.cff has no {key}")).trim_matches('"')
}

#[test]
fn citation_has_the_facts_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let file = std::fs::read_to_string(root.join("CITATION.cff")).unwrap();
    let licences =
        file.split_once("\nlicense:\n").unwrap().1.lines().map_while(|line| line.strip_prefix("  - "));
    assert_eq!(licences.collect::<Vec<_>>().join(" OR "), env!("CARGO_PKG_LICENSE"));
    assert_eq!(cited(&file, "version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(cited(&file, "repository-code"), env!("CARGO_PKG_REPOSITORY"));
}

#[test]
fn json_is_one_document_with_the_documented_keys() {
    let scratch = Scratch::new("json");
    let document = scratch.json(small_args(&["--format", "json", "--out", "r"]));
    for key in "scenario version seed nodes digest wall_s cpu_s peak_rss_bytes steps runs".split(' ') {
        assert!(!document[key].is_null(), "{key} is missing");
    }
    assert_eq!(document["nodes"], 60);
    let run = &document["runs"][0];
    assert_eq!((run["name"].as_str(), run["parameters"]["seed"].as_u64()), (Some("batch"), Some(1)));
    for statistic in ["mean", "p50", "p95", "p99", "max"] {
        assert!(run["metrics"]["time_to_custody_ms"][statistic].as_f64().unwrap() > 0.0, "{statistic}");
    }
    for metric in ["incomplete", "delivery_ratio", "duplication_factor", "lower_bound_ms", "share_of_bound"] {
        assert!(run["metrics"][metric].is_number(), "{metric}");
    }
    let files = ["report.html", "summary.json", "scenario.toml", "complete", "figures/batch-custody.svg"];
    let tables = ["deliveries", "copies", "traffic", "configuration"]
        .map(|table| format!("runs/batch-seed1/{table}.parquet"));
    let picture = ["figures/batch-columns.png".to_owned()];
    for file in files.map(str::to_owned).into_iter().chain(tables).chain(picture) {
        let path = scratch.path("r").join(&file);
        assert!(std::fs::metadata(&path).is_ok_and(|data| data.len() > 0), "{file} is missing or empty");
    }
    let magic = std::fs::read(scratch.path("r/runs/batch-seed1/deliveries.parquet")).unwrap();
    assert_eq!(&magic[..4], b"PAR1");
}

#[test]
fn digest_does_not_depend_on_threads() {
    let scratch = Scratch::new("threads");
    let digest = |threads: &str, out: &str| {
        scratch.json(small_args(&["--format", "json", "--threads", threads, "--out", out]))["digest"].clone()
    };
    let one = digest("1", "a");
    assert_eq!(one, digest("1", "b"));
    assert_eq!(one, digest("2", "c"));
    let comparison = scratch.ok(["compare", "a", "c"]);
    assert!(comparison.contains("The digests are equal"), "{comparison}");
}

#[test]
fn missed_expectation_exits_with_status_1() {
    let scratch = Scratch::new("expect");
    let text_of = include_str!("../../../../families/samara-family-columns/scenarios/peerdas.toml")
        .replace("\"time_to_custody_ms.max\" = \"< 30 s\"", "\"time_to_custody_ms.max\" = \"< 1 ms\"");
    scratch.write("own.toml", text_of);
    let args = "run own.toml --only batch --set network.nodes=60 --set network.topology.degree=20";
    let output = scratch.samara(args.split(' '));
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    let missed =
        stderr.lines().find(|line| line.contains("✗ batch: time_to_custody_ms.max < 1 ms, but it is"));
    assert!(missed.is_some_and(|line| line.ends_with(" ms") || line.ends_with(" s")), "{stderr}");
    assert!(scratch.path("results/peerdas-seed1/report.html").exists(), "the default directory");
}

#[test]
fn finished_results_are_not_overwritten() {
    let scratch = Scratch::new("force");
    assert!(small(&scratch, &["--out", "r"]).status.success());
    let again = scratch.refused(small_args(&["--out", "r"]));
    assert!(again.contains(
        "r: holds a finished result; choose another directory with --out, or overwrite it with --force"
    ));
    assert!(small(&scratch, &["--out", "r", "--force"]).status.success());
    std::fs::create_dir(scratch.path("mine")).unwrap();
    scratch.write("mine/precious.txt", "x");
    let foreign = scratch.refused(small_args(&["--out", "mine", "--force"]));
    assert!(foreign.contains("mine: contains precious.txt, which is not part of a result"));
    assert!(scratch.path("mine/precious.txt").exists());
    // Neither a scenario of the user nor a file beside a result is overwritten.
    scratch.write("r/notes.txt", "x");
    scratch.write("scenario.toml", "x");
    for out in ["r", "."] {
        scratch.refused(small_args(&["--out", out, "--force"]));
    }
    assert!(scratch.path("r/complete").exists() && scratch.path("scenario.toml").exists());
    // A default directory that exists is skipped.
    for finished in ["results/peerdas-seed1", "results/peerdas-seed1-2", "results/peerdas-seed1-3"] {
        assert!(!scratch.0.join(finished).exists());
        assert!(small(&scratch, &[]).status.success());
        assert!(scratch.0.join(finished).join("complete").exists());
    }
    assert!(small(&scratch, &["--force"]).status.success());
    assert!(!scratch.path("results/peerdas-seed1-4").exists());
}

#[test]
fn bad_input_exits_with_status_2() {
    let scratch = Scratch::new("bad");
    std::fs::create_dir(scratch.path("folder")).unwrap();
    scratch.write("bytes.toml", b"\xff\xfe");
    scratch.refuses(
        r#"
run nothing => neither a built-in scenario nor a file
run peerdas --set nonsense => "nonsense" is not KEY=VALUE
run peerdas --set network.loss=5 => --set network.loss=5: found 5; expected a share
run peerdas --only none => --only none: there is no such run
show peerdas-small --set expect.foo=1 => expect."foo": there is no metric "foo"
run peerdas --threads 0 => expected a whole number from 1 to 1024
run peerdas --seed -3 => invalid value '-3' for '--seed <SEED>': expected a whole number from 0
run peerdas --seed x => expected a whole number from 0 to 9223372036854775807
compare a b => expected a results directory of samara run
run folder => folder: cannot be read (Is a directory
run bytes.toml => bytes.toml: is not UTF-8 text
run bytes.csv/x => `samara list` shows the built-in scenarios
run peerdas-small --out bytes.toml => bytes.toml: is a file; expected a directory; choose another directory with --out
run peerdas-small --out bytes.toml/r => bytes.toml/r: the directory cannot be created (Not a directory (os error 20)); choose another directory with --out
sweep peerdas-small --grid network.nodes=50 --out bytes.toml/s => bytes.toml/s: the directory cannot be created (Not a directory (os error 20)); choose another directory with --out
sweep peerdas-small --grid network.nodes=50 --out bytes.toml => bytes.toml: is a file; expected a directory; choose another directory with --out
export graph peerdas-small --run batch -o folder => folder: the file cannot be written (Is a directory
export graph peerdas-small --run batch -o no/f => no/f: the file cannot be written (No such file
run peerdas-small --set network.nodes=50 --set network.nodes=60 => --set network.nodes has two values, 50 and 60; keep one of them
run peerdas-small network.nodes=50 => tip: --set sets a key: --set network.nodes=50
run peerdas-small --set network.nodes 50 => tip: a key and its value are one word: --set network.nodes=50
run peerdas --only batch,none => --only none: there is no such run
show batch => "batch" is a run of peerdas: `samara run peerdas --only batch`
show peerdas --runs batch => a similar argument exists: '--only'
node a.toml => tip: --config names the configuration: --config a.toml
"#,
    );
}

/// The parser of arguments knows hidden commands, and suggests values where no command has any.
#[test]
fn suggestions_leave_out_hidden_commands_and_values() {
    let scratch = Scratch::new("suggestions");
    for (args, hidden) in [
        ("init", "end-with"),
        ("plot", "point"),
        ("run peerdas --dry-run", "as a value"),
        ("show peerdas --runs batch", "'--run'"),
    ] {
        let error = scratch.refused(args.split(' '));
        assert!(error.contains("error: ") && !error.contains(hidden), "{args}: {error}");
    }
    for args in ["show --help", "export graph --help"] {
        assert!(!scratch.ok(args.split(' ')).contains("--strict"), "{args}");
    }
    assert!(scratch.ok(["run", "--help"]).contains("--strict"));
}

/// Runs that results cannot tell apart, and expectations that nothing can meet.
#[test]
fn ambiguous_runs_and_unknown_expectations_are_refused() {
    let scratch = Scratch::new("ambiguous");
    let scenario = |rest: &str| format!("[scenario]\nname = \"x\"\ntitle = \"X\"\n[columns]\n{rest}");
    for (rest, expected) in [
        ("[[run]]\nname = \"a\"\n[[run]]\nname = \"a\"", "run.1.name: is \"a\", as of another run"),
        ("[[run]]\nname = \"a/b\"", "run.0.name: is \"a/b\"; results directories need letters"),
        ("[[run]]\nname = \"\"", "run.0.name: is \"\""),
        ("[[sweep.axis]]\nkey = \"network.nodes\"\nvalues = []", "sweep.axis.0.values: is empty"),
        ("[expect]\n\"bacth:incomplete\" = \"== 0\"", "there is no run \"bacth\"; the runs are x"),
        ("[expect]\n\"time_to_custdy_ms.p95\" = \"< 4 s\"", "did you mean \"time_to_custody_ms.p95\"?"),
        (
            "[expect]\ntime_to_custody_ms = \"< 4 s\"",
            "\"time_to_custody_ms\" is no single value; expected one of time_to_custody_ms.mean, ",
        ),
        (
            "[expect]\n\"time_to_custody_ms.p90\" = \"< 4 s\"",
            "\"time_to_custody_ms.p90\" is no value of this metric",
        ),
        ("[expect]\ndelivery_ratio = \"== 100\"", "\"100\" is more than 1; write \"100 %\""),
        ("[expect]\nearly_timeouts = \"== 0\"", "[columns] have no metric \"early_timeouts\""),
    ] {
        scratch.write("x.toml", scenario(rest));
        let error = scratch.refused(["run", "x.toml"]);
        assert!(error.contains(expected), "{rest}: {error}");
    }
}

#[test]
fn scenarios_are_shown_and_described() {
    let scratch = Scratch::new("shown");
    let shown = scratch.ok(["show", "peerdas", "--set", "network.nodes=77"]);
    scratch.write("shown.toml", &shown);
    assert_eq!(shown, scratch.ok(["show", "shown.toml"]), "the output of show can be run");
    assert!(shown.contains("nodes = 77"));
    let regions = scratch.ok(["show", "ring-federation"]);
    assert!(regions.contains("latency = [[\""), "a matrix takes one line: {regions}");
    assert!(scratch.json(["schema"])["properties"]["network"].is_object());
    assert!(!scratch.ok(["completions", "bash"]).is_empty());
}

#[cfg(unix)]
#[test]
fn concurrent_runs_use_separate_directories() {
    let scratch = Scratch::new("at-once");
    let first = start(&scratch, &small_args(&[]));
    // Stopped while it runs, so that its directory is busy when the others start.
    wait_until_exists(&scratch.path("results/peerdas-seed1/live/session.jsonl"));
    send("STOP", &first);
    let before = names(&scratch.path("results/peerdas-seed1"));
    for force in [&[][..], &["--force"]] {
        let out = [&["--out", "results/peerdas-seed1"][..], force].concat();
        let stderr = scratch.refused(small_args(&out));
        assert!(stderr.contains("peerdas-seed1: another process is writing a result there"), "{stderr}");
    }
    scratch.ok(small_args(&["--set", "network.loss=1 %"]));
    scratch.ok(small_args(&["--force"]));
    assert_eq!(
        names(&scratch.path("results/peerdas-seed1")),
        before,
        "the other runs do not change the first directory"
    );
    send("CONT", &first);
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success(), "{}", text(&first.stderr));
    let all = ["peerdas-seed1", "peerdas-seed1-2", "peerdas-seed1-3"];
    assert_eq!(names(&scratch.path("results")), all);
    let digests = all.map(|name| {
        let directory = scratch.path("results").join(name);
        let parts = ["complete", "figures", "live", "report.html", "runs", "scenario.toml", "summary.json"];
        assert_eq!(names(&directory), parts, "{name}");
        std::fs::read_to_string(directory.join("complete")).unwrap()
    });
    assert_eq!(digests[0], digests[2]);
    assert_ne!(digests[0], digests[1]);
}

#[cfg(unix)]
#[test]
fn interrupted_run_keeps_finished_results() {
    let scratch = Scratch::new("interrupt");
    for signal in ["INT", "TERM"] {
        let args = "run peerdas --threads 1 --out r --set network.nodes=300";
        let child = start(&scratch, &args.split(' ').collect::<Vec<_>>());
        wait_until_exists(&scratch.path("r/runs/sequential-seed1/run.json"));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{signal}: {:?}: {stderr}", output.status);
        assert!(stderr.contains("samara: interrupted; ") && stderr.contains(" runs are in r"), "{stderr}");
        let parts = ["figures", "live", "report.html", "runs", "scenario.toml", "summary.json", "unfinished"];
        assert_eq!(names(&scratch.path("r")), parts);
        let summary: Value = serde_json::from_str(&scratch.read("r/summary.json")).unwrap();
        assert!(!summary["runs"].as_array().unwrap().is_empty());
        std::fs::remove_file(scratch.path("r/runs/sequential-seed1/run.json")).unwrap();
    }
    // An unfinished result is overwritten without --force.
    scratch.ok("run peerdas --only batch --out r --set network.nodes=100".split(' '));
}

/// A report of nothing would claim that every transaction arrived.
#[cfg(unix)]
#[test]
fn run_interrupted_before_its_first_result_has_no_report() {
    let scratch = Scratch::new("interrupt-early");
    let child = start(&scratch, &["run", "cat", "--only", "flood-fifo", "--threads", "1", "--out", "r"]);
    wait_until_exists(&scratch.path("r/live/session.jsonl"));
    send("INT", &child);
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{:?}: {stderr}", output.status);
    assert!(stderr.contains("samara: interrupted; 0 of 1 runs are in r"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    assert!(!scratch.path("r/report.html").exists());
}

/// `kill -9` leaves the lock's file, but not the lock.
#[cfg(unix)]
#[test]
fn result_of_killed_run_is_overwritten_without_force() {
    let scratch = Scratch::new("killed");
    let mut child = start(&scratch, &small_args(&[]));
    wait_until_exists(&scratch.path("results/peerdas-seed1/live/session.jsonl"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scratch.path("results/peerdas-seed1/lock").exists());
    scratch.ok(small_args(&[]));
    assert_eq!(names(&scratch.path("results")), ["peerdas-seed1"]);
    let left = names(&scratch.path("results/peerdas-seed1"));
    assert!(left.iter().all(|name| name != "lock" && name != "unfinished"), "{left:?}");
}

#[cfg(not(feature = "net"))]
#[test]
fn build_without_sockets_reports_missing_feature() {
    let scratch = Scratch::new("node");
    let error = scratch.refused(["node", "--config", "node.toml"]);
    assert!(error.contains("built without real sockets"), "{error}");
    assert!(error.contains("cargo run --release --features net -- node --config node.toml"), "{error}");
}

#[test]
fn help_names_the_missing_feature_in_a_build_without_it() {
    let scratch = Scratch::new("help");
    for (args, commands) in [
        (vec!["--help"], "`samara node`, `group`, `mix` and `testbed`"),
        (vec!["node", "--help"], "`samara node`"),
        (vec!["testbed", "--help"], "`samara testbed`"),
    ] {
        let help = scratch.ok(args);
        let expected =
            format!("This build lacks {commands};\nbuild with `cargo build --release --features net`\n");
        if cfg!(feature = "net") {
            assert!(!help.contains("This build lacks") && !help.contains("features net"), "{help}");
        } else {
            assert!(help.starts_with(&expected), "{help}");
        }
    }
}

/// A limit of the size of files has the effect of a full disk, without privileges.
#[cfg(unix)]
#[test]
fn full_disk_ends_a_run_with_an_error_and_the_next_run_replaces_its_result() {
    let scratch = Scratch::new("full");
    let mut failed = 0;
    for kib in [0, 4, 16, 64] {
        // Without the signal, writes beyond the limit fail with an error.
        let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"");
        let output = Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_samara")])
            .args(small_args(&["--out", "r", "--quiet"]))
            .current_dir(&scratch.0)
            .output()
            .unwrap();
        let complete = scratch.path("r/complete").exists();
        assert_eq!(output.status.success(), complete, "{kib} KiB");
        if !complete {
            failed += 1;
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{kib} KiB: {error}");
            assert!(error.contains("r/") && error.contains("File too large"), "{kib} KiB: {error}");
        } else {
            std::fs::remove_dir_all(scratch.path("r")).unwrap();
        }
    }
    assert!(failed >= 3, "{failed} runs had too little space");
    assert!(small(&scratch, &["--out", "r"]).status.success());
    assert!(scratch.path("r/complete").exists());
}

/// Set `SAMARA_KILLS` for another number of kills.
#[cfg(unix)]
#[test]
#[ignore = "slow: 200 runs are killed"]
fn killed_runs_leave_complete_or_replaceable_results() {
    use std::time::{Duration, Instant};

    let kills = std::env::var("SAMARA_KILLS").map_or(200, |kills| kills.parse().unwrap());
    let scratch = Scratch::new("kills");
    let spawn = || {
        let mut command = scratch.command(small_args(&["--out", "r", "--quiet"]));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let start = Instant::now();
    assert!(spawn().wait().unwrap().success());
    let whole = start.elapsed();
    let expected = files(&scratch.path("r"));
    let (mut complete, mut replaced) = (0, 0);
    for kill in 0..kills {
        if scratch.path("r/complete").exists() {
            std::fs::remove_dir_all(scratch.path("r")).unwrap();
        }
        let mut child = spawn();
        // Moments all over a run, in an order without a pattern.
        std::thread::sleep(whole * (kill * 89 % kills) * 5 / (kills * 4) + Duration::from_millis(1));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.code().is_none_or(|code| code == 0), "{}", text(&output.stderr));
        if scratch.path("r/complete").exists() {
            complete += 1;
            assert_eq!(files(&scratch.path("r")), expected, "kill {kill}");
        } else {
            replaced += 1;
        }
    }
    println!("{complete} results were complete, {replaced} replaceable");
    let _ = std::fs::remove_dir_all(scratch.path("r"));
    assert!(small(&scratch, &["--out", "r"]).status.success());
    assert_eq!(files(&scratch.path("r")), expected);
}

/// Errors of arguments quote them as other errors do.
#[test]
fn arguments_are_quoted_briefly_and_without_control_characters() {
    let scratch = Scratch::new("quotes");
    let long = "9".repeat(100_000);
    for args in [
        vec!["run", "peerdas", "--seed", &long],
        vec!["run", "peerdas", "--format", &long],
        vec![long.as_str()],
        vec!["run", "peerdas", &long],
        vec!["run", "\u{1b}]0;x\u{7}"],
        vec!["run", "peerdas", "--seed", "\u{1b}[2J"],
    ] {
        let error = scratch.refused(&args);
        assert!(error.len() < 3_000, "{} characters of error for {:.20}", error.len(), args[args.len() - 1]);
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
    // Others keep their form.
    assert!(
        scratch.refused(["run", "peerdas", "--seed", "x"]).contains("invalid value 'x' for '--seed <SEED>'")
    );
}

#[test]
fn directories_without_results_and_damaged_traces_are_named() {
    let scratch = Scratch::new("no-results");
    for directory in ["e", "s"] {
        std::fs::create_dir(scratch.path(directory)).unwrap();
    }
    scratch.write("s/sweep.parquet", "");
    scratch.write("t.json", "{\"type\": 0}\n{\"type\"\n");
    scratch.refuses(
        "explain e => e: has no results; expected a results directory of samara run
         explain s => s: a sweep has only metrics; samara run of its scenario keeps paths
         explain f => f: No such file or directory",
    );
    for format in ["json", "protobuf", "chrome"] {
        let error = scratch.refused(["export", "trace", "t.json", "--format", format, "-o", "out"]);
        assert!(error.contains("t.json") && !error.contains("cannot be written"), "{error}");
        assert!(!scratch.path("out").exists());
    }
}

/// Returns the paths of all files below a directory, except the lock and the mark `unfinished`.
#[cfg(unix)]
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(directory) {
        let path = directory.join(&name);
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|file| format!("{name}/{file}")));
        } else if !["lock", "unfinished"].contains(&name.as_str()) {
            found.push(name);
        }
    }
    found
}
