//! Hosts of an experiment on the connections of CometBFT.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_cat::config::Preset;
use samara_cat::{Cat, CatFrame, Command, Event as CatEvent, Transaction};
use samara_engine::{Context, Driver, Engine, Input, NodeRng, Outbox, PeerIdentity, PeerInfo, Purpose};
use samara_net::hosted::{self, Host, Names, TOKEN_BYTES, secret_of};
use samara_net::mconn::{CatCodec, Event, Flush, NodeKey, Options, PeerAddress, host};
use tokio::net::TcpListener;

use crate::mconn::common::*;

const TOKEN: [u8; TOKEN_BYTES] = [7; TOKEN_BYTES];
/// Time in which nothing happens.
const QUIET: Duration = Duration::from_millis(300);

/// A pool that notes who its peers are.
struct Watched {
    cat: Cat<App>,
    peers: Vec<PeerInfo>,
}

impl Engine for Watched {
    type Frame = CatFrame;
    type Command = Command;
    type Event = CatEvent;

    fn handle(&mut self, input: Input<CatFrame, Command>, cx: &mut Context<'_, CatFrame, CatEvent>) {
        if let Input::LinkUp { info, .. } = &input {
            self.peers.push(info.clone());
        }
        self.cat.handle(input, cx);
    }
}

fn identity(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_le_bytes())
}

fn number(identity: &PeerIdentity) -> Option<u32> {
    identity.as_bytes().try_into().ok().map(u32::from_le_bytes)
}

/// Hosts have addresses of their own where the system has more than one on loopback.
fn address(host: u8) -> IpAddr {
    [127, 0, 0, if cfg!(target_os = "linux") { host + 1 } else { 1 }].into()
}

async fn listeners(count: u8) -> Vec<TcpListener> {
    let mut all = Vec::new();
    for host in 0..count {
        all.push(TcpListener::bind((address(host), 0)).await.expect("a port"));
    }
    all
}

fn addresses(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    listeners.iter().map(|listener| listener.local_addr().expect("an address")).collect()
}

fn start_host(
    (own, preset): (u32, Preset),
    token: [u8; TOKEN_BYTES],
    listener: TcpListener,
    peers: &[SocketAddr],
) -> impl Host<Watched> + use<> {
    let names = Names { identity, host: number, protocol: Arc::new(|_, _| "of another layer".into()) };
    let options = hosted::Options {
        own,
        token,
        listen: listener.local_addr().expect("an address"),
        peers: peers.to_vec(),
        names,
        in_flight_bytes: 64 << 10,
        not_sent_bytes: 16 << 10,
        dial_timeout: PATIENCE,
    };
    let config = preset.config();
    let codec = CatCodec::new(&config);
    let outbox = Outbox::new(config.outbox());
    let cat = Cat::new(config, &identity(own), application as App).expect("a configuration");
    let driver =
        Driver::new(Watched { cat, peers: Vec::new() }, outbox, NodeRng::new(1, own.into(), Purpose::Engine));
    host(&options, (Flush::Throttle(Duration::from_millis(5)), None), listener, codec, driver)
}

/// Runs hosts until something is so, or for this time.
async fn run<H: Host<Watched>>(hosts: &mut [H], time: Duration, is_so: impl Fn(&[H]) -> bool) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        for host in &mut *hosts {
            host.settle();
            host.next(Some(Instant::now() + Duration::from_millis(1))).await;
        }
        if is_so(hosts) {
            return true;
        }
    }
    false
}

/// Submits a transaction at a host, and waits until all have it.
async fn spread<H: Host<Watched>>(hosts: &mut [H], at: usize, text: &'static str) {
    let transaction = Transaction::new(text);
    let key = transaction.key();
    hosts[at].command(Command::Submit(transaction));
    let has = |host: &H| host.engine().cat.pool().iter().any(|entry| entry.transaction.key() == key);
    assert!(run(hosts, PATIENCE, |hosts| hosts.iter().all(has)).await, "{text}");
}

