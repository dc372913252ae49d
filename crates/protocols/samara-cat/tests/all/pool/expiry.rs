//! Transactions that exceed their maximum age.

use std::time::Duration;

use samara_cat::Transaction;
use samara_cat::pool::{Order, PoolConfig};
use samara_engine::Time;

use crate::pool::harness::{TestPool, check_txs, key, keys, ordered, pool, tx};

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}

fn assert_expired(pool: &TestPool, txs: &[Transaction]) {
    for tx in txs {
        let key = tx.key();
        assert!(pool.get(&key).is_none() && !pool.is_rejected(&key) && pool.was_evicted(&key));
    }
    // `fix: cat not purging txs from ordered cache` (celestia-core #2327).
    assert!(
        pool.iter().all(|entry| !txs.contains(&entry.transaction)),
        "an expired transaction is still in the order"
    );
}

#[test]
fn expired_txs_timestamp() {
    let mut pool = pool(PoolConfig { ttl: Duration::from_millis(5), ..PoolConfig::default() });
    let first = check_txs(&mut pool, 10, 0, Time::ZERO);
    let second = check_txs(&mut pool, 10, 10, Time::from_millis(3));
    assert!(pool.commit(Time::from_millis(5), 1, &[]).expired.is_empty(), "as old as allowed");
    let expired = pool.commit(Time::from_millis(6), 2, &[]).expired;
    assert_eq!(sorted(expired), sorted(keys(&first)));
    assert_expired(&pool, &first);
    assert!(second.iter().all(|tx| pool.contains(&tx.key())));
    assert_eq!((pool.len(), pool.bytes(), pool.metrics().expired_txs), (10, 570, 10));
    for tx in first {
        pool.try_add(Time::from_millis(6), tx).unwrap();
    }
}

#[test]
fn expired_txs_num_blocks() {
    let mut pool = pool(PoolConfig { ttl_blocks: 10, ..PoolConfig::default() });
    pool.commit(Time::ZERO, 100, &[]);
    let first = check_txs(&mut pool, 100, 0, Time::ZERO);
    let reaped = pool.reap(5 * 59, u64::MAX);
    pool.commit(Time::ZERO, 101, &keys(&reaped));
    assert_eq!(pool.len(), 95);
    let second = check_txs(&mut pool, 50, 100, Time::ZERO);
    pool.commit(Time::ZERO, 110, &[]);
    assert_eq!(pool.len(), 145, "as old as allowed");
    let committed = pool.commit(Time::ZERO, 111, &keys(&second[..5]));
    assert_eq!((committed.removed, committed.expired.len()), (5, 95));
    let left: Vec<Transaction> = first.into_iter().filter(|tx| !reaped.contains(tx)).collect();
    assert_expired(&pool, &left);
    assert_eq!(pool.len(), 45);
}

#[test]
fn transactions_can_expire_without_a_block() {
    let mut pool = pool(PoolConfig { ttl: Duration::from_secs(1), ..PoolConfig::default() });
    let txs = check_txs(&mut pool, 3, 0, Time::ZERO);
    assert!(pool.expire(Time::from_secs(1)).is_empty());
    assert_eq!(sorted(pool.expire(Time::from_millis(1_001))), sorted(keys(&txs)));
    assert_expired(&pool, &txs);
}

#[test]
fn nothing_expires_without_a_limit() {
    let mut pool = pool(PoolConfig::default());
    check_txs(&mut pool, 3, 0, Time::ZERO);
    assert!(pool.commit(Time::MAX, u64::MAX, &[]).expired.is_empty());
    assert_eq!(pool.len(), 3);
}

/// `TestPurgeExpiredTxs`: later sequence numbers are useless without the earlier ones.
#[test]
fn purge_expired_txs() {
    let config = PoolConfig { ttl_blocks: 1, ..ordered(Order::SignerSets) };
    let mut pool = pool(config);
    pool.commit(Time::ZERO, 4, &[]);
    pool.try_add(Time::ZERO, tx("alice=1=10=1=1")).unwrap();
    pool.try_add(Time::ZERO, tx("=0=10")).unwrap();
    pool.commit(Time::ZERO, 5, &[]);
    for text in ["alice=2=10=1=2", "bob=1=10=1=1", "=1=10"] {
        pool.try_add(Time::ZERO, tx(text)).unwrap();
    }
    let expired = pool.commit(Time::ZERO, 6, &[]).expired;
    assert_eq!(sorted(expired), sorted(vec![key("alice=1=10=1=1"), key("alice=2=10=1=2"), key("=0=10")]));
    assert_expired(&pool, &[tx("alice=1=10=1=1"), tx("alice=2=10=1=2"), tx("=0=10")]);
    assert_eq!(pool.len(), 2);
}
