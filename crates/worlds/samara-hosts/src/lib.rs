//! A host of a run on real sockets: the application, engine and outbox of the simulator.
//!
//! An application chooses its [`Sockets`]. A program that runs one host opens them
//! ([`Sockets`]'s `open`), and serves the requests of the leader of the run (`serve`). `samara-lab`
//! defines the leader and its language.

#[cfg(feature = "net")]
mod cometbft;
#[cfg(feature = "net")]
mod framed;
#[cfg(feature = "net")]
mod grpc;
#[cfg(feature = "net")]
mod serve;
mod sockets;
#[cfg(feature = "net")]
mod swarm;

use serde::{Deserialize, Serialize};

#[cfg(feature = "net")]
pub use serve::{
    Begin, Happened, Links, Looking, Moved, Open, Place, Request, Serve, TOKEN_BYTES, Tell, Waiting,
};
pub use sockets::{Layer, ProtocolOf, Simulate, Sockets, Transport, Worlds};

/// A snapshot of the counters of a host since its process started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Looked<C> {
    /// The counters of the application.
    pub counters: C,
    pub frames_sent: u64,
    pub payload_bytes_sent: u64,
    pub control_bytes_sent: u64,
    pub frames_received: u64,
    pub payload_bytes_received: u64,
    pub control_bytes_received: u64,
    /// Bytes that sockets accepted and delivered, framing included.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Copies that the outbox withdrew.
    pub withdrawn: u64,
    /// Copies that the outbox holds.
    pub owed: u64,
    /// How much later than planned each command since the last look was carried out, in
    /// nanoseconds.
    pub late_ns: Vec<u64>,
}
