//! TCP, a half connection each way, in units of segments.
//!
//! Segments are numbered from 0 and keep their boundaries when they are sent again, as every write makes its own
//! segments. Windows count packets, as in Linux.

mod cubic;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;

pub(crate) use receiver::Receiver;
pub(crate) use sender::{Sender, timestamp};

#[cfg(test)]
mod tests;
