//! A node, or the scheduler, as its owner sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use samara_engine::Outbox;
use samara_mix::{Batch, ConfigError, KeyPair, Mix, Node, Pool, Scheduler, Secret, SenderId};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::doors::Doors;
use super::events::{Events, outlet};
use super::gateway::{self, Board, Gateway};
use super::hub::{Hub, Inbound, Party, Request, Served, serve};
use super::options::{GatewayOptions, Options};
use super::proto::OpenRounds;
use super::server::Listening;
use super::status::{Status, Tally};
use super::team::{self, Team};
use super::tls::{self, Allowed};
use crate::driver::Driver;

/// Requests that wait at most; whoever asks waits then.
const REQUESTS: usize = 64;
/// Calls of a node by one connection at the same time: streams of all lanes, and batches that are a call of their own.
const TEAM_CALLS: u32 = 64;
/// Calls of a sender by one connection at the same time.
const SENDER_CALLS: u32 = 32;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// An option is not possible.
    #[error("{0}")]
    Options(#[from] ConfigError),
    /// The certificate or its key cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The system has no random numbers.
    #[error("there are no random numbers: {0}")]
    Random(getrandom::Error),
    /// The system has no threads left.
    #[error("no threads: {0}")]
    Threads(String),
}

/// The node has stopped, or its task is gone with its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Gone;

/// A node of the pool, or the scheduler, over gRPC. Cheap to clone; it ends with [`stop`](Self::stop), or when all of these are dropped.
#[derive(Clone, Debug)]
pub struct Relay {
    number: u32,
    address: SocketAddr,
    gateway: Option<SocketAddr>,
    requests: mpsc::Sender<Request>,
}

