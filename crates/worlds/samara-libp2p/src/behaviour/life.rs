//! The life of a peer: its connections, the streams on them, and the link that they form.
//!
//! A peer can have several connections, and on each of them a stream in either direction. Exactly one
//! stream carries the frames of this node. It is on the newest connection on which the peer has
//! spoken, because a peer that restarts may leave an old connection open, and stays there as long as
//! it works. `docs/guides/sockets.md` lists the transitions.
//!
//! The room is free of sockets and clocks: [`Life::on`] takes what happened and returns what to do.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use libp2p::StreamProtocol;
use libp2p::swarm::ConnectionId;

/// Streams of this node, or of a peer, that may begin at once on one connection. One more may begin
/// with each [`REFILL`]. A peer that keeps closing the streams of this node is left alone.
pub(super) const OURS_MAX: u32 = 5;
pub(super) const THEIRS_MAX: u32 = 32;
const REFILL: Duration = Duration::from_secs(5);

/// An event of a connection.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    Connected {
        is_outbound: bool,
        address: Option<IpAddr>,
    },
    Closed,
    /// The stream of this node is open.
    Opened(StreamProtocol),
    /// The stream of this node ended, or could not be opened.
    Broken,
    /// The peer speaks none of the protocols.
    Refused,
    /// The peer opened a stream. Late ones may follow an earlier attempt that failed unnoticed.
    TheirsOpened {
        protocol: StreamProtocol,
        is_late: bool,
    },
    /// The last stream of the peer on the connection ended.
    TheirsEnded,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The link is up.
    Up(ConnectionId, StreamProtocol),
    /// The link is down: no connection is left.
    Down,
    /// Open a stream.
    Open(ConnectionId),
    /// The open stream carries frames from now on. Its first ones are the greeting.
    Greet(ConnectionId, StreamProtocol),
    /// Close the stream after the frames that are in flight into it.
    Finish(ConnectionId),
    /// The peer can be heard, or cannot be any more.
    Heard(bool),
    /// The peer may have forgotten the state: send it again on the open stream.
    Repeat,
    /// Close the connection: too many streams began on it.
    GiveUp(ConnectionId),
    /// The peer speaks none of the protocols on any connection.
    NotSupported,
}

/// The stream of this node on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Closed,
    Opening,
    Open,
    Refused,
    GivenUp,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    is_outbound: bool,
    address: Option<IpAddr>,
    ours: Ours,
    /// Whether the peer has a stream open.
    is_heard: bool,
    ours_left: Budget,
    theirs_left: Budget,
}

/// A number of streams that recovers with time.
#[derive(Debug)]
struct Budget {
    max: u32,
    left: u32,
    since: Instant,
}

impl Budget {
    fn new(max: u32, now: Instant) -> Self {
        Self { max, left: max, since: now }
    }

    /// Returns true if a stream may begin, and counts it.
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let refilled = u32::try_from(passed).unwrap_or(u32::MAX);
        self.since += REFILL * refilled.min(self.max);
        self.left = self.left.saturating_add(refilled).min(self.max);
        if self.left == self.max {
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// The state of a peer with a connection.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Oldest first.
    connections: Vec<Connection>,
    is_up: bool,
    /// Whether the peer has had a stream since the link came up.
    was_heard: bool,
    is_heard: bool,
}

impl Life {
    /// Returns true if there is no connection.
    pub(super) fn is_over(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the side that dialled a connection, and the address of the peer.
    pub(super) fn origin(&self, id: ConnectionId) -> (bool, Option<IpAddr>) {
        let connection = self.connections.iter().find(|connection| connection.id == id);
        connection.map_or((false, None), |connection| (connection.is_outbound, connection.address))
    }

    /// Returns the addresses of the peer on all connections.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.connections.iter().filter_map(|connection| connection.address).collect()
    }

    /// Handles what happened on a connection. Events of unknown connections are ignored.
    pub(super) fn on(&mut self, id: ConnectionId, happened: Happened, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Happened::Connected { is_outbound, address } = happened {
            self.connections.push(Connection {
                id,
                is_outbound,
                address,
                ours: Ours::Closed,
                is_heard: false,
                ours_left: Budget::new(OURS_MAX, now),
                theirs_left: Budget::new(THEIRS_MAX, now),
            });
            self.find_route(now, &mut steps);
            return steps;
        }
        let Some(at) = self.connections.iter().position(|connection| connection.id == id) else {
            return steps;
        };
        match happened {
            Happened::Connected { .. } => {}
            Happened::Closed => self.closed(at, now, &mut steps),
            Happened::Opened(protocol) => self.opened(at, protocol, &mut steps),
            Happened::Broken => {
                if matches!(self.connections[at].ours, Ours::Opening | Ours::Open) {
                    self.connections[at].ours = Ours::Closed;
                }
                self.find_route(now, &mut steps);
            }
            Happened::Refused => {
                self.connections[at].ours = Ours::Refused;
                self.find_route(now, &mut steps);
                let is_refused = |connection: &Connection| connection.ours == Ours::Refused;
                if !self.is_up && self.connections.iter().all(is_refused) {
                    steps.push(Step::NotSupported);
                }
            }
            Happened::TheirsOpened { protocol, is_late } => {
                self.theirs_opened(at, protocol, is_late, now, &mut steps);
            }
            Happened::TheirsEnded => {
                self.connections[at].is_heard = false;
                self.listen(&mut steps);
            }
        }
        steps
    }

