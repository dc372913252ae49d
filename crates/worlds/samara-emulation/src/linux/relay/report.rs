//! The report of a relay: counters, and its punctuality.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use hdrhistogram::Histogram;
use samara_sim::{Count, GateStats};

use crate::emulator::HostCounters;

/// A relay later than this distorts measurements: a tenth of the shortest latencies between
/// continents' neighbours (10 ms).
const LATE: Duration = Duration::from_millis(1);

/// A relay busier than this has no reserve for bursts.
const BUSY_SHARE: f64 = 0.7;

/// The lateness with which the relay handed packets to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    pub packets: u64,
    /// The median lateness.
    pub p50: Duration,
    /// The 99th percentile of the lateness.
    pub p99: Duration,
    pub max: Duration,
}

/// The longest lateness that the histogram resolves.
const LATENESS_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct LatenessRecorder(Histogram<u64>);

impl LatenessRecorder {
    pub(super) fn new() -> io::Result<Self> {
        // With fixed bounds: a histogram with automatic resizing does not resize for saturating
        // values.
        let bounds = Histogram::new_with_bounds(1, LATENESS_LIMIT.as_nanos() as u64, 3);
        bounds.map(Self).map_err(io::Error::other)
    }

    pub(super) fn record(&mut self, lateness: Duration) {
        self.0.saturating_record(lateness.as_nanos() as u64);
    }

    pub(super) fn summary(&self) -> Lateness {
        let at = |quantile| Duration::from_nanos(self.0.value_at_quantile(quantile));
        Lateness {
            packets: self.0.len(),
            p50: at(0.5),
            p99: at(0.99),
            max: Duration::from_nanos(self.0.max()),
        }
    }
}

/// Packets that no host sent, or that the kernel rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unrouted {
    /// Packets other than IPv4. The kernel itself sends a few IPv6 packets to every new device.
    pub not_ipv4: Count,
    /// Packets with inconsistent lengths.
    pub malformed: Count,
    /// Packets from an address of no host, or to an address at which its host sees no other:
    /// sockets that are not bound to their host's address, or that dial an address of another
    /// host's view.
    pub unknown_host: Count,
    /// Source and destination of the first such packet.
    pub first_unknown: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Due packets that the kernel rejected.
    pub not_taken: Count,
    /// The kernel's reason for the first such packet.
    pub first_not_taken: Option<String>,
}

/// Counters since the start of a relay.
#[derive(Clone, Debug)]
pub struct RelayReport {
    pub running: Duration,
    /// Processor time of its thread, including that of the kernel's TCP on its behalf.
    pub cpu: Duration,
    /// Whether its thread runs before all ordinary threads: requested and allowed (`CAP_SYS_NICE`).
    pub realtime: bool,
    pub lateness: Lateness,
    pub hosts: Vec<HostCounters>,
    /// The traffic of the gateway of each region, outbound and inbound.
    pub gateways: Vec<[GateStats; 2]>,
    pub unrouted: Unrouted,
    /// Packets that the device dropped because the relay did not read fast enough. Their hosts are
    /// unknown.
    pub device_drops: u64,
    /// Whether packets wait for the uplink on the account of their sockets: `None` if not requested,
    /// or the kernel's reason against it.
    pub interface: Option<Result<(), String>>,
}

impl RelayReport {
    /// Returns the share of one processor that the relay used.
    pub fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.running.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns reasons to distrust measurements over this relay, in words; none if it kept up.
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
                "1 packet in 100 was delivered more than {:?} late; the machine is too busy for these rates{}",
                self.lateness.p99,
                if self.realtime { "" } else { ", and the relay has no real-time priority (CAP_SYS_NICE)" }
            ));
        }
        if self.cpu_share() > BUSY_SHARE {
            doubts.push(format!(
                "the relay used {:.0} % of a processor; lower the rates or the number of hosts",
                self.cpu_share() * 100.0
            ));
        }
        if let Some(Err(reason)) = &self.interface {
            doubts.push(format!(
                "packets wait for the uplink in the relay instead of their sockets: the kernel has no HTB or u32 ({reason}); \
                 give the uplink a queue behind the sockets, or load sch_htb and cls_u32"
            ));
        }
        if let Some((source, destination)) = self.unrouted.first_unknown {
            doubts.push(format!(
                "{} packets were from or to addresses of no host, the first one from {source} to {destination}; bind \
                 sockets to the address of their host or to none, and dial the addresses of the own host's view",
                self.unrouted.unknown_host.packets
            ));
        }
        if let Some(reason) = &self.unrouted.first_not_taken {
            doubts.push(format!(
                "the kernel rejected {} packets, the first one because of: {reason}",
                self.unrouted.not_taken.packets
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lateness: Lateness) -> RelayReport {
        RelayReport {
            running: Duration::from_secs(10),
            cpu: Duration::from_secs(1),
            realtime: true,
            lateness,
            hosts: Vec::new(),
            gateways: Vec::new(),
            unrouted: Unrouted::default(),
            device_drops: 0,
            interface: None,
        }
    }

    #[test]
    fn lateness_is_accurate_to_a_thousandth() {
        let mut recorder = LatenessRecorder::new().unwrap();
        (1..=1_000).for_each(|micros| recorder.record(Duration::from_micros(micros)));
        let lateness = recorder.summary();
        let close = |found: Duration, micros: u64| {
            found.as_nanos().abs_diff(u128::from(micros) * 1_000) <= u128::from(micros) * 2
        };
        assert!(
            close(lateness.p50, 500) && close(lateness.p99, 990) && close(lateness.max, 1_000),
            "{lateness:?}"
        );
        assert_eq!(lateness.packets, 1_000);
        assert_eq!(report(lateness).doubts(), Vec::<String>::new());
        // Values beyond the limit count as the limit.
        recorder.record(2 * LATENESS_LIMIT);
        assert!(recorder.summary().max >= LATENESS_LIMIT);
    }

    #[test]
    fn each_reason_to_doubt_is_named() {
        let mut recorder = LatenessRecorder::new().unwrap();
        (0..50).for_each(|_| recorder.record(Duration::from_millis(3)));
        let late = report(recorder.summary()).doubts();
        assert!(late.len() == 1 && late[0].contains("3.0"), "{late:?}");
        let dropped = RelayReport { device_drops: 7, ..report(Lateness::default()) }.doubts();
        assert!(dropped.len() == 1 && dropped[0].contains("dropped 7 packets"), "{dropped:?}");
        let refused =
            RelayReport { interface: Some(Err("no".to_owned())), ..report(Lateness::default()) }.doubts();
        assert!(refused.len() == 1 && refused[0].contains("(no)"), "{refused:?}");
        assert!(RelayReport { interface: Some(Ok(())), ..report(Lateness::default()) }.doubts().is_empty());
        let busy = RelayReport { cpu: Duration::from_secs(8), ..report(Lateness::default()) }.doubts();
        assert!(busy.len() == 1 && busy[0].contains("80 %"), "{busy:?}");
    }
}
