//! The signed bytes, the fields that a policy requires, and message ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use proptest::prelude::*;
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, MessageId, Topic};
use samara_gossipsub::signature::{SignatureError, SignaturePolicy, Signer, Verifier, sign, signed_bytes};
use sha2::{Digest, Sha256};

use super::rpcs;

/// A keyed hash that replaces a signature.
struct Keyed;

impl Signer for Keyed {
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        Sha256::digest([b"secret", bytes].concat()).to_vec()
    }

    fn attached_key(&self) -> Option<Vec<u8>> {
        Some(b"key".to_vec())
    }
}

impl Verifier for Keyed {
    fn verify(&self, author: &[u8], key: Option<&[u8]>, bytes: &[u8], signature: &[u8]) -> bool {
        author == b"me" && key == Some(b"key") && self.sign(bytes) == signature
    }
}

fn authored() -> Message {
    Message::with_author(Topic::new("t"), Bytes::from_static(b"data"), Bytes::from_static(b"me"), 1)
}

#[test]
fn the_signed_bytes_omit_the_signature() {
    let mut message = authored();
    let before = signed_bytes(&message);
    assert!(before.starts_with(b"libp2p-pubsub:\x0a\x02me"));
    sign(&mut message, &Keyed);
    assert_eq!(signed_bytes(&message), before);
}

#[test]
fn policies_require_their_fields() {
    use SignaturePolicy::{LaxNoSign, LaxSign, StrictNoSign, StrictSign};
    let check = |message: &Message| {
        [StrictSign, StrictNoSign, LaxSign, LaxNoSign].map(|policy| policy.verify(message, &Keyed).err())
    };
    let bare = Message::new(Topic::new("t"), Bytes::from_static(b"data"));
    assert_eq!(check(&bare), [Some(SignatureError::MissingSignature), None, None, None]);

    let unsigned = authored();
    let (missing, unexpected) = (SignatureError::MissingSignature, SignatureError::UnexpectedAuthor);
    assert_eq!(check(&unsigned), [Some(missing), Some(unexpected), None, None]);

    let mut signed = authored();
    sign(&mut signed, &Keyed);
    let unexpected = SignatureError::UnexpectedSignature;
    assert_eq!(check(&signed), [None, Some(unexpected), None, None]);

    signed.data = Bytes::from_static(b"other");
    let wrong = Some(SignatureError::InvalidSignature);
    assert_eq!(check(&signed), [wrong, Some(unexpected), wrong, wrong]);

    signed.seqno = Some(Bytes::from_static(&[1]));
    assert_eq!(StrictSign.check_fields(&signed), Err(SignatureError::SequenceNumber));
    signed.from = None;
    assert_eq!(StrictSign.check_fields(&signed), Err(SignatureError::MissingAuthor));
    assert!(StrictSign.signs() && LaxSign.signs() && !StrictNoSign.signs() && !LaxNoSign.signs());
}

proptest! {
    #[test]
    fn a_signed_message_verifies_until_it_is_changed(mut message in rpcs::message()) {
        message.from = Some(Bytes::from_static(b"me"));
        message.seqno = Some(Bytes::from_static(&[0; 8]));
        sign(&mut message, &Keyed);
        prop_assert_eq!(SignaturePolicy::StrictSign.verify(&message, &Keyed), Ok(()));
        message.seqno = Some(Bytes::from_static(&[1; 8]));
        let changed = SignaturePolicy::StrictSign.verify(&message, &Keyed);
        prop_assert_eq!(changed, Err(SignatureError::InvalidSignature));
    }
}

#[test]
fn ids_match_those_of_the_implementations() {
    let message = authored();
    let go = MessageIdFn::FromSeqno.id(&message);
    assert_eq!(go.as_bytes(), b"me\0\0\0\0\0\0\0\x01");
    // "me" is 28005 = 8 * 58^2 + 18 * 58 + 49, in Bitcoin's alphabet "9Kr".
    assert_eq!(MessageIdFn::FromSeqnoBase58.id(&message).as_bytes(), b"9Kr1");
    // The test vector of the base58 draft (draft-msporny-base58), followed by no number.
    let mut hello = Message::default();
    hello.from = Some(Bytes::from_static(b"Hello World!"));
    assert_eq!(MessageIdFn::FromSeqnoBase58.id(&hello).as_bytes(), b"2NEpo7TZRRrLZSi2U0");
    // Without author and number: the peer id 00 01 00 (256 = 4 * 58 + 24), and 0.
    assert_eq!(MessageIdFn::FromSeqnoBase58.id(&Message::default()).as_bytes(), b"15R0");
    let sha = MessageIdFn::Sha256Data { len: 20 }.id(&message);
    assert_eq!(sha.as_bytes(), &Sha256::digest(b"data")[..20]);
    assert_eq!(MessageIdFn::Sha256Data { len: 255 }.id(&message).as_bytes().len(), 32);
}

#[test]
fn ids_match_those_of_ethereum() {
    let decompress = |data: &[u8]| data.strip_prefix(b"z").map(Bytes::copy_from_slice);
    let ids = MessageIdFn::ethereum(true, Some(Arc::new(decompress)));
    let id = |data: &'static [u8]| ids.id(&Message::new(Topic::new("top"), Bytes::from_static(data)));
    let expected = |bytes: &[u8]| MessageId::new(&Sha256::digest(bytes)[..20]);
    assert_eq!(id(b"zdata"), expected(b"\x01\0\0\0\x03\0\0\0\0\0\0\0topdata"));
    assert_eq!(id(b"data"), expected(b"\0\0\0\0\x03\0\0\0\0\0\0\0topdata"));
    let phase0 = MessageIdFn::ethereum(false, None);
    let message = Message::new(Topic::new("top"), Bytes::from_static(b"data"));
    assert_eq!(phase0.id(&message), expected(b"\x01\0\0\0data"));
}

#[test]
fn an_id_is_computed_once_per_message_and_function() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let counted = MessageIdFn::custom(|message| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        MessageId::new(&message.data)
    });
    let other = MessageIdFn::custom(|_| MessageId::new(b"other"));
    let message = authored();
    for _ in 0..10 {
        assert_eq!(counted.clone().id(&message).as_bytes(), b"data");
        assert_eq!(other.id(&message).as_bytes(), b"other");
        assert_eq!(MessageIdFn::FromSeqno.id(&message).as_bytes().len(), 10);
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}
