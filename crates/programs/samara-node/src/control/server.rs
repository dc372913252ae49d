//! The connections of the servers: their places, deadlines and counts.
//!
//! A connection takes two places: one of all connections, and while it waits for the head of a
//! request, one of those that wait. If all of the latter are taken, the longest wait of the prefix
//! with the most of them ends. Silent hosts therefore keep nobody out.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use samara_engine::places::{Places, Refusal, Shares};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use super::paced::Paced;

/// Wait after a connection that cannot be accepted: an immediate retry would only use up processor
/// time.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Delay of the answer to a wrong token, which slows down guesses.
const GUESS_DELAY: Duration = Duration::from_secs(1);
/// Minimum time between two messages about wrong tokens.
const GUESS_REPORTS: Duration = Duration::from_secs(10);

/// Bounds on the connections of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at once. Each host has an eighth of them; loopback has no share.
    pub(super) connections: usize,
    /// Connections that wait for the head of a request. Each host has a quarter of them.
    pub(super) waiting: usize,
    /// Time within which the head of a request must arrive, on a new connection or on one that waits
    /// for its next request.
    pub(super) head: Duration,
    /// Time that a client has to take an answer, beside a second for each 64 KiB.
    pub(super) answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 256, waiting: 64, head: Duration::from_secs(30), answer: Duration::from_secs(10) }
    }
}

samara_engine::counters! {
    pub(crate) struct ServerCounts {
        /// Connections and requests that the control API and the server for metrics refused or
        /// ended: all places taken, those of an address, a wait for a request that made room, a body
        /// or an answer that took too long, a wrong token.
        pub(crate) control_refused[cause]: BTreeMap<&'static str, u64>,
    }
}

/// The counts of all servers of a node.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    full: AtomicU64,
    address_full: AtomicU64,
    evicted: AtomicU64,
    pub(super) late_bodies: AtomicU64,
    late_answers: AtomicU64,
    wrong_tokens: AtomicU64,
    /// The time of the last message about wrong tokens.
    reported: Mutex<Option<Instant>>,
}

impl Counts {
    /// Returns the count of each cause.
    pub(crate) fn refused(&self) -> ServerCounts {
        let causes = [
            ("full", &self.full),
            ("address_full", &self.address_full),
            ("evicted", &self.evicted),
            ("late_body", &self.late_bodies),
            ("late_answer", &self.late_answers),
            ("wrong_token", &self.wrong_tokens),
        ];
        let read = |(cause, count): (_, &AtomicU64)| (cause, count.load(Ordering::Relaxed));
        ServerCounts { control_refused: causes.map(read).into() }
    }

    /// Counts and reports a wrong token, and waits.
    pub(super) async fn punish(&self, from: Option<IpAddr>) {
        let count = self.wrong_tokens.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = reported.is_none_or(|reported| reported.elapsed() >= GUESS_REPORTS);
            if is_due {
                *reported = Some(Instant::now());
            }
            is_due
        };
        if is_due {
            tracing::warn!(?from, count, "a request has a wrong token");
        }
        tokio::time::sleep(GUESS_DELAY).await;
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The address that a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote(pub(super) IpAddr);

struct Connections {
    all: Places<u64>,
    waiting: Places<u64>,
    tasks: BTreeMap<u64, AbortHandle>,
    last: u64,
}

impl Connections {
    fn new(limits: &Limits) -> Self {
        let shares = |max: usize, part: usize| Shares::per_host((max / part).max(1));
        Self {
            all: Places::new(limits.connections, shares(limits.connections, 8)),
            waiting: Places::new(limits.waiting, shares(limits.waiting, 4)),
            tasks: BTreeMap::new(),
            last: 0,
        }
    }

    /// Takes the places of a new connection. Returns its number.
    fn open(&mut self, from: IpAddr, counts: &Counts) -> Option<u64> {
        self.last += 1;
        let number = self.last;
        let taken = self.all.take(number, Some(from)).and_then(|()| self.wait(number, from, counts));
        if let Err(refusal) = taken {
            self.all.free(&number);
            count(match refusal {
                Refusal::All => &counts.full,
                Refusal::Prefix => &counts.address_full,
            });
            return None;
        }
        Some(number)
    }

    /// Takes the place of a connection that waits for a request.
    fn wait(&mut self, number: u64, from: IpAddr, counts: &Counts) -> Result<(), Refusal> {
        let evicted = self.waiting.take_or_evict(number, Some(from))?;
        if let Some(evicted) = evicted {
            count(&counts.evicted);
            // Its task ends later.
            self.all.free(&evicted);
            self.tasks.remove(&evicted).inspect(AbortHandle::abort);
        }
        Ok(())
    }
}

/// The places of a connection, free again when this is dropped.
struct Place {
    connections: Arc<Mutex<Connections>>,
    counts: Arc<Counts>,
    number: u64,
    from: IpAddr,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the head of a request has arrived.
    fn requested(&self) {
        self.lock().waiting.free(&self.number);
    }

