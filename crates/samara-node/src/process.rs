//! What the process uses.

use nix::sys::resource::{UsageWho, getrusage};

/// Processor time, memory and file descriptors; what the system does not tell is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time of all threads in seconds, user and system.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        // Kibibytes on Linux and the BSDs, bytes on macOS.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        Self {
            cpu_s: usage.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
            peak_rss_bytes: usage.and_then(|usage| u64::try_from(usage.max_rss()).ok()).map(|rss| rss * unit),
            rss_bytes: rss_bytes(),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
        }
    }
}

/// `VmRSS` of proc(5), in kibibytes there.
fn rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        let usage = Usage::now();
        assert!(usage.cpu_s.is_some());
        assert!(usage.rss_bytes.unwrap() > 100_000);
        assert!(usage.peak_rss_bytes.unwrap() >= 100_000);
        assert!(usage.open_fds.unwrap() >= 3);
    }
}
