//! Nodes of the baselines among peers that send any frames. They have no decoder, so a frame is a
//! few bytes that select its kind and its fields from small sets.

use std::sync::Arc;

use bytes::Bytes;
use samara_baselines::{
    Baseline, Command, Forest, Graft, IHave, Message, MessageId, Plumtree, PlumtreeConfig, PlumtreeFrame,
    PubSub, PubSubConfig, RpcFrame, SubOpts, Topic,
};
use samara_engine::testing::{Single, identity_of};
use samara_engine::{Engine, Frame, Input, Outbox, PeerIdentity};

use crate::nodes::{Played, nothing};

const SEEN_MAX: usize = 8;
const CACHED_MAX: usize = 4;
const MISSING_MAX: usize = 6;

fn topic(number: u8) -> Topic {
    Topic::new(["a", "b", "c", ""][usize::from(number % 4)])
}

/// One of 256 messages of different authors and topics.
fn message(number: u8) -> Arc<Message> {
    let (author, data) = (identity_of(u32::from(number % 5)), Bytes::from(vec![number; usize::from(number)]));
    Arc::new(Message::new(author, u64::from(number / 16), topic(number / 8), data))
}

/// The id of a message, or an invented one.
fn id(number: u8) -> MessageId {
    if number < 128 { message(number).id() } else { MessageId::from_bytes([number; MessageId::LEN]) }
}

fn subscriptions(choices: &[u8]) -> Arc<[SubOpts]> {
    choices.iter().map(|choice| SubOpts { subscribe: choice & 16 == 0, topic: topic(*choice) }).collect()
}

fn rpc(bytes: &[u8]) -> Option<RpcFrame> {
    let [kind, first, ..] = bytes else { return None };
    Some(match kind % 2 {
        0 => RpcFrame::Publish(message(*first)),
        _ => RpcFrame::Subscriptions(subscriptions(&bytes[1..])),
    })
}

fn plumtree_frame(bytes: &[u8]) -> Option<PlumtreeFrame> {
    let [kind, first, second, rest @ ..] = bytes else { return None };
    let round = if *second == u8::MAX { u32::MAX } else { u32::from(*second) };
    Some(match kind % 5 {
        0 => PlumtreeFrame::Gossip { message: message(*first), round },
        1 => {
            let messages = rest.iter().map(|number| (id(*number), round)).collect();
            PlumtreeFrame::IHave(IHave { topic: topic(*first), messages }.into())
        }
        2 => {
            let id = rest.first().map(|number| id(*number));
            PlumtreeFrame::Graft(Graft { topic: topic(*first), id, round }.into())
        }
        3 => PlumtreeFrame::Prune(topic(*first)),
        _ => PlumtreeFrame::Subscriptions(subscriptions(&bytes[1..])),
    })
}

/// Plays a script to a node that joined two topics, and publishes.
fn play<B: Baseline>(
    engine: B,
    outbox: Outbox<B::Frame>,
    script: &[u8],
    decode: fn(&[u8]) -> Option<B::Frame>,
    check: impl Fn(&B),
) where
    B::Frame: Frame,
    B: Engine<Command = Command>,
{
    let mut node = Played::new((engine, outbox), "", 4, identity_of, nothing);
    for number in 0..2 {
        node.handle(Input::Command(Command::Subscribe(topic(number))));
    }
    node.handle(Input::Command(Command::Publish { topic: topic(0), data: Bytes::from_static(b"own") }));
    let encodable =
        |bytes: Bytes| decode(&bytes).inspect(|frame| assert!(frame.encoded_len() > frame.payload_len()));
    node.play(script, encodable, |node: &Single<B>| check(&node.engine));
}

/// The first byte of an input selects the protocol.
pub(crate) fn baselines(data: &[u8]) {
    let Some((kind, script)) = data.split_first() else { return };
    let me = || PeerIdentity::new(b"me");
    let (mut pubsub, mut plumtree) = (PubSubConfig::default(), PlumtreeConfig::default());
    (pubsub.common.seen_capacity, plumtree.common.seen_capacity) = (SEEN_MAX, SEEN_MAX);
    (pubsub.topics_per_peer_max, pubsub.subscriptions_per_rpc_max) = (3, 3);
    (plumtree.cache_messages_max, plumtree.missing_max) = (CACHED_MAX, MISSING_MAX);
    let valid = "a valid configuration";
    let check_pubsub = |node: &PubSub| assert!(node.sizes().1 <= SEEN_MAX, "{:?}", node.sizes());
    let check_tree = |node: &Plumtree| {
        let sizes = node.sizes();
        let is_bounded = sizes.seen <= SEEN_MAX && sizes.cached <= CACHED_MAX && sizes.missing <= MISSING_MAX;
        assert!(is_bounded, "{sizes:?}");
    };
    let (of_pubsub, of_plumtree) =
        (Outbox::new(pubsub.common.outbox_config()), Outbox::new(plumtree.common.outbox_config()));
    match kind % 4 {
        0 => play(PubSub::floodsub(pubsub, me()).expect(valid), of_pubsub, script, rpc, check_pubsub),
        1 => play(PubSub::randomsub(pubsub, me(), 9).expect(valid), of_pubsub, script, rpc, check_pubsub),
        2 => {
            let node = Plumtree::new(plumtree, me(), topic(0)).expect(valid);
            play(
                node,
                Outbox::new(PlumtreeConfig::default().common.outbox_config()),
                script,
                plumtree_frame,
                check_tree,
            );
        }
        _ => {
            let node = Forest::new(plumtree, me()).expect(valid);
            play(node, of_plumtree, script, plumtree_frame, |node: &Forest| {
                (0..4).filter_map(|number| node.tree(&topic(number))).for_each(check_tree);
            });
        }
    }
}

pub(crate) fn baselines_seeds() -> Vec<Vec<u8>> {
    let script = |kind: u8, frames: &[&[u8]]| {
        let step =
            |(peer, frame): (u8, &&[u8])| [&[peer % 3 | 20 << 2, frame.len() as u8, 0][..], frame].concat();
        [vec![kind]].into_iter().chain((0..).zip(frames).map(step)).flatten().collect::<Vec<u8>>()
    };
    let rpcs: [&[u8]; 4] = [&[1, 0, 1, 18], &[0, 1], &[0, 1], &[0, 40]];
    let trees: [&[u8]; 7] =
        [&[4, 0, 1], &[0, 1, 3], &[1, 0, 2, 2, 3, 200], &[2, 0, 1, 1], &[2, 0, 1], &[3, 0, 0], &[0, 2, 255]];
    vec![script(0, &rpcs), script(1, &rpcs), script(2, &trees), script(3, &trees)]
}
