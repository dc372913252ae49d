//! The machine's clock, in which traces have their times.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the machine's clock in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    unix_ns_of(SystemTime::now())
}

/// Returns the nanoseconds since 1970, or 0 before that.
pub fn unix_ns_of(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
