//! A node's process, and its use of resources as in `/proc`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use samara_node::model::{Ready, Stopped};
use serde::de::DeserializeOwned;

use crate::TestbedError;
use crate::client::Client;
use crate::run::Stop;

/// Bytes at the end of a log that an error shows.
const TAIL_BYTES: u64 = 2000;

/// Maximum time until a process with a broken control API has ended.
const DYING: Duration = Duration::from_secs(2);

/// Maximum delay of an interrupt while a process starts.
const CHECK_STOP_EVERY: Duration = Duration::from_millis(100);

/// A program that runs a node. Its last argument is the path of a `node.toml`.
#[derive(Clone, Debug)]
pub struct NodeProgram {
    pub name: String,
    pub program: PathBuf,
    /// Arguments before the path of the configuration.
    pub arguments: Vec<OsString>,
}

/// A running node. Dropping it kills the process.
pub(crate) struct NodeProcess {
    pub(crate) number: u32,
    child: Child,
    /// Held open, as a node ends when its standard input closes.
    _stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
    pub(crate) client: Option<Client>,
    pub(crate) usage: Usage,
}

impl NodeProcess {
    /// Starts the process.
    pub(crate) fn spawn(
        number: u32,
        program: &NodeProgram,
        directory: &Path,
        config: &Path,
    ) -> Result<Self, TestbedError> {
        let log = directory.join("log.txt");
        let file = File::create(&log).map_err(TestbedError::io(log.display().to_string()))?;
        let mut child = Command::new(&program.program)
            .args(&program.arguments)
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(TestbedError::io(format!("starting {}", program.program.display())))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            // The thread ends with the process.
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.try_for_each(|line| sender.send(line))
            });
        }
        Ok(Self {
            number,
            _stdin: child.stdin.take(),
            child,
            lines,
            log,
            client: None,
            usage: Usage::default(),
        })
    }

    /// Waits until the node reports that it listens.
    pub(crate) fn wait_ready(&mut self, timeout: Duration, stop: &Stop<'_>) -> Result<(), TestbedError> {
        let start = Instant::now();
        let heard = loop {
            stop.check()?;
            match self.lines.recv_timeout(CHECK_STOP_EVERY) {
                Err(RecvTimeoutError::Timeout) if start.elapsed() < timeout => {}
                heard => break heard,
            }
        };
        match heard {
            Ok(line) => {
                let ready: Ready = serde_json::from_str(&line)
                    .map_err(|error| self.silent("start", format!("its first line is {line:?}: {error}")))?;
                self.client = ready.control.map(Client::new);
                Ok(())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended("start")),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.silent("start", format!("it did not report within {timeout:?} that it listens")))
            }
        }
    }

    pub(crate) fn ask<T>(
        &mut self,
        phase: &'static str,
        ask: impl FnOnce(&Client) -> Result<T, String>,
    ) -> Result<T, TestbedError> {
        let Some(client) = &self.client else {
            return Err(self.silent(phase, "it has no control API".to_owned()));
        };
        match ask(client) {
            Ok(answer) => Ok(answer),
            Err(reason) => {
                // The sockets of a dying process close before its end is visible.
                let asked = Instant::now();
                while asked.elapsed() < DYING {
                    self.check(phase)?;
                    std::thread::sleep(DYING / 20);
                }
                Err(self.silent(phase, reason))
            }
        }
    }

    /// Returns all entries of a record that the control API returns in pages, and the number of
    /// entries that the node has forgotten.
    pub(crate) fn record<P: DeserializeOwned, T>(
        &mut self,
        path: &str,
        entries: fn(P) -> (u64, u64, Vec<T>),
    ) -> Result<(Vec<T>, u64), TestbedError> {
        let (mut all, mut next, mut forgotten) = (Vec::new(), 0, 0);
        loop {
            let page = self.ask("collection", |client| client.get(&format!("{path}/{next}")))?;
            let (first, after, entries) = entries(page);
            forgotten += first.saturating_sub(next);
            next = after;
            if entries.is_empty() {
                return Ok((all, forgotten));
            }
            all.extend(entries);
        }
    }

    pub(crate) fn check(&mut self, phase: &'static str) -> Result<(), TestbedError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(self.ended(phase)),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn sample(&mut self) {
        self.usage.sample(self.child.id());
    }

    pub(crate) fn terminate(&self) {
        // If the process has ended already, waiting for it shows that.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
    }

    /// Kills the process with `SIGKILL`, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end of the process after [`terminate`](Self::terminate).
    pub(crate) fn wait_stopped(&mut self, timeout: Duration) -> Result<Stopped, TestbedError> {
        let mut last = None;
        loop {
            match self.lines.recv_timeout(timeout) {
                Ok(line) => last = Some(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.silent("stop", format!("it did not end within {timeout:?}")));
                }
            }
        }
        let status =
            self.child.wait().map_err(TestbedError::io(format!("waiting for node {}", self.number)))?;
        // A node with copies left reports them and exits with 3. The run is over, so nobody waits
        // for them.
        if !matches!(status.code(), Some(0 | 3)) {
            return Err(self.ended_with("stop", status));
        }
        let stopped = last.and_then(|line| serde_json::from_str(&line).ok());
        stopped.ok_or_else(|| self.silent("stop", "it did not print its last line".to_owned()))
    }

    fn ended(&mut self, phase: &'static str) -> TestbedError {
        match self.child.wait() {
            Ok(status) => self.ended_with(phase, status),
            Err(source) => TestbedError::Io { what: format!("waiting for node {}", self.number), source },
        }
    }

    fn ended_with(&self, phase: &'static str, status: ExitStatus) -> TestbedError {
        let (who, log, tail) = (format!("node {}", self.number), self.log.clone(), self.tail());
        TestbedError::Ended { who, phase, status: status.to_string(), log, tail }
    }

    fn silent(&self, phase: &'static str, reason: String) -> TestbedError {
        let (who, log, tail) = (format!("node {}", self.number), self.log.clone(), self.tail());
        TestbedError::Silent { who, phase, reason, log, tail }
    }

    fn tail(&self) -> String {
        tail(&self.log)
    }
}

