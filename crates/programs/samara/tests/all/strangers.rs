//! Directories and files of strangers: links, pipes, devices and large files where results, scenarios
//! and tables are expected.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Scratch, names, text};

/// A run of a second at most.
const SMALL: [&str; 11] = [
    "peerdas-small",
    "--only",
    "batch",
    "--set",
    "network.nodes=40",
    "--set",
    "columns.count=8",
    "--set",
    "columns.custody=2",
    "--set",
    "columns.blobs=1",
];

fn small<'a>(verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [verb].into_iter().chain(SMALL).chain(more.iter().copied()).collect()
}

/// Creates a pipe without a writer: opening it for reading waits for ever.
fn pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

/// Runs a command that must reject its input, and must not wait.
fn refused_at_once(scratch: &Scratch, args: &[&str]) -> String {
    let mut child = scratch
        .command(args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

/// Writes the user's files, and returns a check that they are unchanged.
fn mine(scratch: &Scratch) -> impl Fn(&str) {
    let names = ["profile", "package.json", "a.parquet", "notes.7.tmp", "report.html"];
    let directory = scratch.path("mine");
    std::fs::create_dir_all(directory.join("work.8.tmp")).unwrap();
    std::fs::write(directory.join("work.8.tmp/page"), "mine").unwrap();
    names.iter().for_each(|name| std::fs::write(directory.join(name), "mine").unwrap());
    move |context| {
        for name in names.iter().chain(&["work.8.tmp/page"]) {
            let found = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            assert_eq!(found, "mine", "{context}: {name}");
        }
        assert_eq!(crate::common::names(&directory).len(), names.len() + 1, "{context}: nothing is added");
    }
}

#[test]
fn links_in_results_lead_to_no_change_elsewhere() {
    let scratch = Scratch::new("links");
    let unchanged = mine(&scratch);
    let names = ["unfinished", "complete", "lock", "summary.json", "report.html", "scenario.toml"];
    let names = names.iter().chain(&["inputs.json", "inputs", "figures", "runs", "nodes", "live"]);
    for (at, name) in names.enumerate() {
        let result = scratch.path(&format!("results-{at}"));
        std::fs::create_dir_all(&result).unwrap();
        let target = if at < 7 { "../mine/profile" } else { "../mine" };
        symlink(target, result.join(name)).unwrap();
        let result = result.to_str().unwrap();
        // Alone, and in what looks like an interrupted run.
        for _ in 0..2 {
            let error = scratch.refused(small("run", &["--out", result, "--force"]));
            assert!(error.contains("not part of a result"), "{name}: {error}");
            unchanged(name);
            if *name == "unfinished" {
                break;
            }
            std::fs::write(Path::new(result).join("unfinished"), "").unwrap();
        }
    }
}

#[test]
fn links_in_a_sweep_lead_to_no_change_elsewhere() {
    let scratch = Scratch::new("sweep-links");
    let unchanged = mine(&scratch);
    let names = ["points", "figures", "failures", "sweep.json", "scenario.toml", "lock", "complete"];
    for (at, name) in names.iter().enumerate() {
        let sweep = scratch.path(&format!("sweep-{at}"));
        std::fs::create_dir_all(&sweep).unwrap();
        symlink(if at < 3 { "../mine" } else { "../mine/profile" }, sweep.join(name)).unwrap();
        let sweep = sweep.to_str().unwrap();
        for force in [&["--out", sweep][..], &["--out", sweep, "--force"]] {
            scratch.refused(small("sweep", force));
            unchanged(name);
        }
    }
}

/// The temporary files of a sweep's directory belong to it only when its points do.
#[test]
fn foreign_points_and_temporary_files_stay() {
    let scratch = Scratch::new("sweep-foreign");
    for directory in ["s/points", "s/points/d.9.tmp"] {
        std::fs::create_dir_all(scratch.path(directory)).unwrap();
    }
    scratch.write("s/points/0123456789abcdef.json", "{}");
    for name in ["package.json", "notes.tmp", "a.txt.9.tmp"] {
        scratch.write(&format!("s/points/{name}"), "mine");
    }
    let before = names(&scratch.path("s/points"));
    let error = scratch.refused(small("sweep", &["--out", "s", "--quiet"]));
    assert!(error.contains("1 finished points do not belong to this sweep"), "{error}");
    assert_eq!(names(&scratch.path("s/points")), before);
    scratch.ok(small("sweep", &["--out", "s", "--quiet", "--force"]));
    let after = names(&scratch.path("s/points"));
    for name in ["package.json", "notes.tmp", "d.9.tmp"] {
        assert!(after.iter().any(|other| other == name), "{name}: {after:?}");
    }
    assert!(!after.iter().any(|name| name.starts_with("0123456789abcdef")), "{after:?}");
}

#[test]
fn default_directories_are_no_links() {
    let scratch = Scratch::new("default-links");
    let unchanged = mine(&scratch);
    std::fs::create_dir_all(scratch.path("results")).unwrap();
    for name in ["peerdas-small-seed1", "peerdas-small-sweep"] {
        symlink("../mine", scratch.path("results").join(name)).unwrap();
    }
    let error = scratch.refused(small("run", &["--seed", "1"]));
    assert!(error.contains("is a symbolic link; name the directory"), "{error}");
    let error = scratch.refused(small("sweep", &["--force"]));
    assert!(error.contains("is a symbolic link; name the directory"), "{error}");
    unchanged("default");
}

/// Files with fixed names, and files that the user names, replace links instead of following them.
#[test]
fn written_files_replace_links() {
    let scratch = Scratch::new("named-links");
    let unchanged = mine(&scratch);
    scratch.ok(small("run", &["--out", "all/a", "--quiet"]));
    for name in ["all/index.html", "page.html", "graph.csv", "trace.json"] {
        symlink("mine/profile", scratch.path(name)).ok();
    }
    std::fs::remove_file(scratch.path("all/index.html")).unwrap();
    symlink("../mine/profile", scratch.path("all/index.html")).unwrap();
    scratch.ok(["report", "all"]);
    scratch.ok(["compare", "all/a", "all/a", "--html", "page.html"]);
    scratch.ok(small("export", &[])
        .into_iter()
        .take(1)
        .chain(["graph"])
        .chain(SMALL)
        .chain(["-o", "graph.csv"]));
    let run = ["--run", "batch-seed1", "--format", "json", "-o", "trace.json"];
    scratch.ok(["export", "trace", "all/a"].into_iter().chain(run));
    unchanged("named");
    for name in ["all/index.html", "page.html", "graph.csv", "trace.json"] {
        let data = std::fs::symlink_metadata(scratch.path(name)).unwrap();
        assert!(data.is_file() && data.len() > 100, "{name}");
    }
    assert!(names(&scratch.0).iter().all(|name| !name.ends_with(".tmp")));
    let page = scratch.ok(["compare", "all/a", "all/a", "--html", "/dev/stdout"]);
    assert!(page.contains("<html"), "a pipe of the user is written directly");
}

/// An open file of the process is no name to replace: the link would be lost, and so would the output.
/// Not with the machine's `/dev/stdout`, which a failure would replace.
#[test]
fn named_files_can_be_descriptors() {
    let scratch = Scratch::new("descriptors");
    scratch.ok(small("run", &["--out", "a", "--quiet"]));
    symlink("/proc/self/fd/1", scratch.path("first")).unwrap();
    symlink("first", scratch.path("so")).unwrap();
    let export = |what: &str| -> Vec<String> {
        let args = ["export", what].into_iter().chain(SMALL).chain(["-o", "so"]);
        args.map(str::to_owned).collect()
    };
    let trace = ["export", "trace", "a", "--run", "batch-seed1", "--format", "json", "-o", "so"];
    let page = ["compare", "a", "a", "--html", "so"];
    let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    let all = [
        (export("nodes"), "node,"),
        (export("graph"), "<?xml"),
        (export("latencies"), ","),
        (owned(&trace), "{"),
        (owned(&page), "<!doctype html>"),
    ];
    for (args, start) in all {
        // Files of others stay.
        scratch.write("out", "before\n");
        let out = std::fs::File::options().append(true).open(scratch.path("out")).unwrap();
        let status = scratch.command(&args).stdout(out).status().unwrap();
        assert!(status.success(), "{args:?}");
        let written = std::fs::read_to_string(scratch.path("out")).unwrap();
        let rest = written.strip_prefix("before\n").unwrap_or_else(|| panic!("{args:?}: {written:.80}"));
        assert!(rest.len() > 100 && rest.starts_with(start), "{args:?}: {rest:.80}");
        for link in ["first", "so"] {
            assert!(scratch.path(link).is_symlink(), "{args:?} replaces {link}");
        }
    }
}

/// Commands that read results neither wait for a pipe nor read a device or a file without an end.
#[test]
fn readers_of_results_need_files() {
    let scratch = Scratch::new("pipes");
    type Make = fn(&Path);
    let others: [(&str, Make); 4] = [
        ("pipe", pipe),
        ("device", |path| symlink("/dev/zero", path).unwrap()),
        ("directory", |path| std::fs::create_dir(path).unwrap()),
        ("large", |path| std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap()),
    ];
    for (kind, make) in others {
        let part = |name: &str| {
            let path = scratch.path(kind).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            make(&path);
        };
        ["a/summary.json", "a/scenario.toml", "a/runs/r-seed1/run.json"].into_iter().for_each(part);
        let a = format!("{kind}/a");
        for args in
            [&["compare", &a, &a][..], &["explain", &a], &["explain", &a, "--what-if"], &["report", kind]]
        {
            refused_at_once(&scratch, args);
        }
        let scenario = format!("{a}/scenario.toml");
        for verb in ["show", "run", "sweep"] {
            refused_at_once(&scratch, &[verb, &scenario]);
        }
    }
}

#[test]
fn scenarios_name_files_only() {
    let scratch = Scratch::new("not-files");
    pipe(&scratch.path("pipe"));
    std::fs::create_dir(scratch.path("directory")).unwrap();
    let expected = [
        ("pipe", "not a file"),
        ("/dev/zero", "not a file"),
        ("/dev/stdin", "not a file"),
        ("directory", "directory"),
        ("/proc/self/environ", "a file of the kernel"),
        ("/proc/cpuinfo", "a file of the kernel"),
    ];
    for (file, message) in expected {
        let sets = [
            format!("network.nodes_file={file}"),
            format!("network.topology={{ kind = \"file\", file = \"{file}\" }}"),
            format!("network.latency_file={{ kind = \"one-way\", file = \"{file}\" }}"),
        ];
        for set in sets {
            let args = ["show", "peerdas-small", "--set", &set];
            let error = refused_at_once(&scratch, &args);
            assert!(error.contains(message) && !error.contains("PATH="), "{set}: {error}");
        }
    }
    // Scenarios and traces themselves, also those of a directory of results.
    std::fs::create_dir(scratch.path("r")).unwrap();
    scratch.write("r/summary.json", "{}");
    for link in ["s.toml", "r/scenario.toml"] {
        symlink("/proc/self/environ", scratch.path(link)).unwrap();
        let trace = ["export", "trace", link, "--format", "json", "-o", "t"];
        for args in [&["show", link][..], &["run", link], &["sweep", link], &trace] {
            let error = refused_at_once(&scratch, args);
            assert!(error.contains("a file of the kernel") && !error.contains("PATH="), "{args:?}: {error}");
        }
    }
    let error = refused_at_once(&scratch, &["explain", "r", "--what-if"]);
    assert!(!error.contains("PATH="), "{error}");
    // A file of the user elsewhere stays usable.
    let table = scratch.path("hosts.csv");
    std::fs::write(&table, "node,uplink\na,20 Mbit/s\nb,5 Mbit/s\nc,1 Mbit/s\n").unwrap();
    let set = format!("network.nodes_file={}", table.display());
    let topology = "network.topology={ kind = \"full-mesh\" }";
    scratch.ok(["show", "peerdas-small", "--set", &set, "--set", topology, "--set", "network.nodes="]);
}

/// A comparison of results of a stranger ends, whatever their values are, and prints no control
/// character.
#[test]
fn results_of_strangers_are_compared() {
    let scratch = Scratch::new("values");
    let name = "x\\u001b]0;PWNED\\u0007\\u009b2J\\u202e @everyone http://a.b";
    let run = |seed: u32, value: &str| {
        format!(
            "{{\"name\": \"{name}\", \"parameters\": {{\"seed\": {seed}}}, \"metrics\": {{\"a\": {value}}}}}"
        )
    };
    let values = ["0", "5e-324", "1e-90", "1e78", "-1e308", "1.7e308"];
    for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
        for (directory, values) in [("a", [a, b]), ("b", [b, b])] {
            let runs = format!("{}, {}", run(1, values[0]), run(2, values[1]));
            let text = format!(
                "{{\"scenario\": \"s\", \"version\": \"{name}\", \"digest\": \"{directory}\", \"runs\": [{runs}]}}"
            );
            std::fs::create_dir_all(scratch.path(directory)).unwrap();
            scratch.write(&format!("{directory}/summary.json"), text);
        }
        for format in ["table", "markdown", "json"] {
            let args = ["compare", "a", "b", "--format", format, "--html", "page.html"];
            let shown = scratch.ok(args);
            let is_raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!shown.contains(is_raw), "{a} {b}: {shown:?}");
            if format == "markdown" {
                assert!(!shown.contains("@everyone") && !shown.contains("http://"), "{shown}");
            }
        }
    }
}

/// The results of a run are not lost at its end because of the name of their directory.
#[test]
fn directory_of_results_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("not-utf-8");
    let out = std::ffi::OsStr::from_bytes(b"r\xff");
    let args = small("run", &["--seed", "1", "--quiet", "--out"]);
    scratch.ok(args.into_iter().map(std::ffi::OsStr::new).chain([out]));
    assert!(scratch.0.join(out).join("complete").is_file());
    let title = scratch.refused(small("run", &["--set", "scenario.title='a\u{1b}b'"]));
    assert!(title.contains("control character U+001B") && !title.contains('\u{1b}'), "{title:?}");
}
