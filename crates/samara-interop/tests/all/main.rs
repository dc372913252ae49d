//! Runners in networks on this machine: ours, and those of other implementations.

mod loopback;
mod network;
mod partial;
mod peers;
