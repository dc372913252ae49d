//! Strategies for random RPCs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use samara_gossipsub::rpc::{
    Control, ExchangedPeer, IHave, Message, MessageId, Partial, PartialMode, Prune, Rpc, SubOpts, Topic,
};

pub(crate) fn publish(data: &[u8]) -> Rpc {
    let message = Message::new(Topic::new("topic"), Bytes::copy_from_slice(data));
    Rpc { publish: [Arc::new(message)].into_iter().collect(), ..Rpc::default() }
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn topic() -> impl Strategy<Value = Topic> {
    "[a-z/é0-9]{0,20}".prop_map(|name| Topic::new(&name))
}

fn ids() -> impl Strategy<Value = Vec<MessageId>> {
    vec(vec(any::<u8>(), 0..40), 0..8).prop_map(|ids| ids.iter().map(|id| MessageId::new(id)).collect())
}

/// Generates extensions: none, partial messages, the test extension, or both.
fn extensions() -> impl Strategy<Value = Bytes> {
    const PARTIAL: [u8; 2] = [0x50, 1];
    const TEST: [u8; 5] = [0x90, 0x91, 0xe2, 0x18, 1];
    (any::<bool>(), any::<bool>()).prop_map(|(partial, test)| {
        let of = |there: bool, bytes: &'static [u8]| if there { bytes } else { &[] };
        [of(partial, &PARTIAL), of(test, &TEST)].concat().into()
    })
}

/// Generates fields 20 to 30 as varints, which no version knows.
fn unknown() -> impl Strategy<Value = Bytes> {
    vec((20u32..31, 0u8..128), 0..3).prop_map(|fields| {
        fields
            .iter()
            .flat_map(|(number, value)| [(number << 3) as u8 | 0x80, (number >> 4) as u8, *value])
            .collect()
    })
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    let fields = (
        option::of(bytes(40)),
        bytes(300),
        option::of(bytes(9)),
        option::of(topic()),
        option::of(bytes(70)),
        option::of(bytes(40)),
        unknown(),
    );
    fields.prop_map(|(from, data, seqno, topic, signature, key, unknown)| {
        let mut message = Message::default();
        (message.from, message.data, message.seqno, message.topic) = (from, data, seqno, topic);
        (message.signature, message.key, message.unknown) = (signature, key, unknown);
        message
    })
}

fn prune() -> impl Strategy<Value = Prune> {
    let peer = (bytes(40), option::of(bytes(60)))
        .prop_map(|(identity, signed_record)| ExchangedPeer { identity, signed_record });
    let backoff = option::of(any::<u64>().prop_map(Duration::from_secs));
    (topic(), vec(peer, 0..4), backoff).prop_map(|(topic, peers, backoff)| Prune { topic, peers, backoff })
}

fn control() -> impl Strategy<Value = Control> {
    let ihave = (topic(), ids()).prop_map(|(topic, ids)| IHave { topic, ids });
    let lists = (vec(ihave, 0..3), ids(), vec(topic(), 0..3), vec(prune(), 0..3), ids());
    (lists, option::of(extensions()), unknown()).prop_map(
        |((ihave, iwant, graft, prune, idontwant), extensions, unknown)| Control {
            ihave,
            iwant,
            graft,
            prune,
            idontwant,
            extensions,
            unknown,
        },
    )
}

pub(crate) fn rpc() -> impl Strategy<Value = Rpc> {
    let mode = prop::sample::select(vec![PartialMode::None, PartialMode::Supports, PartialMode::Requests]);
    let subscription = (any::<bool>(), topic(), mode, unknown())
        .prop_map(|(subscribe, topic, partial, unknown)| SubOpts { subscribe, topic, partial, unknown });
    let messages = (vec(subscription, 0..4), vec(message(), 0..3));
    (messages, option::of(control()), option::of(partial()), unknown()).prop_map(
        |((subscriptions, publish), control, partial, unknown)| Rpc {
            subscriptions,
            publish: publish.into_iter().map(Arc::new).collect(),
            control: control.map(Box::new),
            partial: partial.map(Box::new),
            unknown,
        },
    )
}

fn partial() -> impl Strategy<Value = Partial> {
    (topic(), bytes(41), option::of(bytes(300)), option::of(bytes(40)))
        .prop_map(|(topic, group, body, metadata)| Partial { topic, group, body, metadata })
}
