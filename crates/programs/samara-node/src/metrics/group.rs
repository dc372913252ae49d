//! The metrics of the member of a group.

use samara_engine::Gauge;
use samara_net::ring::Status;

use super::Table;

/// The counters of a member at one moment.
#[derive(Clone, Debug)]
pub(crate) struct GroupSnapshot {
    pub(crate) status: Status,
    pub(crate) members: usize,
}

samara_engine::counters! {
    struct State {
        /// Bytes of own messages that wait.
        queued_bytes: usize,
        /// Bytes of own messages that may be in flight.
        window_bytes: Gauge,
        /// Bytes kept until all members have them.
        kept_bytes: Gauge,
        /// Bytes of deliveries that the application has not read yet.
        waiting_bytes: usize,
        /// Members of the view.
        members: usize,
        /// Links with members and other nodes.
        links: usize,
        /// Nodes that the member remembers, with a link or without.
        remembered: usize,
    }
}

impl From<&GroupSnapshot> for State {
    fn from(GroupSnapshot { status, members }: &GroupSnapshot) -> Self {
        Self {
            queued_bytes: status.queued_bytes,
            window_bytes: Gauge(status.window_bytes),
            kept_bytes: Gauge(status.kept_bytes),
            waiting_bytes: status.waiting_bytes,
            members: *members,
            links: status.links,
            remembered: status.remembered,
        }
    }
}

pub(super) fn add(group: Option<&GroupSnapshot>, table: &mut impl Table) {
    table.add("group_", group.map(|group| &group.status.ring));
    table.add("group_", group.map(State::from).as_ref());
    table.add("group_", group.map(|group| &group.status.transport));
    table.add("group_outbox_", group.map(|group| &group.status.lanes));
}
