//! Configurations that cannot be simulated.

use std::ops::Range;

use thiserror::Error;

use crate::config::{Control, HostConfig, LATENCY_FLOOR, Latency, SimConfig};

/// Why a simulation cannot be set up.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    /// There are no hosts.
    #[error("a network needs at least one host")]
    NoHosts,
    /// More hosts than numbers for them.
    #[error("{0} hosts are more than the 16,777,216 that have an address")]
    TooManyHosts(usize),
    /// A rate of zero.
    #[error("host {host}: the {direction} rate is 0 bit/s; it must be positive")]
    NoRate {
        /// Which host.
        host: usize,
        /// `uplink` or `downlink`.
        direction: &'static str,
    },
    /// A region that the latency matrix does not have.
    #[error("host {host} is in region {region}, but the latency matrix has {regions} regions")]
    UnknownRegion {
        /// Which host.
        host: usize,
        /// Its region.
        region: u16,
        /// How many there are.
        regions: usize,
    },
    /// A latency matrix that is not square.
    #[error("row {row} of the latency matrix has {found} entries instead of {expected}")]
    MatrixNotSquare {
        /// The row, counted from 0.
        row: usize,
        /// Its length.
        found: usize,
        /// The number of rows.
        expected: usize,
    },
    /// Latencies of pairs that are not those of all hosts.
    #[error("there are latencies between {found} hosts, but {expected} hosts")]
    PairsOfOthers {
        /// How many hosts have latencies.
        found: usize,
        /// How many hosts there are.
        expected: usize,
    },
    /// A range of latencies that is empty.
    #[error("the least latency is larger than the most")]
    EmptyLatencyRange,
    /// A probability out of range.
    #[error("the loss probability is {0}; it must be in 0..1")]
    Loss(f64),
    /// Loss needs a transport that repairs it.
    #[error(
        "the ideal transport cannot lose packets, since it does not send again; use tcp or quic, or no loss"
    )]
    LossWithoutRepair,
    /// A segment size that cannot carry anything.
    #[error("the segment size is {mss} bytes; it must be larger than the lead of the framing ({lead} bytes)")]
    SegmentSize {
        /// The size.
        mss: u32,
        /// The lead.
        lead: u32,
    },
    /// A window of no packets.
    #[error("the {0} window is 0 packets; it must be at least 1")]
    NoWindow(&'static str),
    /// HTTP/2 over QUIC, which is HTTP/3.
    #[error("HTTP/2 is one stream of bytes; use tcp or ideal")]
    Http2OverQuic,
    /// HTTP/2, and the framing of something else.
    #[error("HTTP/2 frames messages itself; the framing must be plain")]
    Http2WithFraming,
    /// A receiver that lets nothing come.
    #[error("the window of HTTP/2 is 0 bytes; it must be at least 1")]
    NoCredit,
    /// A connection with channels over QUIC.
    #[error("connections with channels are streams of bytes of their own; use tcp or ideal")]
    ChannelsOverQuic,
    /// A connection with channels, and the framing of something else.
    #[error("a connection with channels frames its packets itself; the framing must be plain")]
    ChannelsWithFraming,
    /// A limited reader that cannot make the sender wait.
    #[error("the ideal transport has no receive window to close; use tcp, or no limit on the receive rate")]
    ReceiveRateWithoutWindow,
    /// A flush throttle without an interval.
    #[error("the flush interval is 0; use a flush when idle")]
    NoFlushInterval,
    /// A channel that could never send.
    #[error("channel {channel:#04x}: priority and queue must be at least 1")]
    EmptyChannel {
        /// Its number.
        channel: u8,
    },
    /// Two channels with one number.
    #[error("there are two channels {channel:#04x}")]
    ChannelTwice {
        /// Their number.
        channel: u8,
    },
    /// One order over all links, and channels that decide for themselves.
    #[error("connections with channels take copies per link; use per-link dispatch")]
    ChannelsWithNodeDispatch,
    /// A lane without a channel, or with several.
    #[error("lane {lane} belongs to {channels} channels; it must be one")]
    LaneOfChannels {
        /// Its number.
        lane: u8,
        /// To how many it belongs.
        channels: usize,
    },
    /// Gateways of some regions only, or without regions.
    #[error("there are {found} gateways for {regions} regions; every region needs one, or none has one")]
    GatewayCount {
        /// How many there are.
        found: usize,
        /// How many regions there are; 0 without a latency matrix.
        regions: usize,
    },
    /// A gateway with a rate of zero.
    #[error("the gateway of region {region}: the rate {direction} is 0 bit/s; it must be positive")]
    NoGatewayRate {
        /// Of which region.
        region: usize,
        /// `out` or `in`.
        direction: &'static str,
    },
    /// Gateways on a way that is too short for both of them.
    #[error(
        "from region {from} to region {to} the latency is {latency:?}; with gateways it must be at least three times the least latency \
         of the network, {least:?}"
    )]
    TooNearForGateways {
        /// The row of the matrix.
        from: usize,
        /// The column.
        to: usize,
        /// What it has there.
        latency: std::time::Duration,
        /// The least that it has anywhere.
        least: std::time::Duration,
    },
    /// A part of a network with something that only whole networks have.
    #[error("{0} cannot be simulated in parts; use one process")]
    NotInParts(&'static str),
    /// More parts than hosts.
    #[error("a part of the network has no hosts; use fewer processes")]
    EmptyPart,
    /// A partition that does not say where every host is.
    #[error("a partition names the groups of {found} hosts, but there are {expected}")]
    PartitionSize {
        /// How many it names.
        found: usize,
        /// How many there are.
        expected: usize,
    },
}

