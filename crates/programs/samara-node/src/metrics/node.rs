//! The metrics of every node.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use samara_engine::Gauge;
use samara_engine::outbox::ByLane;
use samara_gossipsub::{Metrics, Sizes};
use samara_libp2p::{Traffic, Uplink};

use super::Table;
use crate::node::{LinkCounts, Refused};

/// The counters of a node at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Metrics,
    pub(crate) sizes: Sizes,
    pub(crate) lanes: ByLane,
    pub(crate) traffic: Traffic,
    pub(crate) uplink: Option<Uplink>,
    pub(crate) state: State,
    pub(crate) links: LinkCounts,
    pub(crate) refused: Refused,
    pub(crate) trace: Option<samara_trace::Counts>,
}

samara_engine::counters! {
    pub(crate) struct State {
        /// Owed copies of messages, including copies in flight.
        pub(crate) owed_copies: usize,
        /// Connected peers by the protocol of their link.
        pub(crate) peers[protocol]: BTreeMap<String, usize>,
        /// Peers in the mesh of a topic.
        pub(crate) mesh_size[topic]: BTreeMap<String, usize>,
        /// Peers that have joined a topic.
        pub(crate) topic_peers[topic]: BTreeMap<String, usize>,
        /// Bytes of frames that have begun and not ended.
        pub(crate) unfinished_frame_bytes: usize,
        /// Failed attempts to reach peers of the configuration.
        pub(crate) dials_failed: u64,
    }
}

samara_engine::counters! {
    struct Limit {
        /// The limit of what the node has under way over all links, with one order over them.
        uplink_limit_bytes: Gauge,
        /// Bytes under way over all links that the limit covers.
        uplink_under_way_bytes: Gauge,
        /// The delay that the limit sees before the node's uplink.
        uplink_delay_seconds: f64,
        /// The rate of the uplink that the limit estimates, 0 while unknown.
        uplink_bytes_per_second: f64,
        /// Links that the limit covers, and links whose transport reports nothing.
        uplink_links[kind]: BTreeMap<&'static str, usize>,
    }
}

impl From<&Uplink> for Limit {
    fn from(uplink: &Uplink) -> Self {
        Self {
            uplink_limit_bytes: Gauge(uplink.limit_bytes),
            uplink_under_way_bytes: Gauge(uplink.under_way_bytes),
            uplink_delay_seconds: uplink.delay.as_secs_f64(),
            uplink_bytes_per_second: uplink.bytes_per_second,
            uplink_links: [("metered", uplink.metered_links), ("other", uplink.other_links)].into(),
        }
    }
}

samara_engine::counters! {
    struct Trace {
        /// Events of the trace, if there is one.
        trace_events[state]: BTreeMap<&'static str, u64>,
    }
}

impl From<&samara_trace::Counts> for Trace {
    fn from(trace: &samara_trace::Counts) -> Self {
        let events = [("written", trace.written), ("dropped", trace.dropped), ("failed", trace.failed)];
        Self { trace_events: events.into() }
    }
}

pub(super) fn add(node: Option<&Snapshot>, table: &mut impl Table) {
    table.add("", node.map(|node| &node.engine));
    table.add("table_", node.map(|node| &node.sizes));
    table.add("outbox_", node.map(|node| &node.lanes));
    table.add("", node.map(|node| &node.traffic));
    table.add("", node.and_then(|node| node.uplink.as_ref()).map(Limit::from).as_ref());
    table.add("", node.map(|node| &node.state));
    table.add("", node.map(|node| &node.links));
    table.add("", node.map(|node| &node.refused));
    table.add("", node.and_then(|node| node.trace.as_ref()).map(Trace::from).as_ref());
}

samara_engine::counters! {
    /// Processor time, memory and file descriptors. A value that the system does not report is
    /// `None`.
    pub(crate) struct Usage {
        /// Processor time of the process, user and system.
        cpu_seconds: Option<Duration>,
        /// Memory of the process; what a burst took returns to the system within some 10 s.
        rss_bytes: Option<Gauge>,
        /// Peak memory of the process.
        peak_rss_bytes: Option<Gauge>,
        /// Open file descriptors.
        open_fds: Option<usize>,
    }
}

impl Usage {
    pub(crate) fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let took = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
        // Kibibytes on Linux and the BSDs, bytes on macOS.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        Self {
            cpu_seconds: usage.map(|usage| took(usage.user_time()) + took(usage.system_time())),
            rss_bytes: rss_bytes().map(Gauge),
            peak_rss_bytes: usage
                .and_then(|usage| u64::try_from(usage.max_rss()).ok())
                .map(|rss| Gauge(rss * unit)),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
        }
    }
}

/// `VmRSS` of proc(5), which is in kibibytes.
fn rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_reports_usage() {
        let usage = Usage::now();
        assert!(usage.cpu_seconds.is_some());
        assert!(*usage.rss_bytes.unwrap() > 100_000);
        assert!(*usage.peak_rss_bytes.unwrap() >= 100_000);
        assert!(usage.open_fds.unwrap() >= 3);
    }
}
