//! The reader against `prost`, and on bytes that no codec writes.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use samara_engine::protobuf::{Reader, WireError, WireErrorKind, put_varint, varint_len};

/// A message with one field of each wire type, and itself as a nested message.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, optional, tag = "1")]
    number: Option<u64>,
    #[prost(fixed64, optional, tag = "2")]
    fixed: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    data: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "4")]
    inner: Option<Box<Sample>>,
    /// Unknown to [`read`].
    #[prost(fixed32, optional, tag = "5")]
    short: Option<u32>,
    /// Unknown to [`read`]; has the longest possible tag.
    #[prost(bytes = "vec", repeated, tag = "536870911")]
    far: Vec<Vec<u8>>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let leaf = (
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        any::<Option<u32>>(),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..3),
    )
        .prop_map(|(number, fixed, data, short, far)| Sample {
            number,
            fixed,
            data: data.map(Bytes::from),
            inner: None,
            short,
            far,
        });
    leaf.prop_recursive(4, 8, 1, |inner| {
        (inner.clone(), inner).prop_map(|(sample, inner)| Sample { inner: Some(Box::new(inner)), ..sample })
    })
}

/// Returns the decoded sample, and the number of bytes skipped.
fn read(mut reader: Reader<'_>) -> Result<(Sample, usize), WireError> {
    let (mut sample, mut skipped) = (Sample::default(), 0);
    while let Some(head) = reader.head()? {
        match head.number() {
            1 => sample.number = Some(reader.number(head, "number")?),
            2 => sample.fixed = Some(reader.fixed64(head, "fixed")?),
            3 => sample.data = Some(reader.bytes(head, "data")?),
            4 => {
                let (inner, more) = read(reader.message(head, "inner")?)?;
                sample.inner = Some(Box::new(inner));
                skipped += more;
            }
            _ => {
                let range = reader.skip(head)?;
                assert_eq!((range.start, range.end), (head.start(), reader.offset()));
                skipped += range.len();
            }
        }
    }
    Ok((sample, skipped))
}

fn without_unknown(sample: &Sample) -> Sample {
    let inner = sample.inner.as_deref().map(|inner| Box::new(without_unknown(inner)));
    Sample { short: None, far: Vec::new(), inner, ..sample.clone() }
}

/// Returns the encoded length of the unknown fields.
fn unknown_len(sample: &Sample) -> usize {
    let own = Sample { short: sample.short, far: sample.far.clone(), ..Sample::default() };
    own.encoded_len() + sample.inner.as_deref().map_or(0, unknown_len)
}

#[track_caller]
fn refused(bytes: &[u8], path: &str, offset: usize, kind: WireErrorKind) {
    let frame = Bytes::copy_from_slice(bytes);
    let error = read(Reader::new(&frame, "frame")).unwrap_err();
    assert_eq!((error.path, error.offset, error.kind), (path, offset, kind), "{error}");
}

proptest! {
    #[test]
    fn reads_what_prost_writes(sample in sample()) {
        let frame = Bytes::from(sample.encode_to_vec());
        let (found, skipped) = read(Reader::new(&frame, "frame")).unwrap();
        prop_assert_eq!(skipped, unknown_len(&sample));
        prop_assert_eq!(found, without_unknown(&sample));
    }

    /// The reader never reads beyond the end of a truncated frame. A frame cut between two fields
    /// of the outermost message is a shorter valid one.
    #[test]
    fn detects_truncated_frames(sample in sample(), at in any::<prop::sample::Index>()) {
        let whole = Bytes::from(sample.encode_to_vec());
        let cut = whole.slice(..at.index(whole.len() + 1));
        let ours = read(Reader::new(&cut, "frame"));
        let theirs = Sample::decode(cut.clone());
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let Err(error) = ours {
            prop_assert!(error.offset <= cut.len());
            prop_assert!(matches!(error.kind, WireErrorKind::Truncated { .. }), "{}", error);
        }
    }

    /// Whenever `prost` accepts bytes that the reader accepts, both return the same. (`prost` also
    /// accepts groups.)
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let frame = Bytes::from(bytes);
        if let Ok((found, _)) = read(Reader::new(&frame, "frame")) {
            let theirs = Sample::decode(frame.clone());
            // Repeated nested messages are merged by `prost` and replaced by `read`.
            if let Ok(theirs) = theirs.as_ref().map(without_unknown) && found.inner.is_none() {
                prop_assert_eq!(theirs, found);
            }
        }
    }

    #[test]
    fn varints_have_the_length_of_the_standard(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        let mut written = vec![1 << 3];
        put_varint(&mut written, value);
        prop_assert_eq!(written.len(), 1 + varint_len(value));
        prop_assert_eq!(varint_len(value), prost::encoding::encoded_len_varint(value));
        let frame = Bytes::from(written);
        prop_assert_eq!(read(Reader::new(&frame, "frame")).unwrap().0.number, Some(value));
    }
}