#[tokio::test]
async fn hosts_exchange_transactions_and_dial_only_when_told() {
    let listeners = listeners(2).await;
    let peers = addresses(&listeners);
    let mut hosts: Vec<_> = (0..)
        .zip(listeners)
        .map(|(own, listener)| start_host((own, Preset::Cat), TOKEN, listener, &peers))
        .collect();
    hosts[0].dial(1);
    spread(&mut hosts, 0, "from the dialler").await;
    spread(&mut hosts, 1, "from the listener").await;
    for (own, other) in [(0, 1), (1, 0)] {
        let peer = &hosts[own].engine().peers[0];
        assert_eq!(number(&peer.identity), Some(other as u32));
        assert_eq!((peer.outbound, &*peer.protocol), (own == 0, "cat/2"));
        // The dialler calls from the address by which an emulated network knows it.
        assert_eq!(peer.address, Some(peers[other].ip()));
    }

    hosts[1].disconnect(0, true);
    let again = |hosts: &[_]| hosts.iter().all(|host: &_| links(host) == 2);
    assert!(run(&mut hosts, PATIENCE, again).await);
    assert!(hosts[1].engine().peers[1].outbound, "the host that lost the link dials");
    spread(&mut hosts, 0, "over the second link").await;

    hosts[0].disconnect(1, false);
    run(&mut hosts, QUIET, |_| false).await;
    assert_eq!(hosts.iter().map(links).collect::<Vec<_>>(), [2, 2]);
}

fn links<H: Host<Watched>>(host: &H) -> u64 {
    host.counters().links_up
}

/// Groups of a scenario have other channels.
#[tokio::test]
async fn pools_of_two_generations_agree_on_a_protocol() {
    let listeners = listeners(2).await;
    let peers = addresses(&listeners);
    let mut hosts: Vec<_> = [(0, Preset::Cat), (1, Preset::CatMerged)]
        .into_iter()
        .zip(listeners)
        .map(|(own, listener)| start_host(own, TOKEN, listener, &peers))
        .collect();
    hosts[1].dial(0);
    spread(&mut hosts, 0, "new").await;
    spread(&mut hosts, 1, "old").await;
    assert_eq!(&*hosts[0].engine().peers[0].protocol, "cat/1");
}

#[tokio::test]
async fn strangers_are_refused() {
    let mut listeners = listeners(3).await;
    let peers = addresses(&listeners);
    let host = |own, token, listener| start_host((own, Preset::Cat), token, listener, &peers);
    let mut hosts: Vec<_> = vec![
        host(0, TOKEN, listeners.remove(0)),
        // Of another run.
        host(1, [8; TOKEN_BYTES], listeners.remove(0)),
    ];
    hosts[1].dial(0);
    let refused = |hosts: &[_]| hosts.iter().all(|host: &_| closed(host) == 1);
    assert!(run(&mut hosts, PATIENCE, refused).await);

    // A node that knows the host by its id, but has no key of the run.
    let id = NodeKey::from_secret(secret_of(&TOKEN, 0)).id();
    let node = start(
        90,
        Preset::Cat.config(),
        Options {
            network: "samara".to_owned(),
            peers: vec![PeerAddress { id, host: peers[0].to_string() }],
            redial_first: PATIENCE,
            ..options()
        },
    );
    let mut node = node.await;
    assert!(run(&mut hosts[..1], PATIENCE, |hosts| closed(&hosts[0]) == 2).await);
    node.event(|event| matches!(event, Event::LinkDown { .. } | Event::DialFailed { .. }).then_some(()))
        .await;
    assert!(hosts.iter().all(|host| host.engine().peers.is_empty() && links(host) == 0));
}

fn closed<H: Host<Watched>>(host: &H) -> u64 {
    host.counters().links_closed.values().sum()
}
