//! The order by sender (ADR 011 of celestia-core).

use samara_cat::pool::{Cause, Order, PoolConfig};
use samara_engine::Time;

use crate::pool::harness::{TestPool, add, key, order_of, ordered, pool, take, texts};

fn sets(texts: &[&str]) -> TestPool {
    let mut pool = pool(ordered(Order::SignerSets));
    for text in texts {
        add(&mut pool, text).unwrap();
    }
    pool
}

/// `TestAggregatedPriorityWeightedByGas` and `...AfterAdd`: 22 / 4 is 5, and 31 / 5 is 6, both
/// rounded down. The priority of another sender lies between them.
#[test]
fn aggregated_priority_weighted_by_gas() {
    let mut pool = sets(&["a=1=10=1=1", "a=2=4=3=2", "b=1=5=1=1"]);
    assert_eq!(order_of(&pool), ["a=1=10=1=1", "a=2=4=3=2", "b=1=5=1=1"], "equal, and a is older");
    add(&mut pool, "c=1=6=1=1").unwrap();
    assert_eq!(order_of(&pool)[0], "c=1=6=1=1");
    add(&mut pool, "a=3=9=1=3").unwrap();
    assert_eq!(order_of(&pool)[..3], ["a=1=10=1=1", "a=2=4=3=2", "a=3=9=1=3"]);
}

#[test]
fn negative_means_are_rounded_down() {
    let pool = sets(&["b=1=-4=1=1", "a=1=-3=1=1", "a=2=-4=1=2"]);
    assert_eq!(order_of(&pool)[0], "b=1=-4=1=1", "the mean of a is -3.5, thus -4, and b is older");
}

#[test]
fn transactions_without_gas_have_weight_one() {
    let pool = sets(&["a=1=10=0=1", "a=2=20=0=2", "b=1=14=1=1", "c=1=16=1=1"]);
    assert_eq!(order_of(&pool), ["c=1=16=1=1", "a=1=10=0=1", "a=2=20=0=2", "b=1=14=1=1"]);
}

#[test]
fn extreme_priorities_and_gas_do_not_overflow() {
    let (low, high, gas) = (i64::MIN, i64::MAX, u64::MAX);
    let mut pool = sets(&[]);
    for number in 0..4 {
        add(&mut pool, &format!("a={number}={high}={gas}={number}")).unwrap();
        add(&mut pool, &format!("b={number}={low}={gas}={number}")).unwrap();
    }
    assert!(order_of(&pool)[..4].iter().all(|text| text.starts_with("a=")));
    assert!(pool.reap(u64::MAX, gas).len() == 1);
}

#[test]
fn intra_set_ordering_by_sequence_then_timestamp() {
    let pool = sets(&["a=2a=1=1=2", "a=1=1=1=1", "a=2b=1=1=2"]);
    assert_eq!(order_of(&pool), ["a=1=1=1=1", "a=2a=1=1=2", "a=2b=1=1=2"]);
}

#[test]
fn inter_set_ordering_by_aggregated_priority_and_timestamp() {
    let a = ["a=1=10=1=1", "a=2=4=3=2"];
    let pool = sets(&["b=1=4=2=1", a[0], "b=2=6=2=2", a[1]]);
    assert_eq!(order_of(&pool), ["b=1=4=2=1", "b=2=6=2=2", a[0], a[1]], "both 5; b is older");
    let pool = sets(&[a[0], a[1], "b=1=4=2=1", "b=2=6=2=2", "c=1=10=1=1", "c=2=4=3=2"]);
    assert_eq!(order_of(&pool)[..2], a);
}

/// `TestTxSetFirstTimestamp...OnRemove`: the age of a set is that of its oldest remaining
/// transaction.
#[test]
fn age_of_a_set_is_that_of_its_oldest_transaction() {
    let mut pool = sets(&["a=2=5=1=2", "b=1=5=1=1", "a=1=5=1=1"]);
    assert_eq!(order_of(&pool), ["a=1=5=1=1", "a=2=5=1=2", "b=1=5=1=1"]);
    assert!(take(&mut pool, "a=2=5=1=2"));
    assert_eq!(order_of(&pool), ["b=1=5=1=1", "a=1=5=1=1"]);
}

