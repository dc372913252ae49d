//! The nodes as processes: they read commands and write events as JSON lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;

use crate::go_program::{GoProgram, Release};
use crate::js_program;
use crate::peers::example;

static GO: GoProgram = GoProgram::new("go", "the soak had no nodes of go-libp2p-pubsub");

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Samara,
    /// go-libp2p-pubsub 0.16.
    Go16,
    /// go-libp2p-pubsub 0.19.
    Go19,
    /// rust-libp2p's gossipsub.
    Rust,
    /// js-libp2p's gossipsub.
    Js,
}

impl Kind {
    /// Returns the program with its arguments for the node with a key. `None` if the peer is not
    /// available.
    pub(super) fn command(self, key: u64) -> Option<Command> {
        let go = |release| {
            let mut command = Command::new(GO.path(release)?);
            command.args(["-score", "-prune-backoff", "3s", "-unsubscribe-backoff", "3s", "-seed"]);
            Some(command)
        };
        let rust = |which| {
            let mut command = Command::new(example("soak_peer"));
            command.arg(which);
            Some(command)
        };
        let mut command = match self {
            Self::Samara => rust("samara"),
            Self::Rust => rust("rust"),
            Self::Go16 => go(Release::Pinned),
            Self::Go19 => go(Release::Newest),
            Self::Js => {
                let mut command = Command::new("node");
                command.arg(js_program::program()?).args(["--score", "--seed"]);
                Some(command)
            }
        }?;
        command.arg(key.to_string());
        Some(command)
    }

    pub(super) fn is_go(self) -> bool {
        matches!(self, Self::Go16 | Self::Go19)
    }
}

/// An event that a process reports.
#[derive(Debug, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub(super) enum Report {
    Listening {
        peer: String,
        address: String,
    },
    Moved {
        address: String,
    },
    Message {
        data: String,
    },
    /// The node did not publish.
    Refused {
        data: String,
        error: String,
    },
    State(State),
    #[serde(other)]
    Other,
}

/// The state of a node. Lists and maps without entries may be missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) connected: Vec<String>,
    pub(super) subscribers: Vec<String>,
    pub(super) scores: BTreeMap<String, f64>,
    /// The peers to which go has, or opens, a stream.
    pub(super) peers: Vec<String>,
}

/// A report of a node's process.
pub(super) struct Said {
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) at: Instant,
    pub(super) report: Report,
}

/// A process, which ends when it is dropped.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    pub(super) life: u64,
}

impl Process {
    /// Starts a process. Its reports carry the number of the node and of its life.
    pub(super) fn start(mut command: Command, node: usize, life: u64, reports: Sender<Said>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log(node)))
            .spawn()
            .expect("the peer starts");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            // A process that is killed may leave a part of a line.
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(report) = serde_json::from_str(&line) else { continue };
                if reports.send(Said { node, life, at: Instant::now(), report }).is_err() {
                    return;
                }
            }
        });
        Self { child, input, life }
    }

    pub(super) fn send(&mut self, command: &Value) -> std::io::Result<()> {
        self.input.write_all(format!("{command}\n").as_bytes())
    }

    /// Stops the process without closing its connections.
    pub(super) fn freeze(&self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGSTOP);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the file with what a node writes to standard error.
fn log(node: usize) -> std::fs::File {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak");
    std::fs::create_dir_all(&directory).expect("a directory below the target directory");
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true).open(directory.join(format!("{node}.log"))).expect("a file")
}
