//! Frames of any content, and bytes that are no frame.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use samara_cat::pool::Signer;
use samara_cat::wire::{
    Bundle, CompactBlock, KeyList, Kind, Limits, Member, PushedBy, SeenDetails, SeenKeys, SeenTx, decode,
};
use samara_cat::{CatFrame, Transaction, TxKey};
use samara_engine::Frame;

use super::{decoded, encoded};

fn key() -> impl Strategy<Value = TxKey> {
    any::<[u8; 32]>().prop_map(TxKey::new)
}

fn transaction() -> impl Strategy<Value = Transaction> {
    vec(any::<u8>(), 0..300).prop_map(Transaction::new)
}

/// Lists with some keys masked out, as nodes send them.
fn keys() -> impl Strategy<Value = KeyList> {
    (vec(key(), 0..=KeyList::MAX), any::<u64>()).prop_map(|(keys, mask)| KeyList::new(keys).only(mask))
}

fn details() -> impl Strategy<Value = SeenDetails> {
    let signer = proptest::option::of(vec(any::<u8>(), 1..=64))
        .prop_map(|signer| signer.map(|name| Signer::new(&name)));
    (proptest::option::of("[0-9a-f]{0,40}"), any::<u64>(), signer).prop_map(|(from, sequence, signer)| {
        SeenDetails {
            // The fields of one generation only.
            sequence: if from.is_some() { 0 } else { sequence },
            from: from.map(Into::into),
            signer,
        }
    })
}

fn member() -> impl Strategy<Value = Member> {
    prop_oneof![transaction().prop_map(Member::Full), key().prop_map(Member::Key)]
}

pub(crate) fn frame() -> impl Strategy<Value = CatFrame> {
    let kind = prop_oneof![Just(Kind::Transaction), Just(Kind::Bundle), Just(Kind::Block)];
    let seen = (key(), proptest::option::of(details())).prop_map(|(key, details)| {
        let details = details.filter(|details| *details != SeenDetails::default());
        CatFrame::from(SeenTx { key, details })
    });
    let seen_keys = (keys(), kind, proptest::option::of(any::<u64>())).prop_map(|(keys, kind, pushed_by)| {
        CatFrame::from(SeenKeys { keys, kind, pushed_by: pushed_by.map(PushedBy) })
    });
    let block = (any::<u64>(), vec(key(), 0..20))
        .prop_map(|(height, keys)| CatFrame::CompactBlock(Arc::new(CompactBlock::new(height, keys))));
    prop_oneof![
        vec(transaction(), 0..4).prop_map(CatFrame::txs),
        seen,
        key().prop_map(CatFrame::want),
        seen_keys,
        keys().prop_map(CatFrame::want_keys),
        keys().prop_map(CatFrame::not_found),
        vec(member(), 0..6).prop_map(|members| CatFrame::Bundle(Arc::new(Bundle::new(members)))),
        block,
    ]
}

proptest! {
    #[test]
    fn frames_survive_a_round_trip_with_their_length(frame in frame()) {
        let bytes = encoded(&frame);
        prop_assert_eq!(bytes.len(), frame.encoded_len());
        prop_assert_eq!(decoded(&bytes).unwrap(), frame);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..400)) {
        let small = Limits { txs: 1, members: 1, block_keys: 1, ..Limits::default() };
        let strict = decode(&Bytes::copy_from_slice(&bytes), &small);
        if let (Ok(strict), Ok(lenient)) = (strict, decoded(&bytes)) {
            prop_assert_eq!(strict, lenient);
        }
    }

    /// Frames with some changed bytes reach deeper code than random bytes.
    #[test]
    fn damaged_frames_do_not_panic(frame in frame(), changes in vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = encoded(&frame);
        for (at, value) in changes {
            let len = bytes.len();
            bytes[at % len] = value;
        }
        if let Ok(read) = decoded(&bytes) {
            // A decoded frame encodes to the computed length and decodes to the same frame.
            let again = encoded(&read);
            prop_assert_eq!(again.len(), read.encoded_len());
            prop_assert_eq!(decoded(&again).unwrap(), read);
        }
    }
}
