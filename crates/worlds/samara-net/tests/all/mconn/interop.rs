//! Our nodes and nodes of celestia-core in one network.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_cat::config::Preset;
use samara_cat::wire::{self, CatFrame};
use samara_cat::{Transaction, TxKey};
use samara_engine::outbox::Lane;
use samara_net::mconn::Options;

use crate::mconn::celestia::*;
use crate::mconn::common::*;

fn hex(keys: &BTreeSet<TxKey>) -> BTreeSet<String> {
    keys.iter().map(TxKey::to_string).collect()
}

fn key_of(bytes: &[u8]) -> TxKey {
    TxKey::of(bytes)
}

fn bytes_of(frame: &CatFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(frame, &mut bytes);
    bytes
}

/// Either side dials, and both push transactions.
#[tokio::test]
async fn each_side_joins_the_other_and_pushes() {
    for ours_dials in [true, false] {
        let Some(mut theirs) = celestia(&[]).await else { return };
        let ours = if ours_dials {
            ours(120, std::slice::from_ref(&theirs.address)).await
        } else {
            let node = ours(121, &[]).await;
            theirs.dial(&node.address()).await;
            node
        };
        ours.linked(1).await;
        theirs.linked(1).await;
        let status = ours.status().await;
        assert_eq!((&*status.peers[0].protocol, status.peers[0].outbound), ("cat/1", ours_dials));
        assert_eq!(status.peers[0].moniker, "celestia-core");

        let key = ours.submit("from ours").await;
        theirs.has(&hex(&BTreeSet::from([key]))).await;
        let (from, bytes) = theirs.received("txs").await;
        assert_eq!(from, ours.node.id().to_string());
        assert_eq!(bytes, bytes_of(&CatFrame::tx(Transaction::new("from ours"))));
        theirs.submit(&[b"from theirs".to_vec()]).await;
        ours.has(&BTreeSet::from([key_of(b"from theirs")])).await;
        assert_eq!(ours.metrics().await.requested_txs, 0);
        assert_eq!(theirs.look().await.metric("requested_txs"), 0);
    }
}

