//! The clock of a test. It moves only when the test sleeps.

use std::cell::Cell;
use std::time::Duration;

use samara_engine::Time;

/// Seconds of the engine in one second of a test. Tests of rust-libp2p have backoffs of 90 ms, and the
/// engine accepts none below 1 s, because the wire has whole seconds.
pub(crate) const SCALE: u32 = 20;

thread_local! {
    static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Moves the clock of this test by a little more than `span`, as any sleep does.
pub(crate) fn sleep(span: Duration) {
    SLEPT.set(SLEPT.get() + span + Duration::from_micros(100));
}

/// Returns the time of engines.
pub(crate) fn now() -> Time {
    // Some time after the start, so that spans before it exist.
    Time::from_secs(10_000) + SLEPT.get() * SCALE
}
