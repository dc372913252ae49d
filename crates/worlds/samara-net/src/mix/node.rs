//! A node, or the scheduler, as its owner sees it: start, requests, events, state and counters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use samara_engine::outbox::ByLane;
use samara_engine::places::{Places, Rates, Shares};
use samara_engine::{Driver, NodeRng, Outbox};
use samara_mix::{Event, KeyPair, Metrics, Mix, Node, Phase, Pool, Scheduler, Secret};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::board::{Board, GatewayStatus};
use super::gateway::{self, Gateway, RESULTS_MAX};
use super::grpc::{ALPN, Listening};
use super::layer::{Contact, Grpc, Terms};
use super::options::{GatewayOptions, Options};
use super::proto::OpenRounds;
use super::quota::{Quota, Registrations};
use super::task::Task;
use crate::identity::{self, Allowed};
use crate::status::{Counters, Gone, Request, StartError, ask, ask_later, bind};

const REQUESTS: usize = 64;

/// A node of the pool, or the scheduler, over gRPC. Cheap to clone; it ends with
/// [`stop`](Self::stop), or when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Member {
    number: u32,
    address: SocketAddr,
    gateway: Option<SocketAddr>,
    requests: mpsc::Sender<Request<Task>>,
}

impl Member {
    /// Starts a node or the scheduler, depending on its certificate. It connects to the others on
    /// its own. It drops and counts events that find their queue full ([`Counters::events_lost`]).
    /// The queue ends when the node has stopped.
    ///
    /// # Errors
    /// An option is not valid, or the node cannot listen on an address.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub async fn start(options: Options) -> Result<(Self, mpsc::Receiver<Happened>), StartError> {
        let (listener, _) = bind(options.listen).await?;
        let gateway = match &options.gateway {
            None => None,
            Some(gateway) => Some(bind(gateway.listen).await?.0),
        };
        Self::start_on(options, listener, gateway)
    }

    /// Starts on sockets that are open already, and ignores the option `listen`.
    ///
    /// # Errors
    /// An option is not valid.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime with time and input and output.
    pub fn start_on(
        options: Options,
        listener: TcpListener,
        gateway: Option<TcpListener>,
    ) -> Result<(Self, mpsc::Receiver<Happened>), StartError> {
        options.check()?;
        let number = options.number().unwrap_or_default();
        let failed = |error| StartError::Listen { address: options.listen, error };
        let address = listener.local_addr().map_err(failed)?;
        let gateway_address = gateway.as_ref().map(TcpListener::local_addr).transpose().map_err(failed)?;
        let pool = Pool::new(options.threads).map_err(|error| StartError::Threads(error.to_string()))?;
        let driver = driver(&options, number, pool.threads())?;
        let tally = Tally::default();
        let numbers = 0..=options.pool.len() as u32;
        let contacts = numbers.filter_map(|number| options.contact(number)).map(|known| Contact {
            fingerprint: known.fingerprint,
            identity: known.fingerprint.peer(),
            address: known.address,
        });
        let terms = Terms {
            sockets: options.sockets,
            windows: options.windows,
            timeout: options.handshake_timeout,
            waiting_kib: options.waiting_kib,
            pending_max: options.pending_max,
            in_flight_bytes: options.in_flight_bytes,
            limits: options.config.limits,
        };
        let hub = Grpc::hub(driver, &options.identity, contacts.collect(), listener, &terms, tally.clone())?;
        let mut servers = JoinSet::new();
        let (senders, sender_queue) = mpsc::channel(REQUESTS);
        let board = match (gateway, &options.gateway) {
            (Some(listener), Some(gateway)) => {
                let (board, service) = senders_side(&options, gateway.clone(), number, senders)?;
                let listening = Listening {
                    tls: identity::server_tls(&options.identity, Allowed::Anybody, ALPN)?,
                    sockets: options.sockets,
                    windows: gateway.windows,
                    timeout: options.handshake_timeout,
                    pending_max: options.pending_max,
                    pending_shares: Shares::of(options.pending_max),
                    connections_max: gateway.connections_max,
                    shares: Shares::per_host(gateway.connections_per_address_max),
                    calls_max: gateway.calls_max,
                    idle_timeout: Some(gateway.idle_timeout),
                    send_timeout: Some(gateway.send_timeout),
                    tally: tally.clone(),
                };
                servers.spawn(listening.serve(listener, service));
                Some(board)
            }
            _ => None,
        };
        let (requests, request_queue) = mpsc::channel(REQUESTS);
        let (events_in, events) = mpsc::channel(options.events_max);
        let task = Task {
            hub,
            requests: request_queue,
            senders: sender_queue,
            events: events_in,
            done: mpsc::unbounded_channel(),
            ledger: BTreeMap::new(),
            pool,
            jobs_out: 0,
            board,
            looped: None,
            tally,
            stopping: None,
            _servers: servers,
        };
        tokio::spawn(task.run());
        Ok((Self { number, address, gateway: gateway_address, requests }, events))
    }

    /// Returns the number of this node: its place in the pool, or the number after the last for the
    /// scheduler.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the address at which this node listens for other nodes.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which this node listens for senders, if it does.
    pub const fn gateway(&self) -> Option<SocketAddr> {
        self.gateway
    }

    pub async fn status(&self) -> Result<Status, Gone> {
        ask(&self.requests, Task::status).await
    }

    /// Stops this node. Its rounds fail elsewhere once the other nodes notice.
    pub async fn stop(&self) {
        // Fails only if it has stopped before.
        let _ = ask_later(&self.requests, |task, answer| task.stopping = Some(answer)).await;
    }
}

