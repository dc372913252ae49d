//! Tests of a run's live files and of the dashboard that shows them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use samara_trace::live::{Event, LiveReader, Outcome, RunState, Said};

use crate::common::Scratch;

/// A process that is killed at the end of its test, also after a failure.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Executes two small runs into a directory. They may miss their expectations.
fn run(scratch: &Scratch, out: &[&str]) {
    let small = "run peerdas --only batch --only node-wide --quiet --format json --set network.nodes=60 \
                 --set network.topology.degree=20 --set columns.count=16 --set columns.custody=4 --set";
    let args = small.split_whitespace().chain(["columns.warm_up=5 s", "--out"]).chain(out.iter().copied());
    assert!(scratch.samara(args).status.code().is_some_and(|code| code < 2));
}

fn lines(path: &Path) -> Vec<samara_trace::live::Line> {
    let mut reader = LiveReader::new(path);
    let mut lines = Vec::new();
    let take = |said| {
        if let Said::Line(line) = said {
            lines.push(line)
        }
    };
    assert!(!reader.poll(usize::MAX, take).unwrap());
    assert_eq!((reader.counts().missing, reader.counts().garbage), (0, 0));
    lines
}

#[test]
fn run_reports_progress_until_done() {
    let scratch = Scratch::new("dashboard-run");
    run(&scratch, &["r"]);
    let lines = lines(&scratch.path("r/live/session.jsonl"));
    assert!(matches!(&lines[0].event, Event::Started { role, .. } if role == "session"));
    assert!(matches!(lines.last().unwrap().event, Event::Finished { outcome: Outcome::Ok, .. }));
    for run in ["batch, seed 1", "node-wide, seed 1"] {
        let mut events =
            lines.iter().filter(|line| line.node.as_deref() == Some(run)).map(|line| &line.event);
        let states: Vec<_> = events
            .clone()
            .map(|event| match event {
                Event::Progress(progress) => progress.state,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((states[0], *states.last().unwrap()), (RunState::Waiting, RunState::Done));
        assert!(states.contains(&RunState::Running));
        let Some(Event::Progress(last)) = events.next_back() else { panic!("no progress of {run}") };
        // 59 nodes wait for 4 columns each.
        assert_eq!(
            (last.share, last.deliveries, last.deliveries_expected),
            (Some(1.0), Some(236), Some(236))
        );
        assert!(last.virtual_ns.unwrap() > 5_000_000_000 && last.steps.unwrap() > 1000);
    }
    // Another run in the same directory starts over, and the files of the first one do not prevent
    // it.
    run(&scratch, &["r", "--force"]);
}

#[test]
fn the_dashboard_shows_runs_of_this_directory() {
    let scratch = Scratch::new("dashboard-serve");
    run(&scratch, &["results/first"]);
    let mut command = scratch.command(["dashboard", "--listen", "127.0.0.1:0", "--open", "no"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/v1/runs").contains("\"name\":\"first\""));
    let snapshot = ask("/v1/snapshot?run=first");
    assert!(snapshot.contains("node-wide, seed 1") && snapshot.contains("\"deliveries\":236"), "{snapshot}");
    assert!(ask("/").contains("<title>Samara dashboard</title>"));
}

#[test]
fn a_directory_without_runs_is_reported() {
    let scratch = Scratch::new("dashboard-none");
    scratch.write("file", "");
    for (name, cause) in [("nope", "No such file"), ("file", "Not a directory")] {
        let error = scratch.refused(["dashboard", name, "--open", "no"]);
        let expected = format!("{name}: {cause}");
        assert!(error.contains(&expected) && error.contains("expected a results directory"), "{error}");
    }
    std::fs::create_dir(scratch.path("empty")).unwrap();
    // The default directory need not exist: the dashboard may start before the first run.
    for (args, directory) in [(&["dashboard", "empty"][..], "empty"), (&["dashboard"], "results")] {
        let listen = ["--listen", "127.0.0.1:0", "--open", "no"];
        let mut command = scratch.command(args.iter().copied().chain(listen));
        let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        let lines: Vec<String> = lines.take(2).map(Result::unwrap).collect();
        let expected =
            format!("{directory} has no run with live files yet; start one, for example samara run");
        assert!(lines[1].starts_with(&expected), "{lines:?}");
    }
}

#[test]
fn address_beyond_loopback_requires_token() {
    let scratch = Scratch::new("dashboard-token");
    let refused =
        |args: &str| scratch.refused("dashboard --open no --listen".split(' ').chain(args.split(' ')));
    for (args, expected) in [("0.0.0.0:0", "set a token"), ("0.0.0.0:0 --token short", "at least 16")] {
        let error = refused(args);
        assert!(error.contains(expected), "{error}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(&address);
    assert!(error.contains(&address) && error.contains("free port"), "{error}");
}

/// Without its token, the page would be open to everybody on the machine.
#[cfg(unix)]
#[test]
fn a_token_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;

    let scratch = Scratch::new("dashboard-token");
    let mut command = scratch.command(["dashboard", "--listen", "127.0.0.1:0", "--open", "no"]);
    command.env("SAMARA_DASHBOARD_TOKEN", std::ffi::OsStr::from_bytes(b"0123456789abcdef\xff"));
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("SAMARA_DASHBOARD_TOKEN: the value is not UTF-8"), "{error}");
}
