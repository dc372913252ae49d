//! Engines over the connections of CometBFT: among our own nodes, with hostile peers, and with
//! celestia-core itself.

mod attacker;
mod celestia;
mod celestia3;
mod common;
#[path = "../../../../../../interop/go.rs"]
mod go_program;
mod hostile;
#[cfg(feature = "hosted")]
mod hosts;
mod interop;
mod links;
mod network;
mod vectors;
