//! Nodes of an experiment with pools: transactions, the application behind a pool, and honest and
//! hostile nodes.

pub mod codec;
#[cfg(test)]
mod encoding;
mod hostile;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_cat::pool::{Admission, Application, CheckKind, PoolMetrics, Signer, Verdict};
use samara_cat::wire::Member;
use samara_cat::{Cat, CatFrame, Command, Config, Event, Metrics, Misbehaviour, Transaction, TxKey, WithCat};
use samara_engine::{Context, Engine, Input, MessageKey, Outbox, TimerToken};
use samara_hosts::Worlds;
use samara_sim::{App, Contents, Items};
use serde::{Deserialize, Serialize};

use samara_sim::Neighbours;

/// Bytes at the start of every transaction, and so its minimum size.
pub const HEADER_BYTES: usize = 24;

pub use hostile::{Adversary, Hostile};

// ---- transactions ----

/// The number of a transaction in its run.
pub type TxNumber = u32;

/// The first bytes of a valid transaction.
const VALID: [u8; 4] = *b"tx+\0";
/// The first bytes of a transaction that the application rejects.
const INVALID: [u8; 4] = *b"tx-\0";

/// The fields at the start of a transaction; the rest is filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub valid: bool,
    /// The number in the run, which makes each transaction unique.
    pub number: TxNumber,
    pub signer: u32,
    /// The sequence number among the transactions of its signer.
    pub sequence: u32,
    /// The priority; higher values go first.
    pub priority: u32,
    /// The work that the transaction causes in a block.
    pub gas: u32,
}

impl Header {
    /// Returns a transaction of `bytes` bytes, at least [`HEADER_BYTES`].
    pub fn transaction(&self, bytes: u64) -> Transaction {
        let mut data = vec![0; (bytes as usize).max(HEADER_BYTES)];
        data[..4].copy_from_slice(if self.valid { &VALID } else { &INVALID });
        let words = [self.number, self.signer, self.sequence, self.priority, self.gas];
        for (place, word) in data[4..HEADER_BYTES].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Transaction::new(Bytes::from(data))
    }

    /// Reads the header of a transaction; `None` if it is garbage.
    pub fn of(transaction: &Transaction) -> Option<Self> {
        let data = transaction.bytes().get(..HEADER_BYTES)?;
        let valid = match data.first_chunk()? {
            mark if *mark == VALID => true,
            mark if *mark == INVALID => false,
            _ => return None,
        };
        let mut words =
            data[4..].chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?)));
        Some(Self {
            valid,
            number: words.next()?,
            signer: words.next()?,
            sequence: words.next()?,
            priority: words.next()?,
            gas: words.next()?,
        })
    }
}

/// Returns the numbers of the transactions in a frame. The copies of a transaction are a batch.
pub fn contents(frame: &CatFrame, _: Option<MessageKey>) -> Contents {
    let members = match frame {
        CatFrame::Bundle(bundle) => bundle.members(),
        _ => &[],
    };
    let bundled = members.iter().filter_map(|member| match member {
        Member::Full(transaction) => Some(transaction),
        Member::Key(_) => None,
    });
    let name = |key: &TxKey| u64::from_le_bytes(key.as_bytes()[..8].try_into().unwrap_or_default());
    let asked = match frame {
        CatFrame::WantTx(key) => [name(key)].into_iter().collect(),
        CatFrame::WantKeys(keys) => keys.iter().map(name).collect(),
        _ => Items::new(),
    };
    let of = |transaction: &Transaction| Some((Header::of(transaction)?.number, name(&transaction.key())));
    let (items, names): (Items, Items) = frame
        .bodies()
        .iter()
        .chain(bundled)
        .filter_map(of)
        .map(|(number, name)| (u64::from(number), name))
        .unzip();
    Contents { batch: items.first().copied(), items, names, asked }
}

/// Bytes of an account's address (Cosmos SDK: 20).
const SIGNER_BYTES: usize = 20;

pub fn signer(index: u32) -> Signer {
    let mut name = [0; SIGNER_BYTES];
    name[..4].copy_from_slice(&index.to_le_bytes());
    Signer::new(&name)
}

fn signer_index(signer: &Signer) -> Option<u32> {
    let name: &[u8; SIGNER_BYTES] = signer.as_bytes().try_into().ok()?;
    name.first_chunk().map(|index| u32::from_le_bytes(*index))
}

