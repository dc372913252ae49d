//! What a process uses, by `/proc`.

use std::fs;

/// Clock ticks of `/proc/PID/stat` in a second: 100 on all architectures of Linux (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    pub(crate) rss_bytes_max: u64,
    /// The most open files and sockets at any look.
    pub(crate) fds_max: u64,
}

impl Usage {
    /// Samples once more. A process that has ended changes nothing.
    pub(crate) fn sample(&mut self, pid: u32) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
        if let Some(cpu_s) = read("stat").as_deref().and_then(cpu_seconds) {
            self.cpu_s = cpu_s;
        }
        if let Some(bytes) = read("status").as_deref().and_then(peak_bytes) {
            self.rss_bytes_max = self.rss_bytes_max.max(bytes);
        }
        if let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) {
            self.fds_max = self.fds_max.max(entries.count() as u64);
        }
    }
}

/// Fields 14 and 15 of `stat`, user and system time; the name in field 2 may have spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

/// `VmHWM` of `status`, in kB.
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let mut usage = Usage::default();
        usage.sample(std::process::id());
        assert!(usage.rss_bytes_max > 100_000 && usage.fds_max >= 3, "{usage:?}");
    }

    #[test]
    fn names_may_have_brackets_and_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 nothing"), None);
        assert_eq!(peak_bytes("Name:\tx\nVmHWM:\t  2048 kB\n"), Some(2 << 20));
    }
}
