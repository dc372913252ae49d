//! `samara group`: files to all members of a group over real sockets.

mod args;
#[cfg(feature = "net")]
mod shown;
#[cfg(feature = "net")]
mod transfer;

pub(crate) use args::GroupVerb;
#[cfg(feature = "net")]
pub(crate) use transfer::run;
