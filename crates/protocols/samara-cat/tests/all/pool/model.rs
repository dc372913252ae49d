//! For any sequence of operations, the pool behaves like the reference.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use samara_cat::pool::{
    Admission, Application, CheckKind, Decision, Order, Pool, PoolConfig, Refusal, Signer, Verdict,
};
use samara_cat::{Transaction, TxKey};
use samara_engine::{PeerKeyed, Time};

use crate::pool::harness::all;
use crate::pool::reference::{Answer, Known, Reference};

/// An application with scripted verdicts.
#[derive(Debug)]
struct Script {
    next: Verdict,
    stale: BTreeSet<TxKey>,
    late: bool,
}

impl Application for Script {
    fn check(&mut self, tx: &Transaction, kind: CheckKind) -> Verdict {
        match kind {
            CheckKind::New => self.next.clone(),
            CheckKind::Recheck if self.late => Verdict::Later,
            CheckKind::Recheck if self.stale.contains(&tx.key()) => verdict(&Answer::Reject),
            CheckKind::Recheck => Verdict::Accept(Admission::default()),
        }
    }
}

fn verdict(answer: &Answer) -> Verdict {
    match answer {
        Answer::Accept(admission) => Verdict::Accept(admission.clone()),
        Answer::Reject => Verdict::Reject { code: 1, reason: String::new() },
        Answer::Later => Verdict::Later,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, Answer),
    Decide(usize, Answer),
    Commit { txs: Vec<usize>, blocks: u64, stale: Vec<usize>, late: bool },
    Reap { bytes: u64, gas: u64 },
    Expire,
    Wait(u64),
}

const TXS: usize = 24;

/// Returns a transaction of 2 to 29 bytes.
fn transaction(number: usize) -> Transaction {
    let mut bytes = vec![b'a'; 1 + number * 7 % 29];
    bytes.push(number as u8);
    Transaction::new(bytes)
}

fn answer() -> impl Strategy<Value = Answer> {
    let admission = (-3i64..4, 0u64..4, prop::option::of(0u8..3), prop::option::of(0u64..4));
    let admission = admission.prop_map(|(priority, gas, sender, sequence)| {
        let sender = sender.map(|name| Signer::new(&[name]));
        Answer::Accept(Admission { priority, gas, sender, sequence })
    });
    prop_oneof![8 => admission, 1 => Just(Answer::Reject), 3 => Just(Answer::Later)]
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..TXS;
    let some = || prop::collection::vec(number(), 0..4);
    prop_oneof![
        30 => (number(), answer()).prop_map(|(tx, answer)| Step::Add(tx, answer)),
        10 => (number(), answer()).prop_map(|(tx, answer)| Step::Decide(tx, answer)),
        4 => (some(), 0u64..3, some(), any::<bool>())
            .prop_map(|(txs, blocks, stale, late)| Step::Commit { txs, blocks, stale, late }),
        4 => (0u64..150, 0u64..12).prop_map(|(bytes, gas)| Step::Reap { bytes, gas }),
        1 => Just(Step::Expire),
        4 => (0u64..4).prop_map(Step::Wait),
    ]
}

fn config() -> impl Strategy<Value = PoolConfig> {
    let order = prop_oneof![Just(Order::Fifo), Just(Order::Priority), Just(Order::SignerSets)];
    let limits = (0usize..9, 0u64..130, 0u64..4, 0u64..8, 0usize..30);
    (order, limits, any::<[bool; 3]>()).prop_map(|(order, limits, [keep_invalid, retry_invalid, recheck])| {
        let (capacity_txs, capacity_bytes, ttl_blocks, ttl_ms, cache_size) = limits;
        PoolConfig {
            capacity_txs,
            capacity_bytes,
            max_tx_bytes: 28,
            ttl_blocks,
            ttl: Duration::from_millis(ttl_ms),
            cache_size,
            keep_invalid,
            retry_invalid,
            recheck,
            order,
        }
    })
}

/// Both pools, and the history of the transactions.
struct Pair {
    pool: Pool<Script>,
    reference: Reference,
    txs: Vec<Transaction>,
    now: Time,
    /// Number of transactions that left the pool in any way.
    left: u64,
}

fn sorted(mut keys: Vec<TxKey>) -> Vec<TxKey> {
    keys.sort_unstable();
    keys
}

