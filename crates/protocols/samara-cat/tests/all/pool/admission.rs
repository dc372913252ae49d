//! Accepted and rejected transactions.

use samara_cat::Transaction;
use samara_cat::pool::{
    Added, Admission, Application, Cause, CheckKind, Invalid, Order, Pool, PoolConfig, Refusal, Rejection,
    Signer, Verdict,
};
use samara_engine::{PeerKeyed, Time};

use crate::pool::harness::{add, check, check_txs, key, keys, ordered, pool, setup, tx};

#[test]
fn size() {
    let mut pool = setup(0);
    let txs = check_txs(&mut pool, 100, 0, Time::ZERO);
    assert_eq!((pool.len(), pool.bytes()), (100, 5_700));
    let committed = pool.commit(Time::ZERO, 1, &keys(&txs[..50]));
    assert_eq!(committed.removed, 50);
    assert_eq!((pool.len(), pool.bytes()), (50, 2_850));
    assert_eq!(pool.metrics().added_txs, 100);
    assert_eq!(pool.metrics().added_bytes, 5_700);
}

#[test]
fn check_tx_exceeds_max_size() {
    let mut pool = setup(0);
    let max = pool.config().max_tx_bytes;
    let long = Transaction::new(vec![b'x'; max + 1]);
    assert_eq!(pool.try_add(Time::ZERO, long), Err(Refusal::TooLarge { len: max + 1, max }));
    let refusal = pool.try_add(Time::ZERO, Transaction::new(vec![b'x'; max])).unwrap_err();
    assert_eq!(refusal.cause(), Cause::Invalid, "it is short enough for the application");
    assert_eq!(pool.metrics().refused(Cause::TooLarge), 1);
}

#[test]
fn empty_transactions_are_rejected() {
    let mut pool = setup(0);
    assert_eq!(add(&mut pool, ""), Err(Refusal::Empty));
    assert_eq!(pool.metrics().refused(Cause::Empty), 1);
}

#[test]
fn check_tx_same_peer() {
    let mut pool = setup(100);
    assert_eq!(add(&mut pool, "sender-0=00=50"), Ok(Added::default()));
    assert_eq!(add(&mut pool, "sender-0=00=50"), Err(Refusal::InPool));
    assert_eq!(pool.metrics().refused(Cause::InPool), 1);
    assert_eq!((pool.len(), pool.bytes()), (1, 14));
}

/// The post-check of celestia-core is part of the application.
#[test]
fn check_tx_post_check_error() {
    for fails in [true, false] {
        let checked = move |tx: &Transaction, kind: CheckKind| {
            if fails { Verdict::Reject { code: 0, reason: "test error".into() } } else { check(tx, kind) }
        };
        let mut pool = Pool::new(PoolConfig::default(), checked, PeerKeyed::from_key([0, 1]));
        let added = add(&mut pool, "sender=0000=1");
        assert_eq!(added.is_err(), fails);
        assert_eq!(pool.len(), usize::from(!fails));
        assert_eq!(pool.metrics().failed_txs, u64::from(fails));
    }
}

#[test]
fn rejection_indexing() {
    let mut pool = pool(PoolConfig { keep_invalid: true, ..PoolConfig::default() });
    let (text, number) = ("invalid-tx-format", key("invalid-tx-format"));
    assert_eq!(pool.rejection(&number), None);
    assert_eq!(add(&mut pool, text), Err(Refusal::Invalid { code: 101, reason: text.into() }));
    let Some(Rejection::Invalid(why)) = pool.rejection(&number).cloned() else { panic!("not remembered") };
    assert_eq!(*why, Invalid { code: 101, reason: text.into() });
    assert!(pool.is_rejected(&number));
    assert_eq!(add(&mut pool, text), Err(Refusal::Rejected(Rejection::Invalid(why))));
    assert_eq!(pool.metrics().failed_txs, 1, "the application was not asked again");
    add(&mut pool, "sender-1=test=100").unwrap();
    assert_eq!(pool.rejection(&key("sender-1=test=100")), None);
}

#[test]
fn invalid_transactions_are_remembered_only_if_configured() {
    let mut pool = setup(100);
    for _ in 0..2 {
        assert_eq!(add(&mut pool, "invalid").unwrap_err().cause(), Cause::Invalid);
    }
    assert_eq!(pool.rejection(&key("invalid")), None);
    assert_eq!(pool.metrics().failed_txs, 2);
}

