//! Tests of `samara sweep`: finished points are kept, missing points run, errors are reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Scratch, text};

/// Arguments of a sweep with twelve small points.
fn small<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    let grid = "network.uplink=10 Mbit/s,50 Mbit/s";
    let mut args = vec!["sweep", "peerdas-small", "--only", "batch", "--only", "node-wide", "--grid", grid];
    args.extend(["--seeds", "3", "--out", "s", "--quiet"]);
    args.extend(extra);
    args
}

/// The finished points with the times at which they finished.
fn points(directory: &Path) -> BTreeMap<String, SystemTime> {
    let Ok(entries) = std::fs::read_dir(directory.join("points")) else { return BTreeMap::new() };
    entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.metadata().unwrap().modified().unwrap())
        })
        .collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "timed out after a minute: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn sweep_and_run_have_the_same_results() {
    let scratch = Scratch::new("sweep-same");
    let summary = scratch.json(small(&["--jobs", "3", "--format", "json"]));
    assert_eq!(summary["points"], 12);
    assert_eq!(summary["seeds"], serde_json::json!([1, 2, 3]));
    // The runs may miss their expectations.
    let again = "run s/scenario.toml --only batch --only node-wide --format json --quiet --out r".split(' ');
    let run: Value = serde_json::from_slice(&scratch.samara(again).stdout).unwrap();
    assert_eq!(summary["digest"], run["digest"]);
    for (point, whole) in summary["runs"].as_array().unwrap().iter().zip(run["runs"].as_array().unwrap()) {
        for key in ["name", "parameters", "digest", "steps", "metrics"] {
            assert_eq!(point[key], whole[key], "{key}");
        }
    }
    for file in ["report.html", "summary.json", "sweep.parquet", "scenario.toml", "complete"] {
        assert!(std::fs::metadata(scratch.path("s").join(file)).is_ok_and(|data| data.len() > 0), "{file}");
    }
    let page = scratch.read("s/report.html");
    assert!(page.contains("Student") && page.contains("<svg") && page.contains("12 finished points of 12"));
}

#[test]
fn means_and_intervals_are_over_seeds() {
    let scratch = Scratch::new("sweep-means");
    let summary = scratch.json(small(&["--format", "json"]));
    let first = &summary["aggregates"][0];
    let values: Vec<f64> = summary["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| {
            run["name"] == first["name"]
                && run["parameters"]["network.uplink"] == first["parameters"]["network.uplink"]
        })
        .map(|run| run["metrics"]["time_to_custody_ms"]["mean"].as_f64().unwrap())
        .collect();
    assert_eq!(values.len(), 3);
    let mean = values.iter().sum::<f64>() / 3.0;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0;
    // Student's t with two degrees of freedom.
    let half = 4.302_652_73 * (variance / 3.0).sqrt();
    let found = &first["metrics"]["time_to_custody_ms.mean"];
    assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((found["confidence_95"].as_f64().unwrap() / half - 1.0).abs() < 1e-6, "{found}");
}