impl Pair {
    fn new(config: PoolConfig) -> Self {
        let script = Script { next: Verdict::Later, stale: BTreeSet::new(), late: false };
        let pool = Pool::new(config.clone(), script, PeerKeyed::from_key([0, 1]));
        let txs = (0..TXS).map(transaction).collect();
        Self { pool, reference: Reference::new(config), txs, now: Time::ZERO, left: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Add(tx, answer) => self.add(tx, &answer),
            Step::Decide(tx, answer) => self.decide(tx, &answer),
            Step::Commit { txs, blocks, stale, late } => self.commit(&txs, blocks, &stale, late),
            Step::Reap { bytes, gas } => {
                assert_eq!(self.pool.reap(bytes, gas), self.reference.reap(bytes, gas));
            }
            Step::Expire => {
                let expired = self.reference.expire(self.now);
                self.left += expired.len() as u64;
                assert_eq!(self.pool.expire(self.now), expired);
            }
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn add(&mut self, tx: usize, answer: &Answer) {
        let tx = self.txs[tx].clone();
        self.pool.application_mut().next = verdict(answer);
        let expected = self.reference.add(self.now, &tx, answer);
        self.left += expected.as_ref().map_or(0, |(evicted, _)| evicted.len() as u64);
        let added = self.pool.try_add(self.now, tx);
        let added = added.map(|added| (added.evicted, added.waits));
        assert_eq!(added.map_err(|refusal| refusal.cause()), expected);
    }

    fn decide(&mut self, tx: usize, answer: &Answer) {
        let tx = self.txs[tx].clone();
        let decision = self.pool.decided(self.now, tx.key(), verdict(answer));
        if matches!(answer, Answer::Later) {
            assert_eq!(decision, None);
            return;
        }
        let rejected = matches!(answer, Answer::Reject);
        if self.reference.reserved.contains(&tx) {
            self.reference.reserved.retain(|other| *other != tx);
            let expected = self.reference.judge(self.now, &tx, answer);
            self.left += expected.as_ref().map_or(0, |(evicted, _)| evicted.len() as u64);
            let Some(Decision::New(added)) = decision else { panic!("a verdict was pending: {decision:?}") };
            let added = added.map(|added| (added.evicted, added.waits));
            assert_eq!(added.map_err(|refusal: Refusal| refusal.cause()), expected);
            return;
        }
        let awaited = self.reference.item(tx.key()).filter(|item| item.rechecks > 0);
        assert_eq!(decision, awaited.is_some().then_some(Decision::Recheck { kept: !rejected }));
        if decision.is_none() {
            return;
        }
        if rejected {
            self.left += 1;
            self.reference.items.retain(|item| item.tx != tx);
            self.reference.reject(tx.key());
        } else if let Some(item) = self.reference.item(tx.key()) {
            item.rechecks -= 1;
        }
    }

    fn commit(&mut self, txs: &[usize], blocks: u64, stale: &[usize], late: bool) {
        let Self { pool, reference, now, .. } = self;
        let keys = |list: &[usize]| list.iter().map(|tx| self.txs[*tx].key()).collect::<Vec<_>>();
        let (committed, stale) = (keys(txs), keys(stale));
        reference.height += blocks;
        let removed = committed.iter().filter(|key| reference.settle(**key)).count();
        let expired = reference.expire(*now);
        let mut failed = Vec::new();
        if reference.config.recheck && late {
            reference.items.iter_mut().for_each(|item| item.rechecks += 1);
        } else if reference.config.recheck {
            let order = reference.by_arrival();
            failed.extend(order.iter().map(|item| item.tx.key()).filter(|key| stale.contains(key)));
            reference.items.retain(|item| !stale.contains(&item.tx.key()));
            failed.iter().for_each(|key| reference.reject(*key));
        }
        let script = pool.application_mut();
        (script.stale, script.late) = (stale.into_iter().collect(), late);
        let outcome = pool.commit(*now, reference.height, &committed);
        assert_eq!(
            (outcome.removed, outcome.expired, outcome.failed),
            (removed, expired.clone(), failed.clone())
        );
        self.left += (removed + expired.len() + failed.len()) as u64;
    }

    /// Checks the invariants.
    fn check(&self) {
        let Self { pool, reference, .. } = self;
        let order: Vec<Transaction> = reference.order().into_iter().map(|item| item.tx).collect();
        assert_eq!(all(pool), order);
        assert_eq!((pool.len(), pool.bytes()), (order.len(), reference.bytes()));
        assert!(
            pool.len() <= reference.config.capacity_txs && pool.bytes() <= reference.config.capacity_bytes
        );
        assert_eq!(pool.reserved(), reference.reserved.len());
        for tx in &self.txs {
            let key = tx.key();
            assert_eq!(pool.get(&key).is_some(), order.contains(tx));
            assert_eq!(pool.is_reserved(&key), reference.reserved.contains(tx));
            assert!(!(pool.is_reserved(&key) && pool.contains(&key)));
            let known = reference.rejected.iter().find(|(other, _)| *other == key).map(|(_, known)| *known);
            let rejection = pool.rejection(&key).map(|rejection| match rejection {
                samara_cat::pool::Rejection::Settled => Known::Settled,
                samara_cat::pool::Rejection::Invalid(_) => Known::Invalid,
            });
            assert_eq!(rejection, known);
            assert_eq!(pool.is_rejected(&key), reference.is_rejected(key));
            assert_eq!(pool.was_evicted(&key), reference.evicted.contains(&key));
        }
        assert_eq!(
            pool.metrics().added_txs,
            pool.len() as u64 + self.left,
            "each added transaction is in the pool or has left"
        );
        let unique = sorted(order.iter().map(Transaction::key).collect());
        assert!(unique.is_sorted_by(|a, b| a < b), "duplicate transaction in the pool");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_pool_behaves_like_the_reference(
        config in config(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut pair = Pair::new(config);
        for step in steps {
            pair.step(step);
            pair.check();
        }
    }
}