#[test]
fn errors_name_the_field_offset_and_kind() {
    refused(&[0x08], "number", 1, WireErrorKind::Truncated { needed: 1, available: 0 });
    refused(&[0x08, 0x80], "number", 1, WireErrorKind::Truncated { needed: 2, available: 1 });
    refused(&[0x11, 1, 2], "fixed", 1, WireErrorKind::Truncated { needed: 8, available: 2 });
    refused(&[0x1a, 5, 1], "data", 2, WireErrorKind::Truncated { needed: 5, available: 1 });
    refused(&[0x2d, 1], "frame", 1, WireErrorKind::Truncated { needed: 4, available: 1 });
    refused(&[0x0a, 0], "number", 0, WireErrorKind::WireType { found: 2, expected: 0 });
    refused(&[0x10, 0], "fixed", 0, WireErrorKind::WireType { found: 0, expected: 1 });
    refused(&[0x18, 0], "data", 0, WireErrorKind::WireType { found: 0, expected: 2 });
    for (tag, found) in [(0x33, 3), (0x34, 4), (0x36, 6), (0x37, 7)] {
        refused(&[tag], "frame", 0, WireErrorKind::Unsupported { found });
    }
    refused(&[0x02, 0], "frame", 0, WireErrorKind::FieldNumber);
    refused(&[0xff, 0xff, 0xff, 0xff, 0x1f], "frame", 0, WireErrorKind::FieldNumber);
    refused(&[0xff; 11], "frame", 0, WireErrorKind::VarintTooLong);
    // A nested message ends at its own end, whatever follows in the frame.
    refused(&[0x22, 2, 0x1a, 3, 1, 2, 3], "data", 4, WireErrorKind::Truncated { needed: 3, available: 0 });
}

/// The 64th bit is the first bit of the tenth byte; there is no 65th.
#[test]
fn largest_varint_is_accepted_and_one_more_bit_rejected() {
    let mut frame = vec![0x08];
    put_varint(&mut frame, u64::MAX);
    assert_eq!(read(Reader::new(&frame.clone().into(), "frame")).unwrap().0.number, Some(u64::MAX));
    *frame.last_mut().unwrap() = 2;
    refused(&frame, "number", 1, WireErrorKind::VarintTooLong);
}

#[test]
fn bytes_share_the_frame_and_short_enforces_its_limit() {
    let frame = Bytes::from_static(&[0x1a, 3, 7, 8, 9]);
    let mut reader = Reader::new(&frame, "frame");
    let head = reader.head().unwrap().unwrap();
    let mut bounded = reader.clone();
    assert_eq!(bounded.short(head, "data", "data_bytes", 3).unwrap(), [7, 8, 9]);
    let error = reader.clone().short(head, "data", "data_bytes", 2).unwrap_err();
    let kind = WireErrorKind::Limit { limit: "data_bytes", found: 3, max: 2 };
    assert_eq!(error, WireError { path: "data", offset: 2, kind });
    let data = reader.bytes(head, "data").unwrap();
    assert_eq!(data.as_ptr(), frame[2..].as_ptr(), "no copy");
    assert!(!head.is_varint());
}
