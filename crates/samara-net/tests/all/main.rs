//! The engines on sockets of this machine, among each other and beside others.

#[cfg(feature = "mconnection")]
mod mconn;
#[cfg(feature = "mix")]
mod mix;
#[cfg(feature = "ring")]
mod ring;
