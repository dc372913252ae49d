//! What lies between the outbox and the transport.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, OutboxConfig};

use crate::config::{Control, Framing, Transport};
use crate::error::ConfigError;
use crate::http2::Http2Config;

/// What lies between the outbox and the transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Connection {
    /// Nothing: the transport takes copies from the outbox as its dispatch says.
    #[default]
    Direct,
    /// Channels over a secret connection, as in CometBFT and celestia-core. Over TCP or the ideal transport, with
    /// [`Dispatch::PerLink`].
    MConnection(MConnectionConfig),
    /// HTTP/2, as below gRPC. Over TCP or the ideal transport.
    Http2(Http2Config),
}

impl Connection {
    /// The connection's configuration, if it has channels.
    pub(crate) const fn channels(&self) -> Option<&MConnectionConfig> {
        match self {
            Self::Direct | Self::Http2(_) => None,
            Self::MConnection(config) => Some(config),
        }
    }

    /// The connection's configuration, if it is HTTP/2.
    pub(crate) const fn http2(&self) -> Option<Http2Config> {
        match self {
            Self::Direct | Self::MConnection(_) => None,
            Self::Http2(config) => Some(*config),
        }
    }
}

/// A connection with channels.
#[derive(Clone, Debug, PartialEq)]
pub struct MConnectionConfig {
    /// The channels, in the order in which the peer's software registers them (it decides between equals). Every lane of
    /// the outbox belongs to one of them.
    pub channels: Vec<ChannelConfig>,
    /// When written packets leave.
    pub flush: Flush,
    /// How often each side pings (60 s: `defaultPingInterval`; a pong is waited for 45 s); zero for never.
    pub ping_interval: Duration,
    /// The most bytes per second that are written as packets; 0 for no limit.
    pub send_rate: u64,
    /// The most bytes per second that are read as packets; 0 for no limit. A slow reader closes its TCP window; over the
    /// ideal transport, which has none, there must be no limit.
    pub receive_rate: u64,
}

impl MConnectionConfig {
    /// The defaults of CometBFT and celestia-core (`DefaultP2PConfig` in `config/config.go`): 100 ms, 5.12 MB/s both ways.
    pub const fn cometbft(channels: Vec<ChannelConfig>) -> Self {
        Self {
            channels,
            flush: Flush::Throttle(Duration::from_millis(100)),
            ping_interval: Duration::from_secs(60),
            send_rate: 5_120_000,
            receive_rate: 5_120_000,
        }
    }
}

/// A channel of a connection (`ChannelDescriptor` in `p2p/conn/connection.go`).
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelConfig {
    /// Its number on the wire.
    pub id: u8,
    /// Its share of a connection that is busy, relative to the others (at least 1).
    pub priority: u32,
    /// The most messages that wait behind the one that is being sent (at least 1, the default there).
    pub queue: usize,
    /// The lanes of the outbox whose copies it takes, in the outbox's order among them.
    pub lanes: Vec<Lane>,
}

/// When the packets that were written into the buffer leave. A full buffer always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// So long after the first packet that was written since the last time (`ThrottleTimer`; 100 ms by default).
    Throttle(Duration),
    /// As soon as nothing more is to be written: a connection that waits for nothing.
    WhenIdle,
}

/// Whether the transport can carry its connection.
pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let Some(config) = transport.connection.channels() else { return Ok(()) };
    if matches!(transport.control, Control::Quic(_)) {
        return Err(ConfigError::ChannelsOverQuic);
    }
    if transport.framing != Framing::PLAIN {
        return Err(ConfigError::ChannelsWithFraming);
    }
    if config.receive_rate > 0 && transport.control == Control::Ideal {
        return Err(ConfigError::ReceiveRateWithoutWindow);
    }
    if config.flush == Flush::Throttle(Duration::ZERO) {
        return Err(ConfigError::NoFlushInterval);
    }
    for (index, channel) in config.channels.iter().enumerate() {
        if channel.priority == 0 || channel.queue == 0 {
            return Err(ConfigError::EmptyChannel { channel: channel.id });
        }
        if config.channels[..index].iter().any(|other| other.id == channel.id) {
            return Err(ConfigError::ChannelTwice { channel: channel.id });
        }
    }
    Ok(())
}

/// Whether an outbox and a connection with channels fit together.
pub(crate) fn check_outbox(config: &MConnectionConfig, outbox: &OutboxConfig) -> Result<(), ConfigError> {
    if outbox.dispatch != Dispatch::PerLink {
        return Err(ConfigError::ChannelsWithNodeDispatch);
    }
    for lane in (0..outbox.lanes.len()).map(|lane| Lane(lane as u8)) {
        let channels = config.channels.iter().filter(|channel| channel.lanes.contains(&lane)).count();
        if channels != 1 {
            return Err(ConfigError::LaneOfChannels { lane: lane.0, channels });
        }
    }
    Ok(())
}
