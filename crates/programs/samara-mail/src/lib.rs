//! Messages to a recipient through a mix of real nodes ([`samara_net::mix`]).
//!
//! The sender splits a message into parts, encrypts each for the recipient, and submits them like any
//! other payloads: all have one length, and nothing in them names the recipient. Parts of rounds that
//! fail go into other rounds. The receiver fetches every finished batch, whole, and tries to read each
//! payload. A node can therefore not tell which payloads of a batch a receiver reads.
//!
//! | file | contents |
//! |---|---|
//! | `parts` | the parts of a message, and the receiver's table of them |
//! | `send` | the sender: rounds, results, and what has to go again |
//! | `receive` | the receiver: lists of rounds, batches, messages |
//! | `store` | messages as files of a directory |

#![warn(missing_docs)]

mod parts;
mod receive;
mod send;
mod store;

use samara_net::mix::{ClientError, KeyError};

pub use parts::{
    Added, Inbox, Message, MessageId, Naming, PARTS_MAX, Part, UnfinishedMessage, UnreadablePart,
    content_bytes_max, part_bytes, split,
};
pub use receive::{ReceiveOptions, Received, Receiving, receive};
pub use send::{SendOptions, Sending, Sent, send};
pub use store::{Stored, store};

/// The reason why a sender or a receiver ended early.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The message is longer than its parts can be.
    #[error(
        "the message has {found} bytes or more; expected at most {max}: {PARTS_MAX} parts of {part} bytes"
    )]
    TooLong {
        /// The bytes of the message.
        found: usize,
        /// The maximum.
        max: usize,
        /// The bytes of a part.
        part: usize,
    },
    /// The payloads of this group are shorter than the fields of a part.
    #[error("payloads of the group {group} have no room for messages; expected modp-2048 or modp-4096")]
    NoRoom {
        /// The name of the group.
        group: &'static str,
    },
    /// The options are wrong.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system has no random numbers.
    #[error("cannot get random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No node of the pool answers.
    #[error("no node of the pool answers: {0}; check that the pool file is current, and that the nodes run")]
    Unreachable(String),
    /// The owner's part of the work failed.
    #[error("{0}")]
    Owner(String),
}
