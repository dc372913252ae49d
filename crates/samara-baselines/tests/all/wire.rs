//! Both formats: held against the codec of `samara-gossipsub` and against a generated one.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use samara_baselines::{
    Graft, IHave, Message, MessageId, PlumtreeFrame, RpcFrame, SubOpts, Topic, WireErrorKind,
};
use samara_engine::{Frame, PeerIdentity};
use samara_gossipsub::rpc;

fn bytes(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), len)
}

fn seqno() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(127), any::<u64>()]
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    let data = prop_oneof![bytes(0..3), bytes(100..400), bytes(16_300..16_500)];
    (bytes(0..200), seqno(), ".{0,150}", data).prop_map(|(author, seqno, topic, data)| {
        Arc::new(Message::new(PeerIdentity::new(&author), seqno, Topic::new(&topic), data.into()))
    })
}

fn changes() -> impl Strategy<Value = Vec<(bool, String)>> {
    prop::collection::vec((any::<bool>(), ".{0,150}"), 0..10)
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// The frame without its length, which is checked.
fn body(frame: &[u8]) -> Bytes {
    let mut rest = frame;
    let len = prost::decode_length_delimiter(&mut rest).unwrap();
    assert_eq!(len, rest.len());
    Bytes::copy_from_slice(rest)
}

fn gossipsub_frame(rpc: &rpc::Rpc) -> Vec<u8> {
    encoded(|out| samara_gossipsub::wire::encode_frame(rpc, out))
}

fn theirs(message: &Message) -> Arc<rpc::Message> {
    let topic = rpc::Topic::new(message.topic().as_str());
    let from = Bytes::copy_from_slice(message.author().as_bytes());
    Arc::new(rpc::Message::with_author(topic, message.data().clone(), from, message.seqno()))
}

proptest! {
    #[test]
    fn messages_are_written_as_gossipsub_writes_them(message in message()) {
        let theirs = rpc::Rpc { publish: [theirs(&message)].into_iter().collect(), ..rpc::Rpc::default() };
        let frame = RpcFrame::Publish(Arc::clone(&message));
        let ours = encoded(|out| frame.encode(out));
        prop_assert_eq!(&ours, &gossipsub_frame(&theirs));
        prop_assert_eq!(frame.encoded_len(), ours.len());
        prop_assert_eq!(frame.encoded_len(), rpc::RpcFrame::new(theirs).encoded_len());
        prop_assert_eq!(frame.payload_len(), message.data().len());
        prop_assert_eq!(RpcFrame::decode(body(&ours)).unwrap(), vec![frame]);
    }

    #[test]
    fn subscriptions_are_written_as_gossipsub_writes_them(changes in changes()) {
        let change = |(subscribe, name): &(bool, String)| rpc::SubOpts {
            subscribe: *subscribe,
            topic: rpc::Topic::new(name),
            unknown: Bytes::new(),
        };
        let theirs =
            rpc::Rpc { subscriptions: changes.iter().map(change).collect(), ..rpc::Rpc::default() };
        let ours = |(subscribe, name): &(bool, String)| SubOpts {
            subscribe: *subscribe,
            topic: Topic::new(name),
        };
        let frame = RpcFrame::Subscriptions(changes.iter().map(ours).collect());
        let ours = encoded(|out| frame.encode(out));
        prop_assert_eq!(&ours, &gossipsub_frame(&theirs));
        prop_assert_eq!(frame.encoded_len(), ours.len());
        let read = RpcFrame::decode(body(&ours)).unwrap();
        prop_assert_eq!(read, if changes.is_empty() { vec![] } else { vec![frame] });
    }

    #[test]
    fn an_rpc_with_everything_is_read_subscriptions_first(
        changes in changes(),
        messages in prop::collection::vec(message(), 0..4),
    ) {
        let control = rpc::Control { graft: vec![rpc::Topic::new("x")], ..rpc::Control::default() };
        let change = |(subscribe, name): &(bool, String)| rpc::SubOpts {
            subscribe: *subscribe,
            topic: rpc::Topic::new(name),
            unknown: Bytes::new(),
        };
        let theirs = rpc::Rpc {
            subscriptions: changes.iter().map(change).collect(),
            publish: messages.iter().map(|message| self::theirs(message)).collect(),
            control: Some(Box::new(control)),
            ..rpc::Rpc::default()
        };
        let read = RpcFrame::decode(body(&gossipsub_frame(&theirs))).unwrap();
        let mut expected: Vec<RpcFrame> = messages.into_iter().map(RpcFrame::Publish).collect();
        if !changes.is_empty() {
            let of = |(subscribe, name): &(bool, String)| SubOpts {
                subscribe: *subscribe,
                topic: Topic::new(name),
            };
            expected.insert(0, RpcFrame::Subscriptions(changes.iter().map(of).collect()));
        }
        prop_assert_eq!(read, expected);
    }
}

#[test]
fn signed_and_anonymous_messages_are_refused() {
    let make = || rpc::Message::new(rpc::Topic::new("t"), Bytes::from_static(b"x"));
    let (mut signed, anonymous, mut short) = (make(), make(), make());
    signed.signature = Some(Bytes::from_static(b"s"));
    short.from = Some(Bytes::new());
    short.seqno = Some(Bytes::from_static(b"7"));
    let expected = [
        (signed, "publish.signature", WireErrorKind::Refused),
        (anonymous, "publish.from", WireErrorKind::Missing),
        (short, "publish.seqno", WireErrorKind::Length { found: 1, expected: "8" }),
    ];
    for (message, field, kind) in expected {
        let rpc = rpc::Rpc { publish: [Arc::new(message)].into_iter().collect(), ..Default::default() };
        let error = RpcFrame::decode(body(&gossipsub_frame(&rpc))).unwrap_err();
        assert_eq!((error.path, error.kind), (field, kind));
    }
}

// ---- Plumtree ----

#[derive(Clone, PartialEq, prost::Message)]
struct OracleFrame {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
    #[prost(oneof = "OracleKind", tags = "2, 3, 4, 5")]
    kind: Option<OracleKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OracleKind {
    #[prost(message, tag = "2")]
    Gossip(OracleGossip),
    #[prost(message, tag = "3")]
    IHave(OracleIHave),
    #[prost(message, tag = "4")]
    Graft(OracleGraft),
    #[prost(message, tag = "5")]
    Prune(OraclePrune),
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleGossip {
    #[prost(bytes = "vec", optional, tag = "1")]
    author: Option<Vec<u8>>,
    #[prost(fixed64, tag = "2")]
    seqno: u64,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
    #[prost(uint32, optional, tag = "4")]
    round: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleIHave {
    #[prost(bytes = "vec", tag = "1")]
    ids: Vec<u8>,
    #[prost(uint32, repeated, packed = "true", tag = "2")]
    rounds: Vec<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleGraft {
    #[prost(bytes = "vec", optional, tag = "1")]
    id: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "2")]
    round: Option<u32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OraclePrune {}

fn id() -> impl Strategy<Value = MessageId> {
    any::<[u8; 16]>().prop_map(MessageId::from_bytes)
}

fn round() -> impl Strategy<Value = u32> {
    prop_oneof![0..200u32, any::<u32>()]
}

fn frame() -> impl Strategy<Value = PlumtreeFrame> {
    let gossip = (message(), round()).prop_map(|(message, round)| PlumtreeFrame::Gossip { message, round });
    let topic = || ".{0,150}".prop_map(|name| Topic::new(&name));
    let ihave = (topic(), prop::collection::vec((id(), round()), 0..20))
        .prop_map(|(topic, messages)| PlumtreeFrame::IHave(Arc::new(IHave { topic, messages })));
    let graft = (topic(), prop::option::of(id()), round())
        .prop_map(|(topic, id, round)| PlumtreeFrame::Graft(Arc::new(Graft { topic, id, round })));
    prop_oneof![gossip, ihave, graft, topic().prop_map(PlumtreeFrame::Prune)]
}

fn oracle(frame: &PlumtreeFrame) -> OracleFrame {
    let kind = match frame {
        PlumtreeFrame::Gossip { message, round } => OracleKind::Gossip(OracleGossip {
            author: Some(message.author().as_bytes().to_vec()),
            seqno: message.seqno(),
            data: message.data().to_vec(),
            round: Some(*round),
        }),
        PlumtreeFrame::IHave(ihave) => OracleKind::IHave(OracleIHave {
            ids: ihave.messages.iter().flat_map(|(id, _)| id.to_bytes()).collect(),
            rounds: ihave.messages.iter().map(|(_, round)| *round).collect(),
        }),
        PlumtreeFrame::Graft(graft) => OracleKind::Graft(OracleGraft {
            id: graft.id.map(|id| id.to_bytes().to_vec()),
            round: Some(graft.round),
        }),
        PlumtreeFrame::Prune(_) => OracleKind::Prune(OraclePrune {}),
    };
    OracleFrame { topic: Some(frame.topic().as_str().to_owned()), kind: Some(kind) }
}

proptest! {
    #[test]
    fn plumtree_frames_are_the_protobuf_that_is_documented(frame in frame()) {
        let ours = encoded(|out| frame.encode(out));
        prop_assert_eq!(frame.encoded_len(), ours.len());
        prop_assert_eq!(&ours, &oracle(&frame).encode_length_delimited_to_vec());
        prop_assert_eq!(PlumtreeFrame::decode(body(&ours)).unwrap(), frame);
    }

    #[test]
    fn no_bytes_make_reading_panic(garbage in bytes(0..200)) {
        let _ = PlumtreeFrame::decode(Bytes::from(garbage.clone()));
        let _ = RpcFrame::decode(Bytes::from(garbage));
    }

    #[test]
    fn frames_that_are_cut_short_are_refused_or_read_as_less(frame in frame(), cut in 0.0..1.0f64) {
        let ours = body(&encoded(|out| frame.encode(out)));
        let cut = (ours.len() as f64 * cut) as usize;
        prop_assert_ne!(PlumtreeFrame::decode(ours.slice(..cut)).ok(), Some(frame));
    }
}

/// The message of an error names the field, its place, and what is wrong.
#[test]
fn malformed_frames_are_refused_with_the_place() {
    let refused =
        |bytes: &[u8]| PlumtreeFrame::decode(Bytes::copy_from_slice(bytes)).unwrap_err().to_string();
    assert_eq!(refused(&[0x0a, 1, b't']), "kind, at byte 3: missing");
    assert_eq!(refused(&[0x2a, 0]), "topic, at byte 2: missing");
    assert_eq!(refused(&[0x08, 1]), "topic, at byte 0: wire type 0 found, 2 expected");
    assert_eq!(refused(&[0x0a, 1, 0xff]), "topic, at byte 0: not UTF-8");
    let ihave = [&[0x0a, 0, 0x1a, 20, 0x0a, 16][..], &[0; 16], &[0x12, 0]].concat();
    assert_eq!(refused(&ihave), "ihave.rounds, at byte 24: missing");
    let graft = [&[0x0a, 0, 0x22, 6, 0x10][..], &[0xff, 0xff, 0xff, 0xff, 0x10]].concat();
    let range = "graft.round, at byte 4: 8589934591 found, at most 4294967295 allowed by the limit uint32";
    assert_eq!(refused(&graft)[..20], range[..20]);
    assert!(
        refused(&graft).ends_with("at most 4294967295 allowed by the limit uint32"),
        "{}",
        refused(&graft)
    );
}

#[test]
fn ids_depend_on_everything_but_the_copy() {
    let make = |author: &[u8], seqno, topic: &str, data: &'static [u8]| {
        Message::new(PeerIdentity::new(author), seqno, Topic::new(topic), Bytes::from_static(data)).id()
    };
    let id = make(b"ab", 1, "c", b"d");
    assert_eq!(id, make(b"ab", 1, "c", b"d"));
    let others = [
        make(b"a", 1, "c", b"d"),
        make(b"ab", 2, "c", b"d"),
        make(b"ab", 1, "cd", b""),
        make(b"ab", 1, "c", b"e"),
    ];
    assert!(others.iter().all(|other| *other != id));
    // Pinned: the first 16 bytes of SHA-256 over 00..02 "ab" 00..01 00..01 "c" "d".
    assert_eq!(format!("{id:?}"), PINNED);
}

const PINNED: &str = "e0feb5d40c34b73381ad6d79350ee088";
