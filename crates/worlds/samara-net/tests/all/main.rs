//! The engines on sockets of this machine, with each other and with other implementations.

#[cfg(feature = "mconnection")]
mod mconn;
#[cfg(feature = "mix")]
mod mix;
#[cfg(feature = "ring")]
mod ring;
