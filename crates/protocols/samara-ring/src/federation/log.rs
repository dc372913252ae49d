//! The messages of one sender, kept until all sites have them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{Sender, WEIGHT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    New,
    /// The message is new, and the ones before it will not come.
    Skipped,
    Duplicate,
    /// Earlier messages are missing, and can still come.
    Gap,
}

/// The progress of a leader that sends the messages of a sender to the other sites.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The messages up to this number were passed to the bridge.
    pub(super) cursor: u64,
    /// The next message is the first of a round.
    pub(super) is_fresh: bool,
    /// True if the sender is in the queue for the bridge.
    pub(super) is_ready: bool,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    /// The number of the last message that is no longer kept: the next one is the first in
    /// `messages`.
    pub(super) base: u64,
    messages: VecDeque<Bytes>,
    /// Bytes of `messages`, with an overhead for each.
    pub(super) held: u64,

    // ---- at a leader ----
    /// All members of the site have the messages up to this number.
    pub(super) secured: u64,
    /// The messages up to this number were passed to the ring of the site.
    handed: u64,
    /// The messages up to this number were passed to the bridge in an earlier round of the same
    /// view.
    sent: u64,
    /// Later messages came from the bridge without the ones before them.
    pub(super) misses: bool,
    /// The last reported values: of `secured` to the other sites, and of the stable messages to
    /// this site.
    pub(super) reported: (u64, u64),
    /// Present if this leader sends the sender's messages to the other sites.
    pub(super) route: Option<Route>,
}

impl Log {
    /// Returns the number of the last message that was delivered here.
    pub(super) fn have(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    pub(super) fn get(&self, number: u64) -> Option<&Bytes> {
        let index = usize::try_from(number.checked_sub(self.base + 1)?).ok()?;
        self.messages.get(index)
    }

    /// Returns the number of the last message that this site will have once its ring has delivered
    /// all that was passed to it.
    pub(super) fn coming(&self) -> u64 {
        self.handed.max(self.have())
    }

    /// Classifies a message from the bridge, at a leader.
    pub(super) fn classify(&self, number: u64, may_leap: bool) -> Accepted {
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

    /// Continues after this number: the messages before it will not come.
    pub(super) fn leap(&mut self, number: u64) {
        if number > self.have() {
            self.messages.clear();
            self.held = 0;
            self.base = number;
        }
    }

    /// Drops the messages up to this number.
    pub(super) fn release(&mut self, number: u64) {
        while self.base < number
            && let Some(content) = self.messages.pop_front()
        {
            self.base += 1;
            self.held -= content.len() as u64 + WEIGHT;
        }
    }

    /// Marks all messages as secured. A new leader does so, and so does a leader in a new view: all
    /// members of that view have the same messages.
    pub(super) fn secure_all(&mut self) {
        self.secured = self.have();
    }

    pub(super) fn lead(&mut self) {
        self.secure_all();
        (self.handed, self.reported, self.route) = (self.have(), (0, 0), None);
        (self.sent, self.misses) = (0, false);
    }

    /// Starts a round of statements. Within a view of the bridge, messages that were passed to the
    /// bridge will arrive.
    pub(super) fn begin_round(&mut self, is_new_view: bool) {
        let cursor = self.route.take().map_or(0, |route| route.cursor);
        self.sent = if is_new_view { 0 } else { self.sent.max(cursor) };
    }

    /// Starts to send the messages after `least`, the lowest number that another leader has.
    /// Messages in flight are not sent again, unless that leader misses them.
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
    /// Bytes of all kept messages.
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

    /// Creates the log of a sender unless it exists. Returns false if `max` others share its part of
    /// the room; logs of these without kept messages make room.
    pub(super) fn open(&mut self, sender: &Sender, max: usize, shares: impl Fn(&Sender) -> bool) -> bool {
        if self.logs.contains_key(sender) {
            return true;
        }
        let count = |logs: &BTreeMap<Sender, Log>| logs.keys().filter(|other| shares(other)).count();
        if count(&self.logs) >= max {
            self.logs.retain(|other, log| log.held > 0 || !shares(other));
        }
        let has_room = count(&self.logs) < max;
        if has_room {
            self.logs.insert(sender.clone(), Log::default());
        }
        has_room
    }

    /// Changes a log, and keeps the total of held bytes up to date.
    pub(super) fn change<T>(&mut self, sender: &Sender, change: impl FnOnce(&mut Log) -> T) -> Option<T> {
        let log = self.logs.get_mut(sender)?;
        self.held -= log.held;
        let result = change(log);
        self.held += log.held;
        Some(result)
    }
}
