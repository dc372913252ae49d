//! The metrics of every node.

use std::collections::BTreeMap;
use std::sync::Arc;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use samara_engine::outbox::{Counters, LossCause};
use samara_gossipsub::Metrics;
use samara_gossipsub::Sizes;
use samara_libp2p::{Traffic, Uplink};

use super::metrics;
use crate::control::Counts;
use crate::node::{LinkCounts, Refused};

/// The counters of a node at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Metrics,
    pub(crate) sizes: Sizes,
    pub(crate) unfinished_bytes: usize,
    pub(crate) lanes: Vec<(&'static str, Counters)>,
    pub(crate) traffic: Traffic,
    pub(crate) uplink: Option<Uplink>,
    pub(crate) topics: Vec<TopicSizes>,
    /// Connected peers by the protocol of their link.
    pub(crate) protocols: BTreeMap<String, u64>,
    pub(crate) owed_copies: usize,
    pub(crate) links: LinkCounts,
    pub(crate) refused: Refused,
    pub(crate) dials_failed: u64,
    pub(crate) trace: Option<samara_trace::Counts>,
}

#[derive(Clone, Debug)]
pub(crate) struct TopicSizes {
    pub(crate) topic: String,
    pub(crate) subscribers: usize,
    pub(crate) mesh: usize,
}

metrics! { METRICS |node: Snapshot, rows|
    /// Messages that this node published
    messages_published: Counter = node.engine.messages_published;
    /// Published messages that no known peer wants
    messages_published_to_nobody: Counter = node.engine.messages_published_to_nobody;
    /// Received copies of messages, duplicates included
    messages_received: Counter = node.engine.messages_received;
    /// Messages of others that the node accepted
    messages_delivered: Counter = node.engine.messages_delivered;
    /// Received copies of known messages
    messages_duplicate: Counter = node.engine.duplicates_received;
    /// Input of peers without effect, including messages that validation did not accept
    ignored[cause]: Counter
        => rows.each(node.engine.ignored_by_cause().map(|(cause, count)| (cause.name(), count)));
    /// Received frames
    rpcs_received: Counter = node.engine.rpcs_received;
    /// Control messages, or the ids in them
    control[kind, direction]: Counter => {
        let engine = &node.engine;
        for (kind, sent, received) in [
            ("ihave_ids", engine.ihave_ids_sent, engine.ihave_ids_received),
            ("iwant_ids", engine.iwant_ids_sent, engine.iwant_ids_received),
            ("idontwant_ids", engine.idontwant_ids_sent, engine.idontwant_ids_received),
            ("grafts", engine.grafts_sent, engine.grafts_received),
            ("prunes", engine.prunes_sent, engine.prunes_received),
        ] {
            rows.add([kind, "sent"], sent);
            rows.add([kind, "received"], received);
        }
    };
    /// Announced messages that peers did not deliver
    promises_broken: Counter = node.engine.promises_broken;
    /// Heartbeats since the start
    heartbeats: Counter = node.engine.heartbeats;
    /// Copies of messages that the node came to owe
    copies_owed[reason]: Counter => rows.each([
        ("publish", node.engine.copies_published),
        ("forward", node.engine.copies_forwarded),
        ("answer", node.engine.copies_answered),
    ]);
    /// Owed copies of messages, including copies in flight
    owed_copies: Gauge = node.owed_copies as u64;
    /// Copies not owed because of an IDONTWANT
    copies_suppressed: Counter = node.engine.copies_suppressed;
    /// Copies that were withdrawn before they left
    withdrawn_copies: Counter = node.engine.copies_withdrawn;
    /// Frames handed to streams
    frames_sent[lane]: Counter
        => rows.each(node.lanes.iter().map(|(lane, counters)| (*lane, counters.sent.copies)));
    /// Frames that expired before they were sent
    frames_expired[lane]: Counter
        => rows.each(node.lanes.iter().map(|(lane, counters)| (*lane, counters.expired.copies)));
    /// Frames that did not fit into queues
    queue_drops[cause]: Counter => rows.each([
        ("not_connected", node.engine.lost(LossCause::NotConnected)),
        ("newest", node.engine.lost(LossCause::DroppedNewest)),
        ("oldest", node.engine.lost(LossCause::DroppedOldest)),
        ("refused", node.engine.lost(LossCause::Refused)),
    ]);
    /// Bytes of frames written, without Noise, Yamux, QUIC and TCP
    bytes_up[kind]: Counter
        => rows.each([("payload", node.traffic.payload_up), ("control", node.traffic.control_up)]);
    /// Bytes of frames read, without Noise, Yamux, QUIC and TCP
    bytes_down[kind]: Counter
        => rows.each([("payload", node.traffic.payload_down), ("control", node.traffic.control_down)]);
    /// The limit of what the node has under way over all links, with one order over them
    uplink_limit_bytes: Gauge => rows.known(node.uplink.map(|uplink| uplink.limit_bytes));
    /// Bytes under way over all links that the limit covers
    uplink_under_way_bytes: Gauge => rows.known(node.uplink.map(|uplink| uplink.under_way_bytes));
    /// The delay that the limit sees before the node's uplink
    uplink_delay_seconds: Gauge => rows.known(node.uplink.map(|uplink| uplink.delay.as_secs_f64()));
    /// The rate of the uplink that the limit estimates, 0 while unknown
    uplink_bytes_per_second: Gauge => rows.known(node.uplink.map(|uplink| uplink.bytes_per_second));
    /// Links that the limit covers, and links whose transport reports nothing
    uplink_links[kind]: Gauge => rows.each(node.uplink.iter().flat_map(|uplink| {
        [("metered", uplink.metered_links as u64), ("other", uplink.other_links as u64)]
    }));
    /// Connected peers by the protocol of their link
    peers[protocol]: Gauge => rows.each(node.protocols.iter().map(|(name, count)| (name.as_str(), *count)));
    /// Peers in the mesh of a topic
    mesh_size[topic]: Gauge
        => rows.each(node.topics.iter().map(|topic| (topic.topic.as_str(), topic.mesh as u64)));
    /// Peers that have joined a topic
    topic_peers[topic]: Gauge
        => rows.each(node.topics.iter().map(|topic| (topic.topic.as_str(), topic.subscribers as u64)));
    /// Ids of messages that the node has seen
    seen_ids: Gauge = node.sizes.seen as u64;
    /// Messages kept to answer IWANT
    cached_messages: Gauge = node.sizes.cached as u64;
    /// Bytes of messages kept to answer IWANT
    cached_bytes: Gauge = node.sizes.cached_bytes as u64;
    /// Bytes of messages that await the verdict of the application
    pending_validation_bytes: Gauge = node.sizes.pending_validation_bytes as u64;
    /// Bytes that peers have announced and the node keeps
    announced_bytes[kind]: Gauge => rows.each([
        ("topics", node.sizes.topic_bytes as u64),
        ("extensions", node.sizes.extension_bytes as u64),
    ]);
    /// Entries that full tables forgot early, or refused
    table_overflows[table]: Counter => rows.each([
        ("seen_ids", node.sizes.seen_evicted),
        ("cached_messages", node.sizes.cached_evicted),
        ("promises", node.sizes.promises_refused),
        ("delivery_records", node.sizes.records_evicted),
    ]);
    /// Copies still owed when their link went down
    link_lost_copies: Counter = node.links.copies_lost;
    /// Copies in flight when a stream broke
    link_cut_copies: Counter = node.links.copies_cut;
    /// Bytes of frames that have begun and not ended
    unfinished_frame_bytes: Gauge = node.unfinished_bytes as u64;
    /// Streams closed because of frames that were bad, too slow, or the oldest of too many
    malformed_frames: Counter = node.links.malformed;
    /// Connections closed because streams kept ending on them
    connections_given_up: Counter = node.links.gave_up;
    /// Connections with peers that support none of the protocols
    peers_not_supported: Counter = node.links.not_supported;
    /// Connections refused because of a limit of `[network]`
    connections_refused[limit]: Counter => rows.each(node.refused.by_limit());
    /// Failed attempts to reach peers of the configuration
    dials_failed: Counter = node.dials_failed;
    /// Events of the trace, if there is one
    trace_events[state]: Counter => rows.each(node.trace.iter().flat_map(|trace| {
        [("written", trace.written), ("dropped", trace.dropped), ("failed", trace.failed)]
    }));
}

