//! The world of processes: a coordinator, and hosts that answer as a test wants.

use std::collections::VecDeque;
use std::sync::{Arc, Once};

use samara_document::Inputs;
use samara_engine::outbox::{LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Frame, Input, Outbox, Time};
use samara_lab::experiment::{Commands, Experiment, Measurements, Plan, Problem, World, check};
use samara_lab::family::{Family, Runs, register};
use samara_lab::processes::{Brief, Fleet, Looked, Order, Report, Transport, ignored};
use samara_lab::run::{Progress, RunError, RunOptions, run_on, script};
use samara_scenario::Overrides;
use samara_scenario::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind};
use samara_sim::{App, HostStats, NodeFactory, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::load_source;

// ---- an experiment whose hosts echo numbers ----

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Echoes {}

struct Nothing;

impl Clone for Nothing {
    fn clone(&self) -> Self {
        Self
    }
}

impl Frame for Nothing {
    fn encoded_len(&self) -> usize {
        1
    }

    fn payload_len(&self) -> usize {
        0
    }
}

struct Echo;

impl Engine for Echo {
    type Frame = Nothing;
    type Command = u32;
    type Event = u32;

    fn handle(&mut self, input: Input<Nothing, u32>, cx: &mut Context<'_, Nothing, u32>) {
        if let Input::Command(number) = input {
            cx.emit(number);
        }
    }
}

impl App for Echo {
    type Counters = u64;

    fn counters(&self) -> u64 {
        0
    }
}

samara_lab::metrics! {
    /// Figures of a run.
    pub struct Figures {
        /// The arrivals: time in milliseconds, host and number.
        pub heard: Vec<(u64, u32, u32)> = "", Neither, [];
        /// Counters of each host.
        pub counters: Vec<u64> = "", Neither, [];
        /// Frames sent by each host.
        pub frames: Vec<u64> = "", Neither, [];
    }
}

struct Echoing {
    heard: Vec<(u64, u32, u32)>,
}

impl Experiment for Echoing {
    type App = Echo;
    type Measured = Measurements;

    fn plan(_: &Plan<'_>) -> Result<Self, Problem> {
        Ok(Self { heard: Vec::new() })
    }

    fn hosts(&self) -> NodeFactory<Echo> {
        Arc::new(|_| {
            let lanes = vec![LaneConfig::unbounded("all", 0)];
            (Echo, Outbox::new(OutboxConfig { dispatch: Default::default(), lanes }))
        })
    }

    fn brief(&self, host: u32) -> Result<Value, Problem> {
        Ok(serde_json::json!({ "echo": host }))
    }

    fn start(&mut self, commands: &mut Commands<Echo>) {
        commands.at(Time::from_nanos(10_000_000), 1, 1);
        commands.at(Time::from_nanos(5_000_000), 0, 0);
        commands.at(Time::from_nanos(700_000_000), 1, 7);
    }

    fn wrong(&self, event: &Record<u32>) -> Option<String> {
        (event.event == 13).then(|| "it tells of number 13".to_owned())
    }

    fn observe(&mut self, event: Record<u32>, commands: &mut Commands<Echo>) {
        self.heard.push((event.at.as_nanos() / 1_000_000, event.host, event.event));
        if event.event == 0 {
            // In the past: it takes effect at once.
            commands.at(Time::ZERO, 1, 5);
        }
    }

    fn progress(&self, now: Time) -> Progress {
        Progress { share: now.as_nanos() as f64 / 1e9, ..Progress::default() }
    }

    fn measured(self, world: &mut dyn World<Echo>) -> Result<Measurements, RunError> {
        let frames = world.traffic()?.iter().map(|stats| stats.frames_sent.frames).collect();
        let figures = Figures { heard: self.heard, counters: world.counters()?, frames };
        Measurements::new(world, &figures, Vec::new())
    }
}

fn scenario(faults: &str) -> samara_scenario::Loaded {
    const FAMILY: Family = Family {
        spec: &FamilySpec {
            section: "echoes",
            content: PartType::of::<Echoes>(),
            protocols: &[ProtocolKind::of::<Echoes>("echo")],
            unused: &[NO_CHANNELS, NO_UNSENT],
            check: check::<Echoing>,
            ..FamilySpec::BASE
        },
        metrics: Figures::METRICS,
        runs: |_| Runs::of::<Echoing>(),
        ..Family::BASE
    };
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| register(FAMILY));
    let text = format!(
        "[scenario]\nname = \"x\"\n[network]\nnodes = 2\ntopology = {{ kind = \"full-mesh\" }}\n[echoes]\n{faults}"
    );
    load_source("x.toml", &text, Inputs::default(), &Overrides::default()).unwrap()
}

