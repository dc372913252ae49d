//! A pool on loopback, and helpers to wait for events.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use samara_mix::{Config, Group, Outcome, Reconnect};
use samara_net::mix::{
    Client, ClientOptions, Contact, Ended, GatewayOptions, Happened, Identity, Member, Options, Round, Status,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Timeout for events that should happen soon: busy machines are slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const GROUP: Group = Group::Small256;
/// Time that a node may be away before its rounds fail.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// Waits for a future, and fails if it takes too long.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("happens in time")
}

pub(crate) fn config(batch: u32) -> Config {
    Config {
        group: GROUP,
        batch,
        precomputation_slots: 4,
        realtime_slots: 4,
        rounds_max: 8,
        reconnect: Reconnect {
            first: Duration::from_millis(50),
            max: Duration::from_millis(500),
            limit: LIMIT,
        },
        beat: Duration::from_millis(200),
        silence: Duration::from_secs(2),
        precomputation_timeout: Duration::from_secs(10),
        realtime_timeout: Duration::from_secs(10),
        ..Config::default()
    }
}

/// A configuration with teams of three.
pub(crate) fn three(batch: u32) -> Config {
    Config { team: 3, ..config(batch) }
}

/// A node or the scheduler, which can restart with the same certificate and addresses.
pub(crate) struct Host {
    pub(crate) identity: Identity,
    pub(crate) address: SocketAddr,
    pub(crate) gateway: SocketAddr,
    pub(crate) running: Option<(Member, Receiver<Happened>)>,
}

/// A pool with its scheduler, which is the last of the hosts.
pub(crate) struct Network {
    pub(crate) hosts: Vec<Host>,
    options: Vec<Options>,
}

/// A free port at a host from which no connection goes out, so that none takes the port.
async fn free() -> TcpListener {
    TcpListener::bind("127.0.11.1:0").await.expect("a free port")
}

impl Network {
    /// Starts `nodes` nodes and a scheduler. `change` can adjust the options.
    pub(crate) async fn start(nodes: usize, config: Config, change: impl Fn(&mut Options)) -> Self {
        Self::start_far(nodes, config, std::future::ready, change).await
    }

    /// Starts a pool whose members reach each other at the addresses that `far` returns.
    pub(crate) async fn start_far<F: Future<Output = SocketAddr>>(
        nodes: usize,
        config: Config,
        dialled: impl Fn(SocketAddr) -> F,
        change: impl Fn(&mut Options),
    ) -> Self {
        let mut listeners = Vec::new();
        let mut hosts = Vec::new();
        for _ in 0..=nodes {
            let (listener, gateway) = (free().await, free().await);
            hosts.push(Host {
                identity: Identity::generate().expect("a certificate"),
                address: listener.local_addr().expect("an address"),
                gateway: gateway.local_addr().expect("an address"),
                running: None,
            });
            listeners.push((listener, gateway));
        }
        let mut contacts = Vec::new();
        for host in &hosts {
            let address = dialled(host.address).await;
            contacts.push(Contact { fingerprint: host.identity.fingerprint(), address });
        }
        let mut all = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            let (pool, scheduler) = (contacts[..nodes].to_vec(), contacts[nodes]);
            let mut options = Options::new(host.identity.clone(), host.address, pool, scheduler);
            options.config = config.clone();
            options.threads = 1;
            if number < nodes {
                // One sender can fill a batch.
                options.gateway = Some(GatewayOptions {
                    fill: Duration::from_millis(300),
                    senders_min: 1,
                    sender_share_percent: 100,
                    ..GatewayOptions::new(host.gateway)
                });
            }
            change(&mut options);
            all.push(options);
        }
        for ((host, options), (listener, gateway)) in hosts.iter_mut().zip(&all).zip(listeners) {
            let gateway = options.gateway.is_some().then_some(gateway);
            host.running = Some(Member::start_on(options.clone(), listener, gateway).expect("it starts"));
        }
        Self { hosts, options: all }
    }

    /// Returns the options of a host.
    pub(crate) fn options(&self, host: usize) -> Options {
        self.options[host].clone()
    }

    pub(crate) async fn status(&self, host: usize) -> Status {
        let (member, _) = self.hosts[host].running.as_ref().expect("it runs");
        soon(member.status()).await.expect("it runs")
    }

    /// Ends a host without notice to the others, as a crash does.
    pub(crate) fn crash(&mut self, host: usize) {
        self.hosts[host].running = None;
    }

    pub(crate) async fn restart(&mut self, host: usize) {
        let started = async {
            loop {
                match Member::start(self.options[host].clone()).await {
                    Ok(started) => return started,
                    // Its old sockets are about to close.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        self.hosts[host].running = Some(soon(started).await);
    }

    pub(crate) fn client_options(&self) -> ClientOptions {
        let nodes = &self.hosts[..self.hosts.len() - 1];
        let contact =
            |host: &Host| Contact { fingerprint: host.identity.fingerprint(), address: host.gateway };
        let identity = Identity::generate().expect("a certificate");
        let mut options = ClientOptions::new(identity, nodes.iter().map(contact).collect(), GROUP);
        options.retry = Duration::from_millis(100);
        options
    }

    /// Starts a sender that shares secrets with all nodes.
    pub(crate) async fn client(&self) -> Client {
        let client = Client::start(self.client_options()).expect("it starts");
        soon(client.ready()).await;
        client
    }
}

/// Returns a change of the options of gateways.
pub(crate) fn gateways(change: impl Fn(&mut GatewayOptions)) -> impl Fn(&mut Options) {
    move |options| options.gateway.iter_mut().for_each(&change)
}

/// Returns distinct payloads.
pub(crate) fn contents(round: u64, count: u32) -> Vec<Vec<u8>> {
    let content = |index: u32| {
        let mut content = format!("{round}:{index}:").into_bytes();
        content.resize(GROUP.content_bytes(), b'.');
        content
    };
    (0..count).map(content).collect()
}

/// Sends a full batch in the next round that has room for it.
pub(crate) async fn send(client: &Client) -> (Round, Vec<Vec<u8>>) {
    loop {
        let round = soon(client.next_round()).await;
        let sent = contents(round.round, round.batch);
        let Ok(sealed) = client.seal(&round, sent.clone()).await else { continue };
        if client.submit(&round, sealed).await.is_ok() {
            return (round, sent);
        }
    }
}

/// Checks that the output equals the input, in any order.
pub(crate) fn check(ended: &Ended, sent: &[Vec<u8>]) {
    let Ended::Delivered(outcomes) = ended else { panic!("{ended:?}") };
    let content = |outcome: &Outcome| match outcome {
        Outcome::Content(content) => content.to_vec(),
        other => panic!("the mix delivered {other:?}"),
    };
    let mut came: Vec<Vec<u8>> = outcomes.iter().map(content).collect();
    let mut sent = sent.to_vec();
    came.sort();
    sent.sort();
    assert_eq!(came, sent);
}
