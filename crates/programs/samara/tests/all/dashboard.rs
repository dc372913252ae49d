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

/// The nodes of a mix as processes, with the commands of the guides, of which one is killed and started
/// again.
#[cfg(all(unix, feature = "net"))]
mod nodes {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;

    /// Returns the first shell commands of a section of a guide.
    fn commands(page: &str, section: &str) -> String {
        let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guides");
        let guide = std::fs::read_to_string(guides.join(page)).unwrap();
        let (_, section) = guide.split_once(&format!("## {section}\n")).expect("the section");
        let (_, code) = section.split_once("```sh\n").expect("commands");
        code.split("```").next().unwrap().to_owned()
    }

    struct Pool {
        scratch: Scratch,
        /// A host of loopback for this process, where the guides' ports are free.
        host: String,
        path: std::ffi::OsString,
    }

    impl Pool {
        fn bash(&self, script: &str) -> Command {
            let mut command = Command::new("bash");
            let script = script.replace("127.0.0.1", &self.host);
            command.args(["-c", &script]).current_dir(&self.scratch.0).env("PATH", &self.path);
            command
        }

        fn node(&self, number: usize) -> Running {
            let path = self.scratch.path(&format!("{number}.log"));
            let log = std::fs::File::options().append(true).create(true).open(path).unwrap();
            let mut command = self.bash(&format!("exec samara node --config node-{number}.toml"));
            Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
        }

        fn snapshot(&self) -> Value {
            let address = format!("{}:7117", self.host);
            let Ok(mut stream) = TcpStream::connect(&address) else { return Value::Null };
            let request =
                format!("GET /v1/snapshot HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
            let mut answer = String::new();
            if stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer)).is_err()
            {
                return Value::Null;
            }
            answer
                .split_once("\r\n\r\n")
                .and_then(|(_, body)| serde_json::from_str(body).ok())
                .unwrap_or_default()
        }

        fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
            let start = Instant::now();
            loop {
                let state = self.snapshot();
                if holds(&state) {
                    return state;
                }
                if start.elapsed() > Duration::from_secs(120) {
                    let logs = (0..4).map(|n| self.scratch.read(&format!("{n}.log"))).collect::<String>();
                    panic!("timed out waiting for {what}: {state:#}\n{logs}");
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn source<'a>(state: &'a Value, name: &str) -> &'a Value {
        let mut sources = state["sources"].as_array().into_iter().flatten();
        sources.find(|source| source["name"] == name).unwrap_or(&Value::Null)
    }

    fn is_answering(state: &Value, name: &str) -> bool {
        let source = source(state, name);
        source["answered"] == true && source["silent_since_unix_ms"].is_null()
    }

    /// The newest round in which a node has worked.
    fn last_worked(state: &Value, node: &str) -> Option<u64> {
        let rounds = state["rounds"].as_array().into_iter().flatten().rev();
        let mut rounds = rounds.map(|id| &state[id.as_str().unwrap()]);
        let has_span =
            |round: &&Value| round["spans"].as_array().into_iter().flatten().any(|span| span[0] == node);
        rounds.find(has_span).and_then(|round| round["round"].as_u64())
    }

    #[test]
    fn the_dashboard_shows_the_nodes_of_a_mix_and_which_one_is_down() {
        let program = Path::new(env!("CARGO_BIN_EXE_samara"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path: Vec<PathBuf> = std::iter::once(program.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&path))
            .collect();
        let id = std::process::id();
        let host = format!("127.{}.{}.{}", 1 + id % 62, id / 62 % 256, 1 + id / 15_872 % 254);
        let scratch = Scratch::new("dashboard-nodes");
        let pool = Pool { scratch, host, path: std::env::join_paths(path).unwrap() };
        // The guide starts the nodes with its last line.
        let setup = commands("mix.md", "Send a message");
        let (setup, start) = setup.trim_end().rsplit_once('\n').unwrap();
        assert!(start.contains("samara node --config node-$n.toml"), "{start}");
        let output = pool.bash(&format!("set -e\n{setup}")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut nodes: Vec<Running> = (0..4).map(|number| pool.node(number)).collect();
        let shown = commands("dashboard.md", "Nodes on several machines");
        let shown = shown.replace("samara dashboard", "exec samara dashboard --open no");
        assert!(shown.contains("exec samara dashboard"), "{shown}");
        let _dashboard = Running(pool.bash(&shown).stdout(Stdio::null()).spawn().unwrap());
        let names = ["node-0", "node-1", "node-2", "scheduler"];
        let members = &names[..3];
        let state = pool.until("a round of all nodes", |state| {
            members.iter().all(|node| last_worked(state, node).is_some())
                && names.iter().all(|name| is_answering(state, name))
        });
        let mut team = state["teams"][0]["members"].as_array().unwrap().clone();
        team.sort_by_key(|name| name.as_str().map(str::to_owned));
        assert_eq!(json!(team), json!(members));
        assert_eq!(source(&state, "scheduler")["role"], "scheduler");
        let started = source(&state, "node-1")["started_unix_ms"].as_u64().unwrap();
        nodes.remove(1);
        // Its last connection may have ended within an answer.
        let state = pool.until("node 1 to be down", |state| {
            source(state, "node-1")["silent_because"] == "no connection: connection refused"
        });
        let down = source(&state, "node-1");
        assert!(down["silent_since_unix_ms"].as_u64() > Some(started), "{down}");
        let is_cut = |state: &Value| {
            let mut links = state["links"]["rows"].as_array().into_iter().flatten();
            links.any(|link| link["node"] == "node-0" && link["peer"] == "node-1" && link["up"] == false)
        };
        let state = pool.until("the link to node 1 to be down", is_cut);
        assert!(["node-0", "node-2", "scheduler"].iter().all(|name| is_answering(&state, name)));
        let before = last_worked(&state, "node-1");
        let _again = pool.node(1);
        let state = pool.until("node 1 in a new round", |state| {
            is_answering(state, "node-1") && last_worked(state, "node-1") > before
        });
        assert!(source(&state, "node-1")["started_unix_ms"].as_u64() > Some(started));
        for name in names {
            let source = source(&state, name);
            let lost = ["dropped", "unreadable", "unknown", "refused"].map(|key| source[key].as_u64());
            assert_eq!(lost, [Some(0); 4], "{source}");
        }
    }
}

#[test]
fn wrong_addresses_of_nodes_say_what_is_expected() {
    let scratch = Scratch::new("dashboard-addresses");
    scratch.write("list.txt", "127.0.0.1:9100\n127.0.0.1\n");
    scratch.write("empty.txt", "# none yet\n");
    scratch.write("twice.txt", "127.0.0.1:9100\n");
    for (args, expected) in [
        ("--node 10.0.0.7", "without a port; expected HOST:PORT"),
        ("--node http://10.0.0.7:9100/metrics", "which is a URL; expected HOST:PORT"),
        ("--node 2001:db8::7:9100", "not in brackets"),
        ("--nodes list.txt", "list.txt:2: found \"127.0.0.1\", without a port"),
        ("--nodes empty.txt", "empty.txt: found no node"),
        ("--nodes absent.txt", "absent.txt: No such file"),
        ("--nodes twice.txt --node 127.0.0.1:9100", "duplicate node 127.0.0.1:9100"),
    ] {
        let error = scratch.refused("dashboard --open no".split(' ').chain(args.split(' ')));
        assert!(error.contains(expected), "{args}: {error}");
    }
}
