//! Sends a file to all members of a group.
//!
//! The sender broadcasts pieces of the file in the group ([`samara_net::ring`]): each piece crosses
//! each link of the ring once, whatever the number of receivers. Receivers say which ranges they miss,
//! when they join and after each restart, so that a transfer continues where it ended, and a receiver
//! that comes late gets what it has missed. A receiver verifies the whole file (BLAKE3) before it gives
//! it its name.
//!
//! | file | contents |
//! |---|---|
//! | `send` | the sender |
//! | `receivers` | the receivers as the sender knows them: who misses what, and the next piece |
//! | `receipts` | the receivers that have the file, for a sender that starts again |
//! | `receive` | the receiver: offers, pieces, and the end |
//! | `store` | a file that arrives: ranges on disk, and its verification |
//! | `wire` | the messages between them |
//! | `ranges` | sets of byte ranges |

#![warn(missing_docs)]

mod ranges;
mod receipts;
mod receive;
mod receivers;
mod send;
mod store;
mod wire;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use samara_net::ring::{BroadcastError, Events, Gone, Group, StartError};

pub use ranges::Ranges;
pub use receive::{ReceiveOptions, Received, Receiving, receive};
pub use send::{MemberState, SendOptions, Sending, Sent, send};
pub use wire::{Control, FileId, Message, PIECE_BYTES, RANGES_MAX, UnreadableMessage};

/// Maximum time that the end of a stopped transfer waits for others.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// The reason why a transfer ended early.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A file or a directory cannot be used.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or directory that the error is about.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The path of the sender names no plain file, or its name is not fit for other machines.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file or directory that the error is about.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file of the sender changed while it was sent.
    #[error("{} changed while it was sent; send it again", path.display())]
    Changed {
        /// The file or directory that the error is about.
        path: PathBuf,
    },
    /// The transfer was stopped before the member was in a group.
    #[error("stopped before the group was joined")]
    Stopped,
    /// The member did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The member ended.
    #[error("the member of the group ended: {0}")]
    Ended(String),
}

impl TransferError {
    pub(crate) fn unfit(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Unfit { path: path.into(), why: why.into() }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}

impl From<Gone> for TransferError {
    fn from(error: Gone) -> Self {
        Self::Ended(error.to_string())
    }
}

impl From<BroadcastError> for TransferError {
    fn from(error: BroadcastError) -> Self {
        Self::Ended(error.to_string())
    }
}

/// Broadcasts a message without contents.
pub(crate) async fn broadcast(group: &Group, control: &Control) -> Result<(), TransferError> {
    Ok(group.broadcast(control.write()).await?)
}

/// Leaves a group. Events are taken until the end, since a member that takes none holds the group up.
/// One that was stopped leaves as in a crash if the others do not answer.
pub(crate) async fn leave(group: &Group, events: &mut Events, is_stopped: bool) -> Result<(), TransferError> {
    let leave = group.leave();
    let late = tokio::time::sleep(STOP_WITHIN);
    tokio::pin!(leave, late);
    loop {
        tokio::select! {
            left = &mut leave => break Ok(left?),
            () = &mut late, if is_stopped => break Ok(()),
            _ = events.next() => {}
        }
    }
}

/// Makes an empty directory for a test.
#[cfg(test)]
fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("samara-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("directory for temporary files");
    directory
}