fn random_secret() -> Result<Secret, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(bytes))
}

fn driver(options: &Options, number: u32, threads: usize) -> Result<Driver<Mix>, StartError> {
    let mut config = options.engine_config();
    config.jobs_max = threads;
    let config = Arc::new(config);
    let outbox = Outbox::new(config.outbox());
    let engine: Mix = if number as usize == options.pool.len() {
        Scheduler::new(config)?.into()
    } else {
        Node::new(config, number, random_secret()?)?.into()
    };
    Ok(Driver::new(engine, outbox, NodeRng::from_entropy(getrandom::fill)?))
}

/// Creates the two halves of the gateway: the task's and the service's.
fn senders_side(
    options: &Options,
    gateway: GatewayOptions,
    node: u32,
    task: mpsc::Sender<Request<Task>>,
) -> Result<(Board, Gateway), StartError> {
    let group = options.config.group;
    let (announcements, rounds) = watch::channel(OpenRounds::default());
    let refused = Tally::default();
    let bytes = |kib: u32| (kib as usize).saturating_mul(1024);
    let registrations = Registrations::new(
        gateway.registrations_per_minute_max,
        gateway.registrations_per_minute_per_address_max,
        Instant::now(),
    );
    let service = Gateway(Arc::new(gateway::Inner {
        node,
        group,
        keys: KeyPair::new(group, random_secret()?),
        task,
        rounds,
        waiting: Quota::new(bytes(gateway.waiting_kib), bytes(gateway.waiting_per_address_kib)),
        rates: Mutex::new(Rates::new(Shares::per_host(bytes(gateway.answers_per_address_kib)))),
        results: Mutex::new((0, Places::new(RESULTS_MAX, Shares::of(RESULTS_MAX)))),
        registrations,
        agreeing: Semaphore::new(1),
        refused: refused.clone(),
        options: gateway.clone(),
    }));
    let board = Board::new(node, gateway, group, announcements, refused);
    Ok((board.with_queue_timeout(options.config.queue_timeout), service))
}

#[derive(Debug)]
pub struct Happened {
    pub at: SystemTime,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    /// An event of the protocol; never [`Event::Compute`].
    Event(Event),
    /// A phase has ended. Where the system does not know the processor time of a thread, `cpu` is
    /// wall time.
    Worked {
        round: u64,
        /// The phase; `None` for keys and secrets, before the first phase.
        phase: Option<Phase>,
        /// The processor time of all threads for the phase.
        cpu: Duration,
    },
}

/// Closed connections or refused calls by cause, counted by the tasks of servers.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    pub(super) fn count(&self, cause: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(cause).or_insert(0) += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// The peer's number in the pool; the scheduler has the number after the last.
    pub node: u32,
    pub outbound: bool,
    /// The last round trip of a ping of the engine, or `None` before the first one.
    pub round_trip: Option<Duration>,
    pub owed: usize,
    pub owed_bytes: u64,
    /// Bytes on their way from the outbox into HTTP/2.
    pub in_flight: u64,
    /// Bytes handed to HTTP/2 on this link.
    pub bytes_up: u64,
    pub bytes_down: u64,
}

/// The state and the counters of a node or the scheduler.
#[derive(Clone, Debug)]
pub struct Status {
    /// Counters of the protocol.
    pub mix: Metrics,
    pub transport: Counters,
    /// Counters of copies by lane.
    pub lanes: ByLane,
    /// Links that are up, by number.
    pub links: Vec<LinkStatus>,
    /// The last ping around the team that this node leads: the sum of one-way latencies.
    pub looped: Option<Duration>,
    /// Unfinished rounds by the name of their state.
    pub rounds: BTreeMap<&'static str, usize>,
    /// At the scheduler: the nodes of each team.
    pub teams: Vec<Vec<u32>>,
    pub jobs_out: usize,
    /// Bytes of slots held for rounds.
    pub held_bytes: u64,
    /// Senders with which this node shares secrets.
    pub senders: usize,
    /// Senders that left because others came.
    pub evicted_senders: u64,
    pub gateway: Option<GatewayStatus>,
}
