//! The processes of the hosts of a run, each with its channel, and the network between them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use samara_emulation::{MIN_RATE_BPS, Relay};
use samara_engine::Time;
use samara_lab::network::Hosts;
use samara_lab::processes::{Brief, Fleet, Listen, Order, Report, ignored};
use samara_lab::run::{Progress, RunError, RunOptions, run_on};
use samara_lab::statistics::Statistics;
use samara_scenario::Point;
use samara_sim::{FrameCount, GateStats, HostStats};
use samara_trace::live::Event;
use serde::de::IgnoredAny;

use crate::TestbedError;
use crate::quota::Quota;
use crate::rivals::Rivals;
use crate::run::{Done, Options, emulated, program_of, real_run, starved};
use crate::usage::{Usage, tail};
use crate::wire::{self, PORT, Wire};
use samara_trace::unix_ns;

/// Orders that may wait for a host, and the longest wait until it reads one.
const ORDERS_MAX: usize = 1 << 12;
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Lines of hosts that may wait for the coordinator. A host that is further ahead waits.
const LINES_MAX: usize = 1 << 18;
/// The longest line of a host.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// The longest wait for a line before a look at interrupts and resources.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The peer name of counters that a host keeps over all its links.
const ALL_PEERS: &str = "all peers";
/// Bytes of lines that may wait for the coordinator, over all hosts. A host that is further ahead waits.
const UNHEARD_BYTES_MAX: usize = 64 << 20;
/// Maximum time from the end of a process to that of its output, and in the other order.
const DYING: Duration = Duration::from_secs(2);
/// Maximum time for all hosts to end after a run.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for all hosts to end after a request to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the last host that listens to the start of the run, in which all learn of it.
const LEAD: Duration = Duration::from_secs(1);

/// A program that runs a host of a run.
#[derive(Clone, Debug)]
pub struct HostProgram {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Whether the program is one of others, which needs a briefing. Otherwise its last argument is the
    /// number of the host.
    pub is_foreign: bool,
}

/// A message of the thread that reads a process.
enum Heard {
    Line(String),
    TooLong,
    NoText,
    End,
}

/// A host, the number of its process, and what that said.
type Said = (u32, u64, Heard);

/// A process of a host. Dropping it kills the process.
struct HostProcess {
    child: Child,
    orders: SyncSender<String>,
    log: PathBuf,
    usage: Usage,
    /// Since when the process is known to have ended.
    ended: Option<Instant>,
}

impl HostProcess {
    /// Returns the processor time of the process up to the last sample.
    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.usage.cpu_s)
    }

    /// Returns true if the process ended a while ago, although somebody else holds its output open.
    fn has_ended(&mut self) -> bool {
        let is_over = self.child.try_wait().is_ok_and(|status| status.is_some());
        let since = is_over.then(|| *self.ended.get_or_insert_with(Instant::now));
        since.is_some_and(|since| since.elapsed() > DYING)
    }

    /// Returns how the process ended. One whose output has ended has a moment to do the same.
    fn status(&mut self) -> String {
        let begun = Instant::now();
        while begun.elapsed() < DYING {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => std::thread::sleep(LOOK_EVERY / 10),
                Err(error) => return error.to_string(),
            }
        }
        "it closed its standard output or input, and did not end".to_owned()
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // With the programs that it has started. All fail only if they have ended.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One host: its processes, and which of them is current.
#[derive(Default)]
struct Host {
    process: Option<HostProcess>,
    /// The number of its processes so far. The last lines of earlier ones have no effect.
    lives: u64,
    /// Whether the process is frozen.
    is_frozen: bool,
    /// The number of processors that it may use; `None` for all.
    processors: Option<f64>,
    /// Processor time of earlier processes.
    spent: Duration,
}

/// The processes of all hosts of a run.
struct Processes<'a> {
    options: Options<'a>,
    hosts: Vec<Host>,
    /// The groups of hosts with a limit, which outlive their processes.
    quota: Option<Quota>,
    is_confined: bool,
    wire: Wire,
    rivals: Rivals,
    lines: (SyncSender<Said>, Receiver<Said>),
    /// Bytes of lines that nobody has heard.
    unheard: Arc<AtomicUsize>,
    /// Lines of hosts that came while the fleet waited for others.
    early: VecDeque<(u32, String)>,
    token: String,
    /// The start of the run, by the clock of hosts that start, and by one that nobody sets.
    start: Option<(u64, Instant)>,
    ready: Duration,
    sampled: Instant,
    /// The time of the first look at the traffic, and for how long hosts had waited for processors by
    /// then, all together: links start before.
    looked: Option<(Time, Duration)>,
}