impl Relay {
    /// Starts a node, or the scheduler: which of them follows from the certificate. It connects to the others by itself.
    ///
    /// # Errors
    /// An option is not possible, or an address cannot be listened on.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub async fn start(options: Options) -> Result<(Self, Events), StartError> {
        let listener = bind(options.listen).await?;
        let gateway = match &options.gateway {
            None => None,
            Some(gateway) => Some(bind(gateway.listen).await?),
        };
        Self::start_on(options, listener, gateway)
    }

    /// The same on sockets that are open already; `listen` of the options is not looked at.
    ///
    /// # Errors
    /// An option is not possible.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time and input and output.
    pub fn start_on(
        options: Options,
        listener: TcpListener,
        gateway: Option<TcpListener>,
    ) -> Result<(Self, Events), StartError> {
        options.check()?;
        let number = options.number().unwrap_or_default();
        let failed = |error| StartError::Listen { address: options.listen, error };
        let address = listener.local_addr().map_err(failed)?;
        let gateway_address = gateway.as_ref().map(TcpListener::local_addr).transpose().map_err(failed)?;
        let pool = Pool::new(options.threads).map_err(|error| StartError::Threads(error.to_string()))?;
        let driver = driver(&options, number, pool.threads())?;
        let doors = Doors::default();
        let tally = Tally::default();
        let (requests, request_queue) = mpsc::channel(REQUESTS);
        let (attempt_sender, attempts) = mpsc::channel(REQUESTS);
        let (senders, sender_queue) = mpsc::channel(REQUESTS);
        let told = mpsc::unbounded_channel();
        let team = Team(Arc::new(team::Inner {
            doors: doors.clone(),
            limits: options.config.limits,
            waiting_kib: options.waiting_kib,
            told: told.0.clone(),
            attempts: attempt_sender.clone(),
        }));
        let mut served = Served::default();
        let others = options.pool.iter().chain([&options.scheduler]).map(|contact| contact.fingerprint);
        let allowed =
            Allowed::Known(others.filter(|other| *other != options.identity.fingerprint()).collect());
        // Each of the others has one connection, and another one while it makes a new one.
        let connections_max = 4 * (options.pool.len() + 1);
        serve(
            &mut served,
            listener,
            listening(&options, allowed, connections_max, TEAM_CALLS, &tally)?,
            team,
        );
        let board = match (gateway, options.gateway.clone()) {
            (Some(listener), Some(gateway)) => {
                let (board, service) = senders_side(&options, gateway, number, senders)?;
                let max = options.gateway.as_ref().map_or(0, |gateway| gateway.connections_max);
                let listening = listening(&options, Allowed::Anybody, max, SENDER_CALLS, &tally)?;
                serve(&mut served, listener, listening, service);
                Some(board)
            }
            _ => None,
        };
        let party = Party::new(&options)?;
        let (outlet, events) = outlet(options.events_max);
        let inbound =
            Inbound { requests: request_queue, attempts, attempt_sender, senders: sender_queue, told };
        let hub =
            Hub::new(driver, Arc::new(options), party, doors, inbound, pool, board, outlet, tally, served);
        tokio::spawn(hub.run());
        Ok((Self { number, address, gateway: gateway_address, requests }, events))
    }

    /// Its number: the place in the pool, or the number after the last for the scheduler.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Where it listens for the others.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where senders come, if they can.
    pub const fn gateway(&self) -> Option<SocketAddr> {
        self.gateway
    }

    /// How it stands.
    ///
    /// # Errors
    /// It has stopped.
    pub async fn status(&self) -> Result<Status, Gone> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Status(answer)).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Shares a secret with a sender that does not come by the gateway.
    ///
    /// # Errors
    /// It has stopped. That a sender was not taken comes as an event.
    pub async fn register(&self, sender: SenderId, secret: Secret) -> Result<(), Gone> {
        self.requests.send(Request::Register(sender, secret)).await.map_err(|_| Gone)
    }

    /// Mixes payloads that did not come by the gateway: at the first node of the round's team, once
    /// [`Event::Open`](samara_mix::Event::Open) has come.
    ///
    /// # Errors
    /// It has stopped. That a batch was not taken comes as an event.
    pub async fn mix(&self, round: u64, batch: Batch) -> Result<(), Gone> {
        self.requests.send(Request::Mix(round, batch)).await.map_err(|_| Gone)
    }

    /// Ends it: rounds that it takes part in fail elsewhere, once the others have missed it for long enough.
    pub async fn stop(&self) {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(Request::Stop(answer)).await.is_ok() {
            // Fails only if it has stopped before.
            let _ = answered.await;
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
}

fn random_secret() -> Result<Secret, StartError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(StartError::Random)?;
    Ok(Secret::new(bytes))
}

/// The engine on the machine's clock.
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
    Driver::new(engine, outbox).map_err(StartError::Random)
}

fn listening(
    options: &Options,
    allowed: Allowed,
    connections_max: usize,
    calls_max: u32,
    tally: &Tally,
) -> Result<Listening, StartError> {
    Ok(Listening {
        tls: tls::server(&options.identity, allowed)?,
        sockets: options.sockets,
        windows: options.windows,
        timeout: options.handshake_timeout,
        pending_max: options.pending_max,
        connections_max,
        calls_max,
        tally: tally.clone(),
    })
}

/// What senders need: the hub's half, and the service's.
fn senders_side(
    options: &Options,
    gateway: GatewayOptions,
    node: u32,
    hub: mpsc::Sender<gateway::Request>,
) -> Result<(Board, Gateway), StartError> {
    let group = options.config.group;
    let (told, rounds) = watch::channel(OpenRounds::default());
    let waiting_kib = gateway.waiting_kib;
    let service = Gateway::new(gateway::Inner {
        node,
        group,
        batch_max: options.config.batch_max as usize,
        keys: KeyPair::new(group, random_secret()?),
        hub,
        rounds,
        waiting: Arc::new(Semaphore::new(waiting_kib as usize)),
        waiting_kib,
    });
    Ok((Board::new(node, gateway, group, told), service))
}