metrics! { SERVERS |counts: Arc<Counts>, rows|
    /// Connections and requests that the control API and the server for metrics refused or ended: all
    /// places taken, those of an address, a wait for a request that made room, a body or an answer
    /// that took too long, a wrong token
    control_refused[cause]: Counter => rows.each(counts.by_cause());
}

metrics! { PROCESS |usage: Usage, rows|
    /// Processor time of the process, user and system
    cpu_seconds: Counter => rows.known(usage.cpu_s);
    /// Memory of the process; what a burst took returns to the system within some 10 s
    rss_bytes: Gauge => rows.known(usage.rss_bytes);
    /// Peak memory of the process
    peak_rss_bytes: Gauge => rows.known(usage.peak_rss_bytes);
    /// Open file descriptors
    open_fds: Gauge => rows.known(usage.open_fds);
}

/// Processor time, memory and file descriptors. A value that the system does not report is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Processor time of all threads in seconds, user and system.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        // Kibibytes on Linux and the BSDs, bytes on macOS.
        let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
        Self {
            cpu_s: usage.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
            peak_rss_bytes: usage.and_then(|usage| u64::try_from(usage.max_rss()).ok()).map(|rss| rss * unit),
            rss_bytes: rss_bytes(),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
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
        assert!(usage.cpu_s.is_some());
        assert!(usage.rss_bytes.unwrap() > 100_000);
        assert!(usage.peak_rss_bytes.unwrap() >= 100_000);
        assert!(usage.open_fds.unwrap() >= 3);
    }
}
