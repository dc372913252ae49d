//! What this process has used.

use nix::sys::resource::{UsageWho, getrusage};

/// Processor time of all threads in seconds, user and system; 0 if the system does not tell.
pub fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// The most memory that the process has had; 0 if the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    // On Linux what getrusage tells includes what the parent had when it started this process; this does not.
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
