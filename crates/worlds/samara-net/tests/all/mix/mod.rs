//! Nodes, scheduler and senders over gRPC on loopback.

mod attacker;
mod common;
mod faults;
mod hostile;
mod limits;
mod mailbox;
mod rounds;
mod windows;
