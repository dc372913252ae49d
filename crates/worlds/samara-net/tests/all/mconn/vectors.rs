//! The bytes of every message, written by celestia-core and read by this crate, and the reverse.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_cat::wire::{self, CatFrame, Limits};
use samara_cat::{Transaction, TxKey};
use serde_json::json;

use crate::mconn::celestia::*;

fn bytes_of(frame: &CatFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(frame, &mut bytes);
    bytes
}

#[tokio::test]
async fn every_message_matches_celestia_core() {
    let Some(mut peer) = celestia(&[]).await else { return };
    let mut frames = Vec::new();
    for len in [0usize, 1, 2, 31, 32, 33, 127, 128, 129, 1000, 1024, 16_383, 16_384, 100_000, 1 << 20] {
        let tx = Transaction::new(vec![len as u8; len]);
        let txs = vec![STANDARD.encode(tx.bytes())];
        frames.push((CatFrame::tx(tx), json!({ "is": "encode", "kind": "txs", "txs": txs })));
    }
    let several: Vec<Transaction> =
        (1..40u8).map(|n| Transaction::new(vec![n; 10 * usize::from(n)])).collect();
    let txs: Vec<String> = several.iter().map(|tx| STANDARD.encode(tx.bytes())).collect();
    frames.push((CatFrame::txs(several), json!({ "is": "encode", "kind": "txs", "txs": txs })));
    frames.push((CatFrame::txs(Vec::new()), json!({ "is": "encode", "kind": "txs" })));
    for number in 0..20u8 {
        let key = TxKey::of(&[number]);
        let data = STANDARD.encode(key.as_bytes());
        frames.push((CatFrame::seen(key), json!({ "is": "encode", "kind": "seen_tx", "data": data })));
        frames.push((CatFrame::want(key), json!({ "is": "encode", "kind": "want_tx", "data": data })));
    }
    for (frame, question) in frames {
        let theirs = peer.ask(question.clone()).await;
        let theirs = STANDARD.decode(theirs["data"].as_str().unwrap()).unwrap();
        let ours = bytes_of(&frame);
        assert_eq!(ours, theirs, "{}", question["kind"]);
        assert_eq!(wire::decode(&theirs.clone().into(), &Limits::default()).unwrap(), frame);

        let read = peer.ask(json!({ "is": "decode", "data": STANDARD.encode(&ours) })).await;
        assert_eq!(read["kind"], question["kind"]);
        // Go omits empty values.
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        assert_eq!(list(&read["txs"]), list(&question["txs"]));
        assert_eq!(read["data"].as_str().unwrap_or_default(), question["data"].as_str().unwrap_or_default());
    }
}

#[tokio::test]
async fn both_sides_reject_the_same_bytes() {
    let Some(mut peer) = celestia(&[]).await else { return };
    let key = TxKey::of(b"x");
    let seen = bytes_of(&CatFrame::seen(key));
    let txs = bytes_of(&CatFrame::tx(Transaction::new("some transaction")));
    for whole in [seen, txs] {
        for len in 0..whole.len() {
            let part = whole[..len].to_vec();
            let theirs = peer.try_ask(json!({ "is": "decode", "data": STANDARD.encode(&part) })).await;
            let ours = wire::decode(&part.clone().into(), &Limits::default());
            assert_eq!(theirs["error"].is_string(), ours.is_err(), "{part:02x?}: {theirs} {ours:?}");
        }
    }
}
