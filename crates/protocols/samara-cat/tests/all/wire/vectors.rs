//! Bytes that celestia-core produces, and pinned bytes of our extensions.

use std::sync::Arc;

use samara_cat::pool::Signer;
use samara_cat::wire::{
    Bundle, CompactBlock, KeyList, Kind, Member, PushedBy, SeenDetails, SeenKeys, SeenTx,
};
use samara_cat::{CatFrame, Transaction, TxKey};
use samara_engine::Frame;

use super::{decoded, encoded, hex};

fn check(frame: &CatFrame, expected: &str) {
    assert_eq!(hex(&encoded(frame)), expected);
    assert_eq!(frame.encoded_len(), expected.len() / 2);
    assert_eq!(&decoded(&encoded(frame)).unwrap(), frame);
}

/// `TestMempoolVectors` in `mempool/cat/reactor_test.go`.
#[test]
fn test_mempool_vectors() {
    check(&CatFrame::tx(Transaction::new(vec![123])), "0a030a017b");
    let text = Transaction::new(&b"proto encoding in mempool"[..]);
    check(&CatFrame::tx(text), "0a1b0a1970726f746f20656e636f64696e6720696e206d656d706f6f6c");
}

#[test]
fn announcements_and_requests_have_36_bytes() {
    let key = TxKey::new([0xab; 32]);
    check(&CatFrame::seen(key), &format!("12220a20{}", "ab".repeat(32)));
    check(&CatFrame::want(key), &format!("1a220a20{}", "ab".repeat(32)));
    assert_eq!(CatFrame::seen(key).encoded_len(), 36);
}

#[test]
fn from_adds_42_bytes() {
    let key = TxKey::new([1; 32]);
    let from = |text: &str| {
        let details = SeenDetails { from: Some(text.into()), ..SeenDetails::default() };
        CatFrame::from(SeenTx { key, details: Some(details) })
    };
    check(&from(&"f".repeat(40)), &format!("124c0a20{}1228{}", "01".repeat(32), "66".repeat(40)));
    assert_eq!(from(&"f".repeat(40)).encoded_len(), 36 + 42);
    // An empty optional field is encoded nevertheless: the announcement of a requested transaction
    // names no peer.
    check(&from(""), &format!("12240a20{}1200", "01".repeat(32)));
}

#[test]
fn signer_and_sequence() {
    let details = SeenDetails { from: None, sequence: 300, signer: Some(Signer::new(&[7; 20])) };
    let frame = CatFrame::from(SeenTx { key: TxKey::new([1; 32]), details: Some(details) });
    check(&frame, &format!("123b0a20{}10ac021a14{}", "01".repeat(32), "07".repeat(20)));
}

#[test]
fn extensions() {
    let keys: KeyList = [TxKey::new([1; 32]), TxKey::new([2; 32])].into_iter().collect();
    let both = format!("0a40{}{}", "01".repeat(32), "02".repeat(32));
    check(&CatFrame::want_keys(keys.clone()), &format!("5a42{both}"));
    check(&CatFrame::not_found(keys.clone()), &format!("6242{both}"));
    let seen = SeenKeys { keys, kind: Kind::Bundle, pushed_by: Some(PushedBy(0x0102)) };
    check(&seen.into(), &format!("524d{both}1001190201000000000000"));
    let bundle = Bundle::new(vec![Member::Full(Transaction::new(vec![9])), Member::Key(TxKey::new([3; 32]))]);
    check(&CatFrame::Bundle(Arc::new(bundle)), &format!("6a290a030a01090a221220{}", "03".repeat(32)));
    let block = CompactBlock::new(5, vec![TxKey::new([4; 32])]);
    check(&CatFrame::CompactBlock(Arc::new(block)), &format!("722408051220{}", "04".repeat(32)));
}

/// A bundle with missing transactions has the key of the complete one.
#[test]
fn bundle_key_depends_only_on_member_keys() {
    let txs: Vec<Transaction> = (0..3u8).map(|number| Transaction::new(vec![number])).collect();
    let whole = Bundle::new(txs.iter().cloned().map(Member::Full).collect());
    let keys = Bundle::new(txs.iter().map(|tx| Member::Key(tx.key())).collect());
    let joined: Vec<u8> = txs.iter().flat_map(|tx| *tx.key().as_bytes()).collect();
    assert_eq!((whole.key(), keys.key()), (TxKey::of(&joined), TxKey::of(&joined)));
}
