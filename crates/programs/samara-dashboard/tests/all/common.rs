//! Directories, servers, and a team that writes live files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_dashboard::{Dashboard, NodeAddress};
use samara_trace::live::{Clock, Edge, Event, Latencies, LiveWriter, Progress, RoundState, RunState, Step};

pub(crate) const MS: u64 = 1_000_000;

/// Creates a directory for one test.
pub(crate) fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dashboard-{test}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub(crate) fn started(role: &str, clock: Clock, started_unix_ns: u64) -> Event {
    Event::Started { role: role.into(), clock, started_unix_ns, run: None }
}

pub(crate) fn round(round: u64, state: RoundState) -> Event {
    Event::Round { round, state, team: Some(0), slots: None, cause: None }
}

pub(crate) fn slots(round: u64, step: Step, slots: u64) -> Event {
    Event::Slots { round, step, slots }
}

/// A server, which ends when this value is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _dashboard: Dashboard,
}

impl Server {
    pub(crate) fn start(directory: &Path, address: &str, token: Option<&str>) -> Self {
        Self::start_with(directory, &[], address, token)
    }

    pub(crate) fn start_with(
        directory: &Path,
        nodes: &[NodeAddress],
        address: &str,
        token: Option<&str>,
    ) -> Self {
        let dashboard = Dashboard::start(directory, nodes, address.parse().unwrap(), token).unwrap();
        Self { address: dashboard.address(), _dashboard: dashboard }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn stop(self) {}
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Nodes of a team in the cities of the blog post, with the one-way latency from each to the next.
pub(crate) const NODES: [&str; 5] = ["frankfurt", "montreal", "singapore", "oregon", "london"];
pub(crate) const ONE_WAY_MS: [u64; 5] = [46, 52, 47, 41, 41];
const PHASES: [&str; 6] =
    ["precompute_decrypt", "precompute_permute", "reveal", "decrypt", "permute", "result"];

/// A pipelined team with a wall clock. Its lines depend on the numbers alone.
pub(crate) struct Team {
    writers: Vec<LiveWriter>,
    scheduler: LiveWriter,
    client: LiveWriter,
    pub(crate) begin: u64,
    rounds: u64,
}

/// Duration of a phase at a node, and interval between the starts of two rounds.
const PHASE_MS: u64 = 180;
pub(crate) const EVERY_MS: u64 = 400;

impl Team {
    pub(crate) fn start(results: &Path, begin: u64) -> Self {
        let create = |name: &str, role: &str| {
            let writer = LiveWriter::create(results, name).unwrap();
            writer.say(begin, started(role, Clock::Wall, begin));
            writer
        };
        let scheduler = create("scheduler", "scheduler");
        let members = NODES.map(str::to_owned).to_vec();
        scheduler.say(begin, Event::Team { team: 0, members });
        let writers = NODES.iter().map(|name| create(name, "node")).collect();
        Self { writers, scheduler, client: create("client", "client"), begin, rounds: 0 }
    }

    /// Time of a slot from entry to exit in a round.
    pub(crate) fn latency_ms(round: u64) -> u64 {
        let hops: u64 = ONE_WAY_MS.iter().sum();
        2 * hops + 2 * PHASE_MS + (round * 37) % 60
    }

    /// Reports a whole round, or one that fails in real time.
    pub(crate) fn round(&mut self, fails: bool) {
        let number = self.rounds;
        self.rounds += 1;
        let start = self.begin + number * EVERY_MS * MS;
        let say = |writer: &LiveWriter, ms: u64, event| writer.say(start + ms * MS, event);
        let state = |ms, state| {
            let cause = (state == RoundState::Failed).then(|| "peer_lost".to_owned());
            let event = Event::Round { round: number, state, team: Some(0), slots: Some(1000), cause };
            say(&self.scheduler, ms, event);
        };
        state(0, RoundState::Pending);
        state(60, RoundState::Precomputing);
        let mut at = 60;
        let mut entered_at = 0;
        for (index, phase) in PHASES.into_iter().enumerate() {
            if index == 3 {
                (0..3).zip([RoundState::Standby, RoundState::Queued, RoundState::Realtime]).for_each(
                    |(place, of)| {
                        state(at + 20 * place, of);
                    },
                );
                at += 60;
                entered_at = at;
                say(&self.writers[0], at, slots(number, Step::Entered, 1000));
            }
            for (node, writer) in self.writers.iter().enumerate() {
                let way: u64 = ONE_WAY_MS[..node].iter().sum();
                let phase = |edge| Event::Phase { round: number, phase: phase.to_owned(), edge };
                if !(fails && index >= 4) {
                    say(writer, at + way, phase(Edge::Begin));
                    say(writer, at + way + PHASE_MS, phase(Edge::End));
                }
            }
            at += PHASE_MS + 60;
        }
        if fails {
            return state(at, RoundState::Failed);
        }
        let left_at = entered_at + Self::latency_ms(number);
        for writer in &self.writers {
            say(writer, left_at, slots(number, Step::Left, 1000));
        }
        state(left_at + 30, RoundState::Completed);
        let mut latencies = Latencies::default();
        (0..1000).for_each(|slot| latencies.add((Self::latency_ms(number) + 20 + slot % 90) * MS, 1));
        say(&self.client, left_at + 40, Event::Latencies { round: number, latencies });
    }

    /// Reports the state of the network at a time after the start.
    pub(crate) fn network(&self, ms: u64) {
        let at = self.begin + ms * MS;
        for (node, writer) in self.writers.iter().enumerate() {
            let next = (node + 1) % NODES.len();
            let jitter = (ms / 7 + node as u64 * 131) % 900 * 1000;
            let link = Event::Link {
                peer: NODES[next].into(),
                up: true,
                round_trip_ns: Some(2 * ONE_WAY_MS[node] * MS + jitter),
                bytes_up: Some(ms * 2600),
                bytes_down: Some(ms * 2500),
                queued_frames: Some((ms / 50 + node as u64 * 3) % 14),
                queued_bytes: Some((ms / 50 + node as u64 * 3) % 14 * 16384),
            };
            writer.say(at, link);
            let entries = (ms / 30 + node as u64 * 5) % 23;
            writer.say(at, Event::Queue { queue: "jobs".into(), entries, bytes: None });
            let total = ms * 2;
            writer.say(at, Event::Throughput { of: "slots".into(), total, bytes: Some(total * 512) });
            writer.say(at, Event::Errors { cause: "late_answer".into(), total: ms / 4000 });
        }
        let members = NODES.map(str::to_owned).to_vec();
        let loop_ns = ONE_WAY_MS.iter().sum::<u64>() * MS + ms % 700 * 1000;
        self.writers[0].say(at, Event::Ping { team: Some(0), members, loop_ns: Some(loop_ns) });
    }

    /// Waits until the files have all lines, and ends.
    pub(crate) fn finish(self) {
        for writer in self.writers.into_iter().chain([self.scheduler, self.client]) {
            writer.finish().1.unwrap();
        }
    }
}

/// A progress event of a running run.
pub(crate) fn running(share: f64, wall_ns: u64) -> Event {
    Event::Progress(Progress {
        state: RunState::Running,
        share: Some(share),
        wall_ns: Some(wall_ns),
        virtual_ns: Some((share * 14e9) as u64),
        deliveries: Some((share * 128_000.0) as u64),
        deliveries_expected: Some(128_000),
        steps: Some((share * 6e6) as u64),
        ..Progress::default()
    })
}
