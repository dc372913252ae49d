//! Interrupts: Ctrl-C, and SIGTERM as service managers, batch systems and containers send it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// As shells report an interrupt (128 + SIGINT). SIGTERM gives the same status, since it leaves the same results.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that the first interrupt sets; the second one ends the process at once.
pub(crate) fn stop_on_interrupt() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_interrupt(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })?;
    Ok(stop)
}

/// Calls `handle` for each interrupt from now on, in a thread of its own. SIGHUP keeps its default, since `nohup` sets that to "ignore".
pub(crate) fn on_interrupt(mut handle: impl FnMut() + Send + 'static) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot listen for interrupts: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    drop(entered);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => handle(),
                    _ = terminate.recv() => handle(),
                }
            }
        });
    });
    Ok(())
}
