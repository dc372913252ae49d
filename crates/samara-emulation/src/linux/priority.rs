//! Precedence of the relay's thread over the programs whose packets it carries.

use std::io;

use nix::libc;

/// The lowest of the real-time priorities (`sched(7)`: 1 to 99): above all ordinary threads, below everything that an
/// administrator has made more urgent.
const LOWEST_REALTIME: libc::c_int = 1;

/// Lets the calling thread run as soon as it is due, before all ordinary threads (`SCHED_FIFO`). The kernel leaves 5 % of
/// the time to others whatever happens (`/proc/sys/kernel/sched_rt_runtime_us`).
///
/// # Errors
/// Without `CAP_SYS_NICE`, as in user namespaces.
#[expect(
    unsafe_code,
    reason = "no safe wrapper of pthread_setschedparam in the crates used; explained where it is made"
)]
pub(crate) fn take_precedence() -> io::Result<()> {
    // SAFETY: `sched_param` consists of integers (and, with some C libraries, reserved ones), for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = LOWEST_REALTIME;
    // SAFETY: `pthread_self` is the calling thread, which exists; the parameters are only read, during the call.
    let errno = unsafe { libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &parameters) };
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}
