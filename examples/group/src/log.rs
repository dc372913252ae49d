//! The log, and its transfer to processes that join. docs/guides/groups.md explains the rules.

use std::mem::take;
use std::net::SocketAddr;

use samara_net::ring::{View, ViewId};
use serde::{Deserialize, Serialize};

/// The message that processes broadcast.
#[derive(Serialize, Deserialize)]
pub enum Message {
    Line(String),
    /// From the first member of each view: its log when it installed the view.
    Start { view: Epoch, log: Vec<Entry> },
}

/// The counter and the proposer of a view.
type Epoch = (u64, u64);

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    origin: String,
    line: String,
}

pub struct Log {
    own_name: String,
    entries: Vec<Entry>,
    view: Option<Epoch>,
    /// Whether the start of the current view was delivered.
    has_started: bool,
    /// Entries of the current view that were delivered before its start.
    held: Vec<Entry>,
}

impl Log {
    pub fn new(own_address: SocketAddr) -> Self {
        Self {
            own_name: own_address.to_string(),
            entries: Vec::new(),
            view: None,
            has_started: false,
            held: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Installs a view. Its first member returns the start, which it must broadcast.
    pub fn install(&mut self, view: &View) -> Option<Message> {
        let ViewId { counter, proposer } = view.id;
        self.view = Some((counter, proposer));
        self.has_started = false;
        let held = take(&mut self.held);
        let is_first = view.members.first().is_some_and(|first| first.to_string() == self.own_name);
        is_first.then(|| {
            // The view before had no start, and its entries count all the same.
            self.append(held);
            Message::Start { view: (counter, proposer), log: self.entries.clone() }
        })
    }

    /// Takes a delivery. All members call this in the same order, own messages included.
    pub fn deliver(&mut self, origin: String, message: Message) {
        match message {
            Message::Line(line) if self.has_started => self.append(vec![Entry { origin, line }]),
            Message::Line(line) => self.held.push(Entry { origin, line }),
            Message::Start { view, log } if self.view == Some(view) => {
                self.replace(log);
                self.has_started = true;
                let held = take(&mut self.held);
                self.append(held);
            }
            // A view change has overtaken this start. Another one follows.
            Message::Start { .. } => {}
        }
    }

    fn append(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            println!("{} {}: {}", self.entries.len() + 1, entry.origin, entry.line);
            self.entries.push(entry);
        }
    }

    /// Takes over the log of the first member, and prints what is new.
    fn replace(&mut self, mut log: Vec<Entry>) {
        let same = self.entries.iter().zip(&log).take_while(|(own, other)| own == other).count();
        let lost = self.entries.len() - same;
        if lost > 0 {
            println!("{lost} entries are not in the log of the group");
        }
        self.entries.truncate(same);
        self.append(log.split_off(same));
    }
}
