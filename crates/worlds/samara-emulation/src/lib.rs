//! Emulated links for real processes on one machine: rates, latency, jitter, queues and loss.
//!
//! The crate has two independent parts:
//!
//! - [`Emulator`]: the network as a state machine. Its input is packets and the time, its output is
//!   packets and the times at which they are due. It has the types of the simulator (`samara-sim`)
//!   for hosts, latencies and queues.
//! - `Relay` (Linux): a TUN device and a thread that carries packets between the kernel and an
//!   emulator, so that the kernel's own TCP, and QUIC over UDP, use these links. It needs no
//!   network namespace and no traffic shaping of the kernel, only the right to create a device.

mod config;
mod emulator;
mod error;
#[cfg(target_os = "linux")]
mod linux;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only the relay reads packets"))]
#[cfg_attr(not(feature = "fuzzing"), allow(unreachable_pub, reason = "a fuzz target calls it"))]
mod packet;
mod subnets;

pub use config::{
    EmulationConfig, MAX_HOSTS, MAX_LATENCY, MIN_QUEUE_BYTES, MIN_RATE_BPS, Servers, UplinkQueue,
};
pub use emulator::{Delivery, Drops, Emulator, HostCounters, Packet};
pub use error::Unavailable;
#[cfg(target_os = "linux")]
pub use linux::{
    CounterReader, Lateness, Relay, RelayConfig, RelayError, RelayReport, Unrouted, availability,
    enter_private_network,
};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use packet::{Refused, Route, route, translate};
pub use samara_sim::{
    ConfigError, Count, DownlinkQueue, GateStats, GatewayConfig, HostConfig, Latency, NicDiscipline,
    PairLatencies,
};
pub use subnets::{MAX_ADDRESSES, Subnets, SubnetsError};

/// Checks that this process can start a relay.
///
/// # Errors
/// Always: there is no relay for this system.
#[cfg(not(target_os = "linux"))]
pub fn availability() -> Result<(), Unavailable> {
    Err(Unavailable::Platform(std::env::consts::OS))
}
