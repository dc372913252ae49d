#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod app;
mod config;
mod distributed;
mod downlink;
mod error;
mod explain;
mod fq_codel;
mod gateway;
mod host;
mod link;
mod node;
mod packet;
mod rival;
mod shard;
mod simulation;
mod stats;
mod transport;
mod world;

pub use app::{App, Postcard, Work};
pub use config::{
    DownlinkQueue, FqCoDel, GatewayConfig, HostConfig, LATENCY_FLOOR, Latency, Losses, Network,
    NicDiscipline, PairLatencies, Partition, QueueSize, SimConfig,
};
pub use distributed::{RankError, Ranks, Threads, hosts_of_rank};
pub use downlink::CoDel;
pub use error::ConfigError;
pub use explain::{
    Arrival, Arrivals, Cause, Compact, Contents, Hop, Items, Origin, Parts, Trigger, parts_of,
};
pub use fq_codel::{Dropped, FqLine, Queued, hash_of};
pub use gateway::GateStats;
pub use node::Record;
pub use rival::{CALL_PACKETS_PER_S, CALL_PAYLOAD_BYTES, RivalKind, RivalStats};
pub use simulation::{AnySimulation, NodeFactory, Simulation, digest_of};
pub use stats::{Count, Drops, FrameCount, HostStats};
pub use transport::datagram::DATAGRAM_HEADER;
pub use transport::http2::{Http2Config, Window};
pub use transport::mconn::{
    ChannelConfig, ChannelStats, ConnectionStats, Flush, MConnectionConfig, MESSAGE_PACKET_BYTES,
    SEALED_FRAME, SEALED_PLAINTEXT, message_bytes,
};
pub use transport::quic::{
    IP_UDP_HEADER, QUIC_OVERHEAD, QuicBehaviour, QuicConfig, QuicSendBuffer, StreamOrder, UDP_PAYLOAD,
};
pub use transport::tcp::{Congestion, Recovery, RtoFloor, SendBuffer, TcpConfig};
pub use transport::{Connection, Control, FRAME_BYTES_MAX, Framing, Transport, Writers};
pub use world::{Neighbours, host_of, identity_of};

/// Makes an empty queue start again at the beginning of its memory, which is in the processor's
/// cache. Otherwise the queue cycles through all memory that it ever needed.
fn rewind<T>(queue: &mut std::collections::VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}
