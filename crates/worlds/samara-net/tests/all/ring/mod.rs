//! Members of groups on loopback.

mod attacker;
mod authentication;
mod common;
mod federation;
mod hostile;
mod members;
mod streams;
