//! Eviction for transactions of higher priority.

use samara_cat::pool::{Cause, Order, PoolConfig, Refusal};
use samara_engine::Time;

use crate::pool::harness::{TestPool, add, key, order_of, pool};

/// `TestTxPool_Eviction`, step by step.
#[test]
fn eviction() {
    let config =
        PoolConfig { capacity_txs: 5, capacity_bytes: 60, cache_size: 1_000, ..PoolConfig::default() };
    let mut pool = pool(config);
    let has = |pool: &TestPool, text: &str| pool.contains(&key(text));
    let gone = |pool: &TestPool, text: &str| !pool.contains(&key(text)) && pool.was_evicted(&key(text));

    // Larger than the pool, though the limit of transactions is not reached.
    let huge = format!("big={}=1", "0123456789abcdef".repeat(4));
    assert_eq!(add(&mut pool, &huge), Err(Refusal::Full { txs: 0, bytes: 0 }));
    assert!(gone(&pool, &huge));

    // A large transaction of low priority that nearly fills the pool is evicted for a small one of
    // high priority, though the limit of transactions is not reached.
    let big = "big=0123456789abcdef0123456789abcdef0123456789abcdef01234=2";
    add(&mut pool, big).unwrap();
    assert_eq!((pool.len(), pool.bytes()), (1, big.len() as u64));
    assert_eq!(add(&mut pool, "key1=0000=25").unwrap().evicted, [key(big)]);
    assert!(gone(&pool, big));
    assert_eq!(pool.bytes(), 12);

    for text in ["key2=0001=5", "key3=0002=10", "key4=0003=3", "key5=0004=3"] {
        add(&mut pool, text).unwrap();
    }
    assert!(matches!(add(&mut pool, "key6=0005=1"), Err(Refusal::Full { txs: 5, .. })));
    assert!(gone(&pool, "key6=0005=1"), "valid, but without room");

    // The newest of the lowest priority goes first, then the other one, then the next priority.
    add(&mut pool, "key7=0006=7").unwrap();
    assert!(has(&pool, "key7=0006=7") && gone(&pool, "key5=0004=3") && has(&pool, "key4=0003=3"));
    add(&mut pool, "key8=0007=20").unwrap();
    assert!(has(&pool, "key8=0007=20") && gone(&pool, "key4=0003=3"));
    add(&mut pool, "key9=0008=9").unwrap();
    assert!(has(&pool, "key9=0008=9") && gone(&pool, "key2=0001=5"));

    // Several are evicted for one.
    let evicted = add(&mut pool, "key10=0123456789abcdef=11").unwrap().evicted;
    assert_eq!(evicted, [key("key7=0006=7"), key("key9=0008=9"), key("key3=0002=10")]);
    assert_eq!(order_of(&pool), ["key1=0000=25", "key8=0007=20", "key10=0123456789abcdef=11"]);
    assert_eq!(pool.metrics().evicted_txs, 7);
    assert_eq!(pool.metrics().refused(Cause::Full), 2);

    // An evicted transaction may return.
    pool.commit(Time::ZERO, 1, &[key("key10=0123456789abcdef=11")]);
    add(&mut pool, "key3=0002=10").unwrap();
    assert!(has(&pool, "key3=0002=10") && !pool.was_evicted(&key("key3=0002=10")));
}

#[test]
fn nothing_is_evicted_for_a_transaction_that_would_not_fit() {
    let config = PoolConfig { capacity_bytes: 40, ..PoolConfig::default() };
    let mut pool = pool(config);
    for text in ["a=0000000000=9", "b=0000000000=1"] {
        add(&mut pool, text).unwrap();
    }
    let before = order_of(&pool);
    assert!(add(&mut pool, "c=00000000000000000000000=5").is_err(), "27 bytes, but only 26 could be freed");
    assert_eq!(order_of(&pool), before);
    assert_eq!(pool.metrics().evicted_txs, 0);
}

/// celestia-core rejects this: the transactions of lower priority have fewer bytes than the new
/// one.
#[test]
fn eviction_takes_free_room_into_account() {
    let config = PoolConfig { capacity_bytes: 40, ..PoolConfig::default() };
    let mut pool = pool(config);
    add(&mut pool, "a=0000000000=9").unwrap();
    add(&mut pool, "b=0000000000=1").unwrap();
    assert_eq!(add(&mut pool, "c=0000000000000000000000=5").unwrap().evicted, [key("b=0000000000=1")]);
    assert_eq!(pool.bytes(), 40);
}

#[test]
fn equal_priority_does_not_evict() {
    let mut pool = pool(PoolConfig { capacity_txs: 1, ..PoolConfig::default() });
    add(&mut pool, "a=0=5").unwrap();
    assert_eq!(add(&mut pool, "b=0=5").unwrap_err().cause(), Cause::Full);
    add(&mut pool, "c=0=6").unwrap();
    assert_eq!(order_of(&pool), ["c=0=6"]);
}

/// celestia-core compares with `>` and holds one more. Its generation of 2026 then evicts nothing
/// if only the number of transactions exceeds the limit.
#[test]
fn the_limit_of_transactions_holds() {
    for order in [Order::Fifo, Order::Priority, Order::SignerSets] {
        let mut pool = pool(PoolConfig { capacity_txs: 3, order, ..PoolConfig::default() });
        for number in 0..10 {
            let _ = add(&mut pool, &format!("s{number}=0={number}"));
            assert!(pool.len() <= 3);
        }
        assert_eq!(pool.len(), 3);
    }
}

#[test]
fn a_pool_of_capacity_zero_rejects_everything() {
    for order in [Order::Fifo, Order::Priority, Order::SignerSets] {
        let mut pool = pool(PoolConfig { capacity_txs: 0, cache_size: 0, order, ..PoolConfig::default() });
        assert_eq!(add(&mut pool, "a=0=5").unwrap_err().cause(), Cause::Full);
    }
}

#[test]
fn extreme_priorities_are_ordered() {
    let mut pool = pool(PoolConfig { capacity_txs: 2, ..PoolConfig::default() });
    add(&mut pool, &format!("a=0={}", i64::MIN)).unwrap();
    add(&mut pool, &format!("b=0={}", i64::MAX)).unwrap();
    assert_eq!(add(&mut pool, "c=0=-1").unwrap().evicted, [key(&format!("a=0={}", i64::MIN))]);
}
