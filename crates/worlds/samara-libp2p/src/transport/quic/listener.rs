//! A socket that takes connections, and the addresses at which it can be reached.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use if_watch::IfEvent;
use if_watch::tokio::IfWatcher;
use libp2p::core::transport::{ListenerId, TransportEvent};

use super::connection::Handshake;
use super::{Error, multiaddr};

type Accept = Pin<Box<dyn Future<Output = Option<quinn::Incoming>> + Send>>;

pub(super) struct Listener {
    pub(super) id: ListenerId,
    pub(super) endpoint: quinn::Endpoint,
    pub(super) local: SocketAddr,
    accept: Accept,
    /// The interfaces of an unspecified address.
    interfaces: Option<IfWatcher>,
    events: VecDeque<TransportEvent<Handshake, Error>>,
}

/// News from a listener.
pub(super) enum News {
    Event(TransportEvent<Handshake, Error>),
    Incoming(Box<quinn::Incoming>),
    /// The socket is broken.
    Lost,
}

impl Listener {
    pub(super) fn new(id: ListenerId, endpoint: quinn::Endpoint) -> io::Result<Self> {
        let local = endpoint.local_addr()?;
        let mut events = VecDeque::new();
        let interfaces = match local.ip().is_unspecified() {
            true => Some(IfWatcher::new()?),
            false => {
                events
                    .push_back(TransportEvent::NewAddress { listener_id: id, listen_addr: multiaddr(local) });
                None
            }
        };
        Ok(Self { id, accept: accept(&endpoint), endpoint, local, interfaces, events })
    }

    /// Returns true if a datagram from this socket can reach an address.
    pub(super) fn reaches(&self, remote: SocketAddr) -> bool {
        let local = self.local.ip();
        local.is_ipv4() == remote.is_ipv4()
            && (local.is_unspecified() || local.is_loopback() == remote.ip().is_loopback())
    }

    /// Takes no more connections. Those that exist go on, and keep the socket.
    pub(super) fn close(self) {
        self.endpoint.set_server_config(None);
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(News::Event(event));
        }
        if let Poll::Ready(event) = self.poll_interfaces(cx) {
            return Poll::Ready(News::Event(event));
        }
        self.accept.poll_unpin(cx).map(|incoming| {
            let Some(incoming) = incoming else { return News::Lost };
            self.accept = accept(&self.endpoint);
            News::Incoming(Box::new(incoming))
        })
    }

    fn poll_interfaces(&mut self, cx: &mut Context<'_>) -> Poll<TransportEvent<Handshake, Error>> {
        let listener_id = self.id;
        let local = self.local;
        let Some(interfaces) = &mut self.interfaces else { return Poll::Pending };
        loop {
            let (net, is_up) = match ready!(interfaces.poll_if_event(cx)) {
                Ok(IfEvent::Up(net)) => (net, true),
                Ok(IfEvent::Down(net)) => (net, false),
                Err(error) => {
                    // Without news from the interfaces, the known addresses stay.
                    self.interfaces = None;
                    return Poll::Ready(TransportEvent::ListenerError { listener_id, error: error.into() });
                }
            };
            if net.addr().is_ipv4() != local.is_ipv4() {
                continue;
            }
            let listen_addr = multiaddr(SocketAddr::new(net.addr(), local.port()));
            return Poll::Ready(match is_up {
                true => TransportEvent::NewAddress { listener_id, listen_addr },
                false => TransportEvent::AddressExpired { listener_id, listen_addr },
            });
        }
    }
}

fn accept(endpoint: &quinn::Endpoint) -> Accept {
    let endpoint = endpoint.clone();
    async move { endpoint.accept().await }.boxed()
}
