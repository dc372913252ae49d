//! The effects of a block.

use samara_cat::pool::{
    Admission, Cause, CheckKind, Order, Pool, PoolConfig, Refusal, Rejection, Signer, Verdict,
};
use samara_cat::{Transaction, TxKey};
use samara_engine::{PeerKeyed, Time};

use crate::pool::harness::{add, check, check_txs, key, keys, ordered, setup};

#[test]
fn txs_available() {
    let mut pool = setup(0);
    assert!(!pool.txs_available(), "the pool is empty");
    let txs = check_txs(&mut pool, 100, 0, Time::ZERO);
    assert!(pool.txs_available());
    assert!(!pool.txs_available(), "once per height");
    pool.commit(Time::ZERO, 1, &keys(&txs[..50]));
    assert!(pool.txs_available(), "a block left some");
    assert!(!pool.txs_available());
    check_txs(&mut pool, 100, 100, Time::ZERO);
    assert!(!pool.txs_available(), "still the same height");
    let all: Vec<TxKey> = pool.iter().map(|entry| entry.transaction.key()).collect();
    pool.commit(Time::ZERO, 2, &all);
    assert!(!pool.txs_available(), "a block took all");
}

#[test]
fn committed_transactions_are_not_accepted_again() {
    let mut pool = setup(100);
    add(&mut pool, "a=0=1").unwrap();
    let committed = pool.commit(Time::ZERO, 1, &[key("a=0=1"), key("b=0=1"), key("a=0=1")]);
    assert_eq!(committed.removed, 1, "one of the others was unknown, and one a repetition");
    assert_eq!(pool.metrics().successful_txs, 3);
    for text in ["a=0=1", "b=0=1"] {
        assert!(pool.is_rejected(&key(text)) && !pool.was_evicted(&key(text)));
        assert_eq!(add(&mut pool, text), Err(Refusal::Rejected(Rejection::Settled)));
    }
    assert_eq!(pool.metrics().refused(Cause::Rejected), 2);
    assert_eq!((pool.len(), pool.bytes(), pool.height()), (0, 0, 1));
}

#[test]
fn without_cache_a_committed_transaction_is_accepted_again() {
    let mut pool = setup(0);
    add(&mut pool, "a=0=1").unwrap();
    pool.commit(Time::ZERO, 1, &[key("a=0=1")]);
    add(&mut pool, "a=0=1").unwrap();
}

/// A blob transaction of Celestia enters a block in another form. Both have the key of the
/// transaction inside.
#[test]
fn remove_blob_tx() {
    let inner = TxKey::of(&[1, 2, 3, 4]);
    let blob = Transaction::with_key(inner, "blob=00=1");
    let wrapped = Transaction::with_key(inner, "in a block");
    let mut pool = setup(100);
    pool.try_add(Time::ZERO, blob).unwrap();
    assert_eq!(pool.commit(Time::ZERO, 1, &[wrapped.key()]).removed, 1);
    assert_eq!((pool.len(), pool.bytes()), (0, 0));
}

#[test]
fn recheck() {
    let mut rechecked = Vec::new();
    let picky = move |tx: &Transaction, kind: CheckKind| {
        if kind == CheckKind::New {
            return check(tx, kind);
        }
        // In the order of arrival, as the pool v1 does.
        rechecked.push(tx.clone());
        if tx.bytes().starts_with(b"x") {
            Verdict::Reject { code: 3, reason: "stale".into() }
        } else {
            check(tx, kind)
        }
    };
    let config = PoolConfig { keep_invalid: true, ..PoolConfig::default() };
    let mut pool = Pool::new(config, picky, PeerKeyed::from_key([0, 1]));
    for text in ["a=0=1", "xb=0=2", "c=0=3", "xd=0=4", "e=0=5"] {
        add(&mut pool, text).unwrap();
    }
    let committed = pool.commit(Time::ZERO, 1, &[key("c=0=3")]);
    assert_eq!(committed.failed, [key("xb=0=2"), key("xd=0=4")]);
    assert_eq!(pool.len(), 2);
    assert_eq!((pool.metrics().recheck_times, pool.metrics().failed_txs), (4, 2));
    assert!(pool.is_rejected(&key("xb=0=2")) && !pool.was_evicted(&key("xb=0=2")));
    assert_eq!(pool.bytes(), 10);
    add(&mut pool, "new=0=1").unwrap();
    assert!(pool.txs_available());
}

#[test]
fn a_pool_without_recheck_does_not_ask_the_application() {
    let new_only = |tx: &Transaction, kind: CheckKind| {
        assert_eq!(kind, CheckKind::New);
        check(tx, kind)
    };
    let mut pool = Pool::new(
        PoolConfig { recheck: false, ..PoolConfig::default() },
        new_only,
        PeerKeyed::from_key([0, 1]),
    );
    add(&mut pool, "a=0=1").unwrap();
    assert_eq!(pool.commit(Time::ZERO, 1, &[]).failed, []);
    assert_eq!((pool.len(), pool.metrics().recheck_times), (1, 0));
}

/// A signer's transactions of rising priority, of which a block takes the first. An application
/// that checks sequence numbers keeps the others only if it sees them in the order of arrival.
#[test]
fn rechecks_follow_the_order_of_arrival() {
    for order in Order::ALL {
        let mut next = 0;
        let in_sequence = move |tx: &Transaction, _: CheckKind| {
            let sequence = u64::from(tx.bytes()[0]);
            if sequence != next {
                return Verdict::Reject { code: 3, reason: format!("sequence {sequence}, not {next}") };
            }
            // A block took the first one, and the others are checked again from there.
            next = if sequence == 5 { 1 } else { sequence + 1 };
            Verdict::Accept(Admission {
                priority: sequence as i64,
                gas: 1,
                sender: Some(Signer::new(b"signer")),
                sequence: Some(sequence),
            })
        };
        let mut pool = Pool::new(ordered(order), in_sequence, PeerKeyed::from_key([0, 1]));
        let txs: Vec<Transaction> = (0..6u8).map(|sequence| Transaction::new(vec![sequence])).collect();
        for tx in &txs {
            pool.try_add(Time::ZERO, tx.clone()).unwrap();
        }
        let committed = pool.commit(Time::ZERO, 1, &[txs[0].key()]);
        assert_eq!((committed.failed, pool.len()), (vec![], 5), "{order:?}");
    }
}
