//! Peers that are not of the pool, and peers that break the protocol.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_net::mix::proto::OpenRound;
use samara_net::mix::{
    Client, ClientError, ClientStatus, Contact, GatewayOptions, Identity, Member, Options, Round,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::mix::attacker::{Attacker, FalseGateway};
use crate::mix::common::{Network, PATIENCE, check, config, contents, send, soon, three};

/// A runtime that ends drops the connections that a node has just accepted.
#[test]
fn a_node_that_ends_while_hosts_connect_does_not_hang() {
    const ENDS: usize = 16;
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..ENDS {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let network = runtime.block_on(Network::start(3, three(4), |_| {}));
            let connections: Vec<_> = (network.hosts.iter())
                .flat_map(|host| (0..32).map(|_| std::net::TcpStream::connect(host.address)))
                .collect();
            drop(runtime);
            drop((network, connections));
            ended.send(()).expect("the test waits");
        }
    });
    for _ in 0..ENDS {
        ends.recv_timeout(PATIENCE).expect("all tasks end with their runtime");
    }
}

async fn still_mixes(network: &Network) {
    let client = network.client().await;
    let (round, sent) = send(&client).await;
    check(&soon(client.result(&round)).await.expect("a result"), &sent);
}

async fn closed(network: &Network, node: usize, cause: &str) -> u64 {
    let status = network.status(node).await;
    status.transport.links_closed.get(cause).copied().unwrap_or(0)
}