/// `TestReapPriorityAggregationEdgeCases` and `TestReapPriorityWithSameSenderSequenceOrdering`.
#[test]
fn reap_priority_aggregation() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&["alice=01=100", "alice=02=1", "bob=03=60"], &["bob=03=60", "alice=01=100", "alice=02=1"]),
        (
            &["alice=01=1000", "alice=02=1", "alice=03=1", "bob=04=500"],
            &["bob=04=500", "alice=01=1000", "alice=02=1", "alice=03=1"],
        ),
        (
            &["bob=03=50", "alice=01=100", "bob=04=50", "alice=02=100"],
            &["alice=01=100", "alice=02=100", "bob=03=50", "bob=04=50"],
        ),
    ];
    for (given, expected) in cases {
        let pool = sets(given);
        assert_eq!(order_of(&pool), expected);
        assert_eq!(texts(&pool.reap(u64::MAX, u64::MAX)), expected);
    }
}

#[test]
fn a_block_has_no_gap_in_the_sequence_of_a_sender() {
    let pool = sets(&["a=1=9=1=1", "a=2=9=50=2", "a=3=9=1=3", "b=1=1=1=1"]);
    assert_eq!(texts(&pool.reap(u64::MAX, 10)), ["a=1=9=1=1", "b=1=1=1=1"]);
}

#[test]
fn eviction_takes_the_highest_sequence_numbers_of_the_lowest_sets() {
    let config = PoolConfig { capacity_txs: 6, ..ordered(Order::SignerSets) };
    let mut pool = pool(config);
    for text in ["a=1=1=1=1", "a=2=1=1=2", "b=2=2=1=2", "b=1=2=1=1", "c=1=9=1=1", "=0=1"] {
        add(&mut pool, text).unwrap();
    }
    // Of the sets with a mean of 1, the newest goes first.
    let mut evicted = Vec::new();
    for number in 1..=5 {
        evicted.extend(add(&mut pool, &format!("d={number}=5=1={number}")).unwrap().evicted);
    }
    let expected = ["=0=1", "a=2=1=1=2", "a=1=1=1=1", "b=2=2=1=2", "b=1=2=1=1"];
    assert_eq!(evicted, expected.map(key));
    assert_eq!(add(&mut pool, "e=1=5=1=1").unwrap_err().cause(), Cause::Full);
}

/// The new transaction raises the mean of `a`; celestia-core would evict the second transaction of
/// `a` for the third.
#[test]
fn a_transaction_does_not_evict_earlier_ones_of_its_sender() {
    let config = PoolConfig { capacity_txs: 3, ..ordered(Order::SignerSets) };
    let mut pool = pool(config);
    for text in ["a=1=1=1=1", "a=2=1=1=2", "b=1=3=1=1"] {
        add(&mut pool, text).unwrap();
    }
    assert_eq!(add(&mut pool, "a=3=4=1=3").unwrap_err().cause(), Cause::Full, "the mean is 2");
    assert_eq!(add(&mut pool, "a=4=90=1=3").unwrap().evicted, [key("b=1=3=1=1")]);
    assert_eq!(order_of(&pool), ["a=1=1=1=1", "a=2=1=1=2", "a=4=90=1=3"]);
}

#[test]
fn one_block_removes_a_large_set() {
    let mut pool = pool(PoolConfig { capacity_txs: 100_000, recheck: false, ..ordered(Order::SignerSets) });
    let text = |number: u32| format!("a={number}=1=1={number}");
    for number in 0..20_000 {
        add(&mut pool, &text(number)).unwrap();
    }
    let committed: Vec<_> = (0..19_999).map(|number| key(&text(number))).collect();
    assert_eq!(pool.commit(Time::ZERO, 1, &committed).removed, 19_999);
    assert_eq!(order_of(&pool), [text(19_999)]);
    assert!(take(&mut pool, &text(19_999)));
    assert!(pool.is_empty() && pool.iter().next().is_none());
}
