//! The metrics of the member of a group.

use samara_net::ring::Status;

use super::metrics;

/// The counters of a member at one moment.
#[derive(Clone, Debug)]
pub(crate) struct GroupSnapshot {
    pub(crate) status: Status,
    pub(crate) members: usize,
}

metrics! { METRICS |group: GroupSnapshot, rows|
    /// Own messages that the group accepted
    group_broadcast: Counter = group.status.ring.broadcast;
    /// Own messages that the group refused
    group_refused: Counter = group.status.ring.refused;
    /// Messages that were delivered, own ones included
    group_delivered: Counter = group.status.ring.delivered;
    /// Bytes of delivered messages
    group_delivered_bytes: Counter = group.status.ring.delivered_bytes;
    /// Received messages and chunks, duplicates included
    group_received_units: Counter = group.status.ring.received_units;
    /// Messages and chunks that were forwarded
    group_forwarded_units: Counter = group.status.ring.forwarded_units;
    /// Messages and chunks that were retransmitted
    group_resent_units: Counter = group.status.ring.resent_units;
    /// Input of peers without effect
    group_ignored[cause]: Counter
        => rows.each(group.status.ring.ignored_by_cause().map(|(cause, count)| (cause.name(), count)));
    /// Nodes that peers named and that this member does not dial
    group_refused_names: Counter = group.status.ring.refused_names;
    /// Bytes of own messages that wait
    group_queued_bytes: Gauge = group.status.queued_bytes as u64;
    /// Bytes of own messages that may be in flight
    group_window_bytes: Gauge = group.status.window_bytes;
    /// Bytes kept until all members have them
    group_kept_bytes: Gauge = group.status.kept_bytes;
    /// Bytes of deliveries that the application has not read yet
    group_waiting_bytes: Gauge = group.status.waiting_bytes as u64;
    /// Pauses of the group because the application did not read deliveries
    group_pauses: Counter = group.status.transport.pauses;
    /// Members of the view
    group_members: Gauge = group.members as u64;
    /// Views that were installed
    group_views: Counter = group.status.ring.views;
    /// Members suspected of failure
    group_suspicions: Counter = group.status.ring.suspicions;
    /// Nanoseconds in view changes
    group_frozen_ns: Counter = group.status.ring.frozen_ns;
    /// Links with members and other nodes
    group_links: Gauge = group.status.links as u64;
    /// Nodes that the member remembers, with a link or without
    group_remembered: Gauge = group.status.remembered as u64;
    /// Links that came up
    group_links_up: Counter = group.status.transport.links;
    /// Connections that ended or were not established
    group_links_closed[cause]: Counter
        => rows.each(group.status.transport.closed.iter().map(|(cause, count)| (*cause, *count)));
    /// Bytes of frames on the wire
    group_bytes[direction]: Counter => rows.each([
        ("up", group.status.transport.bytes_up),
        ("down", group.status.transport.bytes_down),
    ]);
    /// Frames on the wire
    group_frames[direction]: Counter => rows.each([
        ("up", group.status.transport.frames_up),
        ("down", group.status.transport.frames_down),
    ]);
    /// Frames lost with their links
    group_lost_copies: Counter = group.status.transport.lost_copies;
    /// Frames that did not fit into queues
    group_queue_drops[lane]: Counter
        => rows.each(group.status.lanes.iter().map(|(lane, counters)| (*lane, counters.refused.copies)));
}
