//! A pool behind a lock, which is how a node with threads shares it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_cat::pool::{PoolConfig, Refusal};
use samara_cat::{Transaction, TxKey};
use samara_engine::Time;

use crate::pool::harness::{pool, setup, tx};

/// `TestTxPool_ConcurrentTxs` and `TestTxPool_RecheckConcurrency`: one thread adds, another one commits what it reaps until all is gone.
#[test]
fn concurrent_txs() {
    let pool = Mutex::new(setup(100));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..2_000 {
                let tx = tx(&format!("sender-{number}={number}={}", number % 97));
                pool.lock().unwrap().try_add(Time::ZERO, tx).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut height = 0;
            loop {
                let no_more = done.load(Ordering::Acquire);
                let reaped: Vec<TxKey> =
                    pool.lock().unwrap().reap_count(200).iter().map(Transaction::key).collect();
                if reaped.is_empty() && no_more {
                    break;
                }
                height += 1;
                pool.lock().unwrap().commit(Time::ZERO, height, &reaped);
            }
        });
    });
    let pool = pool.into_inner().unwrap();
    assert_eq!((pool.len(), pool.bytes()), (0, 0));
    assert_eq!(pool.metrics().successful_txs, 2_000);
}

/// `TestStoreConcurrentAccess`: whoever comes first adds it, the others learn that it is there.
#[test]
fn store_concurrent_access() {
    let pool = Mutex::new(pool(PoolConfig::default()));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for number in 0..10 {
                    let added = pool.lock().unwrap().try_add(Time::ZERO, tx(&format!("a={number}=1")));
                    assert!(added.is_ok() || added == Err(Refusal::InPool));
                }
            });
        }
    });
    assert_eq!(pool.into_inner().unwrap().len(), 10);
}
