//! The lines of a source in memory, for readers on other machines.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::reader::Lines;
use super::writer::{Valid, written};
use super::{Clock, Event, Line, ReadCounts, VERSION};

/// Maximum number of bytes of an answer of a [`Feed`].
pub const FEED_BYTES_MAX: usize = 512 << 10;
/// Maximum number of bytes of kept lines. A node of a mix has some kilobytes for a round.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Number of bytes after which an answer has no further events.
const EVENT_BYTES_MAX: usize = 256 << 10;
/// Part of [`FEED_BYTES_MAX`] for the head of an answer.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// The first line of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub v: u32,
    /// The name of the source, by which others of its run know it, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unix time of the start of the source. After a restart its lines begin at 0.
    pub started_unix_ns: u64,
    /// Unix time of the answer.
    pub now_unix_ns: u64,
    /// Number of the next line: that of the next request.
    pub next: u64,
    /// Whether there are more events, for which the answer had no room.
    pub more: bool,
    /// Number of counts for which the answer had no room.
    pub omitted: u64,
}

/// The latest events of a source, in a bounded number of bytes. The oldest ones make room for new
/// ones, so that a reader that is slow or gone costs nothing.
///
/// An answer has a line with a [`Head`], and then a [`Line`] for each event from a number on, and
/// for each count of the moment. Counts are lines that the feed adds: they have the number of the
/// line after them.
#[derive(Debug)]
pub struct Feed {
    name: Option<String>,
    started_unix_ns: u64,
    bytes_max: usize,
    valid: Valid,
    /// Number of the first kept line, and so of lines that are kept no more.
    first: u64,
    kept: VecDeque<String>,
    bytes: usize,
    last_ns: u64,
}

impl Feed {
    /// Starts the feed of a source with a wall clock.
    pub fn start(name: Option<String>, role: &str, started_unix_ns: u64) -> Self {
        Self::with_limit(name, role, started_unix_ns, KEPT_BYTES_MAX)
    }

    /// Starts a feed that keeps at most so many bytes of lines.
    pub fn with_limit(name: Option<String>, role: &str, started_unix_ns: u64, bytes_max: usize) -> Self {
        let mut feed = Self {
            name,
            started_unix_ns,
            bytes_max: bytes_max.min(KEPT_BYTES_MAX),
            valid: Valid::default(),
            first: 0,
            kept: VecDeque::new(),
            bytes: 0,
            last_ns: 0,
        };
        let (role, clock) = (role.to_owned(), Clock::Wall);
        feed.push(started_unix_ns, Event::Started { role, clock, started_unix_ns, run: None });
        feed
    }

    /// Adds an event. Its time is that of the one before if the clock went back.
    pub fn push(&mut self, at_ns: u64, event: Event) {
        self.last_ns = self.last_ns.max(at_ns);
        let line = Line { v: VERSION, seq: self.next(), at_ns: self.last_ns, node: None, event };
        self.valid.note(&line);
        // Cannot fail: all fields of a line can be serialized. An empty line is skipped by readers.
        let text = written(&line).unwrap_or_default();
        self.bytes += text.len();
        self.kept.push_back(text);
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Number of events that are kept no more.
    pub fn forgotten(&self) -> u64 {
        self.first
    }

    /// Bytes of the kept events.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the answer to a request for the lines from a number on, with the counts of this
    /// moment.
    pub fn answer(&self, from: u64, now_unix_ns: u64, counts: Vec<Event>) -> String {
        let from = from.min(self.next());
        let mut body = String::new();
        if from < self.first {
            // The lines that stay valid, which the reader may have missed.
            let still = self.valid.lines(self.first, self.last_ns);
            still.iter().for_each(|line| body += &written(line).unwrap_or_default());
        }
        let skip = from.saturating_sub(self.first) as usize;
        let mut next = from.max(self.first);
        for line in self.kept.iter().skip(skip) {
            body += line;
            next += 1;
            if body.len() > EVENT_BYTES_MAX {
                break;
            }
        }
        let mut omitted = 0;
        for event in counts {
            let line = Line { v: VERSION, seq: next, at_ns: now_unix_ns, node: None, event };
            let text = written(&line).unwrap_or_default();
            if body.len() + text.len() > FEED_BYTES_MAX - HEAD_BYTES_MAX {
                omitted += 1;
            } else {
                body += &text;
            }
        }
        let (v, name, started_unix_ns) = (VERSION, self.name.clone(), self.started_unix_ns);
        let head = Head { v, name, started_unix_ns, now_unix_ns, next, more: next < self.next(), omitted };
        let head = serde_json::to_string(&head).unwrap_or_default();
        format!("{head}\n{body}")
    }
}

/// An answer that is none of a [`Feed`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FeedError {
    #[error("the answer does not begin with the head of live lines")]
    Malformed,
    #[error("the answer has the version {0} of live lines; expected {VERSION}")]
    Version(u32),
}

/// Reads the answers of a [`Feed`], which may be those of a stranger.
#[derive(Debug, Default)]
pub struct FeedReader {
    lines: Lines,
    started_unix_ns: Option<u64>,
    next: u64,
}

impl FeedReader {
    /// The number of the next line, from which on to request lines.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn counts(&self) -> ReadCounts {
        self.lines.counts
    }

    /// Passes the lines of an answer to the request from [`next`](Self::next) on to `take`. Returns
    /// the head; `None` after a restart of the source, whose lines have to be requested from 0 on.
    ///
    /// # Errors
    /// The answer is none of a feed. Nothing of it was passed.
    pub fn take(&mut self, body: &[u8], mut take: impl FnMut(Line)) -> Result<Option<Head>, FeedError> {
        let end = body.iter().position(|byte| *byte == b'\n').ok_or(FeedError::Malformed)?;
        let (head, rest) = (&body[..end], &body[end + 1..]);
        let Ok(head) = serde_json::from_slice::<Head>(head) else {
            return Err(match serde_json::from_slice::<super::reader::Versioned>(head) {
                Ok(head) if head.v != VERSION => FeedError::Version(head.v),
                _ => FeedError::Malformed,
            });
        };
        if head.v != VERSION {
            return Err(FeedError::Version(head.v));
        }
        let is_new = self.started_unix_ns != Some(head.started_unix_ns);
        self.started_unix_ns = Some(head.started_unix_ns);
        if is_new && self.next > 0 {
            self.next = 0;
            return Ok(None);
        }
        self.lines.next_seq = Some(self.next);
        self.lines.split(rest, &mut take);
        self.lines.end();
        self.next = head.next;
        Ok(Some(head))
    }
}