// ---- the application: accounts with sequence numbers, and a processor ----

/// The application of one node.
///
/// It accepts every well-formed transaction whose sequence number no block has used. By default that
/// includes those whose earlier ones are missing: most experiments measure whether transactions
/// arrive, not their order.
#[derive(Debug)]
pub struct Ledger {
    /// Shared by all nodes; empty if transactions have no signers.
    signers: Arc<[Signer]>,
    /// Whether it accepts the transactions of a signer in the order of sequence numbers only.
    in_order: bool,
    /// Transactions that it refused because an earlier one of their signer was missing.
    out_of_order: u64,
    accounts: Vec<Account>,
    validation: Duration,
    /// Transactions that the processor has to check; the one in work is first.
    waiting: VecDeque<(TxKey, Verdict)>,
}

/// The sequence numbers of one signer.
#[derive(Clone, Debug, Default)]
struct Account {
    /// Numbers used by blocks.
    committed: Sequences,
    /// Numbers of accepted transactions, in blocks or not.
    taken: Sequences,
}

/// A set of sequence numbers: all below `next`, and some above it.
#[derive(Clone, Debug, Default)]
struct Sequences {
    next: u32,
    ahead: BTreeSet<u32>,
}

impl Sequences {
    fn insert(&mut self, sequence: u32) {
        if sequence > self.next {
            self.ahead.insert(sequence);
        } else if sequence == self.next {
            self.next += 1;
            while self.ahead.remove(&self.next) {
                self.next += 1;
            }
        }
    }

    fn contains(&self, sequence: u32) -> bool {
        sequence < self.next || self.ahead.contains(&sequence)
    }
}

impl Ledger {
    /// Creates an application with these signers that makes one check at a time, `validation` each.
    pub fn new(signers: Arc<[Signer]>, validation: Duration) -> Self {
        let accounts = vec![Account::default(); signers.len()];
        Self { signers, in_order: false, out_of_order: 0, accounts, validation, waiting: VecDeque::new() }
    }

    /// Makes the order of sequence numbers a rule.
    #[must_use]
    pub fn in_order(self, in_order: bool) -> Self {
        Self { in_order, ..self }
    }

    /// Records that a block has used this sequence number of a signer.
    pub fn commit(&mut self, signer: u32, sequence: u32) {
        if let Some(account) = self.accounts.get_mut(signer as usize) {
            account.committed.insert(sequence);
            account.taken.insert(sequence);
        }
    }

    /// Returns the signer and sequence number that a block with this transaction uses; `None` if
    /// transactions have no signers, or if it is garbage.
    fn used_by(&self, transaction: &Transaction) -> Option<(u32, u32)> {
        let Header { signer, sequence, .. } = Header::of(transaction)?;
        ((signer as usize) < self.accounts.len()).then_some((signer, sequence))
    }

    pub fn validation(&self) -> Duration {
        self.validation
    }

    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn decide(&mut self) -> Option<(TxKey, Verdict)> {
        self.waiting.pop_front()
    }

    fn judge(&mut self, transaction: &Transaction, kind: CheckKind) -> Verdict {
        let reject = |code, reason: &str| Verdict::Reject { code, reason: reason.to_owned() };
        let Some(header) = Header::of(transaction) else { return reject(1, "garbage") };
        if !header.valid {
            return reject(2, "invalid");
        }
        let mut admission = Admission {
            priority: i64::from(header.priority),
            gas: u64::from(header.gas),
            ..Admission::default()
        };
        if let Some(account) = self.accounts.get_mut(header.signer as usize) {
            if account.committed.contains(header.sequence) {
                return reject(3, "sequence number is used");
            }
            if self.in_order && kind == CheckKind::New && header.sequence != account.taken.next {
                self.out_of_order += u64::from(header.sequence > account.taken.next);
                return reject(4, "sequence number is not the next one");
            }
            account.taken.insert(header.sequence);
            admission.sender = self.signers.get(header.signer as usize).cloned();
            admission.sequence = Some(u64::from(header.sequence));
        }
        Verdict::Accept(admission)
    }
}

