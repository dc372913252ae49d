//! Every wire error, and the field that it names.

use std::sync::Arc;

use bytes::Bytes;
use samara_gossipsub::rpc::{Message, Rpc, Topic};
use samara_gossipsub::wire::{FrameDecoder, Limits, WireErrorKind, decode};

use super::encoded;

#[track_caller]
fn refused(bytes: &[u8], path: &str, offset: usize, kind: WireErrorKind) {
    let error = decode(Bytes::copy_from_slice(bytes), &Limits::default()).unwrap_err();
    assert_eq!((error.path, error.offset, error.kind), (path, offset, kind));
}

#[test]
fn malformed_fields_are_named() {
    refused(&[0x12, 5, 0x12], "publish", 2, WireErrorKind::Truncated { needed: 5, available: 1 });
    refused(&[0x12, 2, 0x12, 9], "publish.data", 4, WireErrorKind::Truncated { needed: 9, available: 0 });
    refused(&[0x12], "publish", 1, WireErrorKind::Truncated { needed: 1, available: 0 });
    refused(&[0x12, 2, 0x10, 1], "publish.data", 2, WireErrorKind::WireType { found: 0, expected: 2 });
    refused(
        &[0x0a, 2, 0x0a, 0],
        "subscriptions.subscribe",
        2,
        WireErrorKind::WireType { found: 2, expected: 0 },
    );
    refused(&[0x0a, 3, 0x12, 1, 0xff], "subscriptions.topicid", 5, WireErrorKind::NotUtf8);
    refused(&[0x1a, 5, 0x0a, 3, 0x0a, 1, 0x80], "control.ihave.topicID", 7, WireErrorKind::NotUtf8);
    refused(&[0x7b], "rpc", 0, WireErrorKind::Unsupported { found: 3 });
    refused(&[0x7c], "rpc", 0, WireErrorKind::Unsupported { found: 4 });
    refused(&[0x12, 1, 0x7e], "publish", 2, WireErrorKind::Unsupported { found: 6 });
    refused(&[0x02, 0], "rpc", 0, WireErrorKind::FieldNumber);
    refused(&[0xff, 0xff, 0xff, 0xff, 0x7f], "rpc", 0, WireErrorKind::FieldNumber);
    refused(&[0xff; 11], "rpc", 0, WireErrorKind::VarintTooLong);
    refused(&[0x41, 1, 2, 3], "rpc", 1, WireErrorKind::Truncated { needed: 8, available: 3 });
    refused(&[0x45, 1, 2, 3], "rpc", 1, WireErrorKind::Truncated { needed: 4, available: 3 });
    let error = decode(Bytes::from_static(&[0x0a, 3, 0x12, 1, 0xff]), &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "subscriptions.topicid, at byte 5: not UTF-8");
}

/// Returns `count` repetitions of `item` inside `outer` fields.
fn repeated(outer: &[u8], item: &[u8], count: usize) -> Bytes {
    let mut bytes = item.repeat(count);
    for tag in outer.iter().rev() {
        let len = u8::try_from(bytes.len()).unwrap();
        assert!(len < 128, "the length takes one byte");
        bytes = [&[*tag, len][..], &bytes].concat();
    }
    bytes.into()
}

#[test]
fn every_limit_is_exact() {
    let small = Limits {
        frame_bytes: 100,
        subscriptions: 3,
        messages: 3,
        ihaves: 3,
        ids_per_ihave: 3,
        iwant_ids: 3,
        idontwant_ids: 3,
        ids: 100,
        grafts: 3,
        prunes: 3,
        peers_per_prune: 3,
        topic_bytes: 3,
        id_bytes: 3,
        group_bytes: 3,
        metadata_bytes: 3,
        unknown_bytes: 6,
    };
    let check = |limits: &Limits, limit: &str, outer: &[u8], item: &[u8], max: usize| {
        assert!(decode(repeated(outer, item, max), limits).is_ok(), "{limit}");
        match decode(repeated(outer, item, max + 1), limits).unwrap_err().kind {
            WireErrorKind::Limit { limit: found, max: allowed, .. } => {
                assert_eq!((found, allowed), (limit, if limit == "unknown_bytes" { 2 * max } else { max }));
            }
            other => panic!("{other} instead of a violation of {limit}"),
        }
    };
    check(&small, "subscriptions", &[], &[0x0a, 0], 3);
    check(&small, "messages", &[], &[0x12, 0], 3);
    check(&small, "ihaves", &[0x1a], &[0x0a, 0], 3);
    check(&small, "grafts", &[0x1a], &[0x1a, 0], 3);
    check(&small, "prunes", &[0x1a], &[0x22, 0], 3);
    check(&small, "ids_per_ihave", &[0x1a, 0x0a], &[0x12, 0], 3);
    check(&small, "iwant_ids", &[0x1a, 0x12], &[0x0a, 0], 3);
    check(&small, "iwant_ids", &[0x1a], &[0x12, 2, 0x0a, 0], 3);
    check(&small, "idontwant_ids", &[0x1a, 0x2a], &[0x0a, 0], 3);
    check(&small, "peers_per_prune", &[0x1a, 0x22], &[0x12, 0], 3);
    check(&small, "topic_bytes", &[0x1a, 0x1a, 0x0a], b"a", 3);
    check(&small, "id_bytes", &[0x1a, 0x12, 0x0a], b"a", 3);
    check(&small, "group_bytes", &[0x52, 0x12], b"g", 3);
    check(&small, "metadata_bytes", &[0x52, 0x22], b"m", 3);
    check(&small, "unknown_bytes", &[], &[0x48, 1], 3);
    check(&small, "unknown_bytes", &[0x12], &[0x48, 1], 3);
}

