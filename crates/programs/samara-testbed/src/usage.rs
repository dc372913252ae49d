//! The use of resources of a process as in `/proc`, and the end of its log.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes at the end of a log that an error shows.
const TAIL_BYTES: u64 = 2000;

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