// ---- hosts that answer at once, on a clock that never waits ----

/// How a host misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Host 1 answers no order to sync.
    Silent,
    /// Host 1 answers an order to sync with garbage.
    Garbled,
    /// Host 1 answers an order to sync with this line first.
    Says(&'static str),
    /// Host 1 says these counts of frames, one after the other.
    Counts(&'static [u64]),
}

struct Hosts {
    fault: Fault,
    now: Time,
    /// Commands with their times, and whether the host runs; `None` while it does not.
    pending: Vec<Option<Vec<(u64, u32)>>>,
    lines: VecDeque<(u32, String)>,
    /// Number of processes of each host.
    lives: Vec<u64>,
    /// The events of the network, with their times.
    network: Vec<(u64, String)>,
    /// Whether host 1 is a program of others, and the briefings of hosts.
    has_foreign: bool,
    briefs: Vec<(u32, Brief)>,
}

impl Hosts {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            now: Time::ZERO,
            pending: vec![None; 2],
            lines: VecDeque::new(),
            lives: vec![0; 2],
            network: Vec::new(),
            has_foreign: false,
            briefs: Vec::new(),
        }
    }

    fn report(&mut self, host: u32, report: &Report<u32, u64>) {
        self.lines.push_back((host, serde_json::to_string(report).unwrap()));
    }

    /// Carries out the commands until now, in an order that is not that of time.
    fn act(&mut self) {
        let now = self.now.as_nanos();
        for host in [1, 0] {
            let Some(pending) = &mut self.pending[host as usize] else { continue };
            let due: Vec<_> = pending.extract_if(.., |(at, _)| *at <= now).collect();
            for (at_ns, event) in due {
                self.report(host, &Report::Event { at_ns, event });
            }
        }
    }
}

impl Fleet for Hosts {
    fn is_foreign(&self, host: u32) -> bool {
        self.has_foreign && host == 1
    }

    fn begin(&mut self, briefs: Vec<Option<Brief>>) -> Result<(), RunError> {
        self.briefs = (0..).zip(briefs).filter_map(|(host, brief)| Some((host, brief?))).collect();
        self.pending = vec![Some(Vec::new()); 2];
        Ok(())
    }

    fn limit(&mut self, processors: Vec<Option<f64>>) -> Result<(), RunError> {
        assert_eq!(processors, [None, None]);
        Ok(())
    }

