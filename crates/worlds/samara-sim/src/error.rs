//! Errors for configurations that cannot be simulated.

use std::ops::Range;

use thiserror::Error;

use crate::config::{HostConfig, SimConfig};
use crate::transport::{Connection, Control};

/// The reason why a network cannot be simulated or emulated, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Returns a [`ConfigError`] with a formatted message unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(crate::error::ConfigError::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

pub(crate) fn check(config: &SimConfig, hosts: &[HostConfig]) -> Result<(), ConfigError> {
    ensure!(!hosts.is_empty(), "a network needs at least one host");
    let count = hosts.len();
    ensure!(count <= 1 << 24, "the network has {count} hosts; at most 16,777,216 have an address");
    for (host, rates) in hosts.iter().enumerate() {
        for (direction, rate) in [("uplink", rates.uplink_bps), ("downlink", rates.downlink_bps)] {
            ensure!(rate > 0, "host {host}: the {direction} rate is 0 bit/s; it must be positive");
        }
    }
    check_network(config, hosts)?;
    let (mss, lead) = (config.transport.mss, config.transport.framing.lead);
    ensure!(
        mss > lead,
        "the segment size is {mss} bytes; it must be larger than the lead of the framing ({lead} bytes)"
    );
    config.transport.check()
}

/// Checks that the local hosts can be simulated apart from the others.
pub(crate) fn check_local(
    config: &SimConfig,
    hosts: &[HostConfig],
    local: &Range<u32>,
) -> Result<(), ConfigError> {
    let is_inside = !local.is_empty() && local.end as usize <= hosts.len();
    ensure!(is_inside, "a process has no hosts; use fewer processes");
    let is_direct = config.transport.connection == Connection::Direct;
    ensure!(
        is_direct,
        "connections with channels, or HTTP/2, cannot be simulated in several processes; use one process"
    );
    let has_gateways = !config.network.gateways.is_empty();
    ensure!(!has_gateways, "gateways cannot be simulated in several processes; use one process");
    Ok(())
}

fn check_network(config: &SimConfig, hosts: &[HostConfig]) -> Result<(), ConfigError> {
    let (network, expected) = (&config.network, hosts.len());
    network.latency.check(hosts)?;
    crate::gateway::check(network)?;
    let loss = network.loss;
    ensure!((0.0..1.0).contains(&loss), "the loss probability is {loss}; it must be in 0..1");
    if let Some(losses) = &network.losses {
        losses.check(hosts)?;
    }
    ensure!(
        !network.loses() || config.transport.control != Control::Ideal,
        "the ideal transport cannot lose packets, since it does not send again; use tcp or quic, or no loss"
    );
    for found in network.partitions.iter().map(|partition| partition.group_of.len()) {
        ensure!(found == expected, "a partition names the groups of {found} hosts, but there are {expected}");
    }
    Ok(())
}
