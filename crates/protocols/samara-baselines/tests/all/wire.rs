//! The frame lengths of both formats, compared with the codec of `samara-gossipsub` and with a
//! generated one.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use samara_baselines::{Graft, IHave, Message, MessageId, PlumtreeFrame, RpcFrame, SubOpts, Topic};
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

fn theirs(message: &Message) -> Arc<rpc::Message> {
    let topic = rpc::Topic::new(message.topic().as_str());
    let from = Bytes::copy_from_slice(message.author().as_bytes());
    Arc::new(rpc::Message::with_author(topic, message.data().clone(), from, message.seqno()))
}

proptest! {
    #[test]
    fn message_lengths_match_gossipsub(message in message()) {
        let theirs = rpc::Rpc { publish: [theirs(&message)].into_iter().collect(), ..rpc::Rpc::default() };
        let frame = RpcFrame::Publish(Arc::clone(&message));
        prop_assert_eq!(frame.encoded_len(), rpc::RpcFrame::new(theirs).encoded_len());
        prop_assert_eq!(frame.payload_len(), message.data().len());
    }

    #[test]
    fn subscription_lengths_match_gossipsub(changes in changes()) {
        let change = |(subscribe, name): &(bool, String)| rpc::SubOpts {
            subscribe: *subscribe,
            topic: rpc::Topic::new(name),
            partial: Default::default(),
            unknown: Bytes::new(),
        };
        let theirs =
            rpc::Rpc { subscriptions: changes.iter().map(change).collect(), ..rpc::Rpc::default() };
        let ours = |(subscribe, name): &(bool, String)| SubOpts {
            subscribe: *subscribe,
            topic: Topic::new(name),
        };
        let frame = RpcFrame::Subscriptions(changes.iter().map(ours).collect());
        prop_assert_eq!(frame.encoded_len(), rpc::RpcFrame::new(theirs).encoded_len());
    }
}

// ---- Plumtree ----

#[derive(Clone, PartialEq, prost::Message)]
struct OracleFrame {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
    #[prost(oneof = "OracleKind", tags = "2, 3, 4, 5")]
    kind: Option<OracleKind>,
    #[prost(message, repeated, tag = "6")]
    subscriptions: Vec<OracleSubOpts>,
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

#[derive(Clone, PartialEq, prost::Message)]
struct OracleSubOpts {
    #[prost(bool, optional, tag = "1")]
    subscribe: Option<bool>,
    #[prost(string, optional, tag = "2")]
    topic: Option<String>,
}

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
    let change = (any::<bool>(), topic()).prop_map(|(subscribe, topic)| SubOpts { subscribe, topic });
    let changes =
        prop::collection::vec(change, 1..20).prop_map(|changes| PlumtreeFrame::Subscriptions(changes.into()));
    prop_oneof![gossip, ihave, graft, topic().prop_map(PlumtreeFrame::Prune), changes]
}

fn oracle(frame: &PlumtreeFrame) -> OracleFrame {
    if let PlumtreeFrame::Subscriptions(changes) = frame {
        let change = |change: &SubOpts| OracleSubOpts {
            subscribe: Some(change.subscribe),
            topic: Some(change.topic.as_str().to_owned()),
        };
        return OracleFrame { topic: None, kind: None, subscriptions: changes.iter().map(change).collect() };
    }
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
        PlumtreeFrame::Subscriptions(_) => unreachable!(),
    };
    let topic = frame.topic().map(|topic| topic.as_str().to_owned());
    OracleFrame { topic, kind: Some(kind), subscriptions: Vec::new() }
}

proptest! {
    #[test]
    fn plumtree_lengths_match_the_documented_protobuf(frame in frame()) {
        prop_assert_eq!(frame.encoded_len(), oracle(&frame).encode_length_delimited_to_vec().len());
    }
}

#[test]
fn ids_depend_on_every_field_of_a_message() {
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
