//! Tests of caches, promises and backoffs against models that are too simple to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{MessageCache, SeenCache, SeenStrategy};
use crate::engine::tables::TopicIdx;

use super::{Backoffs, Promises, PrunedPeers};
use crate::rpc::{Message, MessageId, Topic};
use bytes::Bytes;
use hashbrown::HashMap;
use proptest::prelude::*;
use samara_engine::{MessageKey, NodeRng, PeerId, PeerKeyed, Purpose, Time};

fn seen(ttl_secs: u64, capacity: usize, strategy: SeenStrategy) -> SeenCache {
    let mut cache = SeenCache::new(Duration::from_secs(ttl_secs), capacity, strategy);
    cache.entries = HashMap::with_hasher(PeerKeyed::from_key([0, 1]));
    cache
}

fn promises(capacity: usize) -> Promises {
    let mut promises = Promises::new(Duration::from_secs(3), capacity);
    promises.by_id = HashMap::with_hasher(PeerKeyed::from_key([0, 1]));
    promises
}

fn id(number: u64) -> MessageId {
    MessageId::new(&number.to_be_bytes())
}

fn message(number: u64) -> Arc<Message> {
    Arc::new(Message::new(Topic::new("t"), Bytes::copy_from_slice(&number.to_be_bytes())))
}

