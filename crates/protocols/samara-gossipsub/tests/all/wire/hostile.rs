//! The decoder never panics, and decoded frames survive another round trip.

use bytes::Bytes;
use proptest::prelude::*;
use samara_gossipsub::wire::{FrameDecoder, Limits, decode, encoded_len};

use super::{encoded, rpcs};

/// Checks that decoding, encoding and decoding again returns the same RPC.
fn probe(bytes: &[u8]) {
    let Ok(rpc) = decode(Bytes::copy_from_slice(bytes), &Limits::default()) else { return };
    let again = encoded(&rpc);
    assert_eq!(again.len(), encoded_len(&rpc));
    // Missing topics are written as empty ones (2 bytes each, plus longer lengths), so only the
    // meaning is the same and not the length.
    let limits = Limits { frame_bytes: again.len(), ..Limits::default() };
    assert_eq!(decode(again, &limits).unwrap(), rpc);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        probe(&bytes);
    }

    /// Bytes that often resemble tags and short lengths reach deeper than uniform ones.
    #[test]
    fn likely_bytes(bytes in prop::collection::vec(
        prop_oneof![0u8..12, prop::sample::select(vec![0x0au8, 0x12, 0x1a, 0x22, 0x2a, 0x18, 0x08, 0x50])], 0..80,
    )) {
        probe(&bytes);
    }

    #[test]
    fn mutated_frames(
        rpc in rpcs::rpc(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&rpc).to_vec();
        prop_assume!(!bytes.is_empty());
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        probe(&bytes);
        probe(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn random_streams(bytes in prop::collection::vec(any::<u8>(), 0..2000), cut in 1usize..50) {
        let mut decoder = FrameDecoder::new(200);
        'stream: for piece in bytes.chunks(cut) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                match decoder.next(&mut piece) {
                    Ok(Some(frame)) => prop_assert!(frame.len() <= 200),
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
        }
    }
}
