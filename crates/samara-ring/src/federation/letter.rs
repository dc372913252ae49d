//! What federated members put into the messages of their rings.
//!
//! A letter is a byte of kind and its fields, coded like the frames of the rings ([`wire`](crate::wire)). Content comes last, up to the
//! end of the message.

use bytes::Bytes;
use samara_engine::PeerIdentity;

use super::Sender;
use crate::Member;
use crate::wire::{Reader, Sink, WireError, WireErrorKind};

/// The most bytes that a letter adds to a content: kind, start, site, number, incarnation, and a name of 128 bytes.
pub(super) const OVERHEAD_MAX: usize = 1 + 1 + 10 + 3 + 2 + 128 + 8 + 10;

/// The least bytes of an entry of a list: site, a name without bytes, incarnation, a number.
const ENTRY_MIN: usize = 11;

/// When a statement was made: the counter of the view of the bridge, and the how-manieth of that view.
pub(super) type Round = (u64, u64);

/// A message of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    /// Within a site: a message of the member that broadcasts it.
    Own { number: u64, content: Bytes },
    /// A message of another site's member, from a leader. The numbers of one sender follow each other; `start` allows a leap, and says
    /// in what it holds: within a site the number of the leadership, on the bridge the counter of the view.
    Relay { start: Option<u64>, sender: Sender, number: u64, content: Bytes },
    /// Within a site: who has just come goes on from here. The number of the leadership, and the last message of each sender.
    Base { leadership: u64, last: Vec<(Sender, u64)> },
    /// Within a site: all sites have the messages up to these. On the bridge: all members of this leader's site do.
    Progress { last: Vec<(Sender, u64)> },
    /// On the bridge: what a site has.
    State { round: Round, site: u16, entries: Vec<Entry> },
}

/// What a site has of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) sender: Sender,
    /// Whether the sender is a member of the site.
    pub(super) is_local: bool,
    /// The leader got later messages without what follows: it was not on its way.
    pub(super) misses: bool,
    /// The leader can send the messages after this one.
    pub(super) base: u64,
    /// The leader has the messages up to this one.
    pub(super) have: u64,
    /// All members of the site have the messages up to this one.
    pub(super) secured: u64,
}

mod kind {
    pub(super) const OWN: u8 = 1;
    pub(super) const RELAY: u8 = 2;
    pub(super) const BASE: u8 = 3;
    pub(super) const PROGRESS: u8 = 4;
    pub(super) const STATE: u8 = 5;
}

impl Letter {
    pub(super) fn encode(&self) -> Bytes {
        let content = match self {
            Self::Own { content, .. } | Self::Relay { content, .. } => content.len(),
            _ => 0,
        };
        let mut into = Vec::with_capacity(OVERHEAD_MAX + content);
        match self {
            Self::Own { number, content } => {
                into.byte(kind::OWN);
                into.varint(*number);
                into.slice(content);
            }
            Self::Relay { start, sender, number, content } => {
                into.byte(kind::RELAY);
                into.byte(u8::from(start.is_some()));
                if let Some(start) = start {
                    into.varint(*start);
                }
                put_sender(sender, &mut into);
                into.varint(*number);
                into.slice(content);
            }
            Self::Base { leadership, last } => {
                into.byte(kind::BASE);
                into.varint(*leadership);
                put_last(last, &mut into);
            }
            Self::Progress { last } => {
                into.byte(kind::PROGRESS);
                put_last(last, &mut into);
            }
            Self::State { round, site, entries } => {
                into.byte(kind::STATE);
                put_round(*round, &mut into);
                into.varint((*site).into());
                into.varint(entries.len() as u64);
                for entry in entries {
                    put_sender(&entry.sender, &mut into);
                    into.byte(u8::from(entry.is_local));
                    into.byte(u8::from(entry.misses));
                    [entry.base, entry.have, entry.secured]
                        .into_iter()
                        .for_each(|number| into.varint(number));
                }
            }
        }
        into.into()
    }

    /// Reads a letter; a list has at most `senders_max` entries.
    pub(super) fn decode(message: &Bytes, senders_max: usize) -> Result<Self, WireError> {
        let r = &mut Reader::new(message);
        let letter = match r.byte("letter.kind")? {
            kind::OWN => Self::Own { number: r.varint("own.number")?, content: r.rest() },
            kind::RELAY => {
                let start = if r.flag("relay.start")? { Some(r.varint("relay.start")?) } else { None };
                let sender = sender(r, "relay.sender")?;
                Self::Relay { start, sender, number: r.varint("relay.number")?, content: r.rest() }
            }
            kind::BASE => {
                let leadership = r.varint("base.leadership")?;
                Self::Base { leadership, last: last(r, senders_max, "base.last")? }
            }
            kind::PROGRESS => Self::Progress { last: last(r, senders_max, "progress.last")? },
            kind::STATE => {
                let (round, site) = (round(r, "state.round")?, r.short("state.site")?);
                let count = r.count(senders_max, ENTRY_MIN + 4, "state.entries")?;
                let entries = (0..count).map(|_| entry(r)).collect::<Result<_, _>>()?;
                Self::State { round, site, entries }
            }
            other => return Err(r.error("letter.kind", WireErrorKind::Unknown { found: other.into() })),
        };
        r.finish()?;
        Ok(letter)
    }
}

fn put_round((view, number): Round, into: &mut Vec<u8>) {
    into.varint(view);
    into.varint(number);
}

fn put_sender(sender: &Sender, into: &mut Vec<u8>) {
    into.varint(sender.site.into());
    into.bytes(sender.member.identity.as_bytes());
    into.fixed(sender.member.incarnation);
}

fn put_last(last: &[(Sender, u64)], into: &mut Vec<u8>) {
    into.varint(last.len() as u64);
    for (sender, number) in last {
        put_sender(sender, into);
        into.varint(*number);
    }
}

fn round(r: &mut Reader<'_>, path: &'static str) -> Result<Round, WireError> {
    Ok((r.varint(path)?, r.varint(path)?))
}

fn sender(r: &mut Reader<'_>, path: &'static str) -> Result<Sender, WireError> {
    let site = r.short(path)?;
    let identity = PeerIdentity::new(&r.bytes(128, path)?);
    Ok(Sender { site, member: Member { identity, incarnation: r.fixed(path)? } })
}

fn last(r: &mut Reader<'_>, max: usize, path: &'static str) -> Result<Vec<(Sender, u64)>, WireError> {
    let count = r.count(max, ENTRY_MIN, path)?;
    (0..count).map(|_| Ok((sender(r, path)?, r.varint(path)?))).collect()
}

fn entry(r: &mut Reader<'_>) -> Result<Entry, WireError> {
    Ok(Entry {
        sender: sender(r, "state.sender")?,
        is_local: r.flag("state.is_local")?,
        misses: r.flag("state.misses")?,
        base: r.varint("state.base")?,
        have: r.varint("state.have")?,
        secured: r.varint("state.secured")?,
    })
}
