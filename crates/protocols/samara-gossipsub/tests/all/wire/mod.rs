//! Tests of the wire format: round trips, a generated codec as oracle, every error, hostile input,
//! and pinned bytes.

mod errors;
mod hostile;
mod oracle;
mod pinned;
mod rpcs;
mod signatures;

use bytes::Bytes;
use proptest::prelude::*;
use samara_engine::Frame;
use samara_gossipsub::rpc::{Control, Rpc, RpcFrame};
use samara_gossipsub::wire::{
    FrameDecoder, Limits, decode, encode, encode_frame, encoded_len, frame_len, varint_len,
};

fn encoded(rpc: &Rpc) -> Bytes {
    let mut out = Vec::new();
    encode(rpc, &mut out);
    out.into()
}

proptest! {
    #[test]
    fn encoded_rpcs_decode_to_the_same_rpc(rpc in rpcs::rpc()) {
        let bytes = encoded(&rpc);
        prop_assert_eq!(encoded_len(&rpc), bytes.len());
        let read = decode(bytes.clone(), &Limits::default()).unwrap();
        prop_assert_eq!(&read, &rpc);
        prop_assert_eq!(encoded(&read), bytes);
    }

    #[test]
    fn frames_have_the_computed_length(rpc in rpcs::rpc()) {
        let mut out = Vec::new();
        encode_frame(&rpc, &mut out);
        prop_assert_eq!(frame_len(&rpc), out.len());
        prop_assert_eq!(RpcFrame::new(rpc).encoded_len(), out.len());
    }

    /// However a stream is cut, the decoder returns the same frames.
    #[test]
    fn a_stream_is_cut_into_its_frames(
        rpcs in prop::collection::vec(rpcs::rpc(), 0..5),
        cuts in prop::collection::vec(1usize..200, 1..20),
    ) {
        let mut stream = Vec::new();
        rpcs.iter().for_each(|rpc| encode_frame(rpc, &mut stream));
        let mut stream = Bytes::from(stream);
        let (mut decoder, mut of_slices) = (FrameDecoder::new(1 << 20), FrameDecoder::new(1 << 20));
        let mut frames = Vec::new();
        let mut cuts = cuts.iter().cycle();
        while !stream.is_empty() {
            let cut = *cuts.next().unwrap();
            let mut piece = stream.split_to(cut.min(stream.len()));
            let slice = piece.clone();
            let mut slice = &slice[..];
            while let Some(frame) = decoder.next(&mut piece).unwrap() {
                prop_assert_eq!(of_slices.next(&mut slice).unwrap(), Some(frame.clone()));
                frames.push(decode(frame, &Limits::default()).unwrap());
            }
            prop_assert_eq!(of_slices.next(&mut slice).unwrap(), None);
            prop_assert!(piece.is_empty());
        }
        prop_assert!(decoder.is_between_frames());
        prop_assert_eq!(frames, rpcs);
    }

    #[test]
    fn varints_have_the_length_of_the_standard(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        prop_assert_eq!(varint_len(value), prost::encoding::encoded_len_varint(value));
    }
}

