//! Delivery of large messages, of batches, and in a mixed mesh.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_engine::outbox::{Dispatch, Schedule};
use samara_gossipsub::Config;
use samara_gossipsub::config::Authenticity;
use samara_libp2p::{KeyVerifier, Options};
use tokio::time::timeout;

use crate::common::*;

/// Sends a large message from one node to the other and back.
pub(crate) async fn a_mebibyte_there_and_back(our: &mut Node, other: &mut Node, dial: Dial) {
    meet(our, other, "t", dial).await;
    let large: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7) as u8).collect();
    our.publish("t", &large);
    assert!(other.message().await.1 == large, "the other node received different data");
    other.publish("t", &large[1..]);
    assert!(our.message().await.1 == large[1..], "we received different data");
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways() {
    let (mut our, mut their) =
        (ours(signed(), options()).await, theirs(theirs_config().build().unwrap(), true).await);
    a_mebibyte_there_and_back(&mut our, &mut their, Dial::Theirs).await;
}

#[tokio::test]
async fn a_batch_leaves_in_rounds_and_is_reported() {
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let mut config = signed();
        config.sending.dispatch = dispatch;
        // Otherwise IDONTWANT would withdraw copies that other nodes forward in the meantime.
        config.idontwant.send = false;
        // Answers to gossip would be further copies.
        (config.mesh.d_lazy, config.mesh.gossip_factor) = (0, 0.0);
        let mut our = ours(config, options()).await;
        our.subscribe("t");
        let mut their = Vec::new();
        for _ in 0..3 {
            let node = theirs(theirs_config().build().unwrap(), true).await;
            node.subscribe("t");
            node.dial(&our);
            node.mesh_of("t", 1).await;
            their.push(node);
        }
        our.mesh_of("t", 3).await;
        let columns: Vec<(String, Vec<u8>)> =
            (0..64_u8).map(|at| ("t".to_owned(), vec![at; 16 << 10])).collect();
        our.publish_batch(columns.clone(), Schedule::INTERLEAVED);
        let expected: BTreeSet<Vec<u8>> = columns.into_iter().map(|(_, data)| data).collect();
        for node in &mut their {
            let mut got = BTreeSet::new();
            while got.len() < expected.len() {
                got.insert(node.message().await.1);
            }
            assert!(got == expected, "the received columns differ");
        }
        // At least the first copy of each column was sent and reported. On a busy machine nodes request
        // some columns by IWANT before their copies arrive, and answers count too.
        let sent =
            our.observed_so_far().iter().filter(|observed| matches!(observed, Observed::Sent(..))).count();
        assert!(sent >= 64, "{sent} copies were reported with {dispatch:?}");
    }
}

/// Asserts that messages of all nodes reach all nodes, in a ring with chords in which every node
/// has six neighbours.
pub(crate) async fn everything_arrives(mut nodes: Vec<Node>, messages: usize) {
    let count = nodes.len();
    for node in &nodes {
        node.subscribe("t");
    }
    for at in 0..count {
        for step in [1, 3, 8] {
            nodes[at].dial(&nodes[(at + step) % count]);
        }
    }
    for node in &nodes {
        node.mesh_of("t", 4).await;
    }
    for number in 0..messages {
        nodes[number % count].publish("t", format!("message {number}").as_bytes());
        if number % 50 == 49 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let mut lacking = Vec::new();
    for (at, node) in nodes.iter_mut().enumerate() {
        // Nodes receive no events for their own messages.
        let expected: BTreeSet<usize> = (0..messages).filter(|number| number % count != at).collect();
        let mut got = BTreeSet::new();
        let all = async {
            while got.len() < expected.len() {
                let text = String::from_utf8(node.message().await.1).expect("text");
                let number = text.strip_prefix("message ").and_then(|number| number.parse().ok());
                assert!(got.insert(number.expect("a number")), "a message arrived twice");
            }
        };
        // A node that is late after the wait for the other nodes will not catch up.
        let patience = if lacking.is_empty() { PATIENCE } else { Duration::from_secs(1) };
        if timeout(patience, all).await.is_err() {
            let missing: Vec<usize> = expected.difference(&got).copied().collect();
            lacking.push(format!("node {at} lacks {missing:?}; {:?}", node.look("t").await));
        }
    }
    assert!(lacking.is_empty(), "{}", lacking.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mesh_of_ours_delivers_everything() {
    let mut nodes = Vec::new();
    for _ in 0..20 {
        nodes.push(ours(signed(), options()).await);
    }
    everything_arrives(nodes, 1000).await;
}

/// Half of the nodes run rust-libp2p.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_mesh_of_twenty_delivers_a_thousand_messages() {
    let mut nodes = Vec::new();
    for at in 0..20 {
        nodes.push(if at % 2 == 0 {
            ours(signed(), options()).await
        } else {
            theirs(theirs_config().build().unwrap(), true).await
        });
    }
    everything_arrives(nodes, 1000).await;
}

/// The options follow the two sizes of the configuration.
#[tokio::test]
async fn the_longest_message_arrives_with_default_options() {
    let spec = Config {
        authenticity: Authenticity::strict(KeyVerifier),
        report_subscriptions: true,
        deliver_own: false,
        ..Config::spec()
    };
    let longest = 20 << 20;
    let raised = Config { max_message_bytes: longest, max_rpc_bytes: longest + 1024, ..spec.clone() };
    for config in [spec, raised] {
        let data = vec![7; config.max_message_bytes];
        let mut our = ours(config.clone(), Options::default()).await;
        let mut other = ours(config, Options::default()).await;
        meet(&mut our, &mut other, "t", Dial::Ours).await;
        our.publish("t", &data);
        let arrived = other.next("the message or an error", |observed| match observed {
            Observed::Message(_, data) => Some(Ok(data.len())),
            Observed::Malformed(peer) => Some(Err(*peer)),
            _ => None,
        });
        assert_eq!(arrived.await, Ok(data.len()));
    }
}
