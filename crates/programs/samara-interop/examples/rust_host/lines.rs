//! The lines on the standard output of the host.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::Value;

/// Maximum time for the last lines to be read.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that a thread writes: the swarm does not wait for the reader of a pipe.
pub(crate) struct Lines {
    sender: Sender<String>,
    /// Ends with the thread.
    written: Receiver<()>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel::<String>();
        let (is_writing, written) = channel();
        std::thread::spawn(move || {
            let _is_writing: Sender<()> = is_writing;
            let mut out = std::io::stdout();
            while let Ok(mut lines) = receiver.recv() {
                lines.extend(receiver.try_iter());
                if out.write_all(lines.as_bytes()).and_then(|()| out.flush()).is_err() {
                    // Without a reader the orders end, too.
                    return;
                }
            }
        });
        Self { sender, written }
    }

    pub(crate) fn say(&self, line: &Value) {
        // Fails only without a reader.
        let _ = self.sender.send(format!("{line}\n"));
    }

    /// Waits until all lines are written.
    pub(crate) fn end(self) {
        drop(self.sender);
        let _ = self.written.recv_timeout(FLUSH_TIMEOUT);
    }
}
