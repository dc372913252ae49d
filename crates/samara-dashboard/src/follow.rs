//! The live files of a run, as they grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_trace::live::{LiveReader, Said};

use crate::state::State;

/// Files of a run that are followed.
const FILES_MAX: usize = 1024;
/// Bytes of each file that are read at once, so that a long one does not keep others waiting.
const PORTION: usize = 4 << 20;
/// How often new files are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// A source that says nothing for so long, and has not finished, is called silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// Follows all files in a directory.
#[derive(Debug)]
pub(crate) struct Follower {
    directory: PathBuf,
    files: BTreeMap<String, Followed>,
    scanned: Option<Instant>,
}

#[derive(Debug)]
struct Followed {
    reader: LiveReader,
    heard: Instant,
}

impl Follower {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new(), scanned: None }
    }

    /// Takes what has come. Returns whether there is more already.
    pub(crate) fn poll(&mut self, state: &mut State) -> bool {
        if self.scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN_EVERY) {
            self.scan(state);
        }
        let mut has_more = false;
        for (name, followed) in &mut self.files {
            let mut came = false;
            let more = followed.reader.poll(PORTION, |said| {
                came = true;
                if let Said::Line(line) = said {
                    state.apply(name, &line);
                }
            });
            // A file that cannot be read now may be readable later; it shows as silent.
            has_more |= more.unwrap_or(false);
            if came {
                followed.heard = Instant::now();
            }
            let is_silent = followed.heard.elapsed() > SILENT_AFTER;
            state.note_reading(name, followed.reader.counts(), is_silent);
        }
        has_more
    }

    /// Takes up new files, and forgets those that are gone.
    fn scan(&mut self, state: &mut State) {
        self.scanned = Some(Instant::now());
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut there = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().ok();
            there.extend(name.and_then(|name| name.strip_suffix(".jsonl").map(str::to_owned)));
        }
        there.sort_unstable();
        self.files.retain(|name, _| {
            let is_there = there.binary_search(name).is_ok();
            if !is_there {
                state.forget(name);
            }
            is_there
        });
        for name in there {
            if self.files.len() < FILES_MAX && !self.files.contains_key(&name) {
                let path = self.directory.join(format!("{name}.jsonl"));
                // What was written long ago is silent from the start.
                let age = fs::metadata(&path).ok().and_then(|file| file.modified().ok()?.elapsed().ok());
                let now = Instant::now();
                let heard = age.and_then(|age| now.checked_sub(age)).unwrap_or(now);
                self.files.insert(name, Followed { reader: LiveReader::new(&path), heard });
            }
        }
    }
}
