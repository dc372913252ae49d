//! Decoding errors state the place and the cause.

use bytes::Bytes;
use samara_cat::CatFrame;
use samara_cat::wire::{Limits, WireErrorKind, decode};

use super::decoded;

#[track_caller]
fn fails(bytes: &[u8], path: &str, kind: WireErrorKind) {
    let error = decoded(bytes).unwrap_err();
    assert_eq!((error.path, error.kind), (path, kind), "{error}");
}

fn with_key(tag: u8, len: u8) -> Vec<u8> {
    let mut bytes = vec![tag, len + 2, 0x0a, len];
    bytes.resize(4 + usize::from(len), 1);
    bytes
}

/// `TxKeyFromBytes`: any other length causes a disconnect.
#[test]
fn keys_have_32_bytes() {
    for len in [0, 1, 31, 33] {
        let kind = WireErrorKind::Length { found: usize::from(len), expected: "32" };
        fails(&with_key(0x12, len), "seen_tx.tx_key", kind);
        fails(&with_key(0x1a, len), "want_tx.tx_key", kind);
    }
    let kind = WireErrorKind::Length { found: 0, expected: "32" };
    fails(&[0x12, 0], "seen_tx.tx_key", kind);
    fails(&[0x1a, 0], "want_tx.tx_key", kind);
    let kind = WireErrorKind::Length { found: 33, expected: "a multiple of 32" };
    fails(&with_key(0x5a, 33), "want.keys", kind);
}

#[test]
fn messages_without_known_kind_are_rejected() {
    fails(&[], "message", WireErrorKind::NoKind);
    fails(&[0x22, 0], "message", WireErrorKind::NoKind);
    fails(&[0x6a, 2, 0x0a, 0], "bundle.members", WireErrorKind::NoKind);
    let kind = WireErrorKind::Unknown { found: 9 };
    fails(&[0x52, 2, 0x10, 9], "seen.kind", kind);
}

#[test]
fn broken_protobuf_is_rejected() {
    fails(&[0x0a, 5, 0x0a, 1], "txs", WireErrorKind::Truncated { needed: 5, available: 2 });
    fails(&[0x0a, 2, 0x0a, 1], "txs.txs", WireErrorKind::Truncated { needed: 1, available: 0 });
    fails(&[0x08, 1], "txs", WireErrorKind::WireType { found: 0, expected: 2 });
    fails(&[0x00], "message", WireErrorKind::FieldNumber);
    fails(&[0x23], "message", WireErrorKind::Unsupported { found: 3 });
    fails(&[0xff; 12], "message", WireErrorKind::VarintTooLong);
    fails(&[0x12, 3, 0x12, 1, 0xff], "seen_tx.from", WireErrorKind::NotUtf8);
}

/// `TestLegacyReactorReceiveBasic`: a message without transactions is decoded, and is harmless.
#[test]
fn empty_txs_are_decoded() {
    assert_eq!(decoded(&[0x0a, 0]).unwrap(), CatFrame::txs(Vec::new()));
}

#[test]
fn unknown_fields_are_skipped_and_the_last_kind_wins() {
    let mut bytes = vec![0x22, 1, 7, 0x28, 1, 0x31, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4];
    bytes.extend(with_key(0x12, 32));
    bytes.extend(with_key(0x1a, 32));
    assert!(matches!(decoded(&bytes).unwrap(), CatFrame::WantTx(_)));
}

#[test]
fn limits_are_checked_before_allocation() {
    let read =
        |bytes: &[u8], limits: &Limits| decode(&Bytes::copy_from_slice(bytes), limits).unwrap_err().kind;
    let limits =
        Limits { txs: 2, signer_bytes: 3, members: 1, block_keys: 1, from_bytes: 1, frame_bytes: 100 };
    let limit = |limit, found, max| WireErrorKind::Limit { limit, found, max };
    assert_eq!(read(&[0x0a, 6, 0x0a, 0, 0x0a, 0, 0x0a, 0], &limits), limit("txs", 3, 2));
    assert_eq!(read(&[0x12, 6, 0x1a, 4, 0, 0, 0, 0], &limits), limit("signer_bytes", 4, 3));
    assert_eq!(read(&[0x12, 4, 0x12, 2, 65, 65], &limits), limit("from_bytes", 2, 1));
    assert_eq!(read(&[0; 101], &limits), limit("frame_bytes", 101, 100));
    assert_eq!(read(&[0x6a, 8, 0x0a, 2, 0x0a, 0, 0x0a, 2, 0x0a, 0], &limits), limit("members", 2, 1));
    let mut block = vec![0x72, 66, 0x12, 64];
    block.resize(68, 0);
    assert_eq!(read(&block, &limits), limit("block_keys", 2, 1));
    let mut keys = vec![0x5a, 0xa3, 0x10, 0x0a, 0xa0, 0x10];
    keys.resize(6 + 65 * 32, 0);
    assert_eq!(read(&keys, &Limits::default()), limit("KeyList::MAX", 65, 64));
}
