//! Runs protocol engines in virtual time.
//!
//! A **host is simulated alone through a whole window of time**: nothing that a host sends reaches another one sooner
//! than the smallest latency in the network, so that hosts are independent within a window of that length. A host merges
//! a few streams that are sorted already (what arrives, what its downlink lets through, its timers, its free uplink);
//! there is no global queue of events. Order is defined by (time, sender, count), never by threads: the results of 1, 2 or
//! 16 threads are bit-identical.

mod backlog;
mod config;
mod digest;
mod downlink;
mod error;
mod gateway;
mod half;
mod host;
mod http2;
mod link;
mod mail;
mod mconn;
mod nic;
mod packet;
mod pairs;
mod quic;
mod shard;
mod simulation;
mod stats;
mod tcp;
mod together;
mod world;

pub use config::{
    Congestion, Control, DownlinkQueue, Framing, GatewayConfig, HostConfig, LATENCY_FLOOR, Latency, Network,
    NicDiscipline, Partition, RtoFloor, SendBuffer, SimConfig, TcpConfig, Transport,
};
pub use error::ConfigError;
pub use gateway::GateStats;
pub use http2::{Http2Config, Window};
pub use mconn::{
    ChannelConfig, ChannelStats, Connection, ConnectionStats, Flush, MConnectionConfig, MESSAGE_PACKET_BYTES,
    SEALED_FRAME, SEALED_PLAINTEXT, message_bytes,
};
pub use pairs::PairLatencies;
pub use quic::{IP_UDP_HEADER, QUIC_OVERHEAD, QuicConfig, QuicSendBuffer, StreamOrder, UDP_PAYLOAD};
pub use simulation::{Record, Simulation, digest_of};
pub use stats::{Count, Drops, FrameCount, HostStats};
pub use together::{Alone, FrameCodec, RankError, Ranks, Reader, Threads, part_of};
pub use world::{NodeFactory, host_of, identity_of};

/// Has a queue that is empty begin again where its memory begins, which is in the processor's cache: otherwise it goes round all that it
/// ever needed.
fn rewind<T>(queue: &mut std::collections::VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}