/// Returns the end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    match read() {
        Ok(tail) if tail.is_empty() => "(empty)".to_owned(),
        Ok(tail) => tail,
        Err(error) => format!("(cannot read it: {error})"),
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Clock ticks of `/proc/PID/stat` in a second: 100 on all architectures of Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Minimum time over which a share of a processor counts for its maximum.
const SHARE_INTERVAL: Duration = Duration::from_millis(500);

/// Resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    /// Maximum over intervals between samples, and mean from the first to the last sample, of the
    /// used share of a processor.
    pub(crate) cpu_share_max: f64,
    pub(crate) cpu_share_mean: f64,
    /// Bytes that the process read and wrote, files and sockets together.
    pub(crate) io_bytes: u64,
    first: Option<(Instant, f64)>,
    last: Option<(Instant, f64)>,
    pub(crate) rss_bytes_max: u64,
    /// Maximum of open files and sockets over all samples.
    pub(crate) fds_max: u64,
    /// Time for which threads of the process were ready to run and had no processor.
    pub(crate) waited: Duration,
}

impl Usage {
    /// Takes the processor time that the process has used until now.
    fn take_cpu(&mut self, now: Instant, cpu_s: f64) {
        self.cpu_s = cpu_s;
        let sample = (now, cpu_s);
        let share = |since: (Instant, f64)| (cpu_s - since.1) / (now - since.0).as_secs_f64();
        let first = *self.first.get_or_insert(sample);
        if now > first.0 {
            self.cpu_share_mean = share(first);
        }
        // Over shorter intervals the ticks of the clock decide: 100 of them in a second.
        let last = *self.last.get_or_insert(sample);
        if now - last.0 >= SHARE_INTERVAL {
            self.cpu_share_max = self.cpu_share_max.max(share(last));
            self.last = Some(sample);
        }
    }

    /// Takes a sample. A process that has ended changes nothing.
    pub(crate) fn sample(&mut self, pid: u32) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        if let Some(cpu_s) = read("stat").as_deref().and_then(cpu_seconds) {
            self.take_cpu(Instant::now(), cpu_s);
        }
        if let Some(waited) = waited(pid) {
            self.waited = waited;
        }
        if let Some(bytes) = read("io").as_deref().and_then(io_bytes) {
            self.io_bytes = bytes;
        }
        if let Some(bytes) = read("status").as_deref().and_then(peak_bytes) {
            self.rss_bytes_max = self.rss_bytes_max.max(bytes);
        }
        if let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) {
            self.fds_max = self.fds_max.max(entries.count() as u64);
        }
    }
}

/// Sums fields 14 and 15 of `stat`, user and system time. The name in field 2 may contain spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

/// Sums the second fields of `schedstat` of all threads (Linux, `Documentation/scheduler/sched-stats.rst`).
fn waited(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |stat: String| stat.split_whitespace().nth(1)?.parse::<u64>().ok();
    let each =
        threads.flatten().filter_map(|thread| of(fs::read_to_string(thread.path().join("schedstat")).ok()?));
    Some(Duration::from_nanos(each.sum()))
}

/// Sums `rchar` and `wchar` of `io`: the bytes of all calls that read or write.
fn io_bytes(io: &str) -> Option<u64> {
    let of = |key: &str| io.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok();
    Some(of("rchar:")? + of("wchar:")?)
}

/// Returns `VmHWM` of `status`, which is in kB.
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_processors_only_grow() {
        let own = || waited(std::process::id()).expect("schedstat");
        let before = own();
        assert!(own() >= before);
        assert_eq!(waited(u32::MAX), None);
    }

    #[test]
    fn the_usage_of_this_process_is_sampled() {
        let mut usage = Usage::default();
        usage.sample(std::process::id());
        assert!(usage.rss_bytes_max > 100_000 && usage.fds_max >= 3, "{usage:?}");
        assert!(usage.io_bytes > 1000, "{usage:?}");
    }

    #[test]
    fn shares_of_a_processor_are_over_intervals_and_over_all() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        for (seconds, cpu_s) in [(0.0, 1.0), (1.0, 1.1), (1.1, 1.2), (2.0, 1.9), (4.0, 2.0)] {
            usage.take_cpu(start + Duration::from_secs_f64(seconds), cpu_s);
        }
        assert!((usage.cpu_share_max - 0.8).abs() < 1e-9, "{usage:?}");
        assert!((usage.cpu_share_mean - 0.25).abs() < 1e-9, "{usage:?}");
    }

    #[test]
    fn names_may_contain_brackets_and_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 nothing"), None);
        assert_eq!(io_bytes("rchar: 70\nwchar: 30\nsyscr: 4\n"), Some(100));
        assert_eq!(peak_bytes("Name:\tx\nVmHWM:\t  2048 kB\n"), Some(2 << 20));
    }
}