impl<'a> Processes<'a> {
    fn new(point: &'a Point, hosts: &Hosts, options: Options<'a>) -> Result<Self, TestbedError> {
        let emulated = options.is_emulated.then(|| Wire::new(&point.scenario, hosts, point.seed));
        let wire = emulated.transpose()?.unwrap_or(Wire::Loopback);
        let rivals = Rivals::new(&point.scenario, hosts, point.seed, &wire)?;
        Ok(Self {
            options,
            hosts: hosts.configs.iter().map(|_| Host::default()).collect(),
            quota: None,
            is_confined: false,
            wire,
            rivals,
            lines: sync_channel(LINES_MAX),
            unheard: Arc::default(),
            early: VecDeque::new(),
            token: token()?,
            start: None,
            ready: Duration::ZERO,
            sampled: Instant::now(),
            looked: None,
        })
    }

    fn program(&self, host: u32) -> &'a HostProgram {
        program_of(self.options.hosts, host)
    }

    /// Starts a process for a host, which waits for orders.
    fn spawn(&mut self, host: u32) -> Result<(), TestbedError> {
        let directory = self.options.nodes.join(format!("host-{host}"));
        let at = |path: &Path| TestbedError::io(path.display().to_string());
        fs::create_dir_all(&directory).map_err(at(&directory))?;
        let lives = self.hosts[host as usize].lives;
        let log = directory.join(if lives == 0 { "log.txt".to_owned() } else { format!("log-{lives}.txt") });
        let file = File::create(&log).map_err(at(&log))?;
        let HostProgram { program, arguments, is_foreign, .. } = self.program(host);
        let number = (!is_foreign).then(|| host.to_string());
        let mut child = Command::new(program)
            .args(arguments)
            .args(number)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(TestbedError::io(format!("starting {}", program.display())))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let (orders, queue) = sync_channel::<String>(ORDERS_MAX);
        let (lines, unheard) = (self.lines.0.clone(), Arc::downgrade(&self.unheard));
        // Both threads end with the process, or with this fleet.
        std::thread::spawn(move || queue.iter().try_for_each(|line| stdin.write_all(line.as_bytes())));
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let heard = hear(&mut stdout);
                if let Heard::Line(line) = &heard
                    && !wait_for_room(&unheard, line.len())
                {
                    return;
                }
                let is_last = !matches!(heard, Heard::Line(_));
                if lines.send((host, lives, heard)).is_err() || is_last {
                    return;
                }
            }
        });
        let state = &mut self.hosts[host as usize];
        state.is_frozen = false;
        state.process = Some(HostProcess { child, orders, log, usage: Usage::default(), ended: None });
        Ok(())
    }

    /// Lets the process of a host listen, and waits until it does.
    fn listen(&mut self, hosts: Vec<(u32, Option<Brief>)>, is_restart: bool) -> Result<(), RunError> {
        let mut silent: Vec<u32> = hosts.iter().map(|(host, _)| *host).collect();
        for (host, brief) in hosts {
            let address = |ip| SocketAddr::from((ip, PORT));
            let peers = 0..self.hosts.len() as u32;
            let listen = Listen {
                host,
                address: address(self.wire.own(host)),
                peers: peers.map(|peer| address(self.wire.dialled(host, peer))).collect(),
                token: self.token.clone(),
                restart: is_restart,
                brief,
            };
            self.say(host, &Order::<()>::Listen(listen))?;
        }
        let within = self.options.start_timeout();
        let deadline = Instant::now() + within;
        while let Some(first) = silent.first().copied() {
            let Some((host, line)) = self.next(deadline)? else {
                return Err(self.failed(first, &format!("it did not listen within {within:?}")));
            };
            match serde_json::from_str::<Report<IgnoredAny, IgnoredAny>>(&line) {
                Ok(Report::Ready { host: said }) if said == host => silent.retain(|silent| *silent != host),
                Ok(Report::Ready { host: said }) => {
                    return Err(self.failed(host, &format!("it calls itself host {said}")));
                }
                _ if silent.contains(&host) => {
                    let start: String = line.chars().take(200).collect();
                    return Err(self.failed(host, &format!("it said {start:?} before it listened")));
                }
                _ if !is_restart => {
                    let start: String = line.chars().take(200).collect();
                    return Err(self.failed(host, &format!("it said {start:?} before the run began")));
                }
                _ => self.early.push_back((host, line)),
            }
        }
        Ok(())
    }

    /// Limits the process of a host to its number of processors from now on.
    fn confine_one(&mut self, host: u32) -> Result<(), RunError> {
        let state = &self.hosts[host as usize];
        let (Some(quota), Some(process), Some(processors)) =
            (&mut self.quota, &state.process, state.processors)
        else {
            return Ok(());
        };
        quota.limit(&host.to_string(), process.child.id(), processors).map_err(|error| unconfined(&error))
    }

    fn say(&mut self, host: u32, order: &Order<()>) -> Result<(), RunError> {
        let line = serde_json::to_string(order).map_err(|error| RunError::Failed(error.to_string()))?;
        self.order(host, &line)
    }

    /// Waits for the next line of a process that is current.
    fn next(&mut self, deadline: Instant) -> Result<Option<(u32, String)>, RunError> {
        loop {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // A host that never stops talking must not keep time from passing.
            if left.is_zero() {
                return Ok(None);
            }
            match self.lines.1.recv_timeout(left.min(LOOK_EVERY)) {
                Ok((host, life, heard)) if life == self.hosts[host as usize].lives => match heard {
                    Heard::Line(line) => {
                        self.unheard.fetch_sub(line.len(), Ordering::Relaxed);
                        return Ok(Some((host, line)));
                    }
                    Heard::NoText => return Err(self.failed(host, "it wrote a line that is no UTF-8")),
                    Heard::TooLong => {
                        let why = format!("it wrote a line of more than {LINE_BYTES_MAX} bytes");
                        return Err(self.failed(host, &why));
                    }
                    Heard::End => return Err(self.ended(host)),
                },
                Ok((.., Heard::Line(line))) => _ = self.unheard.fetch_sub(line.len(), Ordering::Relaxed),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if left > LOOK_EVERY => {}
                Err(_) => return Ok(None),
            }
            if self.sampled.elapsed() >= 5 * LOOK_EVERY {
                self.sample();
                let has_ended = |host: &mut Host| host.process.as_mut().is_some_and(HostProcess::has_ended);
                if let Some(host) = self.hosts.iter_mut().position(has_ended) {
                    return Err(self.ended(host as u32));
                }
            }
        }
    }

    fn phase(&self) -> &'static str {
        if self.start.is_none() { "start" } else { "run" }
    }

    fn sample(&mut self) {
        self.sampled = Instant::now();
        for process in self.hosts.iter_mut().filter_map(|host| host.process.as_mut()) {
            process.usage.sample(process.child.id());
        }
    }

    fn ended(&mut self, host: u32) -> RunError {
        let phase = self.phase();
        let Some(process) = &mut self.hosts[host as usize].process else {
            return RunError::Failed(format!("host {host} does not run"));
        };
        let status = process.status();
        let (log, tail) = (process.log.clone(), tail(&process.log));
        let who = format!("host {host}");
        RunError::Failed(TestbedError::Ended { who, phase, status, log, tail }.to_string())
    }

    /// Asks all hosts to stop, and waits until they have.
    fn stop(&mut self, timeout: Duration) -> Result<(), String> {
        let runs = |host: &Host| host.process.is_some() && !host.is_frozen;
        let running = |(number, host): (u32, &Host)| runs(host).then_some(number);
        let hosts: Vec<u32> = (0..).zip(&self.hosts).filter_map(running).collect();
        let asked = hosts.iter().try_for_each(|host| self.say(*host, &Order::Stop));
        asked.map_err(|error| error.to_string())?;
        let deadline = Instant::now() + timeout;
        for host in hosts {
            let Some(process) = &mut self.hosts[host as usize].process else { continue };
            loop {
                match process.child.try_wait() {
                    Ok(Some(status)) if status.success() => break,
                    Ok(Some(status)) => {
                        return Err(format!(
                            "host {host} ended with {status}; its log, {}, ends with:\n{}",
                            process.log.display(),
                            tail(&process.log)
                        ));
                    }
                    Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY / 10),
                    _ => return Err(format!("host {host} did not end within {timeout:?}")),
                }
            }
        }
        Ok(())
    }

    fn relay(&self) -> Result<&Relay, RunError> {
        match &self.wire {
            Wire::Relay(relay) => Ok(relay),
            Wire::Loopback => Err(RunError::Failed("the links are not emulated".to_owned())),
        }
    }

    /// Returns the use of resources of each host.
    fn usage(&mut self) -> Vec<Usage> {
        self.sample();
        self.hosts.iter().filter_map(|host| host.process.as_ref()).map(|process| process.usage).collect()
    }

    fn time(&self, at: Time) -> Instant {
        let now = Instant::now();
        let start = self.start.map_or(now, |(_, start)| start);
        // A time beyond the clock is never.
        start.checked_add(Duration::from_nanos(at.as_nanos())).unwrap_or(now + READ_TIMEOUT)
    }
}

