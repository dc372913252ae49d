//! Sweeps as their users see them: what is finished stays, what is missing is done, what is wrong is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A directory of its own for each test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("samara-sweep-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn samara(scratch: &Scratch, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_samara")).current_dir(&scratch.0).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A sweep of twelve small points.
fn small<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    let grid = "network.uplink=10 Mbit/s,50 Mbit/s";
    let mut args = vec!["sweep", "peerdas-small", "--only", "batch", "--only", "node-wide", "--grid", grid];
    args.extend(["--seeds", "3", "--out", "s", "--quiet"]);
    args.extend(extra);
    args
}

/// The finished points and when they were finished.
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
        assert!(Instant::now() < until, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_sweep_is_what_run_does_with_the_same_scenario() {
    let scratch = Scratch::new("same");
    let output = samara(&scratch, &small(&["--jobs", "3", "--format", "json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("exactly one document");
    assert_eq!(summary["points"], 12);
    assert_eq!(summary["seeds"], serde_json::json!([1, 2, 3]));
    let again = samara(
        &scratch,
        &[
            "run",
            "s/scenario.toml",
            "--only",
            "batch",
            "--only",
            "node-wide",
            "--format",
            "json",
            "--quiet",
            "--out",
            "r",
        ],
    );
    let run: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(summary["digest"], run["digest"]);
    for (point, whole) in summary["runs"].as_array().unwrap().iter().zip(run["runs"].as_array().unwrap()) {
        for key in ["name", "parameters", "digest", "steps", "metrics"] {
            assert_eq!(point[key], whole[key], "{key}");
        }
    }
    for file in ["report.html", "summary.json", "sweep.parquet", "scenario.toml", "complete"] {
        assert!(std::fs::metadata(scratch.path("s").join(file)).is_ok_and(|data| data.len() > 0), "{file}");
    }
    let page = std::fs::read_to_string(scratch.path("s/report.html")).unwrap();
    assert!(page.contains("Student") && page.contains("<svg") && page.contains("12 finished points of 12"));
}

#[test]
fn means_and_intervals_are_those_of_the_seeds() {
    let scratch = Scratch::new("means");
    let output = samara(&scratch, &small(&["--format", "json"]));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
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
fn a_sweep_that_was_killed_goes_on_and_grows() {
    let scratch = Scratch::new("killed");
    let mut child = Command::new(env!("CARGO_BIN_EXE_samara"))
        .current_dir(&scratch.0)
        .args(small(&["--jobs", "1"]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let directory = scratch.path("s");
    wait_until("three points", || points(&directory).len() >= 3);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGSTOP).unwrap();
    let second = samara(&scratch, &small(&[]));
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("another sweep works on it"), "{}", text(&second.stderr));
    child.kill().unwrap();
    child.wait().unwrap();
    // The point that was under way ends with its parent, and may just have been finished.
    std::thread::sleep(Duration::from_millis(300));
    let before = points(&directory);
    assert!(before.len() < 12 && !directory.join("complete").exists(), "{}", before.len());
    std::fs::write(directory.join("points/0123456789abcdef.4711.tmp"), "half of a po").unwrap();
    let output = samara(&scratch, &small(&["--format", "json"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let after = points(&directory);
    assert_eq!(after.len(), 12);
    assert!(before.iter().all(|(name, at)| after[name] == *at), "a finished point was run again");
    assert!(!directory.join("points/0123456789abcdef.4711.tmp").exists());
    let digest = serde_json::from_slice::<Value>(&output.stdout).unwrap()["digest"].clone();
    let whole = samara(&scratch, &[&small(&["--format", "json"])[..], &["--out", "other"]].concat());
    // A second --out is refused, so that nothing is taken for what it is not.
    assert_eq!(whole.status.code(), Some(2));
    // More seeds: only what is missing.
    let mut more = small(&["--format", "json"]);
    let at = more.iter().position(|arg| *arg == "3").unwrap();
    more[at] = "4";
    let output = samara(&scratch, &more);
    let grown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(grown["runs"].as_array().unwrap().len(), 16);
    assert_ne!(grown["digest"], digest);
    assert!(after.iter().all(|(name, at)| points(&directory)[name] == *at));
}

#[test]
fn a_changed_scenario_is_noticed() {
    let scratch = Scratch::new("changed");
    let show = samara(&scratch, &["show", "peerdas-small"]);
    let scenario = text(&show.stdout);
    std::fs::write(scratch.path("mine.toml"), &scenario).unwrap();
    let sweep = ["sweep", "mine.toml", "--only", "batch", "--seeds", "2", "--out", "s", "--quiet"];
    assert!(samara(&scratch, &sweep).status.success());
    let before = points(&scratch.path("s"));
    // Other words change no result.
    std::fs::write(scratch.path("mine.toml"), scenario.replace("title = \"A block", "title = \"The block"))
        .unwrap();
    assert!(samara(&scratch, &sweep).status.success());
    assert_eq!(points(&scratch.path("s")), before);
    std::fs::write(scratch.path("mine.toml"), scenario.replace("nodes = 20", "nodes = 21")).unwrap();
    let output = samara(&scratch, &sweep);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("network.nodes was 20, is 21") && told.contains("--force"), "{told}");
    assert_eq!(points(&scratch.path("s")), before, "nothing is removed unasked");
    let forced = samara(&scratch, &[&sweep[..], &["--force"]].concat());
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    let after = points(&scratch.path("s"));
    assert!(after.len() == 2 && after.keys().all(|name| !before.contains_key(name)));
    // What is no sweep is left alone.
    std::fs::create_dir(scratch.path("other")).unwrap();
    std::fs::write(scratch.path("other/thesis.tex"), "text").unwrap();
    let output = samara(&scratch, &["sweep", "mine.toml", "--out", "other", "--quiet"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no sweep"), "{}", text(&output.stderr));
}

#[test]
fn a_point_that_fails_is_named_and_takes_nothing_with_it() {
    let scratch = Scratch::new("fails");
    // Ten of 30 nodes have no links: only building the network shows it.
    let edges: String = (0..20)
        .flat_map(|a| (a + 1..20).map(move |b| (a, b)))
        .filter(|(a, b)| b - a < 9)
        .map(|(a, b)| format!("{a},{b}\n"))
        .collect();
    std::fs::write(scratch.path("edges.csv"), format!("dialer,listener\n{edges}")).unwrap();
    let scenario = text(&samara(&scratch, &["show", "peerdas-small"]).stdout)
        .replace("kind = \"full-mesh\"", "kind = \"file\"\nfile = \"edges.csv\"");
    std::fs::write(scratch.path("mine.toml"), scenario).unwrap();
    let args = ["sweep", "mine.toml", "--only", "batch", "--grid", "network.nodes=20,30", "--seeds", "2"];
    let output = samara(&scratch, &[&args[..], &["--out", "s", "--format", "json", "--quiet"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["failed"].as_array().unwrap().len(), 2);
    assert_eq!(summary["runs"].as_array().unwrap().len(), 2);
    assert!(summary["failed"][0]["name"].as_str().unwrap().contains("network.nodes=30"));
    assert!(text(&output.stderr).contains("2 of 4 points"), "{}", text(&output.stderr));
    assert!(!scratch.path("s/complete").exists());
    let page = std::fs::read_to_string(scratch.path("s/report.html")).unwrap();
    assert!(page.contains("2 points failed"));
}

/// The processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect()
}

fn descendants(child: &Child) -> Vec<u32> {
    // Threads start processes, too.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()))
        .map(|tasks| tasks.flatten().collect::<Vec<_>>());
    let all = tasks.unwrap_or_default().into_iter().flat_map(|task| {
        let path = task.path().join("children");
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect::<Vec<u32>>()
    });
    all.chain(children(child.id())).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_is_killed_is_counted_and_run_again() {
    let scratch = Scratch::new("worker");
    // Long enough to be hit.
    let child = Command::new(env!("CARGO_BIN_EXE_samara"))
        .current_dir(&scratch.0)
        .args([
            "sweep",
            "peerdas",
            "--only",
            "batch",
            "--set",
            "network.nodes=150",
            "--seeds",
            "2",
            "--jobs",
            "1",
            "--out",
            "s",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a worker", || !descendants(&child).is_empty());
    std::thread::sleep(Duration::from_millis(30));
    for worker in descendants(&child) {
        let _ = kill(Pid::from_raw(worker as i32), Signal::SIGKILL);
    }
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stderr);
    assert!(told.contains("ended by signal 9") && told.contains("1 points were run again"), "{told}");
    assert_eq!(json(&scratch.path("s/summary.json"))["runs"].as_array().unwrap().len(), 2);
    assert!(scratch.path("s/complete").exists());
}

#[test]
fn commands_of_points_can_be_run_by_anybody() {
    let scratch = Scratch::new("list");
    let listed = text(&samara(&scratch, &small(&["--list"])).stdout);
    assert_eq!(listed.lines().count(), 12);
    assert!(!scratch.path("s").exists(), "nothing is written");
    // As a shell runs them.
    let script = listed.replace("samara point", &format!("'{}' point", env!("CARGO_BIN_EXE_samara")));
    let shell = Command::new("sh").current_dir(&scratch.0).args(["-ec", &script]).output().unwrap();
    assert!(shell.status.success(), "{}", text(&shell.stderr));
    let before = points(&scratch.path("s"));
    assert_eq!(before.len(), 12);
    let output = samara(&scratch, &small(&[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(points(&scratch.path("s")), before);
    // A point that is not what it is called.
    let wrong = samara(&scratch, &["point", "peerdas-small", "--only", "batch", "--seed", "1", "--id", "0"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn bad_input_is_told() {
    let scratch = Scratch::new("bad");
    for (args, what) in [
        (vec!["sweep", "peerdas-small", "--grid", "network.nodes"], "is not KEY=VALUE"),
        (vec!["sweep", "peerdas-small", "--grid", "network.nodes=20,20"], "duplicate value 20"),
        (vec!["sweep", "peerdas-small", "--grid", "network.nods=20,30"], "did you mean `nodes`"),
        (vec!["sweep", "peerdas-small", "--grid", "network.uplink=1,2"], "expected a rate"),
        (vec!["sweep", "peerdas-small", "--seeds", "0"], "has no seed"),
        (vec!["sweep", "peerdas-small", "--seeds", "1,1", "--only", "batch"], "is a duplicate"),
        (
            vec!["sweep", "peerdas-small", "--engine", "ray", "--python", "no-such-python", "--out", "r"],
            "pip install",
        ),
        (vec!["point", "peerdas-small"], "have to choose one of them"),
    ] {
        let output = samara(&scratch, &args);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(what), "{args:?}: {told}");
    }
}
