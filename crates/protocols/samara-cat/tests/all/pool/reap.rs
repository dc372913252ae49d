//! The transactions chosen for a block.

use samara_cat::pool::{Order, PoolConfig};
use samara_engine::Time;

use crate::pool::harness::{add, check_txs, order_of, ordered, pool, priorities, setup, texts};

const ANY: u64 = u64::MAX;

#[test]
fn reap_max_bytes_max_gas() {
    let mut pool = setup(0);
    let txs = check_txs(&mut pool, 100, 0, Time::ZERO);
    let mut sorted = priorities(&pool, &txs);
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    // 57 bytes plus length and tag are 59: 20 fit into 1,200, and 33 into 2,000.
    for (max_bytes, max_gas, expected) in
        [(ANY, 50, 50), (1_200, ANY, 20), (2_000, 25, 25), (0, ANY, 0), (ANY, 0, 0)]
    {
        let reaped = pool.reap(max_bytes, max_gas);
        assert_eq!(priorities(&pool, &reaped), sorted[..expected]);
        assert_eq!((pool.len(), pool.bytes()), (100, 5_700), "reaping removes nothing");
    }
    assert_eq!(pool.reap(ANY, ANY).len(), 100);
}

#[test]
fn tx_larger_than_max_bytes() {
    let mut pool = setup(0);
    add(&mut pool, &format!("sender-1-1={}=2", "0".repeat(200))).unwrap();
    let small = format!("sender-2-1={}=1", "0".repeat(40));
    add(&mut pool, &small).unwrap();
    assert_eq!(texts(&pool.reap(100, ANY)), [small]);
}

#[test]
fn transactions_beyond_the_gas_limit_are_skipped() {
    let mut pool = setup(0);
    for text in ["a=0=9=100=0", "b=0=8=1=0", "c=0=7=100=0", "d=0=6=1=0"] {
        add(&mut pool, text).unwrap();
    }
    assert_eq!(texts(&pool.reap(ANY, 3)), ["b=0=8=1=0", "d=0=6=1=0"]);
    assert_eq!(texts(&pool.reap(ANY, 101)), ["a=0=9=100=0", "b=0=8=1=0"]);
}

/// `TestReapOrderByPriority`: each case, with the order of arrival among equals.
#[test]
fn reap_order_by_priority() {
    for given in [
        vec![1, 5, 3, 10, 7],
        vec![42],
        vec![5, 5, 5],
        vec![1, 100, 1, 100],
        vec![100, 50, 25, 10],
        vec![10, 25, 50, 100],
        vec![1, 1_000_000, 500],
    ] {
        for order in [Order::Priority, Order::SignerSets] {
            let mut pool = pool(ordered(order));
            let mut expected: Vec<(i64, String)> = Vec::new();
            for (number, priority) in given.iter().enumerate() {
                let text = format!("sender-{number}=00={priority}");
                add(&mut pool, &text).unwrap();
                expected.push((*priority, text));
            }
            expected.sort_by_key(|(priority, _)| -priority);
            let expected: Vec<String> = expected.into_iter().map(|(_, text)| text).collect();
            assert_eq!(order_of(&pool), expected);
            assert_eq!(texts(&pool.reap(ANY, ANY)), expected);
        }
    }
}

#[test]
fn a_fifo_pool_is_reaped_in_order_of_arrival() {
    let mut pool = pool(ordered(Order::Fifo));
    for text in ["a=0=1", "b=0=9", "c=0=5"] {
        add(&mut pool, text).unwrap();
    }
    assert_eq!(texts(&pool.reap(ANY, ANY)), ["a=0=1", "b=0=9", "c=0=5"]);
}

/// Includes lengths whose own encoding takes one byte more.
#[test]
fn block_bytes_include_tags_and_lengths() {
    for (len, in_block) in [(5, 7), (127, 129), (128, 131), (16_383, 16_386), (16_384, 16_388)] {
        let mut pool = pool(PoolConfig::default());
        add(&mut pool, &format!("{}=1", "=".to_owned() + &"0".repeat(len - 3))).unwrap();
        assert_eq!(pool.bytes(), len as u64);
        assert_eq!((pool.reap(in_block, ANY).len(), pool.reap(in_block - 1, ANY).len()), (1, 0));
    }
}
