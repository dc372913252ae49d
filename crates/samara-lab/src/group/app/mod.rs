//! Members of a group that broadcast to each other, whatever the protocol, and what their applications see.

mod ledger;
mod ring;
mod source;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use samara_engine::{Engine, Input, Time, TimerToken};

pub use ledger::{Kind, Ledger, Received};
pub use ring::{Broadcasts, RingMember, Seen};
pub use source::{HEADER_BYTES, Header, Source};

use crate::messages::app::Neighbours;
use source::{BURST, Sender};

/// The next message of a sender with a rate is due.
const DUE: TimerToken = TimerToken(TimerToken::WRAPPER);

/// What a member is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Begin to broadcast.
    Begin,
    /// Leave the group.
    Leave,
}

/// What a member tells the measurements. Deliveries are too many to be told one by one: the member's [`Ledger`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A view of so many members is installed.
    View {
        /// How many.
        members: u32,
    },
    /// It takes a host for failed.
    Suspected {
        /// Which.
        host: u32,
    },
    /// It has left.
    Left,
}

/// What a member has counted since its node started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages or chunks that it passed on.
    pub forwarded: u64,
    /// Messages or chunks that it sent again, or asked for again.
    pub repaired: u64,
    /// Views that it installed.
    pub views: u64,
    /// Nanoseconds in which nothing new could be sent for a view change.
    pub frozen_ns: u64,
    /// Frames that found a queue full.
    pub queue_drops: u64,
    /// What was ignored, by cause.
    pub ignored: Vec<(&'static str, u64)>,
}

/// A member of a group, with an application that broadcasts.
pub trait Member: Engine<Command = Act, Event = Told> {
    /// What it has counted.
    fn counts(&self) -> Counts;
}

/// What a host's application saw, kept beside its node: it outlives the process.
pub type SharedLedger = Arc<Mutex<Ledger>>;

fn lock(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The input for a member's engine; `None` if it is the sender's turn only. `leave` is the engine's own command.
fn for_engine<F, C>(
    input: Input<F, Act>,
    leave: Option<C>,
    (sender, ledger, neighbours): (&mut Sender, &SharedLedger, &mut Neighbours),
    now: Time,
) -> Option<Input<F, C>> {
    Some(match input {
        Input::Start => {
            lock(ledger).start();
            Input::Start
        }
        Input::Command(Act::Begin) => {
            sender.begin(now);
            return None;
        }
        Input::Command(Act::Leave) => {
            sender.stop();
            lock(ledger).is_done = true;
            Input::Command(leave?)
        }
        Input::Timer(DUE) => return None,
        Input::Timer(token) => Input::Timer(token),
        Input::LinkUp { peer, info } => {
            neighbours.up(peer, &info);
            Input::LinkUp { peer, info }
        }
        Input::LinkDown { peer } => Input::LinkDown { peer },
        Input::DialFailed { identity } => Input::DialFailed { identity },
        Input::Frame { peer, frame } => Input::Frame { peer, frame },
    })
}