/// Both sides ping, and would hang up without an answer.
#[tokio::test]
async fn each_side_answers_the_pings_of_the_other() {
    let Some(mut theirs) = celestia(&["-ping", "200ms"]).await else { return };
    let options = Options {
        peers: vec![theirs.address.clone()],
        ping_interval: Duration::from_millis(200),
        pong_timeout: Duration::from_millis(200),
        ..options()
    };
    let ours = start(135, Preset::Cat.config(), options).await;
    theirs.linked(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let counters = ours.status().await.counters;
    assert_eq!((counters.links_up, counters.links_closed.len()), (1, 0), "{counters:?}");
    // Some ten pings and ten answers each way.
    assert!(counters.bytes_up >= 10 * 1044 && counters.bytes_down >= 10 * 1044, "{counters:?}");
    let keys = BTreeSet::from([ours.submit("after pings").await]);
    theirs.has(&hex(&keys)).await;
}

/// Large transactions take many packets, small ones many messages.
#[tokio::test]
async fn transactions_of_all_sizes_cross_both_ways() {
    let Some(mut theirs) = celestia(&[]).await else { return };
    let ours = ours(122, std::slice::from_ref(&theirs.address)).await;
    theirs.linked(1).await;
    let mut keys = BTreeSet::new();
    for len in [1usize, 1000, 1013, 1014, 1024, 1025, 5000, 65_536, 500_000, (1 << 20) - 1] {
        keys.insert(ours.submit(vec![b'o'; len]).await);
        let tx = vec![b't'; len];
        keys.insert(key_of(&tx));
        theirs.submit(&[tx]).await;
    }
    ours.has(&keys).await;
    theirs.has(&hex(&keys)).await;
}

/// Our node in the middle announces to theirs, which requests and receives the transaction.
#[tokio::test]
async fn theirs_request_transactions_that_ours_announce() {
    let Some(mut theirs) = celestia(&[]).await else { return };
    let origin = ours(123, &[]).await;
    let middle = start(
        124,
        Preset::Cat.config(),
        Options { peers: vec![theirs.address.clone(), origin.address()], ..options() },
    )
    .await;
    middle.linked(2).await;
    theirs.linked(1).await;
    let key = origin.submit("through ours").await;
    theirs.has(&hex(&BTreeSet::from([key]))).await;
    let (from, seen) = theirs.received("seen_tx").await;
    assert_eq!(from, middle.node.id().to_string());
    assert_eq!(seen, bytes_of(&CatFrame::seen(key)));
    assert_eq!(theirs.look().await.metric("requested_txs"), 1);
    assert_eq!(middle.metrics().await.sent(samara_cat::FrameKind::Txs).copies, 1);
}

/// Their node in the middle announces to ours.
#[tokio::test]
async fn ours_request_transactions_that_theirs_announce() {
    let Some(mut theirs) = celestia(&[]).await else { return };
    let origin = ours(125, std::slice::from_ref(&theirs.address)).await;
    let asks = ours(126, std::slice::from_ref(&theirs.address)).await;
    theirs.linked(2).await;
    let key = origin.submit("through theirs").await;
    asks.has(&BTreeSet::from([key])).await;
    let (from, want) = theirs.received("want_tx").await;
    assert_eq!(from, asks.node.id().to_string());
    assert_eq!(want, bytes_of(&CatFrame::want(key)));
    let metrics = asks.metrics().await;
    assert_eq!((metrics.requested_txs, metrics.rerequested_txs, metrics.bodies_received), (1, 0, 1));
}

/// One of their nodes announces and never delivers, so ours requests from another one.
#[tokio::test]
async fn ours_request_from_another_peer_after_a_timeout() {
    let Some(mut liar) = celestia(&["-swallow"]).await else { return };
    let Some(mut honest) = celestia(&["-flush", "10ms"]).await else { return };
    let peers = vec![liar.address.clone(), honest.address.clone()];
    let asks = start(127, Preset::Cat.config(), Options { peers, ..options() }).await;
    asks.linked(2).await;
    // It announces to the peers that it has.
    liar.linked(1).await;
    let tx = b"late".to_vec();
    let key = key_of(&tx);
    liar.announce(&key).await;
    let (_, want) = liar.received("want_tx").await;
    assert_eq!(want, bytes_of(&CatFrame::want(key)));
    // The honest node gets the transaction from a node unknown to ours, and announces it.
    let source =
        start(128, Preset::CatMerged.config(), Options { peers: vec![honest.address.clone()], ..options() })
            .await;
    source.linked(1).await;
    source.submit(tx).await;
    asks.has(&BTreeSet::from([key])).await;
    let metrics = asks.metrics().await;
    assert_eq!((metrics.requested_txs, metrics.rerequested_txs), (1, 1));
    assert!(metrics.timeouts >= 1);
    honest.received("want_tx").await;
}

/// One of our nodes announces and never delivers, so theirs requests from another one.
#[tokio::test]
async fn theirs_request_from_another_peer_after_a_timeout() {
    let Some(mut theirs) = celestia(&["-timeout", "200ms"]).await else { return };
    let liar = start(129, Preset::CatMerged.config(), options()).await;
    let honest = start(130, Preset::CatMerged.config(), options()).await;
    theirs.dial(&liar.address()).await;
    liar.linked(1).await;
    let tx = Transaction::new("late as well");
    let key = tx.key();
    liar.owe(CatFrame::seen(key)).await;
    theirs.wait("a request", |look| look.metric("requested_txs") == 1).await;
    theirs.dial(&honest.address()).await;
    honest.linked(1).await;
    // Announced rather than pushed, as if it had come from another node.
    honest.owe(CatFrame::seen(key)).await;
    let keep = tx.clone();
    honest
        .node
        .call(move |engine, cx| {
            use samara_engine::{Engine, Input, PeerId, PeerIdentity, PeerInfo};
            // A peer that exists only here delivers it.
            let info = PeerInfo {
                identity: PeerIdentity::new(&[7; 20]),
                outbound: false,
                address: None,
                protocol: "cat/1".into(),
            };
            let nobody = PeerId(1000);
            engine.handle(Input::LinkUp { peer: nobody, info }, cx);
            engine.handle(Input::Frame { peer: nobody, frame: CatFrame::tx(keep) }, cx);
            engine.handle(Input::LinkDown { peer: nobody }, cx);
        })
        .await
        .unwrap();
    theirs.has(&hex(&BTreeSet::from([key]))).await;
    let look = theirs.look().await;
    assert!(look.metric("rerequested_txs") >= 1, "{}", look.metric("rerequested_txs"));
}

/// Both sides commit a block: they do not request its transaction again, and the other one stays.
#[tokio::test]
async fn committed_transactions_are_not_requested_again() {
    let Some(mut theirs) = celestia(&[]).await else { return };
    let ours = ours(131, std::slice::from_ref(&theirs.address)).await;
    theirs.linked(1).await;
    let (done, open) = (ours.submit("done").await, ours.submit("open").await);
    theirs.has(&hex(&BTreeSet::from([done, open]))).await;
    theirs.commit(2, &[b"done".to_vec()]).await;
    ours.node.call(move |engine, cx| engine.commit(2, &[done], cx)).await.unwrap();
    assert_eq!(theirs.look().await.keys, hex(&BTreeSet::from([open])));
    assert_eq!(ours.pool().await, BTreeSet::from([open]));
    theirs.announce(&done).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ours.metrics().await.requested_txs, 0);
    let successful = ours.node.call(|engine, _| engine.pool().metrics().successful_txs).await;
    assert_eq!(successful.unwrap(), 1);
}

