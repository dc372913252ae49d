//! What the member of a group counts.

use std::fmt::Error;

use samara_net::ring::Status;

use super::Out;

/// What a member has counted at one moment.
#[derive(Clone, Debug)]
pub(crate) struct GroupSnapshot {
    pub(crate) status: Status,
    pub(crate) members: usize,
}

impl GroupSnapshot {
    pub(super) fn encode(&self, out: &mut Out<'_>) -> Result<(), Error> {
        self.member(out)?;
        self.links(out)
    }

    fn member(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let (status, ring) = (&self.status, &self.status.ring);
        let counters = [
            ("group_broadcast", "Own messages that were taken", ring.broadcast),
            ("group_refused", "Own messages that were not taken", ring.refused),
            ("group_delivered", "Messages that were delivered, own ones included", ring.delivered),
            ("group_delivered_bytes", "Their bytes", ring.delivered_bytes),
            (
                "group_received_units",
                "Messages and chunks that came, duplicates included",
                ring.received_units,
            ),
            ("group_forwarded_units", "Messages and chunks that were passed on", ring.forwarded_units),
            ("group_resent_units", "Messages and chunks that were sent again", ring.resent_units),
            ("group_pauses", "Times that deliveries were not taken", status.transport.pauses),
            ("group_views", "Views that were installed", ring.views),
            ("group_suspicions", "Members that were taken for failed", ring.suspicions),
            ("group_frozen_ns", "Nanoseconds of view changes", ring.frozen_ns),
        ];
        for (name, help, count) in counters {
            out.counter(name, help, count)?;
        }
        let ignored = ring.ignored_by_cause().map(|(cause, count)| ([("cause", cause.name())], count));
        out.counters("group_ignored", "What came and had no effect", ignored)?;
        let gauges = [
            ("group_members", "Members of the view", self.members as u64),
            ("group_queued_bytes", "Bytes of own messages that wait", status.queued_bytes as u64),
            ("group_window_bytes", "Bytes of its own that it may have on the way", status.window_bytes),
            ("group_kept_bytes", "Bytes that are kept until all members have them", status.kept_bytes),
            ("group_waiting_bytes", "Bytes of deliveries not taken yet", status.waiting_bytes as u64),
        ];
        gauges.into_iter().try_for_each(|(name, help, value)| out.gauge(name, help, value as f64))
    }

    fn links(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let transport = &self.status.transport;
        out.gauge("group_links", "Links with members and other nodes", self.status.links as f64)?;
        out.counter("group_links_up", "Links that came up", transport.links)?;
        let closed = transport.closed.iter().map(|(cause, count)| ([("cause", *cause)], *count));
        out.counters("group_links_closed", "Connections that ended or did not come about", closed)?;
        let by_direction = |up, down| [([("direction", "up")], up), ([("direction", "down")], down)];
        let bytes = by_direction(transport.bytes_up, transport.bytes_down);
        out.counters("group_bytes", "Bytes of frames on the wire", bytes)?;
        let frames = by_direction(transport.frames_up, transport.frames_down);
        out.counters("group_frames", "Frames on the wire", frames)?;
        out.counter("group_lost_copies", "Frames lost with their links", transport.lost_copies)?;
        let lanes = self.status.lanes.iter();
        let refused = lanes.map(|(lane, counters)| ([("lane", *lane)], counters.refused.copies));
        out.counters("group_queue_drops", "Frames that did not fit into queues", refused)
    }
}
