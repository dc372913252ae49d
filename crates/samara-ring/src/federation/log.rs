//! The messages of one sender, kept until all sites have them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{Sender, WEIGHT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    New,
    /// New, and messages before it will not come.
    Skipped,
    Duplicate,
    /// Messages before it are missing that are still to come.
    Gap,
}

/// Where a leader is with the messages of a sender that it sends to the other sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// They were handed to the bridge up to this one.
    pub(super) cursor: u64,
    /// The next one is the first of a round.
    pub(super) is_fresh: bool,
    /// Whether the sender waits in line.
    pub(super) is_ready: bool,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// The last message that is not kept: the next one is the first in `messages`.
    pub(super) base: u64,
    messages: VecDeque<Bytes>,
    /// Bytes of `messages`, and some for each.
    pub(super) held: u64,

    // ---- at a leader ----
    /// All members of the site have the messages up to this one.
    pub(super) secured: u64,
    /// The messages up to this one were handed to the ring of the site.
    handed: u64,
    /// Of the view of the bridge: they were handed to the bridge in an earlier round up to this one.
    sent: u64,
    /// Later messages came from the bridge without those that follow.
    pub(super) misses: bool,
    /// The last word to the other sites about `secured`, and to the own one about `stable`.
    pub(super) told: (u64, u64),
    /// If this leader sends them to the other sites.
    pub(super) route: Option<Route>,
}

impl Log {
    /// The last message that was delivered here.
    pub(super) fn have(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    pub(super) fn get(&self, number: u64) -> Option<&Bytes> {
        let index = usize::try_from(number.checked_sub(self.base + 1)?).ok()?;
        self.messages.get(index)
    }

    /// The last message that this site will have once all that was handed to its ring is delivered.
    pub(super) fn coming(&self) -> u64 {
        self.handed.max(self.have())
    }

    /// What a leader does with a message from the bridge.
    pub(super) fn judge(&self, number: u64, may_leap: bool) -> Accepted {
        order(self.coming(), number, may_leap)
    }

    pub(super) fn hand(&mut self, number: u64) {
        self.handed = number;
    }

    /// Takes a message that the ring of the site delivered.
    pub(super) fn accept(&mut self, number: u64, content: Bytes, may_leap: bool) -> Accepted {
        let accepted = order(self.have(), number, may_leap);
        match accepted {
            Accepted::Duplicate | Accepted::Gap => return accepted,
            Accepted::Skipped => self.leap(number - 1),
            Accepted::New => {}
        }
        self.held += content.len() as u64 + WEIGHT;
        self.messages.push_back(content);
        accepted
    }

    /// Goes on after this message: those before it do not come.
    pub(super) fn leap(&mut self, number: u64) {
        if number > self.have() {
            self.messages.clear();
            self.held = 0;
            self.base = number;
        }
    }

    /// Lets go of the messages up to this one.
    pub(super) fn release(&mut self, number: u64) {
        while self.base < number
            && let Some(content) = self.messages.pop_front()
        {
            self.base += 1;
            self.held -= content.len() as u64 + WEIGHT;
        }
    }

    /// This node begins to lead, or leads on in another view: its members have all that it has.
    pub(super) fn secure_all(&mut self) {
        self.secured = self.have();
    }

    pub(super) fn lead(&mut self) {
        self.secure_all();
        (self.handed, self.told, self.route) = (self.have(), (0, 0), None);
        (self.sent, self.misses) = (0, false);
    }

    /// Leaders begin to state what they have. Within a view of the bridge, what was handed to it arrives.
    pub(super) fn begin_round(&mut self, is_new_view: bool) {
        let cursor = self.route.take().map_or(0, |route| route.cursor);
        self.sent = if is_new_view { 0 } else { self.sent.max(cursor) };
    }

    /// This leader sends what follows the least that another one has, without what is on its way.
    pub(super) fn begin_route(&mut self, least: u64, is_missed: bool) {
        let from = if is_missed { least } else { least.max(self.sent) };
        let cursor = from.clamp(self.base, self.have());
        self.route = Some(Route { cursor, is_fresh: true, is_ready: false });
    }
}

fn order(have: u64, number: u64, may_leap: bool) -> Accepted {
    if number <= have {
        Accepted::Duplicate
    } else if number == have + 1 {
        Accepted::New
    } else if may_leap {
        Accepted::Skipped
    } else {
        Accepted::Gap
    }
}

#[derive(Debug, Default)]
pub(super) struct Logs {
    logs: BTreeMap<Sender, Log>,
    /// Bytes of all messages that are kept.
    pub(super) held: u64,
}

impl Logs {
    pub(super) fn get(&self, sender: &Sender) -> Option<&Log> {
        self.logs.get(sender)
    }

    pub(super) fn get_mut(&mut self, sender: &Sender) -> Option<&mut Log> {
        self.logs.get_mut(sender)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Sender, &Log)> {
        self.logs.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Sender, &mut Log)> {
        self.logs.iter_mut()
    }

    /// The log of a sender, if there is one or room for one more: those of senders of which nothing is kept and who are gone make room.
    pub(super) fn open(
        &mut self,
        sender: &Sender,
        max: usize,
        is_gone: impl Fn(&Sender) -> bool,
    ) -> Option<&mut Log> {
        if self.logs.len() >= max && !self.logs.contains_key(sender) {
            self.logs.retain(|other, log| !(log.held == 0 && is_gone(other)));
        }
        if self.logs.len() >= max && !self.logs.contains_key(sender) {
            return None;
        }
        Some(self.logs.entry(sender.clone()).or_default())
    }

    /// Does something to a log, and keeps count of what is held.
    pub(super) fn change<T>(&mut self, sender: &Sender, change: impl FnOnce(&mut Log) -> T) -> Option<T> {
        let log = self.logs.get_mut(sender)?;
        self.held -= log.held;
        let result = change(log);
        self.held += log.held;
        Some(result)
    }
}
