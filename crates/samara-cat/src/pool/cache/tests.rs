use super::*;

#[test]
fn places_are_used_again() {
    let mut cache = KeyCache::new(4, 1);
    for number in 0..100u64 {
        let key = TxKey::of(&number.to_be_bytes());
        cache.push(key, number);
        if number % 3 == 0 {
            cache.remove(&key);
        }
        assert!(cache.nodes.len() <= 4);
    }
}
