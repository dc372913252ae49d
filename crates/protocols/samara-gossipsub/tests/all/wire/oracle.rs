//! Comparison with a generated codec: each decodes the other's output, and both encode the same
//! bytes.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use samara_gossipsub::rpc::{Control, PartialMode, Rpc};
use samara_gossipsub::wire::{Limits, decode};

use super::{encoded, rpcs};

/// Declares messages for the generated codec. Each field has its type for the codec and its number.
macro_rules! messages {
    ($($name:ident { $($field:ident: $type:ty = [$($kind:tt)+], $tag:literal;)+ })+) => {
        $(
            #[derive(Clone, PartialEq, prost::Message)]
            struct $name {
                $(#[prost($($kind)+, tag = $tag)] $field: $type,)+
            }
        )+
    };
}

messages! {
    OracleRpc {
        subscriptions: Vec<OracleSubOpts> = [message, repeated], "1";
        publish: Vec<OracleMessage> = [message, repeated], "2";
        control: Option<OracleControl> = [message, optional], "3";
        partial: Option<OraclePartial> = [message, optional], "10";
    }
    OraclePartial {
        topic: Option<String> = [string, optional], "1";
        group: Option<Bytes> = [bytes = "bytes", optional], "2";
        body: Option<Bytes> = [bytes = "bytes", optional], "3";
        metadata: Option<Bytes> = [bytes = "bytes", optional], "4";
    }
    OracleSubOpts {
        subscribe: Option<bool> = [bool, optional], "1";
        topic: Option<String> = [string, optional], "2";
        requests_partial: Option<bool> = [bool, optional], "3";
        supports_partial: Option<bool> = [bool, optional], "4";
    }
    OracleMessage {
        from: Option<Bytes> = [bytes = "bytes", optional], "1";
        data: Option<Bytes> = [bytes = "bytes", optional], "2";
        seqno: Option<Bytes> = [bytes = "bytes", optional], "3";
        topic: Option<String> = [string, optional], "4";
        signature: Option<Bytes> = [bytes = "bytes", optional], "5";
        key: Option<Bytes> = [bytes = "bytes", optional], "6";
    }
    OracleControl {
        ihave: Vec<OracleIHave> = [message, repeated], "1";
        iwant: Vec<OracleIds> = [message, repeated], "2";
        graft: Vec<OracleGraft> = [message, repeated], "3";
        prune: Vec<OraclePrune> = [message, repeated], "4";
        idontwant: Vec<OracleIds> = [message, repeated], "5";
        extensions: Option<OracleExtensions> = [message, optional], "6";
    }
    OracleExtensions {
        partial_messages: Option<bool> = [bool, optional], "10";
        test: Option<bool> = [bool, optional], "6492434";
    }
    OracleIHave {
        topic: Option<String> = [string, optional], "1";
        ids: Vec<Bytes> = [bytes = "bytes", repeated], "2";
    }
    OracleIds {
        ids: Vec<Bytes> = [bytes = "bytes", repeated], "1";
    }
    OracleGraft {
        topic: Option<String> = [string, optional], "1";
    }
    OraclePrune {
        topic: Option<String> = [string, optional], "1";
        peers: Vec<OraclePeer> = [message, repeated], "2";
        backoff: Option<u64> = [uint64, optional], "3";
    }
    OraclePeer {
        identity: Option<Bytes> = [bytes = "bytes", optional], "1";
        record: Option<Bytes> = [bytes = "bytes", optional], "2";
    }
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