    fn closed(&mut self, at: usize, now: Instant, steps: &mut Vec<Step>) {
        self.connections.remove(at);
        if self.connections.is_empty() {
            if std::mem::take(self).is_up {
                steps.push(Step::Down);
            }
            return;
        }
        self.listen(steps);
        self.find_route(now, steps);
    }

    fn come_up(&mut self, at: usize, protocol: &StreamProtocol, steps: &mut Vec<Step>) {
        if !std::mem::replace(&mut self.is_up, true) {
            steps.push(Step::Up(self.connections[at].id, protocol.clone()));
        }
    }

    fn opened(&mut self, at: usize, protocol: StreamProtocol, steps: &mut Vec<Step>) {
        let id = self.connections[at].id;
        let current = self.connections.iter().position(|connection| connection.ours == Ours::Open);
        let is_wanted = self.connections[at].ours == Ours::Opening;
        if !is_wanted || current.is_some_and(|current| current >= at) {
            // The frames have moved to a newer connection in the meantime.
            if current != Some(at) {
                self.connections[at].ours = Ours::Closed;
                steps.push(Step::Finish(id));
            }
            return;
        }
        self.come_up(at, &protocol, steps);
        if let Some(current) = current {
            self.connections[current].ours = Ours::Closed;
            steps.push(Step::Finish(self.connections[current].id));
        }
        self.connections[at].ours = Ours::Open;
        steps.push(Step::Greet(id, protocol));
    }

    fn theirs_opened(
        &mut self,
        at: usize,
        protocol: StreamProtocol,
        is_late: bool,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let connection = &mut self.connections[at];
        if !connection.theirs_left.take(now) {
            if connection.ours != Ours::GivenUp {
                connection.ours = Ours::GivenUp;
                steps.push(Step::GiveUp(connection.id));
            }
            return;
        }
        connection.is_heard = true;
        self.come_up(at, &protocol, steps);
        self.listen(steps);
        let is_again = std::mem::replace(&mut self.was_heard, true) || is_late;
        // The peer speaks on a newer connection: it may know nothing of the older one any more.
        let is_route = |connection: &Connection| matches!(connection.ours, Ours::Opening | Ours::Open);
        let is_newer = self.connections.iter().rposition(is_route).is_some_and(|route| route < at);
        let connection = &mut self.connections[at];
        if is_newer && connection.ours == Ours::Closed && connection.ours_left.take(now) {
            connection.ours = Ours::Opening;
            steps.push(Step::Open(connection.id));
        } else if is_again {
            steps.push(Step::Repeat);
        }
    }

    /// Reports a change of whether the peer can be heard.
    fn listen(&mut self, steps: &mut Vec<Step>) {
        let is_heard = self.connections.iter().any(|connection| connection.is_heard);
        // A link comes up as one that is heard: a peer that has said nothing is in no mesh.
        let was_silent = !std::mem::replace(&mut self.is_heard, is_heard);
        if was_silent == is_heard && (self.was_heard || !is_heard) {
            steps.push(Step::Heard(is_heard));
        }
    }

    /// Opens a stream if none is open or about to be: on the newest connection on which the peer is
    /// heard, or otherwise on the newest.
    fn find_route(&mut self, now: Instant, steps: &mut Vec<Step>) {
        let is_route = |connection: &Connection| matches!(connection.ours, Ours::Opening | Ours::Open);
        if self.connections.iter().any(is_route) {
            return;
        }
        let mut candidates: Vec<usize> = (0..self.connections.len()).collect();
        candidates.sort_by_key(|at| std::cmp::Reverse((self.connections[*at].is_heard, *at)));
        for at in candidates {
            let connection = &mut self.connections[at];
            if connection.ours != Ours::Closed {
                continue;
            }
            if connection.ours_left.take(now) {
                connection.ours = Ours::Opening;
                steps.push(Step::Open(connection.id));
                return;
            }
            connection.ours = Ours::GivenUp;
            steps.push(Step::GiveUp(connection.id));
        }
    }
}
