//! The connections of a server: who has a place, and who loses it.
//!
//! A connection takes two places: one of all connections, and until its request has arrived, one of
//! those that wait. If all of the latter are taken, the longest wait of the prefix with the most of
//! them ends, so that silent clients keep nobody out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use samara_engine::places::{Places, Shares};

/// Maximum number of connections at once, each with a thread.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Maximum number of connections whose request has not arrived.
const WAITING_MAX: usize = 64;
/// Maximum number of pages that receive updates at once.
pub(crate) const PAGES_MAX: usize = 64;
/// Places of a host: a browser opens six connections, of which each page with updates keeps one.
const CONNECTIONS: Shares = Shares::per_host(32);
const WAITING: Shares = Shares::per_host(16);
const PAGES: Shares = Shares::per_host(8);

/// The places of a server. Loopback has no shares by address.
#[derive(Debug)]
pub(crate) struct Connections(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    all: Places<u64>,
    waiting: Places<u64>,
    pages: Places<u64>,
    streams: BTreeMap<u64, TcpStream>,
    next: u64,
    refused: Refused,
}

/// Counts of connections and pages that got no place, or lost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Connections closed at once: no place of their prefix, of all, or no thread.
    pub(crate) connections: u64,
    /// Connections closed for a newcomer before their request had arrived.
    pub(crate) evicted: u64,
    pub(crate) pages: u64,
}

impl Connections {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner {
            all: Places::new(CONNECTIONS_MAX, CONNECTIONS),
            waiting: Places::new(WAITING_MAX, WAITING),
            pages: Places::new(PAGES_MAX, PAGES),
            streams: BTreeMap::new(),
            next: 0,
            refused: Refused::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a new connection its places. `None` if it is to be closed.
    pub(crate) fn take(self: &Arc<Self>, stream: &TcpStream, from: IpAddr) -> Option<Place> {
        let mut inner = self.lock();
        let key = inner.next;
        inner.next += 1;
        let taken = inner.admit(key, stream, from);
        inner.refused.connections += u64::from(taken.is_none());
        taken.map(|()| Place { of: Arc::clone(self), key, from })
    }

    pub(crate) fn note_refused(&self) {
        self.lock().refused.connections += 1;
    }

    pub(crate) fn refused(&self) -> Refused {
        self.lock().refused
    }
}

impl Inner {
    fn admit(&mut self, key: u64, stream: &TcpStream, from: IpAddr) -> Option<()> {
        let stream = stream.try_clone().ok()?;
        self.all.take(key, Some(from)).ok()?;
        let Ok(evicted) = self.waiting.take_or_evict(key, Some(from)) else {
            self.all.free(&key);
            return None;
        };
        if let Some(evicted) = evicted {
            self.refused.evicted += 1;
            self.all.free(&evicted);
            // Its thread reads the end. Fails if the client has left.
            let _ = self.streams.remove(&evicted).map(|stream| stream.shutdown(Shutdown::Both));
        }
        self.streams.insert(key, stream);
        Some(())
    }
}

/// The places of a connection, free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Connections>,
    key: u64,
    from: IpAddr,
}

impl Place {
    /// Records that the request has arrived: nobody takes the connection's place any more.
    pub(crate) fn requested(&self) {
        let mut inner = self.of.lock();
        inner.waiting.free(&self.key);
        inner.streams.remove(&self.key);
    }

    /// Takes a place of a page with updates, if there is one.
    pub(crate) fn page(&self) -> Option<PagePlace> {
        let mut inner = self.of.lock();
        let taken = inner.pages.take(self.key, Some(self.from)).is_ok();
        inner.refused.pages += u64::from(!taken);
        taken.then(|| PagePlace { of: Arc::clone(&self.of), key: self.key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.of.lock();
        inner.all.free(&self.key);
        inner.waiting.free(&self.key);
        inner.streams.remove(&self.key);
    }
}

/// The place of a page, free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct PagePlace {
    of: Arc<Connections>,
    key: u64,
}

impl Drop for PagePlace {
    fn drop(&mut self) {
        self.of.lock().pages.free(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Returns both ends of a connection.
    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn silent_hosts_keep_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connections = Connections::new();
        let mut silent = Vec::new();
        // More networks than there are places, each with more hosts than its share.
        for number in 0..200 {
            let (client, server) = pair(&listener);
            let from = ip(&format!("2001:db8:{}:{:x}00::1", number % 8, number / 16));
            silent.extend(connections.take(&server, from).map(|place| (client, place)));
        }
        assert_eq!(connections.lock().waiting.len(), WAITING_MAX);
        let (_client, server) = pair(&listener);
        let newcomer = connections.take(&server, ip("2001:db8:ffff::1")).expect("a place");
        newcomer.requested();
        assert_eq!(connections.lock().waiting.len(), WAITING_MAX - 1);
        let Refused { evicted, connections: refused, .. } = connections.refused();
        assert!(evicted > 0 && refused + evicted + WAITING_MAX as u64 == 201, "{evicted} {refused}");
        // The oldest lost its place, and its client sees the end.
        assert_eq!(silent[0].0.read(&mut [0]).unwrap(), 0);
        drop((silent, newcomer));
        let inner = connections.lock();
        assert!(inner.all.is_empty() && inner.waiting.is_empty() && inner.streams.is_empty());
    }

    #[test]
    fn a_host_has_its_share_of_connections_and_pages() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connections = Connections::new();
        let mut open = Vec::new();
        let mut take = |from| {
            let (client, server) = pair(&listener);
            let place = connections.take(&server, ip(from))?;
            place.requested();
            open.push((client, place));
            open.last().map(|(_, place)| place.page())
        };
        let greedy: Vec<_> = (0..40).map_while(|_| take("198.51.100.7")).collect();
        assert_eq!(greedy.len(), 32);
        assert_eq!(greedy.iter().flatten().count(), 8);
        assert!(take("203.0.113.7").is_some_and(|page| page.is_some()));
        // Processes of this machine share with nobody.
        assert_eq!((0..60).filter_map(|_| take("127.0.0.1")).count(), 60);
        drop(greedy);
        assert_eq!(connections.refused(), Refused { connections: 1, evicted: 0, pages: 24 });
    }
}