#[test]
fn killed_sweep_resumes_and_grows() {
    let scratch = Scratch::new("sweep-killed");
    let mut command = scratch.command(small(&["--jobs", "1"]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let directory = scratch.path("s");
    wait_until("three points", || points(&directory).len() >= 3);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGSTOP).unwrap();
    let second = scratch.refused(small(&[]));
    assert!(second.contains("another sweep is using this directory"), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The point in progress ends with its parent, and may just have finished.
    std::thread::sleep(Duration::from_millis(300));
    let before = points(&directory);
    assert!(before.len() < 12 && !directory.join("complete").exists(), "{}", before.len());
    std::fs::write(directory.join("points/0123456789abcdef.4711.tmp"), "half of a po").unwrap();
    let digest = scratch.json(small(&["--format", "json"]))["digest"].take();
    let after = points(&directory);
    assert_eq!(after.len(), 12);
    assert!(before.iter().all(|(name, at)| after[name] == *at), "a finished point was run again");
    assert!(!directory.join("points/0123456789abcdef.4711.tmp").exists());
    // A second --out is rejected, so that results cannot go to the wrong directory.
    scratch.refused(small(&["--format", "json", "--out", "other"]));
    // With more seeds, only the missing points run.
    let mut more = small(&["--format", "json"]);
    let at = more.iter().position(|arg| *arg == "3").unwrap();
    more[at] = "4";
    let grown = scratch.json(more);
    assert_eq!(grown["runs"].as_array().unwrap().len(), 16);
    assert_ne!(grown["digest"], digest);
    assert!(after.iter().all(|(name, at)| points(&directory)[name] == *at));
}

#[test]
fn changed_scenario_is_detected() {
    let scratch = Scratch::new("sweep-changed");
    let scenario = scratch.ok(["show", "peerdas-small"]);
    scratch.write("mine.toml", &scenario);
    let sweep = || "sweep mine.toml --only batch --seeds 2 --out s --quiet".split(' ');
    scratch.ok(sweep());
    let before = points(&scratch.path("s"));
    // A changed title changes no result.
    scratch.write("mine.toml", scenario.replace("title = \"A block", "title = \"The block"));
    scratch.ok(sweep());
    assert_eq!(points(&scratch.path("s")), before);
    scratch.write("mine.toml", scenario.replace("nodes = 20", "nodes = 21"));
    let stderr = scratch.refused(sweep());
    assert!(stderr.contains("network.nodes was 20, is 21") && stderr.contains("--force"), "{stderr}");
    assert_eq!(points(&scratch.path("s")), before, "nothing is removed without --force");
    scratch.ok(sweep().chain(["--force"]));
    let after = points(&scratch.path("s"));
    assert!(after.len() == 2 && after.keys().all(|name| !before.contains_key(name)));
    // A directory that is not a sweep is left alone.
    std::fs::create_dir(scratch.path("other")).unwrap();
    scratch.write("other/thesis.tex", "text");
    let stderr = scratch.refused("sweep mine.toml --out other --quiet".split(' '));
    assert!(stderr.contains("not part of a sweep"), "{stderr}");
}

#[test]
fn failing_point_is_named_and_does_not_affect_others() {
    let scratch = Scratch::new("sweep-fails");
    // Ten of 30 nodes have no link to the others, which only building the network detects.
    let edges: String = (0..20)
        .flat_map(|a| (a + 1..20).map(move |b| (a, b)))
        .filter(|(a, b)| b - a < 9)
        .map(|(a, b)| format!("{a},{b}\n"))
        .collect();
    scratch.write("edges.csv", format!("dialer,listener\n{edges}28,29\n"));
    let scenario = scratch.ok(["show", "peerdas-small"]);
    let of_file = "kind = \"file\"\nfile = \"edges.csv\"";
    scratch.write("mine.toml", scenario.replace("kind = \"full-mesh\"", of_file));
    let args =
        "sweep mine.toml --only batch --grid network.nodes=20,30 --seeds 2 --out s --format json --quiet";
    let output = scratch.samara(args.split(' '));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["failed"].as_array().unwrap().len(), 2);
    assert_eq!(summary["runs"].as_array().unwrap().len(), 2);
    assert!(summary["failed"][0]["name"].as_str().unwrap().contains("network.nodes=30"));
    assert!(text(&output.stderr).contains("2 of 4 points"), "{}", text(&output.stderr));
    assert!(!scratch.path("s/complete").exists());
    let page = scratch.read("s/report.html");
    assert!(page.contains("2 points failed"));
}

/// The processes that a process or one of its threads started.
fn descendants(child: &Child) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()));
    let tasks = tasks.into_iter().flatten().flatten();
    let children =
        tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    children
        .flat_map(|ids| ids.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn killed_worker_is_counted_and_its_point_runs_again() {
    let scratch = Scratch::new("sweep-worker");
    // The points run long enough for the test to kill one.
    let args = "sweep peerdas --only batch --set network.nodes=150 --seeds 2 --jobs 1 --out s";
    let mut command = scratch.command(args.split(' '));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a worker", || !descendants(&child).is_empty());
    std::thread::sleep(Duration::from_millis(30));
    for worker in descendants(&child) {
        let _ = kill(Pid::from_raw(worker as i32), Signal::SIGKILL);
    }
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("killed by signal 9") && stderr.contains("1 points ran again"), "{stderr}");
    let summary: Value = serde_json::from_str(&scratch.read("s/summary.json")).unwrap();
    assert_eq!(summary["runs"].as_array().unwrap().len(), 2);
    assert!(scratch.path("s/complete").exists());
}

#[test]
fn listed_commands_run_in_a_shell() {
    let scratch = Scratch::new("sweep-list");
    let listed = scratch.ok(small(&["--list"]));
    assert_eq!(listed.lines().count(), 12);
    assert!(!scratch.path("s").exists(), "nothing is written");
    // Runs the listed commands in a shell.
    let script = listed.replace("samara point", &format!("'{}' point", env!("CARGO_BIN_EXE_samara")));
    let shell = Command::new("sh").current_dir(&scratch.0).args(["-ec", &script]).output().unwrap();
    assert!(shell.status.success(), "{}", text(&shell.stderr));
    let before = points(&scratch.path("s"));
    assert_eq!(before.len(), 12);
    scratch.ok(small(&[]));
    assert_eq!(points(&scratch.path("s")), before);
    // A point with another id than requested.
    scratch.refused("point peerdas-small --only batch --seed 1 --id 0".split(' '));
}

#[test]
fn rejects_bad_input() {
    let scratch = Scratch::new("sweep-bad");
    scratch.refuses(
        "
sweep peerdas-small --grid network.nodes => is not KEY=VALUE
sweep peerdas-small --grid network.nodes=20,20 => duplicate value 20
sweep peerdas-small --grid network.nods=20,30 => did you mean `nodes`
sweep peerdas-small --grid network.uplink=1,2 => expected a rate
sweep peerdas-small --seeds 0 => has no seeds
sweep peerdas-small --seeds 1,1 --only batch => scenario.seeds: has 1 twice
sweep peerdas-small --engine ray --python no-such-python --out r => pip install
point peerdas-small => expected one: select it with
",
    );
}
