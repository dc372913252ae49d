//! Runners in networks on this machine: ours, and those of other implementations.

#[path = "../../../../../interop/go.rs"]
mod go_program;
#[path = "../../../../../interop/js.rs"]
mod js_program;
mod loopback;
mod network;
mod partial;
mod peers;
mod soak;
