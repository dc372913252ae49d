//! Rounds from senders to results.

use std::collections::{BTreeMap, BTreeSet};

use samara_mix::{Event, Outcome, Phase, Transfer};
use samara_net::mix::{Ended, What};

use crate::mix::common::{Network, check, config, contents, gateways, send, soon, three};

/// Returns the output of each round at each node.
async fn delivered(network: &mut Network, rounds: &[u64]) -> BTreeMap<u64, Vec<Vec<Outcome>>> {
    let mut all: BTreeMap<u64, Vec<Vec<Outcome>>> = BTreeMap::new();
    let nodes = network.hosts.len() - 1;
    for host in &mut network.hosts[..nodes] {
        let (_, events) = host.running.as_mut().expect("it runs");
        let mut missing = rounds.to_vec();
        while !missing.is_empty() {
            let What::Event(event) = soon(events.recv()).await.expect("it runs").what else { continue };
            match event {
                Event::Delivered { round, outcomes } => {
                    missing.retain(|other| *other != round);
                    all.entry(round).or_default().push(outcomes);
                }
                Event::Failed { round, failure } => panic!("round {round} failed: {failure:?}"),
                _ => {}
            }
        }
    }
    all
}

async fn several_in_flight(transfer: Transfer) {
    let mut config = config(24);
    config.transfer = transfer;
    let mut network = Network::start(5, config, |_| {}).await;
    let client = network.client().await;
    let mut sent = BTreeMap::new();
    for _ in 0..6 {
        let (round, contents) = send(&client).await;
        sent.insert(round.round, (round, contents));
    }
    for (round, contents) in sent.values() {
        check(&soon(client.result(round)).await.expect("a result"), contents);
    }
    let rounds: Vec<u64> = sent.keys().copied().collect();
    for (round, of_nodes) in delivered(&mut network, &rounds).await {
        assert_eq!(of_nodes.len(), 5);
        assert!(of_nodes.windows(2).all(|pair| pair[0] == pair[1]), "round {round} differs between nodes");
    }
    for node in 0..5 {
        let status = network.status(node).await;
        // A node may have processed pieces of a round that has only begun, but every node has
        // processed all of these.
        assert!(status.mix.slots(Phase::Permute) >= 6 * 24);
        assert_eq!(status.mix.completed, 6);
        assert_eq!(status.links.len(), 5, "{:?}", status.transport);
        assert_eq!(status.transport.links_closed, BTreeMap::new());
        let posts = status.transport.unary_calls;
        assert_eq!(posts > 0, transfer == Transfer::Unary, "{posts} calls with a whole batch");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_batches_come_out_alike_at_all_nodes() {
    several_in_flight(Transfer::Streamed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unary_batches_come_out_alike_at_all_nodes() {
    several_in_flight(Transfer::Unary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_senders_share_a_batch_and_dummies_fill_it_up() {
    share_a_batch(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_senders_share_a_batch_and_void_slots_fill_it_up() {
    share_a_batch(false).await;
}

async fn share_a_batch(dummies: bool) {
    let change = gateways(|gateway| {
        (gateway.senders_min, gateway.sender_share_percent, gateway.dummies) = (2, 70, dummies);
    });
    let network = Network::start(3, three(10), change).await;
    let (one, other) = (network.client().await, network.client().await);
    let round = soon(one.next_round()).await;
    let sent = contents(round.round, 7);
    for (client, part) in [(&one, &sent[..4]), (&other, &sent[4..])] {
        let sealed = client.seal(&round, part.to_vec()).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room");
    }
    // Four more exceed the room of the round.
    let more = one.seal(&round, contents(round.round, 4)).await.expect("sealed");
    one.submit(&round, more).await.expect_err("there is no room");
    let Ended::Delivered(outcomes) = soon(one.result(&round)).await.expect("a result") else {
        panic!("the round failed")
    };
    let is_ours = |outcome: &Outcome| match outcome {
        Outcome::Content(content) => sent.iter().any(|sent| sent[..] == content[..]),
        _ => false,
    };
    let (ours, others): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(is_ours);
    check(&Ended::Delivered(ours), &sent);
    let is_filling = |outcome: &Outcome| matches!(outcome, Outcome::Content(_)) == dummies;
    assert!(others.len() == 3 && others.iter().all(is_filling), "{others:?}");
    let distinct: BTreeSet<_> = others.iter().map(|outcome| format!("{outcome:?}")).collect();
    assert_eq!(distinct.len(), if dummies { 3 } else { 1 });
    let first = round.team[0] as usize;
    let gateway = network.status(first).await.gateway.expect("it has one");
    assert_eq!((gateway.counters.payloads_taken, gateway.counters.slots_filled), (7, 3));
    assert_eq!(gateway.counters.calls_refused, [("room", 1)].into());
    let times = gateway.times.first().expect("the times of the round");
    assert_eq!((times.round, times.payloads), (round.round, 7));
    // The round waited for more payloads, and the mean payload cannot have waited for longer than
    // the first one.
    assert!(times.batch < times.slot_mean && times.slot_mean <= times.slot_max, "{times:?}");
}