/// The generation of 2026: `fix: peers should be able to redownload rejected txs` (c6ce601e).
#[test]
fn invalid_transactions_may_return_if_configured_and_committed_ones_may_not() {
    let mut valid = false;
    let changing = move |_: &Transaction, _: CheckKind| {
        if std::mem::replace(&mut valid, true) {
            return Verdict::Accept(Admission::default());
        }
        Verdict::Reject { code: 32, reason: "sequence".into() }
    };
    let config = PoolConfig { keep_invalid: true, retry_invalid: true, ..PoolConfig::default() };
    let mut pool = Pool::new(config, changing, PeerKeyed::from_key([0, 1]));
    let tx = tx("one");
    assert!(pool.try_add(Time::ZERO, tx.clone()).is_err());
    assert!(pool.rejection(&tx.key()).is_some() && !pool.is_rejected(&tx.key()));
    assert_eq!(pool.try_add(Time::ZERO, tx.clone()), Ok(Added::default()));
    assert_eq!(pool.rejection(&tx.key()), None, "it is valid now");
    pool.commit(Time::ZERO, 1, &[tx.key()]);
    assert!(pool.is_rejected(&tx.key()));
    assert_eq!(pool.try_add(Time::ZERO, tx), Err(Refusal::Rejected(Rejection::Settled)));
}

#[test]
fn a_block_settles_a_transaction_that_was_invalid() {
    let config = PoolConfig { keep_invalid: true, retry_invalid: true, ..PoolConfig::default() };
    let mut pool = pool(config);
    add(&mut pool, "invalid").unwrap_err();
    pool.commit(Time::ZERO, 1, &[key("invalid")]);
    assert_eq!(pool.rejection(&key("invalid")), Some(&Rejection::Settled));
}

#[test]
fn long_reasons_are_truncated() {
    let long = |_: &Transaction, _: CheckKind| Verdict::Reject { code: 1, reason: "ü".repeat(500) + "x" };
    let mut pool = Pool::new(
        PoolConfig { keep_invalid: true, ..PoolConfig::default() },
        long,
        PeerKeyed::from_key([0, 1]),
    );
    let refusal = add(&mut pool, "a").unwrap_err();
    assert!(matches!(refusal, Refusal::Invalid { reason, .. } if reason.len() == 1_001));
    let Some(Rejection::Invalid(why)) = pool.rejection(&key("a")) else { panic!("not remembered") };
    assert_eq!(why.reason, "ü".repeat(128));
}

#[test]
fn a_full_fifo_pool_rejects_without_asking_the_application() {
    let config = PoolConfig { capacity_txs: 2, ..ordered(Order::Fifo) };
    let mut asked = 0;
    let counting = move |_: &Transaction, _: CheckKind| {
        asked += 1;
        assert!(asked <= 2);
        Verdict::Accept(Admission { priority: asked, ..Admission::default() })
    };
    let mut pool = Pool::new(config, counting, PeerKeyed::from_key([0, 1]));
    add(&mut pool, "a").unwrap();
    add(&mut pool, "b").unwrap();
    assert_eq!(add(&mut pool, "c"), Err(Refusal::Full { txs: 2, bytes: 2 }));
    assert_eq!(pool.metrics().refused(Cause::Full), 1);
}

#[test]
fn entries_hold_the_attributes_from_the_application() {
    let mut pool = setup(0);
    pool.commit(Time::ZERO, 5, &[]);
    pool.try_add(Time::from_secs(3), tx("alice=00=-4=17=9")).unwrap();
    let entry = pool.entry(&key("alice=00=-4=17=9")).unwrap();
    assert_eq!(entry.sender, Some(Signer::new(b"alice")));
    assert_eq!((entry.priority, entry.gas, entry.sequence), (-4, 17, 9));
    assert_eq!((entry.since, entry.height), (Time::from_secs(3), 5));
    assert_eq!(entry.transaction, tx("alice=00=-4=17=9"));
}

#[test]
fn application_can_report_the_expected_sequence() {
    struct Chain;
    impl Application for Chain {
        fn check(&mut self, _: &Transaction, _: CheckKind) -> Verdict {
            Verdict::Accept(Admission::default())
        }

        fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
            (signer.as_bytes() == b"alice").then_some(4)
        }
    }
    let mut pool = Pool::new(PoolConfig::default(), Chain, PeerKeyed::from_key([0, 1]));
    assert_eq!(pool.application_mut().expected_sequence(&Signer::new(b"alice")), Some(4));
    assert_eq!(pool.application_mut().expected_sequence(&Signer::new(b"bob")), None);
}

#[test]
fn refusal_causes_index_their_counters() {
    assert_eq!(Cause::ALL.len(), 8);
    for (place, cause) in Cause::ALL.iter().enumerate() {
        assert_eq!(*cause as usize, place, "{}", cause.name());
    }
}
