//! The messages that federated members exchange over their rings.
//!
//! A letter is a byte for the kind, then its fields, coded like the frames of the rings
//! ([`wire`](crate::wire)). The content comes last and extends to the end of the message.

use bytes::Bytes;

use super::Sender;
use crate::wire::{Field, Limits, Reader, Sink, WireError, layout};

/// Maximum number of bytes that a letter adds to its content: kind, start, site, number,
/// incarnation, and a name of 128 bytes.
pub(super) const OVERHEAD_MAX: usize = 1 + 1 + 10 + 3 + 2 + 128 + 8 + 10;

/// The time of a statement: the counter of the bridge's view, and the ordinal of the round in that
/// view.
type Round = (u64, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    /// Within a site: a message from the member that broadcasts it.
    Own { number: u64, content: Bytes },
    /// A message of another site's member, from a leader. The numbers of one sender are
    /// consecutive. `start` allows a gap, and limits its validity: within a site to the leadership
    /// with this number, on the bridge to the view with this counter.
    Relay { start: Option<u64>, sender: Sender, number: u64, content: Bytes },
    /// Within a site: the starting point of newcomers. It has the number of the leadership, and the
    /// last message of each sender.
    Base { leadership: u64, last: Vec<(Sender, u64)> },
    /// Within a site: all sites have the messages up to these. On the bridge: all members of this
    /// leader's site have them.
    Progress { last: Vec<(Sender, u64)> },
    /// On the bridge: the messages that a site has.
    State { round: Round, site: u16, entries: Vec<Entry> },
}

/// The messages that a site has of one sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) sender: Sender,
    /// True if the sender is a member of the site.
    pub(super) is_local: bool,
    /// The leader received later messages without the ones in between, which were not in flight.
    pub(super) misses: bool,
    /// The leader can send the messages after this number.
    pub(super) base: u64,
    /// The leader has the messages up to this number.
    pub(super) have: u64,
    /// All members of the site have the messages up to this number.
    pub(super) secured: u64,
}

const OWN: u8 = 1;
const RELAY: u8 = 2;
const BASE: u8 = 3;
const PROGRESS: u8 = 4;
const STATE: u8 = 5;

layout!(Entry, "state", 15: sender, is_local, misses, base, have, secured);

/// Checks that bytes are no letter, or one that encodes to itself and has at most `senders_max`
/// entries. Not for programs.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub fn fuzz_letter(message: &Bytes, senders_max: usize) {
    let Ok(letter) = Letter::decode(message, senders_max) else { return };
    assert_eq!(Letter::decode(&letter.encode(), senders_max).as_ref(), Ok(&letter));
    let entries = match letter {
        Letter::Base { last, .. } | Letter::Progress { last } => last.len(),
        Letter::State { entries, .. } => entries.len(),
        Letter::Own { .. } | Letter::Relay { .. } => 0,
    };
    assert!(entries <= senders_max);
}

/// Returns the content of a message of a federation's ring, or the start of it if `start` is only the
/// first part of the message; `None` if the message is one between leaders.
pub fn content_of(start: &Bytes) -> Option<Bytes> {
    match Letter::decode(start, 0).ok()? {
        Letter::Own { content, .. } | Letter::Relay { content, .. } => Some(content),
        Letter::Base { .. } | Letter::Progress { .. } | Letter::State { .. } => None,
    }
}

impl Field for Sender {
    const LEAST: usize = 10;

    fn put(&self, sink: &mut impl Sink) {
        self.site.put(sink);
        self.member.put(sink);
    }

    fn get(r: &mut Reader<'_>, path: &'static str) -> Result<Self, WireError> {
        Ok(Self { site: r.get(path)?, member: r.get(path)? })
    }
}

impl Letter {
    pub(super) fn encode(&self) -> Bytes {
        let content = match self {
            Self::Own { content, .. } | Self::Relay { content, .. } => &content[..],
            _ => &[],
        };
        let mut into = Vec::with_capacity(OVERHEAD_MAX + content.len());
        match self {
            Self::Own { number, .. } => {
                into.byte(OWN);
                number.put(&mut into);
            }
            Self::Relay { start, sender, number, .. } => {
                into.byte(RELAY);
                start.put(&mut into);
                sender.put(&mut into);
                number.put(&mut into);
            }
            Self::Base { leadership, last } => {
                into.byte(BASE);
                leadership.put(&mut into);
                last.put(&mut into);
            }
            Self::Progress { last } => {
                into.byte(PROGRESS);
                last.put(&mut into);
            }
            Self::State { round, site, entries } => {
                into.byte(STATE);
                round.put(&mut into);
                site.put(&mut into);
                entries.put(&mut into);
            }
        }
        into.slice(content);
        into.into()
    }

    /// Decodes a letter; a list has at most `senders_max` entries.
    pub(super) fn decode(message: &Bytes, senders_max: usize) -> Result<Self, WireError> {
        let limits = Limits { members: senders_max, ..Limits::default() };
        let r = &mut Reader::new(message, &limits);
        let letter = match r.byte("letter.kind")? {
            OWN => Self::Own { number: r.get("own.number")?, content: r.rest() },
            RELAY => Self::Relay {
                start: r.get("relay.start")?,
                sender: r.get("relay.sender")?,
                number: r.get("relay.number")?,
                content: r.rest(),
            },
            BASE => Self::Base { leadership: r.get("base.leadership")?, last: r.get("base.last")? },
            PROGRESS => Self::Progress { last: r.get("progress.last")? },
            STATE => Self::State {
                round: r.get("state.round")?,
                site: r.get("state.site")?,
                entries: r.get("state.entries")?,
            },
            other => return Err(r.unknown("letter.kind", other.into())),
        };
        r.finish()?;
        Ok(letter)
    }
}
