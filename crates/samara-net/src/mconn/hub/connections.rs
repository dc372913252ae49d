//! Connections come and go.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use samara_engine::{Engine, Input, PeerId as Handle, PeerInfo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::Hub;
use crate::mconn::codec::Codec;
use crate::mconn::connection::{Connection, Traffic};
use crate::mconn::error::Closed;
use crate::mconn::handshake::Established;
use crate::mconn::key::{NodeId, PeerAddress};
use crate::mconn::link::Link;
use crate::mconn::status::Event;

/// How an attempt to get a connection ended.
pub(super) enum Attempt {
    Dialled(NodeId, Result<Established, Closed>),
    Accepted(SocketAddr, Result<Established, Closed>),
}

impl<E, C> Hub<E, C>
where
    E: Engine + 'static,
    E::Event: 'static,
    C: Codec<Frame = E::Frame>,
{
    pub(super) fn dial_due(&mut self) {
        while self.stopping.is_none()
            && let Some(PeerAddress { id, host }) = self.peers.due(Instant::now())
        {
            if self.links.of_peer(&id).is_some() {
                self.peers.is_up(&id);
                continue;
            }
            let (party, attempts) = (Arc::clone(&self.party), self.attempts.0.clone());
            self.tasks.spawn(async move {
                let dialled = party.dial(&host, id).await;
                // Fails only if the node is gone.
                let _ = attempts.send(Attempt::Dialled(id, dialled));
            });
        }
    }

    pub(super) fn accepted(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        // What fails here is the connection (it was reset in the queue), or the process has no file descriptor left.
        let Ok((stream, remote)) = accepted else { return };
        let options = &self.party.options;
        let of_ip = self.inbound.get(&remote.ip()).copied().unwrap_or(0);
        if self.stopping.is_some()
            || self.pending >= options.max_pending
            || of_ip >= options.max_inbound_per_ip
        {
            return self.refuse(remote, Closed::Full);
        }
        self.pending += 1;
        *self.inbound.entry(remote.ip()).or_insert(0) += 1;
        let (party, attempts) = (Arc::clone(&self.party), self.attempts.0.clone());
        self.tasks.spawn(async move {
            let established = party.establish(stream, remote, None).await;
            // Fails only if the node is gone.
            let _ = attempts.send(Attempt::Accepted(remote, established));
        });
    }

    fn refuse(&mut self, remote: SocketAddr, why: Closed) {
        *self.counters.closed.entry(why.name()).or_insert(0) += 1;
        // Strangers can make any number of these: they get no more than half of the queue.
        if self.events.capacity() > self.party.options.events / 2 {
            self.tell(Event::Refused { remote, why });
        }
    }

    pub(super) fn attempted(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Dialled(id, result) => {
                if let Err(why) = result.and_then(|established| self.admit(established)) {
                    *self.counters.closed.entry(why.name()).or_insert(0) += 1;
                    self.tell(Event::DialFailed { peer: id, why });
                    if self.links.of_peer(&id).is_none() {
                        self.peers.is_down(&id, Instant::now());
                        self.driver.input(Input::DialFailed { identity: id.identity() });
                    }
                }
            }
            Attempt::Accepted(remote, result) => {
                self.pending -= 1;
                if let Err(why) = result.and_then(|established| self.admit(established)) {
                    self.forget_inbound(remote.ip());
                    self.refuse(remote, why);
                }
            }
        }
    }

    fn forget_inbound(&mut self, ip: IpAddr) {
        if let Some(count) = self.inbound.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.inbound.remove(&ip);
            }
        }
    }

    /// Makes a link of a connection, unless there is no room for it or a better one.
    fn admit(&mut self, established: Established) -> Result<(), Closed> {
        let peer = established.peer;
        if self.stopping.is_some() {
            return Err(Closed::Here);
        }
        if let Some(handle) = self.links.of_peer(&peer) {
            let own = self.party.key.id();
            let dialler = |outbound: bool| if outbound { own } else { peer };
            let old = self.links.get(handle).map(|link| dialler(link.outbound));
            // Both sides keep what the smaller one dialled. The same side again has lost the connection that this one believes in.
            if old.is_some_and(|old| dialler(established.outbound) > old) {
                return Err(Closed::Duplicate);
            }
            self.take_down(handle, Closed::Duplicate);
        }
        let inbound = self.links.iter().filter(|(_, link)| !link.outbound).count();
        let invited = established.outbound || self.peers.contains(&peer);
        if !invited && inbound >= self.party.options.max_inbound {
            return Err(Closed::Full);
        }
        self.bring_up(established);
        Ok(())
    }

    fn bring_up(&mut self, established: Established) {
        self.connections += 1;
        let number = self.connections;
        let (orders, receiver) = mpsc::unbounded_channel();
        let Established { peer, remote, outbound, .. } = established;
        let (info, protocol) = (established.info.clone(), Arc::clone(&established.protocol));
        let codec = Arc::clone(&self.party.codec);
        let traffic = Arc::new(Traffic::default());
        let (connection, stream) = Connection::new(
            number,
            codec,
            established,
            &self.party.options,
            receiver,
            self.outlets.clone(),
            Arc::clone(&traffic),
        );
        let task = self.tasks.spawn(connection.run(stream));
        let handle = self.links.insert(Link {
            connection: number,
            peer,
            info: info.clone(),
            protocol: Arc::clone(&protocol),
            outbound,
            inbound_ip: (!outbound).then_some(remote.ip()),
            orders,
            task,
            traffic,
            queued: vec![0; self.channels.len()],
            in_flight: 0,
        });
        self.counters.links += 1;
        self.peers.is_up(&peer);
        // All nodes of a machine share the loopback address: it says nothing about who is whose sybil.
        let address = Some(remote.ip()).filter(|ip| !ip.is_loopback());
        let about =
            PeerInfo { identity: peer.identity(), outbound, address, protocol: Arc::clone(&protocol) };
        self.driver.outbox().link_up(handle);
        self.tell(Event::LinkUp { peer, handle, protocol, outbound, info });
        self.driver.input(Input::LinkUp { peer: handle, info: about });
    }

    /// Ends a link. Nothing happens if it is gone already.
    pub(super) fn take_down(&mut self, handle: Handle, why: Closed) {
        let Some(link) = self.links.remove(handle) else { return };
        link.task.abort();
        if let Some(ip) = link.inbound_ip {
            self.forget_inbound(ip);
        }
        self.counters.wire_up += link.traffic.up.load(Ordering::Relaxed);
        self.counters.wire_down += link.traffic.down.load(Ordering::Relaxed);
        *self.counters.closed.entry(why.name()).or_insert(0) += 1;
        self.peers.is_down(&link.peer, Instant::now());
        let lost_copies = self.driver.outbox().link_down(handle);
        self.driver.input(Input::LinkDown { peer: handle });
        // As long as it is known whose number that was.
        self.tell_events();
        self.tell(Event::LinkDown { peer: link.peer, handle, why, lost_copies });
    }
}

/// The next connection; never, if nothing is listened on.
pub(super) async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, SocketAddr)> {
    match listener {
        None => std::future::pending().await,
        Some(listener) => {
            let accepted = listener.accept().await;
            if accepted.is_err() {
                // Out of file descriptors, perhaps: trying again at once would only burn time.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            accepted
        }
    }
}
