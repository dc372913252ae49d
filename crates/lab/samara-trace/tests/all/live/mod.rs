//! Tests that readers get all lines of live files, whatever happens to the files meanwhile.

mod feed;
mod following;
mod form;
mod properties;

use std::path::PathBuf;

use samara_trace::live::{Clock, Event, LiveReader, Said};

use crate::common::path;

/// Creates a directory for one test.
fn directory(test: &str) -> PathBuf {
    let path = path(&format!("live-{test}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn started(role: &str) -> Event {
    Event::Started { role: role.into(), clock: Clock::Wall, started_unix_ns: 7, run: None }
}

fn errors(total: u64) -> Event {
    Event::Errors { cause: "timeout".into(), total }
}

/// Returns all items that are available now.
fn all(reader: &mut LiveReader) -> Vec<Said> {
    let mut said = Vec::new();
    while reader.poll(1000, |one| said.push(one)).unwrap() {}
    said
}

/// Returns the events among the items.
fn events(said: &[Said]) -> Vec<Event> {
    let event = |said: &Said| match said {
        Said::Line(line) => Some(line.event.clone()),
        Said::Replaced => None,
    };
    said.iter().filter_map(event).collect()
}