impl Application for Ledger {
    fn check(&mut self, transaction: &Transaction, kind: CheckKind) -> Verdict {
        let verdict = self.judge(transaction, kind);
        if kind == CheckKind::Recheck || self.validation.is_zero() {
            return verdict;
        }
        self.waiting.push_back((transaction.key(), verdict));
        Verdict::Later
    }

    fn expected_sequence(&mut self, signer: &Signer) -> Option<u64> {
        let account = self.accounts.get(signer_index(signer)? as usize)?;
        Some(u64::from(account.taken.next))
    }

    fn account(&mut self, transaction: &Transaction) -> Option<(Signer, u64)> {
        let Header { signer, sequence, .. } = Header::of(transaction).filter(|_| self.in_order)?;
        Some((self.signers.get(signer as usize)?.clone(), u64::from(sequence)))
    }
}

// ---- nodes ----

/// Fires when the processor has finished a check.
const CHECKED: TimerToken = TimerToken(TimerToken::WRAPPER);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub height: u64,
    pub keys: Arc<[TxKey]>,
    /// The signers and sequence numbers that the block uses.
    pub accounts: Vec<(u32, u32)>,
    /// The size of its transactions.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Submit(#[serde(with = "transaction")] Transaction),
    /// Chooses the transactions of a block. The node answers with [`NodeEvent::Proposed`].
    Propose {
        height: u64,
        max_bytes: u64,
        /// `None` for no limit.
        max_gas: Option<u64>,
        /// Whether the node also sends the block's keys to its peers, if its configuration has
        /// compact blocks.
        compact: bool,
    },
    Commit(Arc<Block>),
}

