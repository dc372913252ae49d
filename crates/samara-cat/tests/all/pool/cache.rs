//! Keys of transactions that left.

use std::sync::Mutex;

use proptest::prelude::*;
use samara_cat::TxKey;
use samara_cat::pool::KeyCache;
use samara_engine::PeerKeyed;

fn numbered(number: u64) -> TxKey {
    TxKey::of(&number.to_be_bytes())
}

#[test]
fn lru_tx_cache_remove() {
    let mut cache = KeyCache::new(100, PeerKeyed::from_key([0, 1]));
    for number in 0..10 {
        assert!(cache.push(numbered(number), ()));
        assert_eq!(cache.len() as u64, number + 1);
        assert_eq!(cache.keys().count(), cache.len(), "in the table and in the list");
    }
    for number in 0..10 {
        assert!(cache.remove(&numbered(number)) && !cache.remove(&numbered(number)));
        assert_eq!(cache.len() as u64, 9 - number);
        assert_eq!(cache.keys().count(), cache.len());
    }
    assert!(cache.is_empty());
}

#[test]
fn lru_tx_cache_size() {
    let mut cache = KeyCache::new(10, PeerKeyed::from_key([0, 1]));
    for number in 0..20 {
        cache.push(numbered(number), ());
        assert!(cache.len() <= 10);
    }
    assert!(cache.keys().eq((10..20).map(numbered).collect::<Vec<_>>().iter()));
}

#[test]
fn lru_tx_cache_concurrency() {
    let cache = Mutex::new(KeyCache::new(50, PeerKeyed::from_key([0, 1])));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in (0..100).map(numbered) {
                    cache.lock().unwrap().push(key, ());
                }
                for key in (0..100).map(numbered) {
                    cache.lock().unwrap().get(&key);
                }
                for key in (0..100).map(numbered) {
                    cache.lock().unwrap().remove(&key);
                }
            });
        }
    });
    assert!(cache.lock().unwrap().is_empty());
}

#[test]
fn a_cache_without_places_keeps_nothing() {
    let mut cache = KeyCache::new(0, PeerKeyed::from_key([0, 1]));
    assert!(cache.push(numbered(1), ()) && cache.push(numbered(1), ()));
    assert!(!cache.contains(&numbered(1)) && cache.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, u32),
    Remove(u64),
    Look(u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0u64..12, any::<u32>()).prop_map(|(key, value)| Step::Push(key, value)),
        5 => (0u64..12).prop_map(Step::Remove),
        5 => (0u64..12).prop_map(Step::Look),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    /// Against a list from the oldest to the newest.
    #[test]
    fn a_cache_forgets_what_was_pushed_longest_ago(
        capacity in 0usize..8,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut cache = KeyCache::new(capacity, PeerKeyed::from_key([0, 1]));
        let mut model: Vec<(TxKey, u32)> = Vec::new();
        for step in steps {
            match step {
                Step::Push(number, value) => {
                    let key = numbered(number);
                    let before = model.len();
                    model.retain(|(known, _)| *known != key);
                    let is_new = model.len() == before;
                    model.push((key, value));
                    model.drain(..model.len().saturating_sub(capacity));
                    prop_assert_eq!(cache.push(key, value), is_new);
                }
                Step::Remove(number) => {
                    let key = numbered(number);
                    let before = model.len();
                    model.retain(|(known, _)| *known != key);
                    prop_assert_eq!(cache.remove(&key), model.len() < before);
                }
                Step::Look(number) => {
                    let key = numbered(number);
                    let found = model.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
                    prop_assert_eq!(cache.get(&key), found);
                    prop_assert_eq!(cache.contains(&key), found.is_some());
                }
                Step::Clear => {
                    cache.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(cache.len(), model.len());
            prop_assert!(cache.keys().eq(model.iter().map(|(key, _)| key)));
        }
    }
}
