use super::*;

fn cache(ttl_secs: u64, capacity: usize) -> SeenCache {
    let mut cache = SeenCache::new(Duration::from_secs(ttl_secs), capacity);
    cache.hasher = PeerKeyed::from_key([0, 1]);
    cache
}

fn id(number: u64) -> MessageId {
    MessageId::from_bytes((u128::from(number) * 0x9e37_79b9_7f4a_7c15).to_be_bytes())
}

#[test]
fn ids_keep_their_numbers_until_they_expire() {
    let mut seen = cache(10, 1000);
    for number in 0..100 {
        assert_eq!(seen.get(Time::from_secs(number), id(number)), None);
        assert_eq!(seen.insert(Time::from_secs(number), id(number)), MessageKey(number));
        for known in 0..=number {
            let expected = (known + 10 > number).then_some(MessageKey(known));
            assert_eq!(seen.get(Time::from_secs(number), id(known)), expected);
        }
    }
    assert_eq!(seen.len(), 10);
    assert_eq!(seen.get(Time::from_secs(200), id(99)), None);
    assert!(seen.len() == 0 && seen.table.is_empty());
}

#[test]
fn a_full_cache_forgets_the_oldest() {
    let mut seen = cache(10, 8);
    for number in 0..20 {
        seen.insert(Time::ZERO, id(number));
    }
    assert_eq!((seen.len(), seen.table.len()), (8, 8));
    assert_eq!(seen.get(Time::ZERO, id(11)), None);
    assert_eq!(seen.get(Time::ZERO, id(12)), Some(MessageKey(12)));
    // A number is never reused, not even for the same id.
    assert_eq!(seen.insert(Time::ZERO, id(0)), MessageKey(20));
}

#[test]
fn numbers_continue_beyond_32_bits() {
    let mut seen = cache(1, 100);
    seen.first = u64::from(u32::MAX) - 50;
    for number in 0..100 {
        let key = seen.insert(Time::ZERO, id(number));
        assert_eq!(key, MessageKey(u64::from(u32::MAX) - 50 + number));
    }
    for number in 0..100 {
        let expected = Some(MessageKey(u64::from(u32::MAX) - 50 + number));
        assert_eq!(seen.get(Time::ZERO, id(number)), expected);
    }
    assert_eq!(seen.get(Time::from_secs(1), id(99)), None);
    assert!(seen.table.is_empty());
}
