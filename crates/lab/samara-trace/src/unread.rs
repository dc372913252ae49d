//! Fields and kinds of events that a reader of traces does not know.

use std::collections::BTreeMap;
use std::fmt;

use prost::encoding::{DecodeContext, decode_key, skip_field};

use crate::{TraceEvent, Type};

/// Maximum number of names that are counted separately, since a file can have any number of them.
const NAMES_MAX: usize = 32;
/// Maximum length of a name in characters.
const NAME_CHARS_MAX: usize = 60;

/// Contents of a trace that this version does not know: the number of occurrences by name. They are
/// not among the events that the reader returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    counts: BTreeMap<String, u64>,
    /// Occurrences beyond the names that are counted separately.
    others: u64,
}

impl Unread {
    /// Returns true if everything was read.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds the counts of another reader.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            self.add(name.clone(), *count);
        }
        self.others += other.others;
    }

    fn add(&mut self, name: String, count: u64) {
        if let Some(known) = self.counts.get_mut(&name) {
            *known += count;
        } else if self.counts.len() < NAMES_MAX {
            self.counts.insert(name, count);
        } else {
            self.others += count;
        }
    }

    /// Counts an event of a type that has no [`Type`].
    pub(crate) fn note_type(&mut self, event: &TraceEvent) {
        match event.kind {
            Some(kind) if Type::try_from(kind).is_err() => self.add(format!("events of type {kind}"), 1),
            Some(_) => {}
            None => self.add("events without a type".to_owned(), 1),
        }
    }

    /// Counts a field of an event in JSON, by its path without the positions in lists.
    pub(crate) fn note_path(&mut self, path: &str) {
        let is_name = |part: &&str| *part != "?" && part.parse::<u64>().is_err();
        let names: Vec<&str> = path.split('.').filter(is_name).collect();
        let name: String = names.join(".").escape_debug().take(NAME_CHARS_MAX).collect();
        self.add(format!("fields {name}"), 1);
    }

    /// Counts the fields of an event in protobuf that are not in the event that was read from it.
    pub(crate) fn note_bytes(&mut self, event: &TraceEvent, bytes: &[u8]) {
        // A known event has the same length when it is written again.
        if prost::Message::encoded_len(event) == bytes.len() {
            return;
        }
        let mut is_within = true;
        let mut rest = bytes;
        while let Ok((number, wire)) = decode_key(&mut rest) {
            if !TraceEvent::FIELDS.contains(&number.to_string().as_str()) {
                is_within = false;
                self.add(format!("fields {number}"), 1);
            }
            if skip_field(wire, number, &mut rest, DecodeContext::default()).is_err() {
                break;
            }
        }
        if is_within {
            let kind = event.kind.and_then(|kind| Type::try_from(kind).ok());
            self.add(format!("fields within {}", kind.map_or("an event", Type::name)), 1);
        }
    }
}

/// Lists the names with their counts: `events of type 14 (2), fields 18 (1)`.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.counts.iter().enumerate() {
            write!(f, "{}{name} ({count})", if at == 0 { "" } else { ", " })?;
        }
        if self.others > 0 {
            write!(f, ", others ({})", self.others)?;
        }
        Ok(())
    }
}
