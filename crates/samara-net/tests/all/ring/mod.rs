//! Members of groups on loopback.

mod common;
mod hostile;
mod members;
mod streams;