#[test]
fn ids_are_limited_over_all_kinds() {
    let limits = Limits { ids: 2, ..Limits::default() };
    let (iwant, idontwant) = ([0x12, 2, 0x0a, 0], [0x2a, 2, 0x0a, 0]);
    let two = [&[0x1a, 8][..], &iwant, &idontwant].concat();
    assert!(decode(two.clone().into(), &limits).is_ok());
    let error = decode([&two[..], &[0x1a, 4], &iwant].concat().into(), &limits).unwrap_err();
    assert_eq!(error.path, "control.iwant");
    assert_eq!(error.kind, WireErrorKind::Limit { limit: "ids", found: 3, max: 2 });
}

#[test]
fn frames_with_an_excessive_length_are_rejected_at_once() {
    let mut decoder = FrameDecoder::new(1000);
    // The length 1001, whose second byte announces a third: it is rejected as soon as the value is
    // known to be too large.
    let mut input = Bytes::from_static(&[0xe9, 0x87]);
    let error = decoder.next(&mut input).unwrap_err();
    assert_eq!(error.kind, WireErrorKind::Limit { limit: "frame_bytes", found: 1001, max: 1000 });
    assert_eq!(
        decoder.next(&mut Bytes::from_static(&[0])).unwrap_err(),
        error,
        "every later call returns the same error"
    );
    assert!(!decoder.is_between_frames());
}

#[test]
fn endless_lengths_are_rejected() {
    let mut decoder = FrameDecoder::new(usize::MAX);
    let mut input = Bytes::from_static(&[0x80; 100]);
    assert_eq!(decoder.next(&mut input).unwrap_err().kind, WireErrorKind::VarintTooLong);
    assert_eq!(input.len(), 90);
}

/// Otherwise a message of a few bytes would keep everything that was read from the socket with it.
#[test]
fn a_frame_from_a_slice_keeps_no_other_bytes() {
    let mut chunk = vec![0; 1000];
    chunk[..4].copy_from_slice(&[3, 1, 2, 3]);
    let frame = FrameDecoder::new(10).next(&mut &chunk[..]).unwrap().unwrap();
    assert_eq!(&frame[..], [1, 2, 3]);
    assert!(frame.try_into_mut().unwrap().capacity() < 100);
}

/// A short message that a node keeps must not keep a long frame.
#[test]
fn only_messages_that_are_most_of_their_frame_share_its_memory() {
    let message = |len: usize| Arc::new(Message::new(Topic::new("t"), Bytes::from(vec![7; len])));
    let shares = |lens: &[usize]| -> Vec<bool> {
        let publish = lens.iter().map(|len| message(*len)).collect();
        let frame = encoded(&Rpc { publish, ..Rpc::default() });
        let rpc = decode(frame.clone(), &Limits::default()).unwrap();
        assert!(rpc.publish.iter().zip(lens).all(|(read, len)| read.data == vec![7; *len]));
        let memory = frame.as_ptr_range();
        rpc.publish.iter().map(|read| memory.contains(&read.data.as_ptr())).collect()
    };
    assert_eq!(shares(&[1000]), [true]);
    assert_eq!(shares(&[1000, 400]), [true, false]);
    assert_eq!(shares(&[1000, 1000, 1000]), [false; 3]);
}

#[test]
fn whole_frames_are_not_copied() {
    let mut input = Bytes::from(vec![3, 1, 2, 3, 0, 1]);
    let start = input.as_ptr();
    let mut decoder = FrameDecoder::new(10);
    let frame = decoder.next(&mut input).unwrap().unwrap();
    assert_eq!((&frame[..], frame.as_ptr()), (&[1, 2, 3][..], start.wrapping_add(1)));
    assert_eq!(decoder.next(&mut input).unwrap().unwrap().len(), 0);
    assert_eq!(decoder.next(&mut input).unwrap(), None);
    assert!(!decoder.is_between_frames());
}

#[test]
fn frames_beyond_the_limit_are_rejected() {
    let limits = Limits::with_frame_bytes(4);
    assert!(decode(Bytes::from_static(&[0x12, 0, 0x12, 0]), &limits).is_ok());
    let error = decode(Bytes::from_static(&[0x12, 0, 0x12, 0, 0x12, 0]), &limits).unwrap_err();
    assert_eq!(error.kind, WireErrorKind::Limit { limit: "frame_bytes", found: 6, max: 4 });
}
