//! What the process has used.

use nix::sys::resource::{UsageWho, getrusage};

/// Processor time of all threads in seconds, user and system; 0 if the system does not tell.
pub(crate) fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// The most memory that the process has had; 0 if the system does not tell.
pub(crate) fn peak_rss_bytes() -> u64 {
    // Kibibytes on Linux and the BSDs, bytes on macOS.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64 * unit)
}