/// Writes transactions as their bytes.
mod transaction {
    use samara_cat::Transaction;
    use samara_engine::octets;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        transaction: &Transaction,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        octets::serialize(transaction.bytes(), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Transaction, D::Error> {
        octets::deserialize::<Vec<u8>, D>(deserializer).map(Transaction::new)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeEvent {
    /// A transaction came into the pool.
    Added {
        key: TxKey,
        /// The host that sent it; `None` for a client.
        from: Option<u32>,
    },
    /// The pool refused a client's transaction.
    Refused(TxKey),
    /// The node chose the transactions of a block.
    Proposed(Arc<Block>),
    /// A compact block has all its transactions.
    BlockComplete {
        height: u64,
    },
    /// The transactions of a compact block did not arrive in time.
    BlockGivenUp,
    Misbehaved(Misbehaviour),
}

/// The counters of a node since its process started, and the sizes of its tables. A hostile node
/// counts nothing.
///
/// Programs of others leave out what they do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Counters {
    pub engine: Metrics,
    pub pool: PoolMetrics,
    /// Number of keys that the node remembers.
    pub keys: u64,
    /// Number of requests that the node remembers.
    pub requests: u64,
    /// Number of transactions in the pool.
    pub pool_txs: u64,
    /// Number of peers with a free slot beside waiting requests.
    pub idle_slots: u64,
    /// Transactions that the application refused because an earlier one of their signer was missing.
    pub out_of_order: u64,
}

#[derive(Debug)]
pub enum Node {
    Honest(Box<Honest>),
    Hostile(Hostile),
}

impl App for Node {
    type Counters = Counters;

    fn counters(&self) -> Counters {
        match self {
            Self::Honest(honest) => honest.counters(),
            Self::Hostile(_) => Counters::default(),
        }
    }
}

impl Engine for Node {
    type Frame = CatFrame;
    type Command = Act;
    type Event = NodeEvent;

    fn handle(&mut self, input: Input<CatFrame, Act>, cx: &mut Context<'_, CatFrame, NodeEvent>) {
        match self {
            Self::Honest(honest) => honest.handle(input, cx),
            Self::Hostile(hostile) => hostile.handle(input, cx),
        }
    }

    fn assert_invariants(&self, outbox: &Outbox<CatFrame>) {
        if let Self::Honest(honest) = self {
            honest.cat.assert_invariants(outbox);
        }
    }
}

impl WithCat for Node {
    fn cat_config(&self) -> &Config {
        match self {
            Self::Honest(honest) => honest.cat.config(),
            Self::Hostile(hostile) => hostile.config(),
        }
    }
}

/// A node that follows the protocol: the engine, and a processor that checks one transaction at a
/// time.
#[derive(Debug)]
pub struct Honest {
    cat: Cat<Ledger>,
    /// Whether the timer [`CHECKED`] is set.
    checking: bool,
    neighbours: Neighbours,
    events: Vec<Event>,
}

impl Honest {
    pub fn new(cat: Cat<Ledger>) -> Self {
        Self { cat, checking: false, neighbours: Neighbours::default(), events: Vec::new() }
    }

    fn counters(&self) -> Counters {
        let cat = &self.cat;
        Counters {
            engine: cat.metrics().clone(),
            pool: cat.pool().metrics().clone(),
            keys: cat.keys() as u64,
            requests: cat.outstanding() as u64,
            pool_txs: cat.pool().len() as u64,
            idle_slots: cat.idle_slots() as u64,
            out_of_order: cat.pool().application().out_of_order,
        }
    }

    fn block(&self, height: u64, max_bytes: u64, max_gas: u64) -> Block {
        let (pool, ledger) = (self.cat.pool(), self.cat.pool().application());
        let txs = pool.reap(max_bytes, max_gas);
        Block {
            height,
            keys: txs.iter().map(Transaction::key).collect(),
            accounts: txs.iter().filter_map(|tx| ledger.used_by(tx)).collect(),
            bytes: txs.iter().map(|tx| tx.len() as u64).sum(),
        }
    }

    fn handle(&mut self, input: Input<CatFrame, Act>, cx: &mut Context<'_, CatFrame, NodeEvent>) {
        if let Input::Command(Act::Propose { height, max_bytes, max_gas, compact }) = input {
            let max_gas = max_gas.unwrap_or(u64::MAX);
            cx.emit(NodeEvent::Proposed(Arc::new(self.block(height, max_bytes, max_gas))));
            if !compact {
                return;
            }
        }
        let mut events = std::mem::take(&mut self.events);
        let mut inner = cx.nested(&mut events);
        if let Input::LinkUp { peer, info } = &input {
            self.neighbours.up(*peer, info);
        }
        let pass_on = |input| match input {
            Input::Start => Input::Start,
            Input::LinkUp { peer, info } => Input::LinkUp { peer, info },
            Input::LinkDown { peer } => Input::LinkDown { peer },
            Input::DialFailed { identity } => Input::DialFailed { identity },
            Input::Frame { peer, frame } => Input::Frame { peer, frame },
            Input::Timer(token) => Input::Timer(token),
            Input::Command(Act::Submit(tx)) => Input::Command(Command::Submit(tx)),
            Input::Command(Act::Propose { height, max_bytes, max_gas, .. }) => {
                let max_gas = max_gas.unwrap_or(u64::MAX);
                Input::Command(Command::Propose { height, max_bytes, max_gas })
            }
            Input::Command(Act::Commit(block)) => {
                Input::Command(Command::Commit { height: block.height, keys: Arc::clone(&block.keys) })
            }
        };
        if let Input::Command(Act::Commit(block)) = &input {
            let ledger = self.cat.application_mut();
            block.accounts.iter().for_each(|(signer, sequence)| ledger.commit(*signer, *sequence));
        }
        if let Input::Timer(CHECKED) = input {
            self.checking = false;
            if let Some((key, verdict)) = self.cat.application_mut().decide() {
                self.cat.decided(key, verdict, &mut inner);
            }
        } else {
            self.cat.handle(pass_on(input), &mut inner);
        }
        let ledger = self.cat.pool().application();
        if !self.checking && ledger.is_busy() {
            self.checking = true;
            let at = inner.now() + ledger.validation();
            inner.set_timer(at, CHECKED);
        }
        events
            .drain(..)
            .filter_map(|event| node_event(event, &self.neighbours))
            .for_each(|event| cx.emit(event));
        self.events = events;
    }
}

fn node_event(event: Event, neighbours: &Neighbours) -> Option<NodeEvent> {
    Some(match event {
        Event::Added { key, from } => NodeEvent::Added { key, from: from.map(|peer| neighbours.host(peer)) },
        Event::Refused { key, from: None, .. } => NodeEvent::Refused(key),
        Event::BlockComplete { height, .. } => NodeEvent::BlockComplete { height },
        Event::BlockGivenUp { .. } => NodeEvent::BlockGivenUp,
        Event::Misbehaved { why, .. } => NodeEvent::Misbehaved(why),
        _ => return None,
    })
}

/// Returns the worlds of hosts.
pub fn worlds() -> Worlds<Node> {
    Worlds::cometbft()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_a_round_trip() {
        for valid in [true, false] {
            let header = Header { valid, number: 1, signer: 2, sequence: 3, priority: 4, gas: u32::MAX };
            let transaction = header.transaction(4_800);
            assert_eq!((transaction.len(), Header::of(&transaction)), (4_800, Some(header)));
            assert_eq!(header.transaction(3).len(), HEADER_BYTES, "the header is never truncated");
        }
        for garbage in [&b""[..], b"tx+\0", &[7; 100]] {
            assert_eq!(Header::of(&Transaction::new(garbage.to_vec())), None);
        }
        assert_eq!(signer_index(&signer(70_000)), Some(70_000));
        assert_eq!(signer_index(&Signer::new(b"somebody else")), None);
    }

    fn ledger(validation: Duration) -> Ledger {
        Ledger::new([signer(0), signer(1)].into(), validation)
    }

    fn tx(signer: u32, sequence: u32) -> Transaction {
        Header { valid: true, number: 0, signer, sequence, priority: 5, gas: 7 }.transaction(100)
    }

    #[test]
    fn sequence_numbers_advance() {
        let mut ledger = ledger(Duration::ZERO);
        let mut take = |signer, sequence| {
            let accepted = matches!(ledger.check(&tx(signer, sequence), CheckKind::New), Verdict::Accept(_));
            let expected = ledger.expected_sequence(&super::signer(signer));
            (accepted, expected)
        };
        assert_eq!(take(0, 0), (true, Some(1)));
        assert_eq!(take(0, 2), (true, Some(1)), "ahead of a missing number");
        assert_eq!(take(0, 1), (true, Some(3)), "the missing number arrived");
        assert_eq!(take(1, 0), (true, Some(1)));
        (3..5).for_each(|sequence| ledger.commit(0, sequence));
        assert_eq!(ledger.expected_sequence(&signer(0)), Some(5));
        let stale = ledger.check(&tx(0, 4), CheckKind::Recheck);
        assert!(matches!(stale, Verdict::Reject { code: 3, .. }), "{stale:?}");
        // A block with a later sequence number does not invalidate earlier ones.
        let earlier = ledger.check(&tx(0, 2), CheckKind::Recheck);
        assert!(matches!(earlier, Verdict::Accept(_)), "{earlier:?}");
        assert_eq!(ledger.expected_sequence(&Signer::new(b"x")), None);
        let garbage = ledger.check(&Transaction::new(vec![1; 50]), CheckKind::New);
        assert!(matches!(garbage, Verdict::Reject { code: 1, .. }), "{garbage:?}");
    }

    #[test]
    fn order_can_be_a_rule() {
        let mut ledger = ledger(Duration::ZERO).in_order(true);
        let code = |verdict| match verdict {
            Verdict::Reject { code, .. } => code,
            _ => 0,
        };
        let mut check = |tx: &Transaction, kind| code(ledger.check(tx, kind));
        assert_eq!(check(&tx(0, 1), CheckKind::New), 4, "the first one is missing");
        assert_eq!(check(&tx(0, 0), CheckKind::New), 0);
        assert_eq!(check(&tx(0, 0), CheckKind::New), 4, "the number is taken");
        assert_eq!(check(&tx(0, 1), CheckKind::New), 0);
        assert_eq!(check(&tx(0, 1), CheckKind::Recheck), 0);
        assert_eq!(ledger.out_of_order, 1);
        assert_eq!(ledger.account(&tx(1, 7)), Some((signer(1), 7)));
        assert_eq!(self::ledger(Duration::ZERO).account(&tx(1, 7)), None, "it needs no order");
    }

    #[test]
    fn slow_checks_run_one_at_a_time() {
        let mut ledger = ledger(Duration::from_millis(1));
        let (first, second) = (tx(0, 0), tx(1, 0));
        for tx in [&first, &second] {
            assert_eq!(ledger.check(tx, CheckKind::New), Verdict::Later);
        }
        assert!(matches!(ledger.check(&first, CheckKind::Recheck), Verdict::Accept(_)));
        let decided: Vec<TxKey> = std::iter::from_fn(|| ledger.decide()).map(|(key, _)| key).collect();
        assert_eq!(decided, [first.key(), second.key()]);
        assert!(!ledger.is_busy());
    }
}
