//! Resources used by this process.

use nix::sys::resource::{UsageWho, getrusage};

/// Returns the user and system processor time of all threads in seconds; 0 if the system does not
/// report it.
pub fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// Returns the number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the peak memory of the process in bytes; 0 if the system does not report it.
pub fn peak_rss_bytes() -> u64 {
    // On Linux, getrusage includes the memory of the parent at the start of this process; this file
    // does not.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    if let Some(kibibytes) = peak {
        let kibibytes: u64 = kibibytes;
        return kibibytes * 1024;
    }
    // Kibibytes on Linux and the BSDs, bytes on macOS.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * unit)
}