fn unconfined(error: &io::Error) -> RunError {
    RunError::Failed(format!("cannot limit processes to a part of a processor: {error}; run as root"))
}

/// Returns for how long hosts waited for processors, all together.
fn waited(usage: &[Usage]) -> Duration {
    usage.iter().map(|usage| usage.waited).sum()
}

/// Returns 16 random bytes in hexadecimal.
fn token() -> Result<String, TestbedError> {
    let mut bytes = [0_u8; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(TestbedError::io("random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Waits until the lines that nobody has heard leave room for more bytes, and takes it. Returns false if
/// nobody hears any more.
fn wait_for_room(unheard: &Weak<AtomicUsize>, bytes: usize) -> bool {
    loop {
        let Some(unheard) = unheard.upgrade() else { return false };
        let has_room = |waiting: usize| waiting == 0 || waiting + bytes <= UNHEARD_BYTES_MAX;
        let more = |waiting| has_room(waiting).then_some(waiting + bytes);
        if unheard.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            return true;
        }
        drop(unheard);
        std::thread::sleep(LOOK_EVERY / 100);
    }
}

/// Reads the next line, of bounded length.
fn hear(stdout: &mut impl BufRead) -> Heard {
    let mut line = Vec::new();
    match stdout.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
        Ok(0) | Err(_) => Heard::End,
        Ok(_) if line.ends_with(b"\n") => String::from_utf8(line).map_or(Heard::NoText, Heard::Line),
        Ok(len) if len as u64 == LINE_BYTES_MAX => Heard::TooLong,
        Ok(_) => Heard::End,
    }
}

impl Fleet for Processes<'_> {
    fn is_foreign(&self, host: u32) -> bool {
        self.program(host).is_foreign
    }

    fn begin(&mut self, briefs: Vec<Option<Brief>>) -> Result<(), RunError> {
        let failed = |error: TestbedError| RunError::Failed(error.to_string());
        let all: Vec<u32> = (0..self.hosts.len() as u32).collect();
        let began = Instant::now();
        all.iter().try_for_each(|host| self.spawn(*host)).map_err(failed)?;
        self.listen((0..).zip(briefs).collect(), false)?;
        self.ready = began.elapsed();
        let at_unix_ns = unix_ns() + LEAD.as_nanos() as u64;
        self.start = Some((at_unix_ns, Instant::now() + LEAD));
        all.iter().try_for_each(|host| self.say(*host, &Order::Begin { at_unix_ns }))?;
        self.rivals.begin(at_unix_ns).map_err(failed)
    }

    fn limit(&mut self, processors: Vec<Option<f64>>) -> Result<(), RunError> {
        if processors.iter().any(Option::is_some) {
            self.quota = Some(Quota::new().map_err(|error| unconfined(&error))?);
        }
        for (host, processors) in self.hosts.iter_mut().zip(processors) {
            host.processors = processors;
        }
        Ok(())
    }

    fn confine(&mut self) -> Result<(), RunError> {
        self.is_confined = true;
        (0..self.hosts.len() as u32).try_for_each(|host| self.confine_one(host))
    }

    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError> {
        self.sample();
        let spent =
            |host: &Host| host.spent + host.process.as_ref().map_or(Duration::ZERO, HostProcess::spent);
        Ok(Some(self.hosts.iter().map(|host| spent(host).as_nanos() as u64).collect()))
    }

    fn now(&self) -> Time {
        let since = self.start.map(|(_, start)| Instant::now().saturating_duration_since(start));
        Time::ZERO + since.unwrap_or_default()
    }

    fn order(&mut self, host: u32, line: &str) -> Result<(), RunError> {
        let (mut line, deadline) = (format!("{line}\n"), Instant::now() + READ_TIMEOUT);
        loop {
            let process = self.hosts[host as usize].process.as_ref();
            line = match process.map(|process| process.orders.try_send(line)) {
                Some(Ok(())) => return Ok(()),
                Some(Err(TrySendError::Full(line))) => line,
                Some(Err(TrySendError::Disconnected(_))) | None => return Err(self.ended(host)),
            };
            if Instant::now() >= deadline {
                return Err(self.failed(host, &format!("it read no orders for {READ_TIMEOUT:?}")));
            }
            std::thread::sleep(LOOK_EVERY / 100);
        }
    }

    fn heard(&mut self, until: Time) -> Result<Option<(u32, String)>, RunError> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        self.next(self.time(until))
    }

    fn kill(&mut self, host: u32, is_to_start: bool) -> Result<(), RunError> {
        let state = &mut self.hosts[host as usize];
        if let Some(process) = state.process.take() {
            state.spent += process.spent();
        }
        state.lives += 1;
        if is_to_start {
            self.spawn(host).map_err(|error| RunError::Failed(error.to_string()))?;
        }
        Ok(())
    }

    fn freeze(&mut self, host: u32) -> Result<(), RunError> {
        let state = &mut self.hosts[host as usize];
        state.is_frozen = true;
        if let Some(process) = &state.process {
            // If the process has ended, the next line says so.
            let _ = kill(Pid::from_raw(process.child.id() as i32), Signal::SIGSTOP);
        }
        Ok(())
    }

    fn start(&mut self, host: u32, brief: Option<Brief>) -> Result<(), RunError> {
        if self.hosts[host as usize].is_frozen {
            self.kill(host, true)?;
        }
        self.listen(vec![(host, brief)], true)?;
        if self.is_confined {
            self.confine_one(host)?;
        }
        let at_unix_ns = self.start.map_or(0, |(at, _)| at);
        self.say(host, &Order::Begin { at_unix_ns })
    }

    fn cut(&mut self, ways: &[(u32, u32)], is_cut: bool) -> Result<(), RunError> {
        self.relay()?.cut(ways, is_cut).map_err(|error| RunError::Failed(error.to_string()))
    }

    fn set_rates(&mut self, host: u32, [uplink, downlink]: [u64; 2]) -> Result<(), RunError> {
        // The emulation cannot be slower than this.
        let [uplink, downlink] = [uplink, downlink].map(|rate| rate.max(MIN_RATE_BPS));
        let set = self.relay()?.set_rates(host, uplink, downlink);
        set.map_err(|error| RunError::Failed(error.to_string()))
    }

    fn packets(&mut self) -> Result<Option<Vec<HostStats>>, RunError> {
        if self.looked.is_none() {
            self.looked = Some((self.now(), waited(&self.usage())));
        }
        let Wire::Relay(relay) = &mut self.wire else { return Ok(None) };
        let report = relay.report().map_err(|error| RunError::Failed(error.to_string()))?;
        let zero = samara_emulation::HostCounters::default();
        let counted = |counters: &samara_emulation::HostCounters| {
            let mut stats = HostStats::default();
            emulated(&mut stats, &zero, counters);
            stats
        };
        Ok(Some(report.hosts.iter().take(self.hosts.len()).map(counted).collect()))
    }

    fn gateways(&mut self) -> Result<Vec<[GateStats; 2]>, RunError> {
        let Wire::Relay(relay) = &mut self.wire else { return Ok(Vec::new()) };
        Ok(relay.report().map_err(|error| RunError::Failed(error.to_string()))?.gateways)
    }

    fn is_watched(&self) -> bool {
        self.options.live.is_some()
    }

    fn looked(&mut self, host: u32, traffic: &HostStats, owed: u64) {
        let Some(live) = self.options.live else { return };
        let (at, name) = (unix_ns(), format!("host-{host}"));
        let (up, down) = (traffic.frames_sent, traffic.frames_received);
        let bytes = |count: FrameCount| count.payload_bytes + count.control_bytes;
        let of = "frames".to_owned();
        let throughput = Event::Throughput { of, total: down.frames, bytes: Some(bytes(down)) };
        let link = Event::Link {
            peer: ALL_PEERS.to_owned(),
            up: true,
            round_trip_ns: None,
            bytes_up: Some(bytes(up)),
            bytes_down: Some(bytes(down)),
            queued_frames: Some(owed),
            queued_bytes: None,
        };
        let queue = Event::Queue { queue: "owed copies".to_owned(), entries: owed, bytes: None };
        for event in [throughput, link, queue] {
            live.say_of(Some(&name), at, event);
        }
    }

    fn failed(&mut self, host: u32, why: &str) -> RunError {
        let Some(process) = &self.hosts[host as usize].process else {
            return RunError::Failed(format!("host {host}: {why}"));
        };
        let (log, tail) = (process.log.clone(), tail(&process.log));
        let (who, phase) = (format!("host {host}"), self.phase());
        let error = TestbedError::Silent { who, phase, reason: why.to_owned(), log, tail };
        RunError::Failed(error.to_string())
    }
}

