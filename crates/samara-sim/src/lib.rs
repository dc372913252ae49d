//! Runs protocol engines in virtual time.
//!
//! A **host is simulated alone through a whole window of time**: nothing that a host sends reaches another one sooner
//! than the smallest latency in the network, so that hosts are independent within a window of that length. A host merges
//! a few streams that are sorted already (what arrives, what its downlink lets through, its timers, its free uplink);
//! there is no global queue of events. Order is defined by (time, sender, count), never by threads: the results of 1, 2 or
//! 16 threads are bit-identical.

#![warn(missing_docs)]

mod config;
mod distributed;
mod downlink;
mod error;
mod gateway;
mod host;
mod link;
mod packet;
mod shard;
mod simulation;
mod stats;
mod transport;
mod world;

pub use config::{
    DownlinkQueue, GatewayConfig, HostConfig, LATENCY_FLOOR, Latency, Network, NicDiscipline, PairLatencies,
    Partition, SimConfig,
};
pub use distributed::{FrameCodec, RankError, Ranks, Reader, Threads, hosts_of_rank};
pub use downlink::CoDel;
pub use error::ConfigError;
pub use gateway::GateStats;
pub use simulation::{Record, Simulation, digest_of};
pub use stats::{Count, Drops, FrameCount, HostStats};
pub use transport::http2::{Http2Config, Window};
pub use transport::mconn::{
    ChannelConfig, ChannelStats, ConnectionStats, Flush, MConnectionConfig, MESSAGE_PACKET_BYTES,
    SEALED_FRAME, SEALED_PLAINTEXT, message_bytes,
};
pub use transport::quic::{
    IP_UDP_HEADER, QUIC_OVERHEAD, QuicConfig, QuicSendBuffer, StreamOrder, UDP_PAYLOAD,
};
pub use transport::tcp::{Congestion, RtoFloor, SendBuffer, TcpConfig};
pub use transport::{Connection, Control, Framing, Transport};
pub use world::{NodeFactory, host_of, identity_of};

/// Has a queue that is empty begin again where its memory begins, which is in the processor's cache: otherwise it goes round all that it
/// ever needed.
fn rewind<T>(queue: &mut std::collections::VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}