/// Two of their nodes and three of ours, in a ring with a chord, and 200 transactions from all of
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_a_mixed_network() {
    let Some(mut first) = celestia(&[]).await else { return };
    let Some(mut second) = celestia(&["-flush", "100ms"]).await else { return };
    let one = ours(132, std::slice::from_ref(&first.address)).await;
    let two = ours(133, &[one.address(), second.address.clone()]).await;
    let three = ours(134, &[second.address.clone(), first.address.clone()]).await;
    first.dial(&second.address).await;
    first.linked(3).await;
    second.linked(3).await;
    one.linked(2).await;
    two.linked(2).await;
    three.linked(2).await;
    let mut keys = BTreeSet::new();
    for round in 0..40 {
        for (who, node) in [&one, &two, &three].into_iter().enumerate() {
            keys.insert(node.submit(format!("{round}-{who}={:>2000}", round)).await);
        }
        for (who, node) in [&mut first, &mut second].into_iter().enumerate() {
            let tx = format!("{round}+{who}={:>2000}", round).into_bytes();
            keys.insert(key_of(&tx));
            node.submit(&[tx]).await;
        }
    }
    assert_eq!(keys.len(), 200);
    for node in [&one, &two, &three] {
        node.has(&keys).await;
        assert!(node.status().await.peers.len() >= 2, "no link went down");
    }
    for node in [&mut first, &mut second] {
        node.has(&hex(&keys)).await;
        assert_eq!(node.look().await.peers.len(), 3, "no link went down");
    }
}

impl Celestia {
    async fn announce(&mut self, key: &TxKey) {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(bytes_of(&CatFrame::seen(*key)));
        self.ask(serde_json::json!({ "is": "announce", "data": data })).await;
    }

    async fn commit(&mut self, height: i64, txs: &[Vec<u8>]) {
        use base64::Engine;
        let txs: Vec<String> =
            txs.iter().map(|tx| base64::engine::general_purpose::STANDARD.encode(tx)).collect();
        self.ask(serde_json::json!({ "is": "commit", "height": height, "txs": txs })).await;
    }
}

impl Ours {
    /// Owes a frame to all peers, regardless of the engine's state.
    async fn owe(&self, frame: CatFrame) {
        let handles: Vec<_> = self.status().await.peers.iter().map(|peer| peer.handle).collect();
        let owe = move |_: &mut samara_cat::Cat<App>, cx: &mut samara_cat::Cx<'_>| {
            let now = cx.now();
            for handle in handles {
                cx.outbox().owe(now, handle, Lane(1), frame.clone(), None, None).expect("room");
            }
        };
        self.node.call(owe).await.expect("it runs");
    }
}
