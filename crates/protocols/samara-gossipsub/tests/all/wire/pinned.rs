//! Bytes that must never change, because nodes of any version must decode them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{NodeRng, Purpose};
use samara_gossipsub::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, SubOpts, Topic,
};
use samara_gossipsub::wire::encode_frame;
use sha2::{Digest, Sha256};

use super::encoded;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn all_fields_keep_their_bytes() {
    let (topic, id) = (Topic::new("t"), MessageId::new(&[1, 2]));
    let mut message =
        Message::with_author(topic.clone(), Bytes::from_static(b"data"), Bytes::from_static(b"me"), 258);
    message.signature = Some(Bytes::from_static(b"sig"));
    message.key = Some(Bytes::from_static(b"key"));
    let peer =
        ExchangedPeer { identity: Bytes::from_static(b"p"), signed_record: Some(Bytes::from_static(b"r")) };
    let prune = Prune { topic: topic.clone(), peers: vec![peer], backoff: Some(Duration::from_secs(60)) };
    let control = Control {
        ihave: vec![IHave { topic: topic.clone(), ids: vec![id.clone()] }],
        iwant: vec![id.clone()],
        graft: vec![topic.clone()],
        prune: vec![prune],
        idontwant: vec![id],
        extensions: None,
        unknown: Bytes::new(),
    };
    let rpc = Rpc {
        subscriptions: vec![SubOpts {
            subscribe: true,
            topic,
            partial: PartialMode::Requests,
            unknown: Bytes::new(),
        }],
        publish: [Arc::new(message)].into_iter().collect(),
        control: Some(Box::new(control)),
        partial: Some(Box::new(Partial {
            topic: Topic::new("t"),
            group: Bytes::from_static(b"g"),
            body: Some(Bytes::from_static(b"parts")),
            metadata: Some(Bytes::from_static(b"m")),
        })),
        unknown: Bytes::new(),
    };
    let expected = [
        "0a09",
        "0801",
        "120174",
        "1801",
        "2001",
        "1221",
        "0a026d65",
        "120464617461",
        "1a080000000000000102",
        "220174",
        "2a03736967",
        "32036b6579",
        "1a29",
        "0a07",
        "0a0174",
        "12020102",
        "1204",
        "0a020102",
        "1a03",
        "0a0174",
        "220d",
        "0a0174",
        "1206",
        "0a0170",
        "120172",
        "183c",
        "2a04",
        "0a020102",
        "5210",
        "0a0174",
        "120167",
        "1a057061727473",
        "22016d",
    ];
    assert_eq!(hex(&encoded(&rpc)), expected.concat());
}

fn random_bytes(rng: &mut NodeRng, max: u64) -> Bytes {
    (0..rng.below(max + 1)).map(|_| rng.next_u64() as u8).collect()
}

fn random_topic(rng: &mut NodeRng) -> Topic {
    Topic::new(&format!("topic-{}", rng.below(1_000)))
}

fn random_ids(rng: &mut NodeRng) -> Vec<MessageId> {
    (0..rng.below(20)).map(|_| MessageId::new(&random_bytes(rng, 40))).collect()
}

fn random_prune(rng: &mut NodeRng) -> Prune {
    let peer = |rng: &mut NodeRng| ExchangedPeer {
        identity: random_bytes(rng, 40),
        signed_record: rng.chance(0.5).then(|| random_bytes(rng, 200)),
    };
    Prune {
        topic: random_topic(rng),
        peers: (0..rng.below(3)).map(|_| peer(rng)).collect(),
        backoff: rng.chance(0.5).then(|| Duration::from_secs(rng.below(100_000))),
    }
}

/// Returns random RPCs from the project's own generator, whose values never change.
fn random_rpc(rng: &mut NodeRng) -> Rpc {
    let mut rpc = Rpc::default();
    for _ in 0..rng.below(3) {
        let (subscribe, topic) = (rng.chance(0.5), random_topic(rng));
        rpc.subscriptions.push(SubOpts {
            subscribe,
            topic,
            partial: Default::default(),
            unknown: Bytes::new(),
        });
    }
    for _ in 0..rng.below(3) {
        let data = random_bytes(rng, 3_000);
        let mut message =
            Message::with_author(random_topic(rng), data, random_bytes(rng, 40), rng.next_u64());
        message.signature = rng.chance(0.5).then(|| random_bytes(rng, 70));
        message.key = rng.chance(0.2).then(|| random_bytes(rng, 300));
        rpc.publish.push(Arc::new(message));
    }
    if rng.chance(0.7) {
        let ihave = |rng: &mut NodeRng| IHave { topic: random_topic(rng), ids: random_ids(rng) };
        rpc.control = Some(Box::new(Control {
            ihave: (0..rng.below(3)).map(|_| ihave(rng)).collect(),
            iwant: random_ids(rng),
            graft: (0..rng.below(3)).map(|_| random_topic(rng)).collect(),
            prune: (0..rng.below(3)).map(|_| random_prune(rng)).collect(),
            idontwant: random_ids(rng),
            extensions: None,
            unknown: Bytes::new(),
        }));
    }
    rpc
}

/// A hash over the bytes of 500 random RPCs, including length prefixes. It may change with the
/// generator above, but never with the format.
#[test]
fn seeded_rpcs_keep_their_hash() {
    let mut rng = NodeRng::new(1, 2, Purpose::Workload);
    let mut hash = Sha256::new();
    for _ in 0..500 {
        let mut frame = Vec::new();
        encode_frame(&random_rpc(&mut rng), &mut frame);
        hash.update(frame);
    }
    assert_eq!(hex(&hash.finalize()), "b5ad5779fe0d776bc290e88f65646b60fc3b4ac66d759433941ba9c4af69ff00");
}
