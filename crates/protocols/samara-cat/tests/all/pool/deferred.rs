//! Deferred verdicts: the reservations of celestia-core's store.

use samara_cat::Transaction;
use samara_cat::pool::{
    Added, Admission, Cause, CheckKind, Decision, Order, Pool, PoolConfig, Refusal, Rejection, Verdict,
};
use samara_engine::{PeerKeyed, Time};

use crate::pool::harness::{add, key, tx};

const NOW: Time = Time::ZERO;

fn later(_: &Transaction, _: CheckKind) -> Verdict {
    Verdict::Later
}

type LatePool = Pool<fn(&Transaction, CheckKind) -> Verdict>;

fn pool(config: PoolConfig) -> LatePool {
    Pool::new(config, later, PeerKeyed::from_key([0, 1]))
}

fn accept() -> Verdict {
    Verdict::Accept(Admission::default())
}

fn reject() -> Verdict {
    Verdict::Reject { code: 5, reason: "no".into() }
}

fn refused(decision: Option<Decision>) -> Option<Cause> {
    match decision {
        Some(Decision::New(Err(refusal))) => Some(refusal.cause()),
        _ => None,
    }
}

/// `TestReadReserved`, and the defect "reserved txs read as empty txs" (celestia-core #1266).
#[test]
fn read_reserved() {
    let mut pool = pool(PoolConfig::default());
    assert_eq!(add(&mut pool, "tx1"), Ok(Added { evicted: vec![], waits: true }));
    let key = key("tx1");
    assert!(pool.is_reserved(&key) && !pool.contains(&key) && pool.get(&key).is_none());
    assert_eq!((pool.len(), pool.bytes(), pool.reserved()), (0, 0, 1));
    assert!(pool.reap(u64::MAX, u64::MAX).is_empty());
    assert!(pool.iter().next().is_none() && !pool.txs_available());
}

#[test]
fn store_reserving_txs() {
    let mut pool = pool(PoolConfig::default());
    let number = key("tx1");
    assert_eq!(pool.decided(NOW, number, accept()), None, "no verdict is pending");
    add(&mut pool, "tx1").unwrap();
    assert_eq!(pool.decided(NOW, number, Verdict::Later), None, "deferred again");
    assert_eq!(pool.decided(NOW, number, accept()), Some(Decision::New(Ok(Added::default()))));
    assert_eq!(pool.get(&number), Some(&tx("tx1")));
    assert_eq!((pool.len(), pool.bytes(), pool.reserved()), (1, 3, 0));
    assert_eq!(pool.decided(NOW, number, accept()), None, "already decided");
    assert_eq!(pool.decided(NOW, number, reject()), None);
    assert!(pool.contains(&number));
    assert_eq!(add(&mut pool, "tx1"), Err(Refusal::InPool));
    add(&mut pool, "tx2").unwrap();
    assert_eq!(refused(pool.decided(NOW, key("tx2"), reject())), Some(Cause::Invalid));
    assert!(!pool.contains(&key("tx2")) && !pool.is_reserved(&key("tx2")));
    assert_eq!((pool.metrics().failed_txs, pool.metrics().refused(Cause::Invalid)), (1, 1));
}

/// Of ten attempts to add the same transaction, one succeeds. The others are rejected because it is
/// being checked, and later because it is in the pool.
#[test]
fn concurrently_adding_tx() {
    let mut pool = pool(PoolConfig::default());
    let added: Vec<_> = (0..10).map(|_| add(&mut pool, "sender=0000=1")).collect();
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
    assert!(added[1..].iter().all(|added| *added == Err(Refusal::Reserved)));
    assert!(pool.decided(NOW, key("sender=0000=1"), accept()).is_some());
    assert_eq!(add(&mut pool, "sender=0000=1"), Err(Refusal::InPool));
    assert_eq!(pool.metrics().refused(Cause::Reserved), 9);
    assert_eq!(pool.len(), 1);
}

#[test]
fn a_block_releases_its_reserved_transactions() {
    let mut pool = pool(PoolConfig::default());
    add(&mut pool, "a").unwrap();
    let committed = pool.commit(NOW, 1, &[key("a")]);
    assert_eq!((committed.removed, pool.reserved()), (0, 0));
    assert_eq!(pool.decided(NOW, key("a"), accept()), None);
    assert!(pool.is_empty());
    assert_eq!(add(&mut pool, "a"), Err(Refusal::Rejected(Rejection::Settled)));
}

/// The pool checks for room when the verdict arrives.
#[test]
fn a_deferred_transaction_is_rejected_if_the_pool_became_full() {
    for order in [Order::Fifo, Order::Priority, Order::SignerSets] {
        let mut pool = pool(PoolConfig { capacity_txs: 2, order, ..PoolConfig::default() });
        for text in ["a", "b"] {
            add(&mut pool, text).unwrap();
        }
        assert_eq!(add(&mut pool, "c"), Err(Refusal::Busy), "the limit of waiting transactions is reached");
        assert!(pool.decided(NOW, key("a"), accept()).is_some());
        add(&mut pool, "d").unwrap();
        assert!(pool.decided(NOW, key("b"), accept()).is_some());
        assert_eq!(refused(pool.decided(NOW, key("d"), accept())), Some(Cause::Full));
        assert!(pool.was_evicted(&key("d")));
        assert_eq!((pool.len(), pool.reserved()), (2, 0));
    }
}

#[test]
fn reserved_transactions_are_bounded_in_bytes() {
    let mut pool = pool(PoolConfig { capacity_bytes: 10, ..PoolConfig::default() });
    add(&mut pool, "123456").unwrap();
    assert_eq!(add(&mut pool, "12345"), Err(Refusal::Busy));
    add(&mut pool, "1234").unwrap();
    assert_eq!(pool.metrics().refused(Cause::Busy), 1);
    assert!(pool.decided(NOW, key("123456"), reject()).is_some());
    add(&mut pool, "12345").unwrap();
}

#[test]
fn rechecks_may_be_deferred() {
    let kinds = |_: &Transaction, kind: CheckKind| match kind {
        CheckKind::New => accept(),
        CheckKind::Recheck => Verdict::Later,
    };
    let mut pool = Pool::new(
        PoolConfig { keep_invalid: true, ..PoolConfig::default() },
        kinds,
        PeerKeyed::from_key([0, 1]),
    );
    for text in ["a", "b"] {
        add(&mut pool, text).unwrap();
    }
    assert_eq!(pool.commit(NOW, 1, &[]).failed, []);
    assert!(pool.contains(&key("a")) && pool.len() == 2, "it stays until the verdict");
    assert_eq!(pool.decided(NOW, key("a"), accept()), Some(Decision::Recheck { kept: true }));
    assert_eq!(pool.decided(NOW, key("a"), reject()), None, "already decided");
    assert_eq!(pool.decided(NOW, key("b"), reject()), Some(Decision::Recheck { kept: false }));
    assert!(!pool.contains(&key("b")) && pool.is_rejected(&key("b")));
    assert_eq!((pool.metrics().recheck_times, pool.metrics().failed_txs), (2, 1));

    // Two blocks cause two verdicts, both of which count.
    pool.commit(NOW, 2, &[]);
    pool.commit(NOW, 3, &[]);
    assert_eq!(pool.decided(NOW, key("a"), accept()), Some(Decision::Recheck { kept: true }));
    assert_eq!(pool.decided(NOW, key("a"), reject()), Some(Decision::Recheck { kept: false }));
    assert!(pool.is_empty());
}
