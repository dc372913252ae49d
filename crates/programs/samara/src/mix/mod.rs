//! `samara mix`: messages to a recipient through a mix of real nodes.

mod args;
#[cfg(feature = "net")]
mod mail;

pub(crate) use args::MixVerb;
#[cfg(feature = "net")]
pub(crate) use mail::run;
