//! Connections come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Input, PeerId, PeerInfo};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Hub;
use crate::ring::hello::{exchange, identity_of};
use crate::ring::link::Link;
use crate::ring::links::LinkHandle;
use crate::ring::status::Closed;

/// How an attempt to get a connection ended.
pub(super) enum Attempt {
    Dialled(SocketAddr, Result<TcpStream, Closed>),
    Accepted(Result<(TcpStream, SocketAddr), Closed>),
}

/// What a connection needs to come about.
#[derive(Clone, Copy)]
struct Party {
    group: u64,
    own: SocketAddr,
    not_sent_bytes: u32,
    timeout: Duration,
}

impl Party {
    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, Closed> {
        let stream = timeout(self.timeout, TcpStream::connect(address));
        let stream = stream.await.map_err(|_| Closed::HandshakeTimeout)?;
        let stream = stream.map_err(|error| Closed::Unreachable(error.to_string()))?;
        let (stream, found) = self.greet(stream).await?;
        if found == address { Ok(stream) } else { Err(Closed::OtherNode(found)) }
    }

    async fn greet(&self, mut stream: TcpStream) -> Result<(TcpStream, SocketAddr), Closed> {
        let failed = |error: std::io::Error| Closed::Handshake(error.to_string());
        stream.set_nodelay(true).map_err(failed)?;
        #[cfg(target_os = "linux")]
        SockRef::from(&stream).set_tcp_notsent_lowat(self.not_sent_bytes).map_err(failed)?;
        let greeted = timeout(self.timeout, exchange(&mut stream, self.group, self.own));
        let found = greeted.await.map_err(|_| Closed::HandshakeTimeout)??;
        // A node that reaches itself under another address would be two members.
        if found == self.own { Err(Closed::OtherNode(found)) } else { Ok((stream, found)) }
    }
}

impl Hub {
    fn party(&self) -> Party {
        Party {
            group: self.group,
            own: self.address,
            not_sent_bytes: self.options.not_sent_bytes,
            timeout: self.options.handshake_timeout,
        }
    }

    pub(super) fn dial(&mut self, address: SocketAddr) {
        if self.links.of(&address).is_some() || self.dialling.contains(&address) {
            return;
        }
        // The engine dials again later.
        if self.dialling.len() >= self.options.config.members_max {
            return self.count(&Closed::Full);
        }
        self.dialling.insert(address);
        let (party, attempts) = (self.party(), self.attempts.0.clone());
        self.tasks.spawn(async move {
            let dialled = party.dial(address).await;
            // Fails only if the member is gone.
            let _ = attempts.send(Attempt::Dialled(address, dialled));
        });
    }

    pub(super) fn accepted(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        // What fails here is the connection (it was reset in the queue), or the process has no file descriptor left.
        let Ok((stream, _)) = accepted else { return };
        if self.pending >= self.options.max_pending {
            return self.count(&Closed::Full);
        }
        self.pending += 1;
        let (party, attempts) = (self.party(), self.attempts.0.clone());
        self.tasks.spawn(async move {
            let greeted = party.greet(stream).await;
            // Fails only if the member is gone.
            let _ = attempts.send(Attempt::Accepted(greeted));
        });
    }

    pub(super) fn count(&mut self, why: &Closed) {
        *self.counters.closed.entry(why.name()).or_insert(0) += 1;
    }

    pub(super) fn attempted(&mut self, attempt: Attempt) {
        match attempt {
            Attempt::Dialled(address, result) => {
                self.dialling.remove(&address);
                let up = result.and_then(|stream| self.admit(stream, address, self.address));
                if let Err(why) = up {
                    tracing::debug!(%address, %why, "dialled in vain");
                    self.count(&why);
                    if self.links.of(&address).is_none() {
                        self.driver.input(Input::DialFailed { identity: identity_of(address) });
                    }
                }
            }
            Attempt::Accepted(result) => {
                self.pending -= 1;
                if let Err(why) = result.and_then(|(stream, address)| self.admit(stream, address, address)) {
                    tracing::debug!(%why, "a connection was refused");
                    self.count(&why);
                }
            }
        }
    }

    /// Makes a link of a connection, unless there is no room for it or a better one.
    fn admit(&mut self, stream: TcpStream, address: SocketAddr, dialler: SocketAddr) -> Result<(), Closed> {
        if let Some((peer, old)) = self.links.of(&address) {
            // Both ends keep what the smaller one dialled. The same one again has lost the connection that this one believes in.
            if dialler > old.dialler {
                return Err(Closed::Duplicate);
            }
            self.take_down(peer, &Closed::Duplicate);
        }
        // Some that are no members any more, or not yet, can be there beside all members.
        if self.links.len() >= 2 * self.options.config.members_max {
            return Err(Closed::Full);
        }
        let outbound = dialler == self.address;
        let ip = stream.peer_addr().ok().map(|remote| remote.ip());
        // One host does not take the room of all others.
        if !outbound && self.links.inbound_from(ip, self.address) >= self.options.config.members_max {
            return Err(Closed::Full);
        }
        let driver = &mut self.driver;
        let peer = self.links.number(address, |departed| driver.with(|ring, _| ring.forget_peer(departed)));
        let info =
            PeerInfo { identity: identity_of(address), outbound, address: ip, protocol: "samring/1".into() };
        self.bring_up(peer, stream, dialler, info);
        Ok(())
    }

    fn bring_up(&mut self, peer: PeerId, stream: TcpStream, dialler: SocketAddr, info: PeerInfo) {
        self.connections += 1;
        let connection = self.connections;
        let (orders, receiver) = mpsc::unbounded_channel();
        let link = Link::new(connection, Arc::clone(&self.link_options), receiver, self.told.0.clone());
        let task = self.tasks.spawn(link.run(stream));
        self.links
            .insert(peer, LinkHandle { connection, dialler, ip: info.address, orders, task, in_flight: 0 });
        self.counters.links += 1;
        self.driver.outbox().link_up(peer);
        self.driver.input(Input::LinkUp { peer, info });
    }

    /// Ends a link. Nothing happens if it is gone already.
    pub(super) fn take_down(&mut self, peer: PeerId, why: &Closed) {
        let Some(link) = self.links.remove(peer) else { return };
        link.task.abort();
        tracing::debug!(?peer, %why, "a link is down");
        self.count(why);
        self.counters.lost_copies += self.driver.outbox().link_down(peer) as u64;
        self.driver.input(Input::LinkDown { peer });
    }
}

/// The next connection.
pub(super) async fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    let accepted = listener.accept().await;
    if accepted.is_err() {
        // Out of file descriptors, perhaps: trying again at once would only burn time.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    accepted
}
