//! Members of groups on loopback.

mod attacker;
mod authentication;
mod common;
mod hostile;
mod members;
mod streams;
