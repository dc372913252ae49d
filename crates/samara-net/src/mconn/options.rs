//! Options of a node.

use std::net::SocketAddr;
use std::time::Duration;

use samara_engine::outbox::Lane;

use super::identity::{PeerAddress, is_text};
use crate::status::{OptionError, check};

/// A channel of a connection (`ChannelDescriptor` in `p2p/conn/connection.go`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its number on the wire.
    pub id: u8,
    /// Its share of a connection that is busy, relative to the others (at least 1).
    pub priority: u32,
    /// Messages that wait behind the one that is being sent (at least 1). Others stay in the outbox, where they
    /// can be withdrawn.
    pub queue: usize,
    /// The lanes of the outbox that it takes.
    pub lanes: Vec<Lane>,
    /// The longest message that is accepted, in bytes (`RecvMessageCapacity`). Each connection can hold one of this length
    /// for each channel.
    pub longest_message: usize,
}

/// When packets leave. A full buffer always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// As soon as nothing more is to be written: nothing waits for anything.
    #[default]
    WhenIdle,
    /// So long after the first packet since the last time (`FlushThrottleTimeout`, 100 ms by default there).
    Throttle(Duration),
}

/// Options of a [`Node`](super::Node).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The network (chain) that the node belongs to: peers of another are refused.
    pub network: String,
    /// This node's name for its operator, in ASCII.
    pub moniker: String,
    /// The version of blocks: peers of another are refused (`BlockProtocol` in `version/version.go`: 11).
    pub block_version: u64,
    /// The version of the application that the node info announces.
    pub app_version: u64,
    /// Where to listen; `None` to dial only.
    pub listen: Option<SocketAddr>,
    /// Persistent peers, which the node dials until they are connected.
    pub peers: Vec<PeerAddress>,
    /// When packets leave.
    pub flush: Flush,
    /// Bytes of messages that may be on their way from the outbox into the socket, for each link. A link with nothing on the
    /// way takes any one message.
    pub in_flight_bytes: usize,
    /// How often a peer is pinged (60 s in CometBFT).
    pub ping_interval: Duration,
    /// How long a pong is waited for (45 s in CometBFT).
    pub pong_timeout: Duration,
    /// How long dialling may take.
    pub dial_timeout: Duration,
    /// How long the handshake may take.
    pub handshake_timeout: Duration,
    /// How long to wait before the second attempt to dial; doubled after each further one.
    pub redial_first: Duration,
    /// The longest wait between attempts.
    pub redial_max: Duration,
    /// Most links with peers that dialled (`max_num_inbound_peers`).
    pub max_inbound: usize,
    /// Most links and handshakes with peers of one IP address that dialled.
    pub max_inbound_per_ip: usize,
    /// Most handshakes with peers that dialled; further ones are hung up on.
    pub max_pending: usize,
    /// Events that wait to be read at most; further ones are dropped and counted.
    pub events: usize,
}

impl Options {
    /// The options of a node of this network: 40 inbound peers as in CometBFT, its intervals of pings, and nothing that
    /// waits before it leaves.
    pub fn new(network: impl Into<String>) -> Self {
        Self {
            network: network.into(),
            moniker: "samara".to_owned(),
            block_version: 11,
            app_version: 0,
            listen: None,
            peers: Vec::new(),
            flush: Flush::WhenIdle,
            in_flight_bytes: 64 << 10,
            ping_interval: Duration::from_secs(60),
            pong_timeout: Duration::from_secs(45),
            dial_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(3),
            redial_first: Duration::from_millis(500),
            redial_max: Duration::from_secs(30),
            max_inbound: 40,
            max_inbound_per_ip: 16,
            max_pending: 32,
            events: 65_536,
        }
    }

    pub(super) fn check(&self, channels: &[Channel]) -> Result<(), OptionError> {
        let positive = |name: String, holds| check(holds, name, 0, "more than 0");
        positive("ping_interval".to_owned(), !self.ping_interval.is_zero())?;
        positive("pong_timeout".to_owned(), !self.pong_timeout.is_zero())?;
        positive("handshake_timeout".to_owned(), !self.handshake_timeout.is_zero())?;
        positive("max_pending".to_owned(), self.max_pending > 0)?;
        positive("events".to_owned(), self.events > 0)?;
        let is_ascii = is_text(&self.moniker) && !self.moniker.trim().is_empty();
        check(is_ascii, "moniker", &self.moniker, "ASCII")?;
        for (at, channel) in channels.iter().enumerate() {
            let name = format!("channel {:#04x}", channel.id);
            positive(format!("{name}: priority"), channel.priority > 0)?;
            positive(format!("{name}: queue"), channel.queue > 0)?;
            let is_new = channels[..at].iter().all(|other| other.id != channel.id);
            check(is_new, name, "a second one", "one")?;
        }
        Ok(())
    }
}