/// Runs a point on hosts in processes.
pub(crate) fn run(
    point: &Point,
    hosts: &Hosts,
    options: Options<'_>,
    progress: impl FnMut(&str, Progress),
) -> Result<Done, TestbedError> {
    // The results are complete: a host that does not stop is killed.
    let end = |fleet: &mut Processes<'_>| drop(fleet.stop(END_TIMEOUT));
    run_fleet(point, hosts, options, progress, end).map(|(done, ())| done)
}

/// As [`run`], and then asks all hosts to stop. Also returns whether all did.
pub(crate) fn run_and_stop(
    point: &Point,
    hosts: &Hosts,
    options: Options<'_>,
    progress: impl FnMut(&str, Progress),
) -> Result<(Done, Result<(), String>), TestbedError> {
    run_fleet(point, hosts, options, progress, |fleet| fleet.stop(STOP_TIMEOUT))
}

fn run_fleet<T>(
    point: &Point,
    hosts: &Hosts,
    options: Options<'_>,
    mut progress: impl FnMut(&str, Progress),
    end: impl FnOnce(&mut Processes<'_>) -> T,
) -> Result<(Done, T), TestbedError> {
    let mut doubts = wire::prepare(&point.scenario, options.private_network);
    doubts.extend(ignored(&point.scenario));
    progress("starting hosts", Progress::default());
    let mut fleet = Processes::new(point, hosts, options)?;
    let how = RunOptions { stop: options.stop, ..RunOptions::new(1, options.inputs) };
    let ran = run_on(point, how, &mut fleet, |done| progress("running", done));
    let (measured, late_ms) = ran.map_err(|error| match error {
        RunError::Failed(why) => TestbedError::Scenario(why),
        RunError::Interrupted => TestbedError::Interrupted,
    })?;
    let elapsed = fleet.now();
    let rivals = fleet.rivals.end()?;
    progress("stopping hosts", Progress { share: 1.0, ..Progress::default() });
    let usage = fleet.usage();
    let relay = match &mut fleet.wire {
        Wire::Loopback => None,
        Wire::Relay(relay) => Some(relay.report()?),
    };
    doubts.extend(relay.as_ref().map(samara_emulation::RelayReport::doubts).unwrap_or_default());
    let (since, before) = fleet.looked.unwrap_or_default();
    let waited = waited(&usage).saturating_sub(before) / usage.len().max(1) as u32;
    doubts.extend(starved(waited, elapsed.since(since).as_nanos() as u64));
    let programs = options.hosts.iter().map(|program| program.name.clone()).collect();
    let mut real = real_run(programs, &usage, fleet.ready, relay.as_ref());
    real.publish_error_ms = Statistics::of(&late_ms);
    real.doubts = doubts;
    let ended = end(&mut fleet);
    Ok((Done { measured, real, rivals }, ended))
}
