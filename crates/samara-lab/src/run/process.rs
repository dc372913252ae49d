//! What this process has used so far.

use nix::sys::resource::{UsageWho, getrusage};

/// Seconds of CPU, user and system, over all threads.
pub fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

/// The most memory that the process has had resident at a time, in bytes.
pub fn peak_rss_bytes() -> u64 {
    // Kibibytes, except on Apple's systems.
    let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0) * unit)
}
