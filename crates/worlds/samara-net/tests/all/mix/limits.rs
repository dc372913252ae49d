//! Limits of a gateway on senders. Each test fails without its limit.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use samara_mix::{Config, Group};
use samara_net::mix::proto::{SealedSlot, SubmitRequest};
use samara_net::mix::{
    Client, ClientError, Ended, GatewayOptions, Identity, Options, Outcome, Round, Windows,
};
use tokio::net::TcpSocket;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use crate::mix::attacker::{Attacker, settings};
use crate::mix::common::{Network, PATIENCE, check, contents, gateways, send, soon, three};

/// A local address that is not that of honest senders.
const fn local(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

fn identity() -> Identity {
    Identity::generate().expect("a certificate")
}

async fn dial(network: &Network, node: usize, last: u8) -> Option<Attacker> {
    Attacker::dial(&identity(), local(last), network.hosts[node].gateway).await.ok()
}

/// Returns how often the gateway of a node has refused calls for a cause.
async fn refused(network: &Network, node: usize, cause: &str) -> u64 {
    let gateway = network.status(node).await.gateway.expect("it has one");
    gateway.counters.calls_refused.get(cause).copied().unwrap_or(0)
}

async fn closed(network: &Network, node: usize, cause: &str) -> u64 {
    network.status(node).await.transport.links_closed.get(cause).copied().unwrap_or(0)
}

async fn still_mixes(network: &Network) {
    let client = network.client().await;
    let (round, sent) = send(&client).await;
    check(&soon(client.result(&round)).await.expect("a result"), &sent);
}

fn status(error: ClientError) -> Status {
    match error {
        ClientError::Node { status, .. } => *status,
        other => panic!("{other}"),
    }
}

/// Returns a message with slots of these lengths that name a sender.
fn message(round: &Round, sender: &Identity, count: usize, elements: usize) -> SubmitRequest {
    let mut credentials = vec![0; (2 + round.team.len()) * 32];
    credentials[32..64].copy_from_slice(&sender.fingerprint().0);
    let slot = SealedSlot { elements: vec![1; elements], credentials };
    SubmitRequest { round: round.round, slots: vec![slot; count] }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_by_address_and_in_all() {
    let change = gateways(|gateway| {
        (gateway.connections_max, gateway.connections_per_address_max) = (5, 2);
    });
    let network = Network::start(3, three(4), change).await;
    let mut held = Vec::new();
    for (last, is_taken) in [(2, true), (2, true), (2, false), (3, true), (3, true), (4, true), (5, false)] {
        let dialled = dial(&network, 0, last).await;
        assert_eq!(dialled.is_some(), is_taken, "127.0.0.{last}");
        held.extend(dialled);
    }
    assert_eq!((closed(&network, 0, "address_full").await, closed(&network, 0, "full").await), (1, 1));
    drop(held);
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_lock_others_out() {
    let change = gateways(|gateway| gateway.connections_max = 24);
    let network = Network::start(3, three(4), change).await;
    let mut held = Vec::new();
    for _ in 0..30 {
        held.extend(dial(&network, 0, 2).await);
    }
    assert_eq!(held.len(), 16);
    still_mixes(&network).await;
}

/// Without a certificate and without a byte, from as many addresses as it takes to fill all places.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_keep_nobody_out() {
    let network = Network::start(3, three(4), |options| options.handshake_timeout = 10 * PATIENCE).await;
    let mut silent = Vec::new();
    for host in &network.hosts[..3] {
        for number in 0..80 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind((local(2 + number / 16), 0).into()).expect("a local address");
            silent.push(soon(socket.connect(host.gateway)).await.expect("connects"));
        }
    }
    let evicted = async {
        while closed(&network, 0, "evicted").await < 16 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(evicted).await;
    still_mixes(&network).await;
}

/// Nobody waits for rounds that never end, and those who wait share the places.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_results_keep_nobody_out() {
    let change = gateways(|gateway| {
        gateway.waiters_max = 32;
        (gateway.fill, gateway.hold) = (Duration::from_secs(120), Duration::from_secs(120));
    });
    let network = Network::start(3, three(4), change).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let (mut attackers, mut calls) = (Vec::new(), tokio::task::JoinSet::new());
    for node in 0..3 {
        for last in 2..20 {
            let attacker = Arc::new(dial(&network, node, last).await.expect("connects"));
            let status = soon(attacker.result(u64::MAX)).await.expect_err("no such round");
            assert_eq!(status.code(), Code::NotFound);
            for _ in 0..4 {
                let attacker = Arc::clone(&attacker);
                calls.spawn(async move { attacker.result(round.round).await.map(drop) });
            }
            attackers.push(attacker);
        }
        assert_eq!(refused(&network, node, "unknown_round").await, 18);
    }
    let full = async {
        while refused(&network, 0, "waiters").await < 18 * 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(full).await;
    let round = soon(client.next_round()).await;
    let sent = contents(round.round, 4);
    let waits = client.result(&round);
    let submits = async {
        // The request comes first.
        sleep(Duration::from_millis(300)).await;
        let sealed = client.seal(&round, sent.clone()).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room");
    };
    let (ended, ()) = soon(async { tokio::join!(waits, submits) }).await;
    check(&ended.expect("a result"), &sent);
}

/// The results and announcements of an address have a rate.
#[tokio::test(flavor = "multi_thread")]
async fn answers_to_an_address_have_a_rate() {
    let network =
        Network::start(3, three(200), gateways(|gateway| gateway.answers_per_address_kib = 2)).await;
    let client = network.client().await;
    let (round, _) = send(&client).await;
    soon(client.result(&round)).await.expect("a result");
    let node = round.team[0] as usize;
    let attacker = dial(&network, node, 2).await.expect("connects");
    // The first result is more than a second's bytes, and the second one waits for the first.
    let mut parts = Vec::new();
    for _ in 0..2 {
        parts.push(soon(attacker.result(round.round)).await.expect("it has ended"));
    }
    let both = async {
        for parts in &mut parts {
            while parts.message().await.expect("a part").is_some() {}
        }
    };
    assert!(timeout(Duration::from_secs(1), both).await.is_err(), "two results within a second");
}

/// Several calls of a connection for announcements share the rate of one.
#[tokio::test(flavor = "multi_thread")]
async fn further_watches_of_a_connection_bring_no_further_announcements() {
    let change = gateways(|gateway| {
        gateway.announce_interval = Duration::from_secs(1);
        (gateway.fill, gateway.hold) = (Duration::from_secs(120), Duration::from_secs(120));
    });
    let network = Network::start(3, three(40), change).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let watcher = dial(&network, round.team[0] as usize, 2).await.expect("connects");
    let mut watches = Vec::new();
    for _ in 0..30 {
        watches.push(soon(watcher.watch()).await.expect("subscribes"));
    }
    for states in &mut watches {
        soon(states.next()).await.expect("it lasts").expect("it is announced");
    }
    let sealed = client.seal(&round, contents(round.round, 1)).await.expect("sealed");
    client.submit(&round, sealed).await.expect("there is room");
    let mut last = watches.pop().expect("thirty of them");
    assert!(timeout(Duration::from_secs(3), last.next()).await.is_err(), "it comes after half a minute");
}

/// A caller that does not take its answers loses its connection.
#[tokio::test(flavor = "multi_thread")]
async fn answers_must_be_taken() {
    let change = gateways(|gateway| gateway.send_timeout = Duration::from_millis(500));
    let network = Network::start(3, three(4), change).await;
    let to = network.hosts[0].gateway;
    let stalled = Attacker::dial_with_window(&identity(), local(2), to, 0).await.expect("connects");
    let _states = soon(stalled.watch()).await.expect("subscribes");
    let ended = async {
        while closed(&network, 0, "stalled").await == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(ended).await;
    // Those that take theirs, and those that wait for one, keep theirs.
    still_mixes(&network).await;
    assert_eq!(closed(&network, 0, "stalled").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_end_and_open_calls_keep_them() {
    let change = gateways(|gateway| gateway.idle_timeout = Duration::from_secs(1));
    let network = Network::start(3, three(4), change).await;
    let client = network.client().await;
    let watcher = dial(&network, 0, 2).await.expect("connects");
    let mut states = watcher.watch().await.expect("subscribes");
    let idle = dial(&network, 0, 2).await.expect("connects");
    let ended = async {
        while closed(&network, 0, "idle").await == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(ended).await;
    idle.register().await.expect_err("the connection has ended");
    // The others wait for announcements, for longer than the limit.
    let before = closed(&network, 0, "idle").await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(closed(&network, 0, "idle").await, before);
    let (round, sent) = send(&client).await;
    check(&soon(client.result(&round)).await.expect("a result"), &sent);
    soon(states.next()).await.expect("it lasts").expect("it is announced");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_of_a_connection_are_bounded() {
    let network = Network::start(3, three(4), gateways(|gateway| gateway.calls_max = 2)).await;
    let attacker = dial(&network, 0, 2).await.expect("connects");
    let first = attacker.watch().await.expect("subscribes");
    let _second = attacker.watch().await.expect("subscribes");
    let third = attacker.watch();
    tokio::pin!(third);
    assert!(timeout(Duration::from_millis(500), &mut third).await.is_err(), "a third call was answered");
    drop(first);
    soon(third).await.expect("subscribes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_a_sender_can_make_a_gateway_buffer_little() {
    let network = Network::start(3, three(4), |_| {}).await;
    let host = &network.hosts[0];
    let announced = settings(&identity(), host.gateway).await.expect("it has settings");
    // SETTINGS_MAX_CONCURRENT_STREAMS and SETTINGS_INITIAL_WINDOW_SIZE.
    assert_eq!((announced[&3], announced[&4]), (32, 256 << 10));
    // Nodes have larger windows.
    let of_nodes = settings(&network.hosts[1].identity, host.address).await.expect("it has settings");
    assert_eq!(of_nodes[&4], 8 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_on_their_way_are_bounded_in_bytes_and_time() {
    let change = gateways(|gateway| {
        (gateway.waiting_kib, gateway.waiting_per_address_kib) = (10, 6);
        gateway.receive_timeout = Duration::from_secs(8);
    });
    let network = Network::start(3, three(64), change).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let node = round.team[0] as usize;
    let mut calls = tokio::task::JoinSet::new();
    // 16 slots are 3.7 KiB. The calls send no more and do not end.
    for (last, cause) in [(2, ""), (2, "waiting_address"), (3, ""), (4, "waiting")] {
        let sender = identity();
        let to = network.hosts[node].gateway;
        let attacker = Attacker::dial(&sender, local(last), to).await.expect("connects");
        let message = message(&round, &sender, 16, 64);
        let mut call = Box::pin(async move {
            let messages = stream::iter([message]).chain(stream::pending());
            attacker.submit(messages).await.map_err(|status| status.code())
        });
        match cause {
            "" => {
                assert!(timeout(Duration::from_millis(300), &mut call).await.is_err(), "it was answered");
                calls.spawn(call);
            }
            _ => {
                assert_eq!(soon(call).await, Err(Code::ResourceExhausted), "{cause}");
                assert_eq!(refused(&network, node, cause).await, 1);
            }
        }
    }
    while let Some(ended) = soon(calls.join_next()).await {
        assert_eq!(ended.expect("it does not panic"), Err(Code::DeadlineExceeded));
    }
    assert_eq!(refused(&network, node, "receive_timeout").await, 2);
    // Ended rounds do not count.
    let sealed = client.seal(&round, contents(round.round, 16)).await.expect("sealed");
    assert_eq!(client.submit(&round, sealed).await.expect("there is room"), 48);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_bounded_in_bytes_and_slots() {
    let network = Network::start(3, three(200), |_| {}).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let node = round.team[0] as usize;
    let sender = identity();
    let attacker = Attacker::dial(&sender, local(2), network.hosts[node].gateway).await.expect("connects");
    let one = |message| stream::iter([message]);
    let long = message(&round, &sender, 1, 256 << 10);
    let status = attacker.submit(one(long)).await.expect_err("it is too long");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    let many = SubmitRequest { round: round.round, slots: vec![SealedSlot::default(); 10_000] };
    let status = attacker.submit(one(many)).await.expect_err("it has too many slots");
    assert!(status.message().contains("expected at most 128"), "{status}");
    let elsewhere = SubmitRequest { round: u64::MAX, slots: Vec::new() };
    // Without the check, the gateway would collect payloads of a round that it does not have.
    let endless = one(elsewhere).chain(stream::pending());
    let status = soon(attacker.submit(endless)).await.expect_err("the round is not open");
    assert_eq!(status.code(), Code::NotFound, "{status}");
    for cause in ["message_bytes", "message_slots", "not_open"] {
        assert_eq!(refused(&network, node, cause).await, 1, "{cause}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_of_a_certificate_and_of_an_address_are_bounded() {
    let change = gateways(|gateway| {
        gateway.registrations_per_minute_max = 3;
        gateway.registrations_per_minute_per_address_max = 5;
    });
    let network = Network::start(3, three(4), change).await;
    let mut accepted = Vec::new();
    for _ in 0..2 {
        let attacker = dial(&network, 0, 2).await.expect("connects");
        for _ in 0..4 {
            accepted.push(attacker.register().await.is_ok());
        }
    }
    // A minute that begins in between starts the counts afresh.
    let count = accepted.iter().filter(|accepted| **accepted).count();
    assert!(accepted == [true, true, true, false, true, true, false, false] || count > 5, "{accepted:?}");
    assert_eq!(refused(&network, 0, "registrations").await as usize, 8 - count);
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_cannot_fill_a_batch_alone() {
    let change = gateways(|gateway| (gateway.sender_share_percent, gateway.senders_min) = (50, 2));
    let network = Network::start(3, three(8), change).await;
    let (one, other) = (network.client().await, network.client().await);
    let round = soon(one.next_round()).await;
    let sent = contents(round.round, 8);
    let submit = async |client: &Client, part: &[Vec<u8>]| {
        let sealed = client.seal(&round, part.to_vec()).await.expect("sealed");
        client.submit(&round, sealed).await
    };
    let refused_now = status(submit(&one, &sent[..5]).await.expect_err("it is more than the share"));
    assert!(refused_now.message().contains("may have 4 payloads"), "{refused_now}");
    assert_eq!(submit(&one, &sent[..3]).await.expect("there is room"), 5);
    let refused_now = status(submit(&one, &sent[3..5]).await.expect_err("it is more than the share"));
    assert!(refused_now.message().contains("may have 4 payloads"), "{refused_now}");
    assert_eq!(submit(&one, &sent[3..4]).await.expect("there is room"), 4);
    assert_eq!(submit(&other, &sent[4..]).await.expect("there is room"), 0);
    check(&soon(one.result(&round)).await.expect("a result"), &sent);
    assert_eq!(refused(&network, round.team[0] as usize, "sender_share").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_with_too_few_senders_fails_with_that_cause() {
    let change = gateways(|gateway| {
        (gateway.sender_share_percent, gateway.senders_min) = (25, 4);
        (gateway.fill, gateway.hold) = (Duration::from_millis(100), Duration::from_secs(5));
    });
    let network = Network::start(3, three(8), change).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let sealed = client.seal(&round, contents(round.round, 2)).await.expect("sealed");
    client.submit(&round, sealed).await.expect("there is room");
    let expected = Ended::Failed { cause: "too_few_senders".to_owned(), culprit: None };
    // All nodes of the team know the cause.
    assert_eq!(soon(client.result(&round)).await.expect("an end"), expected);
    let mut last = round.clone();
    last.team.reverse();
    assert_eq!(soon(client.result(&last)).await.expect("an end"), expected);
    let gateway = network.status(round.team[0] as usize).await.gateway.expect("it has one");
    assert_eq!((gateway.counters.rounds_abandoned, gateway.counters.batches), (1, 0));
    // Four senders share a later round, and leave soon after the first payload.
    let mut clients = vec![client];
    for _ in 0..3 {
        clients.push(network.client().await);
    }
    let round = soon(clients[0].next_round()).await;
    for (client, content) in clients.iter().zip(contents(round.round, 4)) {
        let sealed = client.seal(&round, vec![content]).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room");
    }
    let Ended::Delivered(outcomes) = soon(clients[3].result(&round)).await.expect("a result") else {
        panic!("the round failed")
    };
    assert!(outcomes.len() == 8 && outcomes.iter().all(|slot| matches!(slot, Outcome::Content(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_reject_a_batch_with_too_few_senders() {
    // Gateways accept a batch of one sender.
    let config = Config { senders_min: 2, ..three(4) };
    let network = Network::start(3, config, |_| {}).await;
    let client = network.client().await;
    let (round, _) = send(&client).await;
    let expected = Ended::Failed { cause: "too_few_senders".to_owned(), culprit: None };
    assert_eq!(soon(client.result(&round)).await.expect("an end"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_sender_is_told_so() {
    let config = Config { senders_max: 1, ..three(4) };
    let network = Network::start(3, config, |_| {}).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let sealed = client.seal(&round, contents(round.round, 4)).await.expect("sealed");
    let _newer = network.client().await;
    let refused_now = status(client.submit(&round, sealed).await.expect_err("the node has forgotten it"));
    assert_eq!(refused_now.code(), Code::FailedPrecondition, "{refused_now}");
    assert_eq!(refused(&network, round.team[0] as usize, "unknown_sender").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_that_follow_each_other_are_sent_together() {
    let change = gateways(|gateway| {
        gateway.announce_interval = Duration::from_secs(2);
        (gateway.fill, gateway.hold) = (Duration::from_secs(120), Duration::from_secs(120));
    });
    let network = Network::start(3, three(40), change).await;
    let client = network.client().await;
    let round = soon(client.next_round()).await;
    let node = round.team[0] as usize;
    let watcher = dial(&network, node, 2).await.expect("connects");
    let mut states = watcher.watch().await.expect("subscribes");
    for content in contents(round.round, 30) {
        let sealed = client.seal(&round, vec![content]).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room");
    }
    let mut received = 0;
    let until_last = async {
        loop {
            let state = states.next().await.expect("it lasts").expect("it is announced");
            received += 1;
            if state.rounds.iter().any(|open| open.round == round.round && open.room == 10) {
                break;
            }
        }
    };
    soon(until_last).await;
    assert!(received < 15, "{received} announcements of 30 payloads");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_without_limits_are_refused() {
    let network = Network::start(3, three(4), |_| {}).await;
    type Change = fn(&mut GatewayOptions);
    let changes: [(&str, Change); 11] = [
        ("connections_max", |gateway| gateway.connections_max = 0),
        ("answers_per_address_kib", |gateway| gateway.answers_per_address_kib = 0),
        ("send_timeout", |gateway| gateway.send_timeout = Duration::ZERO),
        ("waiting_per_address_kib", |gateway| gateway.waiting_per_address_kib = 0),
        ("senders_min", |gateway| gateway.senders_min = 0),
        ("sender_share_percent", |gateway| gateway.sender_share_percent = 101),
        // Three senders would fill a batch that four have to share.
        ("sender_share_percent", |gateway| {
            (gateway.senders_min, gateway.sender_share_percent) = (4, 34);
        }),
        ("idle_timeout", |gateway| gateway.idle_timeout = Duration::ZERO),
        ("hold", |gateway| gateway.hold = Duration::from_millis(1)),
        ("registrations_per_minute_max", |gateway| gateway.registrations_per_minute_max = 0),
        ("windows", |gateway| gateway.windows = Windows::Fixed { stream: 1 << 10, connection: 1 << 10 }),
    ];
    for (field, change) in changes {
        let mut options = network.options(0);
        options.gateway.iter_mut().for_each(change);
        let error = options.check().expect_err("a limit is missing");
        assert_eq!(error.field, field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_without_secrets_is_refused_where_others_reach_it() {
    let network = Network::start(3, three(4), |_| {}).await;
    let local = |change: fn(&mut Options)| {
        let mut options = network.options(0);
        options.config.group = Group::Model;
        change(&mut options);
        options
    };
    local(|_| {}).check().expect("it listens on loopback only");
    local(|options| options.listen.set_ip([192, 0, 2, 1].into())).check().expect_err("nodes reach it");
    let reachable =
        local(|options| options.gateway.iter_mut().for_each(|gateway| gateway.listen.set_ip([0; 4].into())));
    assert_eq!(reachable.check().expect_err("senders reach it").field, "group");
    Options { allow_model: true, ..reachable }.check().expect("it is allowed");
}
