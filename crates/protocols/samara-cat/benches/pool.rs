//! The cost of the pool per arriving transaction, per duplicate, and per block.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use samara_cat::pool::{Admission, CheckKind, Order, Pool, PoolConfig, Signer, Verdict};
use samara_cat::{Transaction, TxKey};
use samara_engine::{PeerKeyed, Time};

const TXS: usize = 10_000;

type Check = Box<dyn FnMut(&Transaction, CheckKind) -> Verdict + Send>;

fn transactions() -> Vec<Transaction> {
    (0..TXS).map(|number| Transaction::new(number.to_le_bytes().repeat(8))).collect()
}

/// An application with 500 senders and random priorities, both derived from the key.
fn application() -> Check {
    let senders: Vec<Signer> = (0..500u16).map(|number| Signer::new(&number.to_le_bytes())).collect();
    Box::new(move |tx, _| {
        let key = tx.key();
        let [a, b, c, ..] = *key.as_bytes();
        let sender = Some(senders[usize::from(u16::from_le_bytes([a, b])) % senders.len()].clone());
        Verdict::Accept(Admission { priority: c.into(), gas: 1, sender, sequence: None })
    })
}

fn pool(order: Order, capacity_txs: usize) -> Pool<Check> {
    Pool::new(
        PoolConfig { capacity_txs, order, recheck: false, ..PoolConfig::default() },
        application(),
        PeerKeyed::from_key([0, 1]),
    )
}

fn filled(order: Order, txs: &[Transaction]) -> Pool<Check> {
    let mut pool = pool(order, TXS);
    for tx in txs {
        let _ = pool.try_add(Time::ZERO, tx.clone());
    }
    pool
}

fn benches(c: &mut Criterion) {
    let txs = transactions();
    let keys: Vec<TxKey> = txs.iter().map(Transaction::key).collect();
    for (order, name) in
        [(Order::Fifo, "fifo"), (Order::Priority, "priority"), (Order::SignerSets, "signer_sets")]
    {
        let mut group = c.benchmark_group(format!("pool/order={name}"));
        group.throughput(Throughput::Elements(TXS as u64));
        group.bench_function("add", |b| {
            b.iter_batched_ref(
                || pool(order, TXS),
                |pool| txs.iter().for_each(|tx| drop(pool.try_add(Time::ZERO, tx.clone()))),
                BatchSize::LargeInput,
            );
        });
        group.bench_function("add_to_a_full_pool", |b| {
            b.iter_batched_ref(
                || pool(order, TXS / 10),
                |pool| txs.iter().for_each(|tx| drop(pool.try_add(Time::ZERO, tx.clone()))),
                BatchSize::LargeInput,
            );
        });
        let mut full = filled(order, &txs);
        group.bench_function("add_duplicate", |b| {
            b.iter(|| txs.iter().for_each(|tx| drop(full.try_add(Time::ZERO, tx.clone()))));
        });
        group.bench_function("reap", |b| b.iter(|| full.reap(u64::MAX, u64::MAX)));
        group.bench_function("commit", |b| {
            b.iter_batched_ref(
                || filled(order, &txs),
                |pool| pool.commit(Time::ZERO, 1, &keys),
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

criterion_group!(pool_benches, benches);
criterion_main!(pool_benches);
