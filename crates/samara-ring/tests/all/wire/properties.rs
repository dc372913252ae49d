//! What holds of every frame.

use bytes::Bytes;
use proptest::prelude::*;
use samara_engine::Frame;
use samara_ring::wire::{Limits, decode, encode};

use super::arbitrary::frame;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_the_same(frame in frame()) {
        let mut written = Vec::new();
        encode(&frame, &mut written);
        prop_assert_eq!(written.len(), frame.encoded_len());
        prop_assert!(frame.payload_len() <= frame.encoded_len());
        prop_assert_eq!(decode(&written.into(), &Limits::default()).unwrap(), frame);
    }

    #[test]
    fn a_frame_cut_short_or_with_more_behind_is_refused(frame in frame(), cut in any::<prop::sample::Index>()) {
        let mut written = Vec::new();
        encode(&frame, &mut written);
        let cut = cut.index(written.len());
        let short = Bytes::copy_from_slice(&written[..cut]);
        prop_assert!(decode(&short, &Limits::default()).is_err());
        written.push(0);
        prop_assert!(decode(&written.into(), &Limits::default()).is_err());
    }

    #[test]
    fn anything_can_come(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..16) {
        if let [version, found, ..] = &mut bytes[..] {
            (*version, *found) = (1, kind);
        }
        if let Ok(frame) = decode(&bytes.into(), &Limits::default()) {
            let mut written = Vec::new();
            encode(&frame, &mut written);
            prop_assert_eq!(decode(&written.into(), &Limits::default()).unwrap(), frame);
        }
    }

    #[test]
    fn a_byte_that_is_changed_does_no_harm(frame in frame(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut written = Vec::new();
        encode(&frame, &mut written);
        let at = at.index(written.len());
        written[at] = to;
        let _ = decode(&written.into(), &Limits::default());
    }
}
