//! Who writes.

use std::collections::BTreeMap;

use samara_trace::live::{Clock, Event, Line, Outcome, ReadCounts};
use serde_json::{Value, json};

/// The clock that all sources with wall clocks share.
const WALL: &str = "wall";

/// Everybody who writes.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Source>);

#[derive(Debug, Default)]
struct Source {
    started: Option<Started>,
    /// The number of the next line: lower ones were taken already.
    next_seq: u64,
    last_at_ns: u64,
    dropped: u64,
    finished: Option<(Outcome, Option<String>)>,
    counts: ReadCounts,
    is_silent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Started {
    role: String,
    clock: Clock,
    unix_ns: u64,
    run: Option<String>,
}

/// What a line is to who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was taken before: the file was cut, or begun anew with what still holds.
    Known,
    /// It is new.
    Next,
    /// It is the first one of another life of its source.
    Restarted,
    /// The same of who speaks for the whole run: it is another run in the same place.
    RunRestarted,
}

impl Sources {
    pub(super) fn take(&mut self, name: &str, line: &Line) -> Heard {
        let source = self.0.entry(name.to_owned()).or_default();
        let mut heard = Heard::Next;
        if let Event::Started { role, clock, started_unix_ns, run } = &line.event {
            let started = Started {
                role: super::short(role),
                clock: *clock,
                unix_ns: *started_unix_ns,
                run: run.as_deref().map(super::short),
            };
            if source.started.as_ref().is_some_and(|before| before.unix_ns != started.unix_ns) {
                let counts = source.counts;
                *source = Source { counts, ..Source::default() };
                heard = if started.role == "session" { Heard::RunRestarted } else { Heard::Restarted };
            }
            source.started = Some(started);
        }
        if line.seq < source.next_seq {
            return Heard::Known;
        }
        // What writers add has the number of the line after it, and may be said again.
        let is_added =
            matches!(line.event, Event::Started { .. } | Event::Team { .. } | Event::Dropped { .. });
        source.next_seq = if is_added { line.seq } else { line.seq.saturating_add(1) };
        source.last_at_ns = source.last_at_ns.max(line.at_ns);
        match &line.event {
            Event::Dropped { lines } => source.dropped = *lines,
            Event::Finished { outcome, message } => {
                source.finished = Some((*outcome, message.as_deref().map(super::short)));
            }
            _ => {}
        }
        heard
    }

    /// Nothing but one source.
    pub(super) fn only(mut self, name: &str) -> Self {
        self.0.retain(|key, _| key == name);
        self
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(super) fn note_reading(&mut self, name: &str, counts: ReadCounts, is_silent: bool) {
        if let Some(source) = self.0.get_mut(name) {
            (source.counts, source.is_silent) = (counts, is_silent);
        }
    }

    /// Which clock a source has: a name that sources have in common whose times can be compared.
    pub(super) fn domain(&self, name: &str) -> String {
        let clock = self.0.get(name).and_then(|source| source.started.as_ref()).map(|started| started.clock);
        match clock {
            Some(Clock::Virtual) => name.to_owned(),
            Some(Clock::Wall) | None => WALL.to_owned(),
        }
    }

    pub(super) fn view(&self) -> Value {
        let sources = self.0.iter().map(|(name, source)| {
            let started = source.started.as_ref();
            let clock = started.map(|started| started.clock);
            json!({
                "name": name,
                "role": started.map(|started| &started.role),
                "clock": clock,
                "run": started.and_then(|started| started.run.as_ref()),
                "started_unix_ms": started.map(|started| started.unix_ns / 1_000_000),
                "finished": source.finished.as_ref().map(|(outcome, _)| outcome),
                "message": source.finished.as_ref().and_then(|(_, message)| message.as_ref()),
                "silent": source.is_silent && source.finished.is_none(),
                "dropped": source.dropped.max(source.counts.missing),
                "unreadable": source.counts.garbage + source.counts.other_version,
            })
        });
        sources.collect()
    }
}
