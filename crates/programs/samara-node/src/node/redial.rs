//! Keeps connections to the addresses of the configuration.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId};

#[derive(Debug)]
enum State {
    Waiting(Instant),
    Dialling,
    Connected(PeerId),
}

#[derive(Debug)]
struct Target {
    address: Multiaddr,
    state: State,
    /// The wait before the attempt after the next one.
    wait: Duration,
}

/// The addresses, and the time to dial each. Time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Redial {
    targets: Vec<Target>,
    dials: HashMap<ConnectionId, usize>,
    first: Duration,
    max: Duration,
    pub(crate) failed: u64,
}

impl Redial {
    /// Creates targets with the first and the longest wait between attempts.
    pub(crate) fn new(addresses: Vec<Multiaddr>, (first, max): (Duration, Duration), now: Instant) -> Self {
        let target = |address| Target { address, state: State::Waiting(now), wait: first };
        let targets = addresses.into_iter().map(target).collect();
        Self { targets, dials: HashMap::new(), first, max, failed: 0 }
    }

    /// Returns the time at which [`due`](Self::due) has the next address.
    pub(crate) fn next(&self) -> Option<Instant> {
        let waiting = self.targets.iter().filter_map(|target| match target.state {
            State::Waiting(until) => Some(until),
            _ => None,
        });
        waiting.min()
    }

    pub(crate) fn due(&mut self, now: Instant) -> Vec<DialOpts> {
        let mut dials = Vec::new();
        for (at, target) in self.targets.iter_mut().enumerate() {
            if !matches!(target.state, State::Waiting(until) if until <= now) {
                continue;
            }
            target.state = State::Dialling;
            let dial = DialOpts::from(target.address.clone());
            self.dials.insert(dial.connection_id(), at);
            dials.push(dial);
        }
        dials
    }

    pub(crate) fn connected(&mut self, connection: ConnectionId, peer: PeerId) {
        let dialled = self.dials.remove(&connection);
        for (at, target) in self.targets.iter_mut().enumerate() {
            // A peer that dialled this node need not be dialled.
            if dialled == Some(at) || names(&target.address, &peer) {
                target.state = State::Connected(peer);
                target.wait = self.first;
            }
        }
    }

    pub(crate) fn failed(&mut self, connection: ConnectionId, now: Instant) {
        let Some(at) = self.dials.remove(&connection) else { return };
        self.failed += 1;
        let target = &mut self.targets[at];
        if matches!(target.state, State::Dialling) {
            target.state = State::Waiting(now + target.wait);
            target.wait = (target.wait * 2).min(self.max);
        }
    }

    /// Handles the end of the last connection with a peer.
    pub(crate) fn lost(&mut self, peer: PeerId, now: Instant) {
        for target in &mut self.targets {
            if matches!(target.state, State::Connected(connected) if connected == peer) {
                target.state = State::Waiting(now + target.wait);
                target.wait = (target.wait * 2).min(self.max);
            }
        }
    }
}

fn names(address: &Multiaddr, peer: &PeerId) -> bool {
    address.iter().any(|part| matches!(part, Protocol::P2p(named) if named == *peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_maximum_and_reset_after_success() {
        let start = Instant::now();
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        let mut redial = Redial::new(vec![address], (SECOND, 5 * SECOND), start);
        let mut now = start;
        for wait in [1, 2, 4, 5, 5] {
            let dial = redial.due(now).pop().expect("a dial");
            assert!(redial.due(now).is_empty() && redial.next().is_none(), "one attempt at a time");
            redial.failed(dial.connection_id(), now);
            assert_eq!(redial.next(), Some(now + wait * SECOND));
            now += wait * SECOND;
        }
        assert_eq!(redial.failed, 5);
        let dial = redial.due(now).pop().expect("a dial");
        let peer = PeerId::random();
        redial.connected(dial.connection_id(), peer);
        assert_eq!(redial.next(), None);
        redial.lost(PeerId::random(), now);
        assert_eq!(redial.next(), None, "another peer");
        redial.lost(peer, now);
        assert_eq!(redial.next(), Some(now + SECOND));
    }

    #[test]
    fn a_peer_that_dials_first_is_not_dialled() {
        let (now, peer) = (Instant::now(), PeerId::random());
        let address = Multiaddr::empty().with(Protocol::Tcp(1)).with(Protocol::P2p(peer));
        let mut redial = Redial::new(vec![address], (SECOND, SECOND), now);
        redial.connected(ConnectionId::new_unchecked(77), peer);
        assert!(redial.due(now).is_empty());
    }
}