/// Payloads are slices of the frame: relaying a column does not copy it.
#[test]
fn payloads_are_not_copied() {
    let rpc = rpcs::publish(&[7; 4096]);
    let bytes = encoded(&rpc);
    let read = decode(bytes.clone(), &Limits::default()).unwrap();
    let data = &read.publish[0].data;
    assert!(bytes.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn the_last_scalar_wins_and_controls_are_merged() {
    // publish { topic "a", topic "b" }, control { graft { topic "x" } unknown 7 }, control { graft { topic "y" } }
    let bytes = [
        &[0x12, 6, 0x22, 1, b'a', 0x22, 1, b'b'][..],
        &[0x1a, 7, 0x1a, 3, 0x0a, 1, b'x', 0x38, 1],
        &[0x1a, 7, 0x1a, 3, 0x0a, 1, b'y', 0x38, 2],
    ];
    let rpc = decode(bytes.concat().into(), &Limits::default()).unwrap();
    assert_eq!(rpc.publish[0].topic.as_ref().unwrap().as_str(), "b");
    let control = rpc.control.unwrap();
    let grafted: Vec<&str> = control.graft.iter().map(|topic| topic.as_str()).collect();
    assert_eq!(grafted, ["x", "y"]);
    assert_eq!(control.unknown, [0x38, 1, 0x38, 2][..]);
}

#[test]
fn several_lists_of_ids_are_merged() {
    let list = [0x12, 3, 0x0a, 1, 9];
    let bytes = [&[0x1a, 10][..], &list, &list].concat();
    let control = decode(bytes.into(), &Limits::default()).unwrap().control.unwrap();
    assert_eq!(control.iwant.iter().map(|id| id.as_bytes()).collect::<Vec<_>>(), [[9], [9]]);
}

/// The extensions of v1.3 (control field 6), unknown fields of subscriptions and the test extension
/// (field 6492434) survive.
#[test]
fn unknown_fields_of_later_versions_survive() {
    let bytes = [
        &[0x0a, 9, 0x08, 1, 0x12, 1, b't', 0x28, 1, 0x30, 1][..],
        &[0x1a, 4, 0x32, 2, 0x50, 1],
        &[0x5a, 2, 0x0a, 0],
        &[0x92, 0x91, 0xe2, 0x18, 0],
    ]
    .concat();
    let rpc = decode(bytes.clone().into(), &Limits::default()).unwrap();
    assert_eq!(rpc.subscriptions[0].unknown, [0x28, 1, 0x30, 1][..]);
    assert_eq!(rpc.control.as_ref().unwrap().extensions.as_deref(), Some(&[0x50, 1][..]));
    assert_eq!(rpc.unknown.len(), 9);
    assert_eq!(encoded(&rpc), bytes);
}

#[test]
fn extensions_may_be_empty_or_split_but_must_be_fields() {
    let read = |bytes: &[u8]| decode(bytes.to_vec().into(), &Limits::default());
    let extensions = |bytes: &[u8]| read(bytes).unwrap().control.unwrap().extensions;
    assert_eq!(extensions(&[0x1a, 0]), None);
    assert_eq!(extensions(&[0x1a, 2, 0x32, 0]).as_deref(), Some(&[][..]));
    // Extensions occur twice in one control message, and in two of them.
    let whole = [0x50, 1, 0x58, 2];
    assert_eq!(extensions(&[0x1a, 8, 0x32, 2, 0x50, 1, 0x32, 2, 0x58, 2]).as_deref(), Some(&whole[..]));
    assert_eq!(
        extensions(&[0x1a, 4, 0x32, 2, 0x50, 1, 0x1a, 4, 0x32, 2, 0x58, 2]).as_deref(),
        Some(&whole[..])
    );
    assert_eq!(read(&[0x1a, 3, 0x32, 1, 0x50]).unwrap_err().path, "control.extensions");
    assert_eq!(read(&[0x1a, 2, 0x30, 1]).unwrap_err().path, "control.extensions");
}

#[test]
fn unknown_fields_between_known_ones_are_joined() {
    // unknown 9, publish {}, unknown 8
    let bytes = [0x48, 1, 0x12, 0, 0x40, 2];
    let rpc = decode(Bytes::copy_from_slice(&bytes), &Limits::default()).unwrap();
    assert_eq!(rpc.unknown, [0x48, 1, 0x40, 2][..]);
    assert_eq!(encoded(&rpc), [0x12, 0, 0x48, 1, 0x40, 2][..]);
}

#[test]
fn an_empty_frame_is_an_empty_rpc() {
    assert_eq!(decode(Bytes::new(), &Limits::default()).unwrap(), Rpc::default());
    let empty = Rpc { control: Some(Box::new(Control::default())), ..Rpc::default() };
    assert_eq!(decode(encoded(&empty), &Limits::default()).unwrap(), empty);
}

/// A signature covers whether an empty payload is written or left out.
#[test]
fn an_empty_payload_differs_from_a_missing_one() {
    for bytes in [&[0x12, 2, 0x12, 0][..], &[0x12, 0][..]] {
        let rpc = decode(Bytes::copy_from_slice(bytes), &Limits::default()).unwrap();
        assert!(rpc.publish[0].data.is_empty());
        assert_eq!(encoded(&rpc), bytes);
    }
}