proptest! {
    /// A message is kept for `length` heartbeats and announced for `gossip` of them, in the order
    /// of arrival.
    #[test]
    fn message_cache_keeps_its_windows(
        length in 0usize..6,
        gossip in 0usize..7,
        steps in prop::collection::vec(prop::option::of((0u64..40, 0u32..3)), 0..120),
    ) {
        let mut cache = MessageCache::new(length, gossip, 1 << 20);
        let mut model: Vec<(usize, u64, u32)> = Vec::new();
        let mut tick = 0;
        for step in steps {
            match step {
                None => {
                    tick += 1;
                    model.retain(|(put, ..)| tick - put < length);
                    cache.shift();
                }
                Some((key, topic)) => {
                    if length > 0 && model.iter().all(|(_, known, _)| *known != key) {
                        model.push((tick, key, topic));
                    }
                    cache.put(MessageKey(key), TopicIdx(topic), id(key), message(key));
                }
            }
            prop_assert_eq!(cache.len(), model.len());
            for topic in 0..4 {
                let found: Vec<u64> = cache.gossip_ids(TopicIdx(topic)).map(|(key, found)| {
                    assert_eq!(*found, id(key.0));
                    key.0
                }).collect();
                let expected: Vec<u64> = model.iter()
                    .filter(|(put, _, on)| *on == topic && tick - put < gossip.min(length))
                    .map(|(_, key, _)| *key).collect();
                prop_assert_eq!(found, expected);
            }
            for key in 0..40 {
                let kept = model.iter().any(|(_, known, _)| *known == key);
                prop_assert_eq!(cache.get(MessageKey(key)).is_some(), kept);
            }
        }
    }

    /// The latest arrival that started a time to live decides whether an id counts as seen. Numbers
    /// are never reused.
    #[test]
    fn seen_cache_follows_its_strategy(
        last_seen in any::<bool>(),
        steps in prop::collection::vec((0u64..8, 0u64..15), 0..200),
    ) {
        let strategy = if last_seen { SeenStrategy::LastSeen } else { SeenStrategy::FirstSeen };
        let mut cache = seen(20, 1000, strategy);
        let mut model: BTreeMap<u64, (u64, MessageKey)> = BTreeMap::new();
        let mut given = BTreeSet::new();
        let mut now = 0;
        for (number, pause) in steps {
            now += pause;
            let at = Time::from_secs(now);
            let known = model.get(&number).copied().filter(|(until, _)| *until > now);
            prop_assert_eq!(cache.get(at, &id(number)), known.map(|(_, key)| key));
            match (cache.observe(at, &id(number)), known) {
                ((key, true), None) => {
                    prop_assert!(given.insert(key));
                    model.insert(number, (now + 20, key));
                }
                ((key, false), Some((_, expected))) => {
                    prop_assert_eq!(key, expected);
                    if last_seen {
                        model.insert(number, (now + 20, key));
                    }
                }
                (found, _) => prop_assert!(false, "{:?} of {}", found, number),
            }
        }
        // With either strategy, two times to live of silence free all memory.
        cache.expire(Time::from_secs(now + 20));
        cache.expire(Time::from_secs(now + 40));
        prop_assert_eq!(cache.len(), 0);
    }

    #[test]
    fn the_longest_backoff_wins(
        steps in prop::collection::vec((0u32..3, 0u32..3, 0u64..70, 0u64..10), 0..100),
    ) {
        let slack = Duration::from_secs(2);
        let mut backoffs = Backoffs::new(true, slack, Duration::from_secs(3600));
        let mut model: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut now = 0;
        for (peer, topic, span, pause) in steps {
            now += pause;
            let at = Time::from_secs(now);
            backoffs.prune_expired(at);
            model.retain(|_, until| *until + 2 > now);
            prop_assert_eq!(backoffs.len(), model.len());
            backoffs.add(at, PeerId(peer), TopicIdx(topic), Duration::from_secs(span));
            let until = model.entry((peer, topic)).or_default();
            *until = (*until).max(now + span);
            for (peer, topic) in (0..9).map(|n| (n / 3, n % 3)) {
                let until = model.get(&(peer, topic)).copied();
                let (peer, topic) = (PeerId(peer), TopicIdx(topic));
                prop_assert_eq!(backoffs.until(peer, topic), until.map(Time::from_secs));
                prop_assert_eq!(backoffs.until(peer, topic).is_some_and(|until| at < until), until.is_some_and(|until| now < until));
                prop_assert_eq!(backoffs.is_pending(at, peer, topic), until.is_some_and(|until| now < until + 2));
            }
        }
        backoffs.prune_expired(Time::from_secs(now + 72));
        prop_assert_eq!(backoffs.len(), 0);
    }

    /// Every promise is kept, forgiven or counted as broken, exactly once.
    #[test]
    fn promises_are_counted_once(
        steps in prop::collection::vec((0u8..10, 0u32..4, 0u64..12, 0u64..2000), 0..200),
    ) {
        let mut promises = promises(1000);
        let mut rng = NodeRng::new(1, 1, Purpose::Engine);
        let mut model: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        let mut now = 0;
        for (kind, peer, number, pause) in steps {
            now += pause;
            let at = Time::from_millis(now);
            match kind {
                0..5 => {
                    promises.add(at, PeerId(peer), &[id(number)], &mut rng);
                    model.entry((number, peer)).or_insert(now + 3000);
                }
                5 | 6 => {
                    promises.fulfil(&id(number));
                    model.retain(|(known, _), _| *known != number);
                }
                7 => {
                    promises.forgive(PeerId(peer));
                    model.retain(|(_, known), _| *known != peer);
                }
                _ => {
                    let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
                    model.retain(|(_, peer), until| {
                        if *until < now {
                            *expected.entry(*peer).or_default() += 1;
                        }
                        *until >= now
                    });
                    let found: Vec<_> = promises.broken(at).into_iter().map(|(peer, n)| (peer.0, n)).collect();
                    prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}

#[test]
fn message_cache_counts_answers_per_peer() {
    let mut cache = MessageCache::new(5, 3, 1 << 20);
    cache.put(MessageKey(1), TopicIdx(0), id(1), message(1));
    let mut count = |peer| cache.get_for_peer(MessageKey(1), PeerId(peer)).unwrap().1;
    assert_eq!([count(3), count(3), count(1), count(3), count(2), count(1)], [1, 2, 1, 3, 1, 2]);
    assert!(cache.get_for_peer(MessageKey(2), PeerId(1)).is_none());
}

#[test]
fn a_full_message_cache_forgets_the_oldest() {
    let mut cache = MessageCache::new(5, 5, 3100);
    let kept = |cache: &MessageCache| (0..9).filter(|key| cache.get(MessageKey(*key)).is_some()).collect();
    let mut put = |key: u64, bytes: usize| {
        let message = Message::new(Topic::new("t"), Bytes::from(vec![0; bytes]));
        cache.put(MessageKey(key), TopicIdx(key as u32 % 2), id(key), Arc::new(message));
        assert!(cache.bytes <= 3100);
        let kept: Vec<u64> = kept(&cache);
        kept
    };
    // Each message takes more than its payload.
    (0..4).for_each(|key| _ = put(key, 100));
    assert_eq!(put(4, 100), [0, 1, 2, 3, 4][..]);
    assert_eq!(put(5, 100), [1, 2, 3, 4, 5][..]);
    assert_eq!(put(6, 1800), [5, 6][..]);
    assert_eq!(put(7, 2600), [5, 6][..], "a message that is longer than the cache is not kept");
    assert_eq!((cache.len(), cache.evicted), (2, 6));
    let announced = |topic| cache.gossip_ids(TopicIdx(topic)).map(|(key, _)| key.0).collect::<Vec<_>>();
    assert_eq!([announced(0), announced(1)], [vec![6], vec![5]]);
    (0..5).for_each(|_| cache.shift());
    assert_eq!((cache.len(), cache.bytes), (0, 0));
}

#[test]
fn a_full_seen_cache_forgets_the_oldest() {
    let mut cache = seen(60, 3, SeenStrategy::FirstSeen);
    for number in 0..5 {
        assert_eq!(cache.observe(Time::ZERO, &id(number)), (MessageKey(number), true));
    }
    assert_eq!((cache.len(), cache.evicted), (3, 2));
    assert_eq!([1, 2].map(|number| cache.get(Time::ZERO, &id(number))), [None, Some(MessageKey(2))]);
}

#[test]
fn tracks_one_random_promise_of_a_batch() {
    let mut promises = promises(100);
    let mut rng = NodeRng::new(1, 1, Purpose::Engine);
    let ids: Vec<MessageId> = (0..10).map(id).collect();
    let mut drawn = BTreeSet::new();
    for peer in 0..100 {
        drawn.insert(promises.add(Time::ZERO, PeerId(peer), &ids, &mut rng).unwrap().clone());
    }
    assert_eq!(drawn.len(), 10);
    assert_eq!(promises.add(Time::ZERO, PeerId(100), &ids, &mut rng), None, "the table is full");
    assert_eq!((promises.len(), promises.refused), (100, 1));
    assert!(promises.broken(Time::from_secs(3)).is_empty(), "a promise is not broken at its deadline");
    let broken = promises.broken(Time::from_millis(3001));
    assert_eq!(broken, (0..100).map(|peer| (PeerId(peer), 1)).collect::<Vec<_>>());
    assert_eq!(promises.len(), 0);
}

/// The overflow in two advisories about rust-libp2p's gossipsub (0.49.3, 0.49.4).
#[test]
fn absurd_backoffs_do_not_overflow() {
    let mut backoffs = Backoffs::new(true, Duration::from_secs(1), Duration::from_secs(3600));
    let (default, absurd) = (Duration::from_secs(60), Duration::from_secs(u64::MAX));
    assert_eq!(backoffs.accepted(Some(absurd), default), Duration::from_secs(3600));
    assert_eq!(backoffs.accepted(Some(Duration::from_secs(5)), default), Duration::from_secs(5));
    assert_eq!(backoffs.accepted(Some(Duration::ZERO), default), default);
    assert_eq!(backoffs.accepted(None, default), default);
    backoffs.add(Time::from_secs(1), PeerId(0), TopicIdx(0), absurd);
    assert_eq!(backoffs.until(PeerId(0), TopicIdx(0)), Some(Time::MAX));
    assert!(backoffs.is_pending(Time::from_secs(1_000_000), PeerId(0), TopicIdx(0)));
    backoffs.prune_expired(Time::from_secs(1_000_000));
    assert_eq!(backoffs.len(), 1);
}

#[test]
fn peers_are_remembered_for_their_time() {
    let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
    let (a, b, topic, other) = (PeerId(1), PeerId(2), TopicIdx(0), TopicIdx(1));
    let mut pruned = PrunedPeers::default();
    pruned.add(a, topic, at(10));
    pruned.add(a, topic, at(5));
    pruned.add(b, topic, at(20));
    pruned.add(b, other, at(20));
    assert_eq!(pruned.of(topic, at(10)), [a, b]);
    assert_eq!(pruned.of(topic, at(11)), [b], "an earlier time does not shorten a later one");
    pruned.forget_peer(b);
    assert!(pruned.of(topic, at(0)).is_empty() && pruned.of(other, at(0)).is_empty());
}