pub(crate) fn check(config: &SimConfig, hosts: &[HostConfig]) -> Result<(), ConfigError> {
    if hosts.is_empty() {
        return Err(ConfigError::NoHosts);
    }
    if hosts.len() > 1 << 24 {
        return Err(ConfigError::TooManyHosts(hosts.len()));
    }
    for (host, rates) in hosts.iter().enumerate() {
        for (direction, rate) in [("uplink", rates.uplink_bps), ("downlink", rates.downlink_bps)] {
            if rate == 0 {
                return Err(ConfigError::NoRate { host, direction });
            }
        }
    }
    check_network(config, hosts)?;
    let transport = &config.transport;
    if transport.mss == 0 || transport.mss <= transport.framing.lead {
        return Err(ConfigError::SegmentSize { mss: transport.mss, lead: transport.framing.lead });
    }
    crate::mconn::check(transport)?;
    crate::http2::check(transport)?;
    let windows = match &transport.control {
        Control::Ideal => return Ok(()),
        Control::Tcp(tcp) => [("initial", tcp.initial_window), ("receive", tcp.receive_window)],
        Control::Quic(quic) => [("initial", quic.initial_window), ("receive", quic.receive_window)],
    };
    match windows.into_iter().find(|(_, window)| *window == 0) {
        Some((name, _)) => Err(ConfigError::NoWindow(name)),
        None => Ok(()),
    }
}

/// Whether hosts can be simulated apart from the others.
pub(crate) fn check_part(
    config: &SimConfig,
    hosts: &[HostConfig],
    part: &Range<u32>,
) -> Result<(), ConfigError> {
    if part.is_empty() || part.end as usize > hosts.len() {
        return Err(ConfigError::EmptyPart);
    }
    let connection = &config.transport.connection;
    if connection.channels().is_some() || connection.http2().is_some() {
        return Err(ConfigError::NotInParts("connections with channels, or HTTP/2,"));
    }
    if !config.network.gateways.is_empty() {
        return Err(ConfigError::NotInParts("gateways"));
    }
    Ok(())
}

fn check_network(config: &SimConfig, hosts: &[HostConfig]) -> Result<(), ConfigError> {
    let network = &config.network;
    match &network.latency {
        Latency::Constant(_) => {}
        Latency::Uniform { min, max } => {
            if min > max {
                return Err(ConfigError::EmptyLatencyRange);
            }
        }
        Latency::Regions(matrix) => {
            for (row, latencies) in matrix.iter().enumerate() {
                if latencies.len() != matrix.len() {
                    let (found, expected) = (latencies.len(), matrix.len());
                    return Err(ConfigError::MatrixNotSquare { row, found, expected });
                }
            }
            for (host, config) in hosts.iter().enumerate() {
                if usize::from(config.region) >= matrix.len() {
                    let (region, regions) = (config.region, matrix.len());
                    return Err(ConfigError::UnknownRegion { host, region, regions });
                }
            }
        }
        Latency::Pairs(pairs) => {
            if pairs.hosts() != hosts.len() {
                return Err(ConfigError::PairsOfOthers { found: pairs.hosts(), expected: hosts.len() });
            }
        }
    }
    crate::gateway::check(network)?;
    if !(0.0..1.0).contains(&network.loss) {
        return Err(ConfigError::Loss(network.loss));
    }
    if network.loss > 0.0 && config.transport.control == Control::Ideal {
        return Err(ConfigError::LossWithoutRepair);
    }
    for partition in &network.partitions {
        if partition.group_of.len() != hosts.len() {
            let (found, expected) = (partition.group_of.len(), hosts.len());
            return Err(ConfigError::PartitionSize { found, expected });
        }
    }
    Ok(())
}

/// Whether some latency is below the floor.
pub(crate) fn below_floor(latency: &Latency) -> bool {
    match latency {
        Latency::Constant(latency) => *latency < LATENCY_FLOOR,
        Latency::Uniform { min, .. } => *min < LATENCY_FLOOR,
        Latency::Regions(matrix) => matrix.iter().flatten().any(|latency| *latency < LATENCY_FLOOR),
        Latency::Pairs(pairs) => pairs.least() < LATENCY_FLOOR,
    }
}