    /// Records that the connection waits for its next request. Returns false if it must end.
    fn answered(&self) -> bool {
        self.lock().wait(self.number, self.from, &self.counts).is_ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.lock();
        connections.waiting.free(&self.number);
        connections.all.free(&self.number);
        connections.tasks.remove(&self.number);
    }
}

/// Serves connections until the task is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, counts: Arc<Counts>) {
    let connections = Arc::new(Mutex::new(Connections::new(&limits)));
    let mut tasks = JoinSet::new();
    loop {
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            Some(_) = tasks.join_next() => continue,
        };
        let from = from.ip();
        // Until the task is known, which may end at once.
        let mut open = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(number) = open.open(from, &counts) else { continue };
        let place = Arc::new(Place {
            connections: Arc::clone(&connections),
            counts: Arc::clone(&counts),
            number,
            from,
        });
        let (inner, counts) = (TowerToHyperService::new(router.clone()), Arc::clone(&counts));
        let service = service_fn(move |mut request: Request<Incoming>| {
            place.requested();
            request.extensions_mut().insert(Remote(from));
            let (answer, place) = (inner.call(request), Arc::clone(&place));
            async move {
                let mut answer: Response<_> = answer.await.unwrap_or_else(|never: Infallible| match never {});
                if !place.answered() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let task = tasks.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(limits.head);
            let stream = TokioIo::new(Paced::new(stream, limits.answer));
            if let Err(error) = http.serve_connection(stream, service).await {
                if is_late(&error) {
                    count(&counts.late_answers);
                }
                tracing::debug!(%error, "a connection failed");
            }
        });
        open.tasks.insert(number, task);
    }
}

/// Returns true if a client took too long for an answer, which only [`Paced`] reports in this way.
fn is_late(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_late = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::TimedOut;
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| cause.downcast_ref().is_some_and(is_late))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    /// Nothing here takes this long unless it fails.
    const PATIENCE: Duration = Duration::from_secs(30);
    const REQUEST: &[u8] = b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n";

    struct Server {
        address: std::net::SocketAddr,
        counts: Arc<Counts>,
        _task: JoinSet<()>,
    }

    impl Server {
        /// Starts a server with a page of 64 MiB.
        async fn start(limits: Limits) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = Router::new().route("/long", get(async || vec![b'x'; 64 << 20]));
            let (counts, mut task) = (Arc::new(Counts::default()), JoinSet::new());
            task.spawn(serve(listener, router, limits, Arc::clone(&counts)));
            Self { address, counts, _task: task }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        fn count(&self, cause: &str) -> u64 {
            self.counts.refused().control_refused[cause]
        }

        async fn until(&self, cause: &str, least: u64) {
            let reached = async {
                while self.count(cause) < least {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(PATIENCE, reached).await.expect("it is counted in time");
        }
    }

    /// Reads an answer, which is short, or nothing if the server has hung up.
    async fn answer(stream: &mut TcpStream) -> String {
        let mut buffer = [0; 4096];
        let len = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("an answer in time");
        String::from_utf8_lossy(&buffer[..len.unwrap_or(0)]).into_owned()
    }

    #[tokio::test]
    async fn a_request_that_does_not_begin_ends_its_connection() {
        let server = Server::start(Limits { head: Duration::from_millis(50), ..Limits::default() }).await;
        let (mut silent, mut slow) = (server.connect().await, server.connect().await);
        slow.write_all(&REQUEST[..20]).await.unwrap();
        assert_eq!(answer(&mut silent).await, "");
        // hyper may say why.
        while !answer(&mut slow).await.is_empty() {}
    }

    /// Neither connections without a request nor those that wait for the next one.
    #[tokio::test]
    async fn silent_connections_keep_nobody_out() {
        let limits = Limits { connections: 16, waiting: 4, head: 10 * PATIENCE, ..Limits::default() };
        let server = Server::start(limits).await;
        let mut held = Vec::new();
        for round in 0..3 {
            for _ in 0..20 {
                let mut silent = server.connect().await;
                if round == 1 {
                    silent.write_all(&REQUEST[..20]).await.unwrap();
                }
                held.push(silent);
            }
            let mut honest = server.connect().await;
            for _ in 0..3 {
                honest.write_all(REQUEST).await.unwrap();
                assert!(answer(&mut honest).await.contains("404"));
            }
            held.push(honest);
        }
        assert!(server.count("evicted") > 0);
        // The oldest has lost its place to others.
        assert_eq!(answer(&mut held[0]).await, "");
    }

    /// A client that does not take an answer does not keep its connection.
    #[tokio::test]
    async fn answers_must_be_taken() {
        let limits = Limits { answer: Duration::from_millis(50), ..Limits::default() };
        let server = Server::start(limits).await;
        let mut stalled = server.connect().await;
        stalled.write_all(b"GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        server.until("late_answer", 1).await;
        let mut quick = server.connect().await;
        quick.write_all(b"GET /long HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut taken = Vec::new();
        timeout(PATIENCE, quick.read_to_end(&mut taken)).await.expect("in time").unwrap();
        assert!(taken.len() > 64 << 20);
    }

    #[test]
    fn hosts_share_the_places() {
        let (limits, counts) = (Limits::default(), Counts::default());
        let mut connections = Connections::new(&limits);
        let mut open = |from: &str| {
            let number = connections.open(from.parse().unwrap(), &counts)?;
            connections.waiting.free(&number);
            Some(number)
        };
        // A host, its site and its network, whatever its number of addresses.
        assert_eq!((0..99).filter_map(|n| open(&format!("2001:db8:1:1::{n}"))).count(), 32);
        assert_eq!((0..99).filter_map(|n| open(&format!("2001:db8:1:{n}::1"))).count(), 32);
        assert_eq!((0..99).filter_map(|n| open(&format!("2001:db8:1:{n}00::1"))).count(), 64);
        assert!(open("2001:db8:2::1").is_some());
        // Processes of this machine have what is left.
        assert_eq!((0..200).filter_map(|_| open("127.0.0.1")).count(), 127);
        let counted = counts.refused().control_refused;
        assert_eq!((counted["full"], counted["address_full"]), (73, 67 + 67 + 35));
    }
}