/// Waits until a node has closed a connection for this cause.
async fn until_closed(network: &Network, node: usize, cause: &str) {
    let counted = async {
        while closed(network, node, cause).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(counted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_in_the_pool_is_refused() {
    let network = Network::start(3, three(4), |_| {}).await;
    let stranger = Identity::generate().expect("a certificate");
    let refused = Attacker::connect(&stranger, &network.hosts[0]).await;
    assert!(refused.is_err(), "the node accepted a stranger");
    until_closed(&network, 0, "handshake").await;
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_rejects_a_server_with_another_certificate() {
    let network = Network::start(3, three(4), |_| {}).await;
    // A sender that expects another certificate at the address of node 1.
    let mut options = network.client_options();
    options.nodes[1].fingerprint = Identity::generate().expect("a certificate").fingerprint();
    let client = Client::start(options).expect("it starts");
    let ready = tokio::time::timeout(Duration::from_secs(2), client.ready()).await;
    assert!(ready.is_err(), "the sender registered with an unknown node");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_certificate_is_not_in_the_pool_does_not_start() {
    let contact = |identity: &Identity| Contact {
        fingerprint: identity.fingerprint(),
        address: "127.0.0.1:1".parse().expect("an address"),
    };
    let [a, b, scheduler, other] = std::array::from_fn(|_| Identity::generate().expect("a certificate"));
    let listen = "127.0.0.1:0".parse().expect("an address");
    let pool = vec![contact(&a), contact(&b)];
    let mut config = config(4);
    config.team = 2;
    let mut options = Options::new(other, listen, pool.clone(), contact(&scheduler));
    options.config = config.clone();
    let error = Member::start(options).await.expect_err("it is not of the pool").to_string();
    assert!(error.starts_with("identity: "), "{error}");
    let gateway = GatewayOptions::new(listen);
    let scheduler_contact = contact(&scheduler);
    let mut options = Options::new(scheduler, listen, pool, scheduler_contact);
    (options.config, options.gateway) = (config, Some(gateway));
    let error = Member::start(options).await.expect_err("the scheduler takes no payloads").to_string();
    assert!(error.starts_with("gateway: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hangs_up_on_noise_and_silence() {
    let network =
        Network::start(3, three(4), |options| options.handshake_timeout = Duration::from_secs(1)).await;
    let mut noise = TcpStream::connect(network.hosts[0].address).await.expect("connects");
    noise.write_all(&[7; 4096]).await.expect("is taken");
    until_closed(&network, 0, "handshake").await;
    let mut silent = TcpStream::connect(network.hosts[0].address).await.expect("connects");
    until_closed(&network, 0, "handshake_timeout").await;
    assert_eq!(soon(silent.read(&mut [0; 16])).await.unwrap_or(0), 0);
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_and_overlong_frames_are_refused() {
    let network = Network::start(4, three(4), |_| {}).await;
    for (round, bytes) in
        [Bytes::from_static(&[0xff; 100]), Bytes::from(vec![0; (4 << 20) + 1])].into_iter().enumerate()
    {
        // The attacker has stolen the key of node 3 and talks to node 0. The newest attempt takes a
        // link over.
        let thief = network.hosts[3].identity.clone();
        let attacker = Attacker::connect(&thief, &network.hosts[0]).await.expect("its certificate is known");
        // There is no link with this number, so the node rejects the call.
        let refused = attacker.post(12345, Bytes::from_static(&[0x0a, 0])).await.expect_err("refused");
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        // A link does not come up if node 0 cannot dial back.
        attacker.open(u64::MAX - round as u64).await.expect_err("node 3 knows nothing of it");
        let refused = attacker.post(12345, bytes).await.expect_err("refused");
        assert_ne!(refused.code(), tonic::Code::Ok);
    }
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_and_malformed_payloads_are_refused() {
    let network = Network::start(3, three(4), |_| {}).await;
    let (one, other) = (network.client().await, network.client().await);
    let round = soon(one.next_round()).await;
    let sealed = one.seal(&round, contents(round.round, 1)).await.expect("sealed");
    let error =
        other.submit(&round, sealed.clone()).await.expect_err("the payload of another sender").to_string();
    assert!(error.contains("another sender"), "{error}");
    let (elements, credentials) = sealed[0].clone().into_parts();
    let short = samara_mix::Sealed::from_parts(elements[1..].to_vec(), credentials);
    let error = one.submit(&round, vec![short]).await.expect_err("it is too short").to_string();
    assert!(error.contains("another group"), "{error}");
    one.submit(&round, Vec::new()).await.expect_err("an empty call has no payload");
    still_mixes(&network).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_taken_over_by_garbage_recover() {
    let mut network = Network::start(3, three(4), |_| {}).await;
    // The attacker has the certificate and the address of node 2, and answers in its place.
    network.crash(2);
    let host = &network.hosts[2];
    let thief = Arc::new(host.identity.clone());
    let attacker = Attacker::impersonate(&thief, host.address, &network.hosts[0]).await;
    let link = attacker.take_link().await;
    let refused =
        attacker.post(link, Bytes::from_static(&[0xff; 64])).await.expect_err("the bytes are not a frame");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    until_closed(&network, 0, "malformed").await;
    drop(attacker);
    network.restart(2).await;
    still_mixes(&network).await;
}

/// Node 0 of a pool of four announces arbitrary rounds to a sender. Teams are the other three
/// nodes. The sender must never submit to node 0, and its payloads must come out of honest rounds.
async fn announced_by_a_liar(rounds: Vec<OpenRound>) -> ClientStatus {
    let mut network = Network::start(4, three(4), |_| {}).await;
    network.crash(0);
    let liar = FalseGateway::start(&network.hosts[0].identity, 0, rounds).await;
    let mut options = network.client_options();
    options.nodes[0].address = liar.address;
    let client = Client::start(options).expect("it starts");
    let heard = async {
        while client.status().ignored.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(heard).await;
    for _ in 0..3 {
        let (round, sent) = send(&client).await;
        assert_eq!((round.team.len(), round.team.contains(&0)), (3, false), "{round:?}");
        check(&soon(client.result(&round)).await.expect("a result"), &sent);
    }
    assert_eq!(liar.submits(), 0, "the liar had payloads");
    client.status()
}

fn open(round: u64, team: &[u32]) -> OpenRound {
    OpenRound { round, team: team.to_vec(), room: 1_000, batch: 1_000, share: 1_000, senders_wanted: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_announces_itself_as_the_team_gets_no_payloads() {
    let status = announced_by_a_liar(vec![open(3, &[0])]).await;
    assert!(status.ignored["team_too_small"] > 0, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cannot_take_over_the_rounds_of_others() {
    let teams = [vec![0], vec![0, 1, 2], vec![0, 3, 1]];
    let rounds = (0..600).map(|round| open(round, &teams[round as usize % 3])).collect();
    let status = announced_by_a_liar(rounds).await;
    assert_eq!(status.ignored["team_too_small"], 200, "{status:?}");
    assert!(status.announced >= 400, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_teams_and_the_highest_numbers_block_no_rounds() {
    let mut rounds = vec![open(1, &[0, 0, 0]), open(2, &[0, 1, 1]), open(3, &[0, 1, 9]), open(4, &[1, 2, 3])];
    for number in [u64::MAX - 1, u64::MAX] {
        rounds.push(open(number, &[0, 1, 2]));
    }
    let status = announced_by_a_liar(rounds).await;
    let expected = [("not_in_team", 1), ("repeated_node", 2), ("unknown_node", 1)];
    assert_eq!(status.ignored, expected.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlong_list_of_rounds_is_rejected() {
    let status = announced_by_a_liar(vec![open(1, &[0, 1, 2]); 100_000]).await;
    assert!(status.ignored["message_too_long"] > 0 && status.announced < 100, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_with_more_outcomes_than_the_batch_is_refused() {
    let identity = Identity::generate().expect("a certificate");
    let liar = FalseGateway::start(&identity, 0, Vec::new()).await;
    let network = Network::start(3, three(4), |_| {}).await;
    let mut options = network.client_options();
    options.nodes[0] = Contact { fingerprint: identity.fingerprint(), address: liar.address };
    let client = Client::start(options).expect("it starts");
    soon(client.ready()).await;
    let result = async |batch| {
        let round = Round { round: 1, team: vec![0], room: 0, batch, share: 0, senders_wanted: 0 };
        soon(client.result(&round)).await
    };
    assert!(result(9).await.is_ok());
    for (batch, expected) in [(4, "more than the batch"), (10, "9 outcomes of a batch of 10")] {
        let error = result(batch).await.expect_err("another number of outcomes").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_with_an_impossible_team_min_does_not_start() {
    let network = Network::start(3, three(4), |_| {}).await;
    for team_min in [0, 4] {
        let mut options = network.client_options();
        options.team_min = team_min;
        let error = Client::start(options).expect_err("no team has this size");
        assert!(matches!(error, ClientError::TeamMin { nodes: 3, .. }), "{error}");
    }
}
