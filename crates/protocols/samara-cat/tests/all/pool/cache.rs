//! Keys of removed transactions.

use proptest::prelude::*;
use samara_cat::TxKey;
use samara_cat::pool::KeyCache;
use samara_engine::PeerKeyed;

fn numbered(number: u64) -> TxKey {
    TxKey::of(&number.to_be_bytes())
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, u32),
    Remove(u64),
    Look(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0u64..12, any::<u32>()).prop_map(|(key, value)| Step::Push(key, value)),
        5 => (0u64..12).prop_map(Step::Remove),
        5 => (0u64..12).prop_map(Step::Look),
    ]
}

proptest! {
    /// Compared with a list from the oldest to the newest.
    #[test]
    fn cache_forgets_the_least_recently_pushed_key(
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
            }
            prop_assert_eq!(cache.len(), model.len());
            prop_assert!(cache.keys().eq(model.iter().map(|(key, _)| key)));
        }
    }
}
