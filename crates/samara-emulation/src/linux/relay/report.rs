//! What a relay reports: counters, and how well it kept time.

use std::net::Ipv4Addr;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::counters::{Count, HostCounters};

/// From here on a relay is so late that it distorts measurements: a tenth of the shortest latencies between continents'
/// neighbours (10 ms).
const LATE: Duration = Duration::from_millis(1);

/// A relay that is busier than this has no reserve for bursts.
const BUSY_SHARE: f64 = 0.7;

/// How much later than due packets were handed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Packets handed over.
    pub packets: u64,
    /// Half of them were not later than this.
    pub p50: Duration,
    /// 99 in 100 were not later than this.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
}

impl Lateness {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        Self {
            packets: histogram.len(),
            p50: at(0.5),
            p99: at(0.99),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

/// Packets that no host sent, or that the kernel did not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unrouted {
    /// Not IPv4. The kernel itself sends a few IPv6 packets to every new device.
    pub not_ipv4: Count,
    /// Lengths did not fit.
    pub malformed: Count,
    /// From or to an address that is no host's; usually from sockets that dial without being bound to their host's
    /// address.
    pub unknown_host: Count,
    /// Source and destination of the first of them.
    pub first_unknown: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The kernel refused them when they were due.
    pub not_taken: Count,
    /// Its reason for the first of them.
    pub first_not_taken: Option<String>,
}

/// What happened since the start of a relay.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// How long it has been running.
    pub running: Duration,
    /// Processor time of its thread, including what the kernel's TCP did on its behalf.
    pub cpu: Duration,
    /// How late it was.
    pub lateness: Lateness,
    /// By host.
    pub hosts: Vec<HostCounters>,
    /// Packets outside of the emulation.
    pub unrouted: Unrouted,
    /// Packets that the device dropped since the relay did not read fast enough; nothing else is known of them.
    pub device_drops: u64,
}

impl RelayReport {
    /// All hosts together; the waits are the longest of any.
    pub fn total(&self) -> HostCounters {
        let mut total = HostCounters::default();
        for host in &self.hosts {
            total.sent += host.sent;
            total.received += host.received;
            total.drops.uplink_full += host.drops.uplink_full;
            total.drops.random += host.drops.random;
            total.drops.downlink_full += host.drops.downlink_full;
            total.drops.downlink_codel += host.drops.downlink_codel;
            total.uplink_wait_max = total.uplink_wait_max.max(host.uplink_wait_max);
            total.downlink_wait_max = total.downlink_wait_max.max(host.downlink_wait_max);
        }
        total
    }

    /// The share of one processor that the relay used.
    pub fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.running.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Reasons to distrust what was measured over this relay, in words; none if it kept up.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.device_drops > 0 {
            doubts.push(format!(
                "the device dropped {} packets that the relay did not read in time; lower the rates or the number of \
                 hosts, or raise queue_packets",
                self.device_drops
            ));
        }
        if self.lateness.p99 > LATE {
            doubts.push(format!(
                "1 packet in 100 was delivered more than {:?} late; the machine is too busy for these rates",
                self.lateness.p99
            ));
        }
        if self.cpu_share() > BUSY_SHARE {
            doubts.push(format!(
                "the relay used {:.0} % of a processor; lower the rates or the number of hosts",
                self.cpu_share() * 100.0
            ));
        }
        if let Some((source, destination)) = self.unrouted.first_unknown {
            doubts.push(format!(
                "{} packets were from or to addresses of no host, the first one from {source} to {destination}; bind \
                 sockets to the address of their host before they dial",
                self.unrouted.unknown_host.packets
            ));
        }
        if let Some(reason) = &self.unrouted.first_not_taken {
            doubts.push(format!(
                "the kernel did not take {} packets, the first one because of: {reason}",
                self.unrouted.not_taken.packets
            ));
        }
        doubts
    }
}
