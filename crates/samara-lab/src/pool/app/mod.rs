//! Transactions that clients submit to nodes, and blocks that take them out of the pools.

mod application;
mod content;
mod hostile;

use std::sync::Arc;

use samara_cat::{Cat, CatFrame, Command, Event, Misbehaviour, Transaction, TxKey};
use samara_engine::{Context, Engine, Input, TimerToken};

pub use application::Ledger;
pub use content::{HEADER_BYTES, Header, TxNumber, signer};
pub use hostile::Hostile;

/// The processor has finished a check.
const CHECKED: TimerToken = TimerToken(TimerToken::WRAPPER);

/// A block that was committed.
#[derive(Debug)]
pub struct Block {
    /// Its height.
    pub height: u64,
    /// Its transactions.
    pub keys: Arc<[TxKey]>,
    /// Signers and sequence numbers that it uses.
    pub accounts: Vec<(u32, u32)>,
}

/// What a node is to do.
#[derive(Clone, Debug)]
pub enum Act {
    /// Take a client's transaction.
    Submit(Transaction),
    /// Propose a block.
    Propose {
        /// Its height.
        height: u64,
        /// Most bytes of its transactions.
        max_bytes: u64,
        /// Most gas.
        max_gas: u64,
    },
    /// Commit a block.
    Commit(Arc<Block>),
}

/// What a node tells the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A transaction is in its pool.
    Added(TxKey),
    /// A client's transaction was not taken.
    Refused(TxKey),
    /// All transactions of a compact block are there.
    BlockComplete {
        /// Its height.
        height: u64,
    },
    /// The transactions of a compact block did not come in time.
    BlockGivenUp,
    /// A peer broke the rules.
    Misbehaved(Misbehaviour),
}

/// A node.
#[derive(Debug)]
pub enum Node {
    /// That keeps the rules.
    Honest(Box<Honest>),
    /// That does not.
    Hostile(Hostile),
}

impl Node {
    /// The pool and protocol of an honest node.
    pub fn cat(&self) -> Option<&Cat<Ledger>> {
        match self {
            Self::Honest(honest) => Some(&honest.cat),
            Self::Hostile(_) => None,
        }
    }
}

impl Engine for Node {
    type Frame = CatFrame;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<CatFrame, Act>, cx: &mut Context<'_, CatFrame, Told>) {
        match self {
            Self::Honest(honest) => honest.handle(input, cx),
            Self::Hostile(hostile) => hostile.handle(input, cx),
        }
    }
}

/// A node that keeps the rules: the engine, and a processor that checks one transaction at a time.
#[derive(Debug)]
pub struct Honest {
    cat: Cat<Ledger>,
    /// Whether [`CHECKED`] will fire.
    checking: bool,
    events: Vec<Event>,
}

impl Honest {
    /// A node.
    pub fn new(cat: Cat<Ledger>) -> Self {
        Self { cat, checking: false, events: Vec::new() }
    }

    fn handle(&mut self, input: Input<CatFrame, Act>, cx: &mut Context<'_, CatFrame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        let mut inner = cx.nested(&mut events);
        let pass_on = |input| match input {
            Input::Start => Input::Start,
            Input::LinkUp { peer, info } => Input::LinkUp { peer, info },
            Input::LinkDown { peer } => Input::LinkDown { peer },
            Input::DialFailed { identity } => Input::DialFailed { identity },
            Input::Frame { peer, frame } => Input::Frame { peer, frame },
            Input::Timer(token) => Input::Timer(token),
            Input::Command(Act::Submit(tx)) => Input::Command(Command::Submit(tx)),
            Input::Command(Act::Propose { height, max_bytes, max_gas }) => {
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
        events.drain(..).filter_map(told).for_each(|told| cx.emit(told));
        self.events = events;
    }
}

/// What of it is measured.
fn told(event: Event) -> Option<Told> {
    Some(match event {
        Event::Added { key, .. } => Told::Added(key),
        Event::Refused { key, from: None, .. } => Told::Refused(key),
        Event::BlockComplete { height, .. } => Told::BlockComplete { height },
        Event::BlockGivenUp { .. } => Told::BlockGivenUp,
        Event::Misbehaved { why, .. } => Told::Misbehaved(why),
        _ => return None,
    })
}
