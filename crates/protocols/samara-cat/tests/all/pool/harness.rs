//! The application of the tests, and helpers.

use samara_cat::pool::{Added, Admission, CheckKind, Order, Pool, PoolConfig, Refusal, Signer, Verdict};
use samara_cat::{Transaction, TxKey};
use samara_engine::{PeerKeyed, Time};

/// The application of celestia-core's tests: a transaction is `sender=key=priority` and needs 1
/// gas. Here also `sender=key=priority=gas=sequence`.
pub(crate) fn check(tx: &Transaction, _: CheckKind) -> Verdict {
    let text = String::from_utf8_lossy(tx.bytes()).into_owned();
    let parts: Vec<&str> = text.split('=').collect();
    let reject = |code| Verdict::Reject { code, reason: text.clone() };
    let (sender, priority, gas, sequence) = match parts[..] {
        [sender, _, priority] => (sender, priority, "1", None),
        [sender, _, priority, gas, sequence] => (sender, priority, gas, Some(sequence)),
        _ => return reject(101),
    };
    let (Ok(priority), Ok(gas)) = (priority.parse(), gas.parse()) else { return reject(100) };
    let sequence = sequence.map(|number| number.parse().unwrap());
    let sender = (!sender.is_empty()).then(|| Signer::new(sender.as_bytes()));
    Verdict::Accept(Admission { priority, gas, sender, sequence })
}

pub(crate) type TestPool = Pool<fn(&Transaction, CheckKind) -> Verdict>;

pub(crate) fn pool(config: PoolConfig) -> TestPool {
    Pool::new(config, check, PeerKeyed::from_key([0, 1]))
}

/// Returns a pool with this cache size and otherwise default settings.
pub(crate) fn setup(cache_size: usize) -> TestPool {
    pool(PoolConfig { cache_size, ..PoolConfig::default() })
}

pub(crate) fn ordered(order: Order) -> PoolConfig {
    PoolConfig { order, ..PoolConfig::default() }
}

pub(crate) fn tx(text: &str) -> Transaction {
    Transaction::new(text.to_owned())
}

pub(crate) fn key(text: &str) -> TxKey {
    TxKey::of(text.as_bytes())
}

pub(crate) fn add<F>(pool: &mut Pool<F>, text: &str) -> Result<Added, Refusal>
where
    F: FnMut(&Transaction, CheckKind) -> Verdict + Send + 'static,
{
    pool.try_add(Time::ZERO, tx(text))
}

/// Adds `count` transactions of 57 bytes with priorities in no order.
pub(crate) fn check_txs(pool: &mut TestPool, count: u64, from: u64, now: Time) -> Vec<Transaction> {
    (from..from + count)
        .map(|number| {
            let priority = 1_000 + number * 7_919 % 8_999;
            let tx = tx(&format!("sender-{number:03}-0={number:039}={priority}"));
            assert_eq!(tx.len(), 57);
            let before = pool.len();
            pool.try_add(now, tx.clone()).unwrap();
            assert_eq!(pool.len(), before + 1, "no transaction is evicted silently");
            tx
        })
        .collect()
}

pub(crate) fn keys(txs: &[Transaction]) -> Vec<TxKey> {
    txs.iter().map(Transaction::key).collect()
}

pub(crate) fn priorities(pool: &TestPool, txs: &[Transaction]) -> Vec<i64> {
    txs.iter().map(|tx| pool.entry(&tx.key()).unwrap().priority).collect()
}

pub(crate) fn texts(txs: &[Transaction]) -> Vec<String> {
    txs.iter().map(|tx| String::from_utf8(tx.bytes().to_vec()).unwrap()).collect()
}

/// Returns the texts of all transactions in the order of the pool.
pub(crate) fn order_of(pool: &TestPool) -> Vec<String> {
    texts(&all(pool))
}

/// Returns all transactions in the order of the pool.
pub(crate) fn all<A>(pool: &Pool<A>) -> Vec<Transaction> {
    pool.iter().map(|entry| entry.transaction.clone()).collect()
}

/// Commits a block with one transaction. Returns true if it was in the pool.
pub(crate) fn take<F>(pool: &mut Pool<F>, text: &str) -> bool
where
    F: FnMut(&Transaction, CheckKind) -> Verdict + Send + 'static,
{
    pool.commit(Time::ZERO, pool.height(), &[key(text)]).removed == 1
}
