//! Results for receivers that come later.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_net::mix::{ClientError, Ended, Kept, Reader};
use tokio::time::timeout;
use tonic::Code;

use crate::mix::common::{Network, check, gateways, send, soon, three};

/// Returns a receiver, which has a certificate of its own and shares no secret.
fn reader(network: &Network, node: u32) -> Reader {
    Reader::new(&network.client_options(), node).expect("a node of the pool")
}

async fn kept(reader: &mut Reader, from: u64) -> Kept {
    soon(reader.kept(from)).await.expect("a list")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_receiver_fetches_whole_batches_at_any_node_of_the_team() {
    let network = Network::start(3, three(4), |_| {}).await;
    let client = network.client().await;
    let mut sent = Vec::new();
    for _ in 0..3 {
        let (round, contents) = send(&client).await;
        soon(client.result(&round)).await.expect("a result");
        sent.push((round.round, contents));
    }
    drop(client);
    for node in 0..3 {
        let mut reader = reader(&network, node);
        // The result reaches each node at a time of its own.
        let mut listed = Vec::new();
        while listed.len() < 3 {
            listed.extend(kept(&mut reader, 0).await.rounds);
        }
        let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
            (listed.iter().copied().collect(), sent.iter().map(|(round, _)| (*round, 4)).collect());
        assert_eq!(found, expected);
        assert_eq!(kept(&mut reader, 0).await.rounds, []);
        for (round, contents) in &sent {
            check(&soon(reader.result(*round, 4)).await.expect("a result"), contents);
        }
        // A node cannot give a round more or fewer payloads than it has listed.
        for slots in [3, 5, u32::MAX] {
            let error = soon(reader.result(sent[0].0, slots)).await.expect_err("another number");
            assert!(matches!(&error, ClientError::Node { status, .. } if status.code() == Code::Internal));
        }
        let later = kept(&mut self::reader(&network, node), sent[1].0).await;
        assert_eq!(later.rounds.len(), 2);
        assert_eq!(later.gone, None);
    }
    let status = network.status(0).await.gateway.expect("it has one");
    assert_eq!(status.counters.results_kept, 3);
    assert!(status.counters.results_kept_bytes.0 > 3 * 4 * 60, "{:?}", status.counters);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_receiver_learns_what_is_gone() {
    let network = Network::start(3, three(4), gateways(|gateway| gateway.results_max = 1)).await;
    let client = network.client().await;
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let (round, _) = send(&client).await;
        soon(client.result(&round)).await.expect("a result");
        rounds.push((round.round, round.team[0]));
    }
    let mut reader = reader(&network, rounds[1].1);
    let listed = async {
        loop {
            let listed = kept(&mut reader, 0).await;
            if listed.rounds.iter().any(|(round, _)| *round == rounds[1].0) {
                return listed;
            }
        }
    };
    let listed = soon(listed).await;
    assert_eq!((listed.rounds, listed.gone), (vec![(rounds[1].0, 4)], Some(rounds[0].0)));
    let error = soon(reader.result(rounds[0].0, 4)).await.expect_err("it is gone").to_string();
    assert!(error.contains("no longer has its result"), "{error}");
    assert!(matches!(soon(reader.result(rounds[1].0, 4)).await, Ok(Ended::Delivered(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_to_an_address_have_a_rate() {
    let network = Network::start(3, three(4), gateways(|gateway| gateway.answers_per_address_kib = 4)).await;
    let mut reader = reader(&network, 0);
    let many = async {
        for _ in 0..3 {
            kept(&mut reader, 0).await;
        }
    };
    assert!(timeout(Duration::from_secs(1), many).await.is_err(), "three lists within a second");
}
