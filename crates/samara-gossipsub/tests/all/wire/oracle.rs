//! Comparison with a generated codec: each decodes the other's output, and both encode the same
//! bytes.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use samara_gossipsub::rpc::{Control, PartialMode, Rpc};
use samara_gossipsub::wire::{Limits, decode};

use super::{encoded, rpcs};

#[derive(Clone, PartialEq, prost::Message)]
struct OracleRpc {
    #[prost(message, repeated, tag = "1")]
    subscriptions: Vec<OracleSubOpts>,
    #[prost(message, repeated, tag = "2")]
    publish: Vec<OracleMessage>,
    #[prost(message, optional, tag = "3")]
    control: Option<OracleControl>,
    #[prost(message, optional, tag = "10")]
    partial: Option<OraclePartial>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OraclePartial {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    group: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    body: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    metadata: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleSubOpts {
    #[prost(bool, optional, tag = "1")]
    subscribe: Option<bool>,
    #[prost(string, optional, tag = "2")]
    topic: Option<String>,
    #[prost(bool, optional, tag = "3")]
    requests_partial: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    supports_partial: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleMessage {
    #[prost(bytes = "bytes", optional, tag = "1")]
    from: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    data: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    seqno: Option<Bytes>,
    #[prost(string, optional, tag = "4")]
    topic: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    signature: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    key: Option<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleControl {
    #[prost(message, repeated, tag = "1")]
    ihave: Vec<OracleIHave>,
    #[prost(message, repeated, tag = "2")]
    iwant: Vec<OracleIds>,
    #[prost(message, repeated, tag = "3")]
    graft: Vec<OracleGraft>,
    #[prost(message, repeated, tag = "4")]
    prune: Vec<OraclePrune>,
    #[prost(message, repeated, tag = "5")]
    idontwant: Vec<OracleIds>,
    #[prost(message, optional, tag = "6")]
    extensions: Option<OracleExtensions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleExtensions {
    #[prost(bool, optional, tag = "10")]
    partial_messages: Option<bool>,
    #[prost(bool, optional, tag = "6492434")]
    test: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleIHave {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    ids: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleIds {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    ids: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OracleGraft {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OraclePrune {
    #[prost(string, optional, tag = "1")]
    topic: Option<String>,
    #[prost(message, repeated, tag = "2")]
    peers: Vec<OraclePeer>,
    #[prost(uint64, optional, tag = "3")]
    backoff: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OraclePeer {
    #[prost(bytes = "bytes", optional, tag = "1")]
    identity: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    record: Option<Bytes>,
}

fn ids(ids: &[samara_gossipsub::rpc::MessageId]) -> Vec<Bytes> {
    ids.iter().map(|id| Bytes::copy_from_slice(id.as_bytes())).collect()
}

fn id_lists(list: &[samara_gossipsub::rpc::MessageId]) -> Vec<OracleIds> {
    if list.is_empty() { Vec::new() } else { vec![OracleIds { ids: ids(list) }] }
}

fn control(control: &Control) -> OracleControl {
    let topic = |topic: &samara_gossipsub::rpc::Topic| Some(topic.as_str().to_owned());
    OracleControl {
        ihave: control
            .ihave
            .iter()
            .map(|ihave| OracleIHave { topic: topic(&ihave.topic), ids: ids(&ihave.ids) })
            .collect(),
        iwant: id_lists(&control.iwant),
        graft: control.graft.iter().map(|graft| OracleGraft { topic: topic(graft) }).collect(),
        prune: control
            .prune
            .iter()
            .map(|prune| OraclePrune {
                topic: topic(&prune.topic),
                peers: prune
                    .peers
                    .iter()
                    .map(|peer| OraclePeer {
                        identity: Some(peer.identity.clone()),
                        record: peer.signed_record.clone(),
                    })
                    .collect(),
                backoff: prune.backoff.map(|backoff| backoff.as_secs()),
            })
            .collect(),
        idontwant: id_lists(&control.idontwant),
        extensions: control.extensions.clone().map(|fields| OracleExtensions::decode(fields).unwrap()),
    }
}

fn oracle(rpc: &Rpc) -> OracleRpc {
    OracleRpc {
        subscriptions: rpc
            .subscriptions
            .iter()
            .map(|change| OracleSubOpts {
                subscribe: Some(change.subscribe),
                topic: Some(change.topic.as_str().to_owned()),
                requests_partial: (change.partial >= PartialMode::Requests).then_some(true),
                supports_partial: (change.partial >= PartialMode::Supports).then_some(true),
            })
            .collect(),
        publish: rpc
            .publish
            .iter()
            .map(|message| OracleMessage {
                from: message.from.clone(),
                data: (!message.data.is_empty()).then(|| message.data.clone()),
                seqno: message.seqno.clone(),
                topic: message.topic.as_ref().map(|topic| topic.as_str().to_owned()),
                signature: message.signature.clone(),
                key: message.key.clone(),
            })
            .collect(),
        control: rpc.control.as_deref().map(control),
        partial: rpc.partial.as_deref().map(|partial| OraclePartial {
            topic: Some(partial.topic.as_str().to_owned()),
            group: Some(partial.group.clone()),
            body: partial.body.clone(),
            metadata: partial.metadata.clone(),
        }),
    }
}

proptest! {
    #[test]
    fn a_generated_codec_decodes_our_frames(rpc in rpcs::rpc()) {
        let read = OracleRpc::decode(encoded(&rpc)).unwrap();
        prop_assert_eq!(read, oracle(&rpc));
    }

    #[test]
    fn our_codec_decodes_frames_of_a_generated_codec(rpc in rpcs::rpc()) {
        let written = oracle(&rpc).encode_to_vec();
        let read = decode(written.clone().into(), &Limits::default()).unwrap();
        prop_assert_eq!(oracle(&read), oracle(&rpc));
        // Without unknown fields, an RPC has only one encoding.
        prop_assert_eq!(encoded(&read), written);
    }

    /// On damaged frames, both codecs agree about validity and contents. The generated codec also
    /// accepts groups and, having no limits, more of everything. It rejects nothing that ours
    /// accepts.
    #[test]
    fn both_agree_on_damaged_frames(
        rpc in rpcs::rpc(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&rpc).to_vec();
        prop_assume!(!bytes.is_empty());
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(read) = decode(bytes.clone().into(), &Limits::default()) {
            let theirs = OracleRpc::decode(&bytes[..]);
            prop_assert!(theirs.is_ok(), "{:?}", theirs);
            prop_assert_eq!(theirs.unwrap().publish.len(), read.publish.len());
        }
    }
}
