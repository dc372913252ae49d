//! The transactions by key and in order.

use samara_cat::Transaction;
use samara_cat::pool::{Order, PoolConfig};
use samara_engine::{PeerKeyed, Time};

use crate::pool::harness::{add, all, check_txs, key, order_of, ordered, pool, setup, take, tx};

#[test]
fn store_simple() {
    let mut pool = setup(0);
    let (text, number) = ("a=0=1", key("a=0=1"));
    assert!(pool.get(&number).is_none() && !pool.contains(&number) && !take(&mut pool, text));
    assert_eq!((pool.len(), pool.bytes(), pool.iter().count()), (0, 0, 0));
    add(&mut pool, text).unwrap();
    assert!(pool.contains(&number));
    assert_eq!(pool.get(&number), Some(&tx(text)));
    assert_eq!((pool.len(), pool.bytes(), pool.iter().count()), (1, 5, 1));
    assert!(take(&mut pool, text));
    assert!(pool.get(&number).is_none() && pool.is_empty());
    assert_eq!((pool.len(), pool.bytes(), pool.iter().count()), (0, 0, 0));
}

#[test]
fn store_ordering() {
    for (order, expected) in [
        (Order::Fifo, ["a=0=1", "b=0=2", "c=0=3"]),
        (Order::Priority, ["c=0=3", "b=0=2", "a=0=1"]),
        (Order::SignerSets, ["c=0=3", "b=0=2", "a=0=1"]),
    ] {
        let mut pool = pool(ordered(order));
        for text in ["a=0=1", "b=0=2", "c=0=3"] {
            add(&mut pool, text).unwrap();
        }
        assert_eq!(order_of(&pool), expected);
    }
}

/// `TestStore`, "remove() maintains order and cleans up properly".
#[test]
fn store_remove_maintains_order() {
    for order in [Order::Fifo, Order::Priority, Order::SignerSets] {
        let mut pool = pool(ordered(order));
        // 37 and 101 have no common factor, so these are all priorities from 0 to 100, in another
        // order.
        let texts: Vec<String> = (0..101).map(|number| format!("={number}={}", number * 37 % 101)).collect();
        for text in &texts {
            add(&mut pool, text).unwrap();
        }
        let mut expected = order_of(&pool);
        assert_eq!(expected.len(), 101);
        for place in [30, 60, 0, 97] {
            let bytes = pool.bytes();
            let removed = expected.remove(place);
            assert!(take(&mut pool, &removed) && !take(&mut pool, &removed));
            assert_eq!(order_of(&pool), expected);
            assert_eq!((pool.len(), pool.bytes()), (expected.len(), bytes - removed.len() as u64));
        }
        for text in expected {
            assert!(take(&mut pool, &text));
        }
        assert_eq!((pool.len(), pool.bytes(), pool.iter().count()), (0, 0, 0));
    }
}

/// `TestStore`, "remove() non-empty signer set".
#[test]
fn store_remove_from_a_signer_set() {
    let mut pool = pool(ordered(Order::SignerSets));
    for number in 1..=10 {
        add(&mut pool, &format!("signer1={number}={number}={number}={number}")).unwrap();
    }
    let sequences =
        |pool: &crate::pool::harness::TestPool| pool.iter().map(|entry| entry.sequence).collect::<Vec<_>>();
    assert_eq!(sequences(&pool), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for number in [6, 1, 10] {
        assert!(take(&mut pool, &format!("signer1={number}={number}={number}={number}")));
    }
    assert_eq!(sequences(&pool), [2, 3, 4, 5, 7, 8, 9]);
    for number in [2, 3, 4, 5, 7, 8, 9] {
        assert!(take(&mut pool, &format!("signer1={number}={number}={number}={number}")));
    }
    assert_eq!((pool.len(), pool.bytes(), pool.iter().count()), (0, 0, 0));
}

#[test]
fn store_get_txs() {
    let mut pool = setup(0);
    let txs = check_txs(&mut pool, 100, 0, Time::ZERO);
    assert_eq!(pool.iter().count(), 100);
    for tx in &txs {
        assert_eq!(pool.get(&tx.key()), Some(tx));
    }
}

/// The seed keys hash tables, which must have no visible effect.
#[test]
fn the_seed_has_no_visible_effect() {
    let run = |seed| {
        let config = PoolConfig { capacity_txs: 20, ..ordered(Order::SignerSets) };
        let mut pool =
            samara_cat::pool::Pool::new(config, crate::pool::harness::check, PeerKeyed::from_key([0, seed]));
        for number in 0..200 {
            let text = format!("s{}={number}={}=3={number}", number % 7, number * 37 % 101);
            let _ = add(&mut pool, &text);
        }
        let committed: Vec<_> = pool.reap(100, u64::MAX).iter().map(Transaction::key).collect();
        pool.commit(Time::ZERO, 1, &committed);
        (all(&pool), pool.metrics().clone())
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn transactions_are_named_by_their_hash() {
    // SHA-256 of "abc", FIPS 180-2.
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let abc = tx("abc");
    assert_eq!((abc.key().to_string(), format!("{:?}", abc.key())), (hex.to_owned(), hex.to_owned()));
    assert_eq!(samara_cat::TxKey::try_from(&abc.key().as_bytes()[..]).unwrap(), abc.key());
    assert!(samara_cat::TxKey::try_from(&[0; 31][..]).is_err());
    assert_eq!((abc.len(), abc.is_empty(), tx("").is_empty()), (3, false, true));
    assert_ne!(abc, Transaction::with_key(abc.key(), "abd"), "same key, different bytes");
}