    fn confine(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError> {
        Ok(None)
    }

    fn now(&self) -> Time {
        self.now
    }

    fn order(&mut self, host: u32, line: &str) -> Result<(), RunError> {
        let now = self.now.as_nanos();
        let pending = self.pending[host as usize].as_mut().expect("only hosts that run have orders");
        match serde_json::from_str(line).unwrap() {
            Order::Command { at_ns, command } => pending.push((at_ns.max(now), command)),
            Order::Sync(_) if host == 1 && self.fault == Fault::Silent => {}
            Order::Sync(_) if host == 1 && self.fault == Fault::Garbled => {
                self.lines.push_back((1, "{\"synced\":".to_owned()));
            }
            Order::Sync(number) => {
                self.act();
                if let Fault::Says(line) = self.fault
                    && host == 1
                {
                    self.lines.push_back((1, line.to_owned()));
                }
                self.report(host, &Report::Synced(number));
            }
            Order::Look => {
                let frames_sent = match self.fault {
                    Fault::Counts(counts) if host == 1 => {
                        let (first, rest) = counts.split_first().expect("counts for all looks");
                        self.fault = Fault::Counts(rest);
                        *first
                    }
                    _ => 1,
                };
                let looked = Looked {
                    counters: 10 * u64::from(host) + self.lives[host as usize],
                    frames_sent,
                    payload_bytes_sent: 0,
                    control_bytes_sent: 0,
                    frames_received: 0,
                    payload_bytes_received: 0,
                    control_bytes_received: 0,
                    bytes_sent: 0,
                    bytes_received: 0,
                    withdrawn: 0,
                    owed: 0,
                    late_ns: vec![1_000_000],
                };
                self.report(host, &Report::Looked(Box::new(looked)));
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn heard(&mut self, until: Time) -> Result<Option<(u32, String)>, RunError> {
        if self.lines.is_empty() {
            self.now = self.now.max(until);
            self.act();
        }
        Ok(self.lines.pop_front())
    }

    fn kill(&mut self, host: u32, _: bool) -> Result<(), RunError> {
        self.pending[host as usize] = None;
        self.lives[host as usize] += 1;
        Ok(())
    }

    fn freeze(&mut self, host: u32) -> Result<(), RunError> {
        self.kill(host, true)
    }

    fn start(&mut self, host: u32, brief: Option<Brief>) -> Result<(), RunError> {
        self.briefs.extend(brief.map(|brief| (host, brief)));
        self.pending[host as usize] = Some(Vec::new());
        Ok(())
    }

    fn cut(&mut self, ways: &[(u32, u32)], is_cut: bool) -> Result<(), RunError> {
        self.network.push((self.now.as_nanos() / 1_000_000, format!("{ways:?} {is_cut}")));
        Ok(())
    }

    fn set_rates(&mut self, host: u32, rates: [u64; 2]) -> Result<(), RunError> {
        self.network.push((self.now.as_nanos() / 1_000_000, format!("{host} {rates:?}")));
        Ok(())
    }

    fn packets(&mut self) -> Result<Option<Vec<HostStats>>, RunError> {
        Ok(None)
    }

    fn failed(&mut self, host: u32, why: &str) -> RunError {
        RunError::Failed(format!("host {host}: {why}"))
    }
}

fn run(faults: &str, fault: Fault) -> Result<(Value, Vec<f64>), RunError> {
    run_among(faults, &mut Hosts::new(fault))
}

fn run_among(faults: &str, hosts: &mut Hosts) -> Result<(Value, Vec<f64>), RunError> {
    let loaded = scenario(faults);
    let options = RunOptions::new(1, &loaded.inputs);
    let (measured, late_ms) = run_on(&loaded.points[0], options, hosts, |_| {})?;
    Ok((measured.outcome().run.metrics, late_ms))
}

/// Only programs of others are briefed; one that starts again dials at once.
#[test]
fn programs_of_others_know_what_samaras_hosts_plan() {
    let fault = "[transport.links]\nfrom = \"100 ms\"\nuntil = \"200 ms\"\n\
                 [[fault]]\nkind = \"crash\"\nat = \"300 ms\"\nuntil = \"600 ms\"\nnodes = [1]\n";
    let mut hosts = Hosts { has_foreign: true, ..Hosts::new(Fault::None) };
    run_among(fault, &mut hosts).unwrap();
    let [(1, first), (1, again)] = hosts.briefs.as_slice() else { panic!("{:?}", hosts.briefs) };
    assert_eq!((first.transport, &first.application), (Transport::Tcp, &serde_json::json!({ "echo": 1 })));
    assert!(first.dials.iter().all(|dial| dial.host == 0 && (100..200).contains(&(dial.at_ns / 1_000_000))));
    // One of both dials.
    assert_eq!(again.dials.len(), first.dials.len());
    assert!(again.dials.iter().all(|dial| dial.host == 0 && dial.at_ns == 0), "{again:?}");
    let mut all_own = Hosts::new(Fault::None);
    run_among(fault, &mut all_own).unwrap();
    assert!(all_own.briefs.is_empty());
}

#[test]
fn a_script_has_the_commands_that_are_known_before_the_run() {
    let loaded = scenario("");
    let written = script(&loaded.points[0], RunOptions::new(1, &loaded.inputs)).unwrap();
    assert_eq!(written.end, Time::from_nanos(1_000_000_000));
    let first: Order<u32> = serde_json::from_str(&written.commands[1][0]).unwrap();
    assert_eq!(first, Order::Command { at_ns: 10_000_000, command: 1 });
    assert_eq!(written.commands.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    // Clients of a pool wait for blocks.
    let pool = crate::load("cat-real", &[], &["cat".to_owned()], None).unwrap();
    let error = script(&pool.points[0], RunOptions::new(1, &pool.inputs)).unwrap_err().to_string();
    assert!(error.contains("pool: its commands follow from events of the run"), "{error}");
}

#[test]
fn faults_of_the_network_begin_and_end_at_their_times() {
    let happens = |fault: &str| {
        let mut hosts = Hosts::new(Fault::None);
        let faults = format!("[[fault]]\nat = \"200 ms\"\nuntil = \"400 ms\"\nnodes = [1]\n{fault}\n");
        run_among(&faults, &mut hosts).unwrap();
        hosts.network
    };
    let during = |begin: &str, end: &str| vec![(200, begin.to_owned()), (400, end.to_owned())];
    let both = "[(0, 1), (1, 0)]";
    assert_eq!(happens("kind = \"partition\""), during(&format!("{both} true"), &format!("{both} false")));
    assert_eq!(happens("kind = \"cut\""), during(&format!("{both} true"), &format!("{both} false")));
    assert_eq!(happens("kind = \"cut\"\ndirection = \"out\""), during("[(1, 0)] true", "[(1, 0)] false"));
    assert_eq!(happens("kind = \"cut\"\ndirection = \"in\""), during("[(0, 1)] true", "[(0, 1)] false"));
    let slow = happens("kind = \"slow\"\nfactor = 0.5");
    let [(200, slower), (400, whole)] = &slow[..] else { panic!("{slow:?}") };
    assert!(slower.starts_with("1 [") && whole.starts_with("1 [") && slower != whole, "{slow:?}");
}

#[test]
fn events_of_all_hosts_are_observed_in_the_order_of_time() {
    let (metrics, late_ms) = run("", Fault::None).unwrap();
    // The answer to the event of host 0 goes out after the first slice.
    let heard = serde_json::json!([[5, 0, 0], [10, 1, 1], [100, 1, 5], [700, 1, 7]]);
    assert_eq!(metrics["heard"], heard);
    assert_eq!(metrics["counters"], serde_json::json!([0, 10]));
    assert_eq!(metrics["frames"], serde_json::json!([1, 1]));
    assert!(late_ms.len() > 2 && late_ms.iter().all(|late| *late == 1.0), "{late_ms:?}");
}

#[test]
fn a_process_that_starts_again_gets_the_commands_that_are_due_later() {
    for kind in ["crash", "vanish"] {
        let faults =
            format!("[[fault]]\nkind = \"{kind}\"\nat = \"200 ms\"\nuntil = \"400 ms\"\nnodes = [1]\n");
        let (metrics, _) = run(&faults, Fault::None).unwrap();
        let heard = serde_json::json!([[5, 0, 0], [10, 1, 1], [100, 1, 5], [700, 1, 7]]);
        assert_eq!(metrics["heard"], heard, "{kind}");
        // Counters are those of the process, traffic that of the host.
        assert_eq!(metrics["counters"], serde_json::json!([0, 11]), "{kind}");
        assert_eq!(metrics["frames"], serde_json::json!([1, 2]), "{kind}");
    }
    let faults = "[[fault]]\nkind = \"crash\"\nat = \"200 ms\"\nnodes = [1]\n";
    let (metrics, _) = run(faults, Fault::None).unwrap();
    assert_eq!(metrics["heard"], serde_json::json!([[5, 0, 0], [10, 1, 1], [100, 1, 5]]));
    // Those of its last look.
    assert_eq!(metrics["counters"], serde_json::json!([0, 10]));
}

#[test]
fn a_host_that_hangs_or_garbles_is_named() {
    let error = run("", Fault::Silent).unwrap_err().to_string();
    assert_eq!(error, "host 1: it did not answer within 30 s");
    let error = run("", Fault::Garbled).unwrap_err().to_string();
    assert!(error.starts_with("host 1: it said \"{\\\"synced\\\":\": EOF while parsing"), "{error}");
}

/// Programs of others may count time in another unit, answer twice, or tell what does not exist.
#[test]
fn what_no_host_can_say_fails_the_run() {
    for (line, expected) in [
        (r#"{"event":{"at_ns":900000000000,"event":1}}"#, "it tells of 900.000 s of the run, although it is"),
        (r#"{"event":{"at_ns":3,"event":1}}"#, "after it had said everything until"),
        (r#"{"event":{"at_ns":1,"event":13}}"#, "it tells of number 13"),
        (r#"{"synced":77}"#, "it said synced 77, expected "),
        (r#"{"synced":1}"#, "it said synced 1, "),
        (r#"{"ready":{"host":1}}"#, "it said again that it listens"),
        (
            r#"{"looked":{"counters":0,"frames_sent":0,"payload_bytes_sent":0,"control_bytes_sent":0,
                "frames_received":0,"payload_bytes_received":0,"control_bytes_received":0,"bytes_sent":0,
                "bytes_received":0,"withdrawn":0,"owed":0,"late_ns":[]}}"#,
            "it said counters that nobody asked for",
        ),
    ] {
        let error = run("", Fault::Says(line)).unwrap_err().to_string();
        assert!(error.starts_with("host 1: ") && error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn counters_that_fall_or_are_too_large_are_refused() {
    for (counts, expected) in [
        (&[5, 4][..], "its counter frames_sent fell from 5 to 4"),
        (&[u64::MAX], "its counter frames_sent is 18446744073709551615; expected at most 9007199254740992"),
    ] {
        let error = run("", Fault::Counts(counts)).unwrap_err().to_string();
        assert!(error.starts_with("host 1: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn faults_that_processes_do_not_have_are_refused() {
    let fault = |kind: &str| format!("[[fault]]\nkind = \"{kind}\"\nat = \"200 ms\"\nnodes = [1]\n");
    let queue = "[network.uplink_queue]\nkind = \"fifo\"\ntime = \"100 ms\"\n";
    let error = run(&(queue.to_owned() + &fault("node")), Fault::None).unwrap_err().to_string();
    assert!(error.starts_with("fault: second nodes (\"node\") exist in the simulator only"), "{error}");
    // Samara's hosts break rules by themselves; programs of others do not.
    run(&fault("flood"), Fault::None).unwrap();
    let mut hosts = Hosts { has_foreign: true, ..Hosts::new(Fault::None) };
    let error = run_among(&fault("flood"), &mut hosts).unwrap_err().to_string();
    assert!(error.starts_with("fault: host 1 is to break the rules of its protocol"), "{error}");
}

#[test]
fn what_differs_on_the_connections_of_hosts_is_named() {
    let differs = |text: &str| -> Vec<String> {
        let text = format!("network.nodes = 10\n{text}");
        let loaded = load_source("pools.toml", &text, Inputs::directory("."), &Overrides::default());
        let ignored = ignored(&loaded.unwrap().points[0].scenario);
        ignored.iter().filter_map(|why| Some(why.split_once(": ")?.0.to_owned())).collect()
    };
    let unlimited = "transport.connection = { send_rate = \"0 bit/s\", receive_rate = \"0 bit/s\" }\n[pool]";
    assert_eq!(differs(unlimited), [""; 0]);
    assert_eq!(differs("transport.connection = {}\n[pool]"), ["transport.connection.send_rate"]);
}
