//! Limits on the handshakes of inbound connections.
//!
//! A behaviour can refuse a connection before its handshake, but cannot end a handshake. This
//! transport can: when all places are taken, the oldest handshake of the prefix with the most makes
//! room, so that silent connections keep nobody out.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::future::{AbortHandle, Abortable};
use libp2p::Multiaddr;
use libp2p::core::Transport;
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, TransportError, TransportEvent};
use samara_engine::places::{PlaceCounters, Places, Refusal, Shares};

use crate::config::ip_of;

/// The places of all handshakes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Handshakes(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    places: Places<u64>,
    aborts: BTreeMap<u64, AbortHandle>,
    next: u64,
}

impl Handshakes {
    pub(super) fn new(max: usize) -> Self {
        let places = Places::new(max, Shares::of(max));
        Self(Arc::new(Mutex::new(State { places, aborts: BTreeMap::new(), next: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> PlaceCounters {
        self.state().places.counters()
    }

    /// Runs a handshake in a place, which it may lose to another.
    fn admit<T, F: Future<Output = io::Result<T>>>(
        &self,
        from: Option<IpAddr>,
        handshake: F,
    ) -> Result<impl Future<Output = io::Result<T>> + use<T, F>, Refusal> {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        if let Some(evicted) = state.places.take_or_evict(number, from)?
            && let Some(abort) = state.aborts.remove(&evicted)
        {
            abort.abort();
        }
        let (abort, registration) = AbortHandle::new_pair();
        state.aborts.insert(number, abort);
        let place = Place { handshakes: self.clone(), number };
        Ok(async move {
            let _place = place;
            Abortable::new(handshake, registration).await.unwrap_or_else(|_| {
                let why = "another handshake took its place";
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
            })
        })
    }
}

/// The place of a handshake, until it ends.
struct Place {
    handshakes: Handshakes,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.handshakes.state();
        state.places.free(&self.number);
        state.aborts.remove(&self.number);
    }
}

/// A transport whose inbound handshakes share places.
pub(super) struct Gate<T> {
    inner: Boxed<T>,
    handshakes: Handshakes,
}

impl<T> Gate<T> {
    pub(super) fn new(inner: Boxed<T>, handshakes: Handshakes) -> Self {
        Self { inner, handshakes }
    }
}

impl<T: Send + 'static> Transport for Gate<T> {
    type Output = T;
    type Error = io::Error;
    type ListenerUpgrade = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;
    type Dial = <Boxed<T> as Transport>::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(&mut self, address: Multiaddr, opts: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        self.inner.dial(address, opts)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        loop {
            let event = std::task::ready!(Pin::new(&mut self.inner).poll(cx));
            let TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr } = event else {
                return Poll::Ready(event.map_upgrade(|_| unreachable!("not an incoming connection")));
            };
            match self.handshakes.admit(ip_of(&send_back_addr), upgrade) {
                Ok(upgrade) => {
                    let upgrade: Self::ListenerUpgrade = Box::pin(upgrade);
                    return Poll::Ready(TransportEvent::Incoming {
                        listener_id,
                        upgrade,
                        local_addr,
                        send_back_addr,
                    });
                }
                // The connection closes with its upgrade.
                Err(_) => tracing::debug!(address = %send_back_addr, "no place for a handshake"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    type Silent = Pin<Box<dyn Future<Output = io::Result<()>>>>;

    fn begin(handshakes: &Handshakes, from: &str) -> Option<Silent> {
        let from = Some(from.parse().expect("an address"));
        let handshake: Silent = Box::pin(handshakes.admit(from, std::future::pending()).ok()?);
        Some(handshake)
    }

    /// One host has all addresses of a /48, and more of them than there are places.
    #[test]
    fn silent_connections_of_many_prefixes_keep_nobody_out() {
        let handshakes = Handshakes::new(64);
        let mut silent: Vec<Silent> = Vec::new();
        for network in 0..8 {
            for host in 0..200 {
                silent.extend(begin(&handshakes, &format!("2001:db8:{network}:{host:x}00::1")));
            }
        }
        assert_eq!(handshakes.state().places.len(), 64);
        let mut honest = begin(&handshakes, "2001:db8:ffff::1").expect("an honest host gets a place");
        assert!(honest.as_mut().now_or_never().is_none(), "the handshake goes on");
        let ended = silent.iter_mut().filter_map(|handshake| handshake.now_or_never()).count();
        let counters = handshakes.counters();
        assert_eq!(ended as u64, counters.evicted, "those that lost their places end");
        assert!(counters.evicted > 0 && counters.refused_prefix > 500, "{counters:?}");
        drop((silent, honest));
        let state = handshakes.state();
        assert!(state.places.is_empty() && state.aborts.is_empty());
    }

    #[test]
    fn a_host_has_a_sixteenth_of_the_places() {
        let handshakes = Handshakes::new(64);
        let of_one: Vec<Silent> =
            (0..99).filter_map(|n| begin(&handshakes, &format!("2001:db8::{n:x}"))).collect();
        assert_eq!(of_one.len(), 4);
        // Many processes of this machine are no attack.
        let local: Vec<Silent> = (0..99).filter_map(|_| begin(&handshakes, "127.0.0.1")).collect();
        assert_eq!((local.len(), handshakes.state().places.len()), (99, 64));
    }
}
