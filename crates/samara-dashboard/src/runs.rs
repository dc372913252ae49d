//! The runs in a directory, and following those that pages show.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use samara_trace::live::{LiveReader, Said};
use serde::Serialize;

use crate::hub::Hub;
use crate::state::State;

/// Listed runs at most, the newest ones.
const LISTED_MAX: usize = 100;
/// Entries of a directory that are read at most.
const ENTRIES_MAX: usize = 10_000;
/// The directory of live files in that of the results.
const LIVE: &str = "live";
/// Followed files of a run at most.
const FILES_MAX: usize = 1024;
/// Bytes that are read of a file before the next one's turn.
const PORTION: usize = 4 << 20;
/// How often the directory is searched for new files.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// A source that writes nothing for so long, and has not finished, is called silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// How often files are read and pages updated.
const EVERY: Duration = Duration::from_millis(200);
/// A run without pages is followed for so long, in case that a page comes back.
const LINGER: Duration = Duration::from_secs(60);
/// Runs that are followed at the same time at most.
const WATCHED_MAX: usize = 16;

/// A directory of results, or one that holds several.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    pub(crate) root: PathBuf,
}

/// A run that pages can show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunInfo {
    pub(crate) name: String,
    /// When a source of it last wrote, in milliseconds since 1970.
    pub(crate) heard_unix_ms: u64,
    pub(crate) complete: bool,
}

impl Runs {
    /// Of a directory, which need not exist yet.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// All of them, the newest first.
    pub(crate) fn list(&self) -> Vec<RunInfo> {
        if let Some(run) = info(&self.root, &self.own_name()) {
            return vec![run];
        }
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        let named = entries.take(ENTRIES_MAX).filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            info(&entry.path(), &name)
        });
        let mut runs: Vec<RunInfo> = named.collect();
        runs.sort_by(|a, b| b.heard_unix_ms.cmp(&a.heard_unix_ms).then(a.name.cmp(&b.name)));
        runs.truncate(LISTED_MAX);
        runs
    }

    /// The live files of a run. Only names of the list are accepted: a request cannot name another directory.
    pub(crate) fn live(&self, name: &str) -> Option<PathBuf> {
        let run = self.list().into_iter().find(|run| run.name == name)?;
        let is_root = info(&self.root, &self.own_name()).is_some();
        Some(if is_root { self.root.join(LIVE) } else { self.root.join(run.name).join(LIVE) })
    }

    fn own_name(&self) -> String {
        let absolute = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        absolute.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

fn info(path: &Path, name: &str) -> Option<RunInfo> {
    let files = fs::read_dir(path.join(LIVE)).ok()?;
    let heard = files.take(ENTRIES_MAX).filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max();
    let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Some(RunInfo {
        name: name.to_owned(),
        heard_unix_ms: since(heard?).as_millis() as u64,
        complete: path.join("complete").exists(),
    })
}

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

    /// Takes new lines. Returns true if there are more already.
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

    /// Adds new files, and forgets those that are gone.
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

#[derive(Debug)]
pub(crate) struct Watches {
    pub(crate) runs: Runs,
    hubs: Mutex<BTreeMap<String, Arc<Hub>>>,
}

impl Watches {
    pub(crate) fn new(runs: Runs) -> Arc<Self> {
        Arc::new(Self { runs, hubs: Mutex::default() })
    }

    /// The hub of a run, which is followed from now on.
    ///
    /// # Errors
    /// There is no such run, or too many are followed.
    pub(crate) fn hub(self: &Arc<Self>, name: &str) -> Result<Arc<Hub>, WatchError> {
        let live = self.runs.live(name).ok_or(WatchError::Unknown)?;
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = hubs.get(name) {
            return Ok(Arc::clone(hub));
        }
        if hubs.len() >= WATCHED_MAX {
            return Err(WatchError::TooMany);
        }
        let hub = Arc::new(Hub::new());
        // What is there already is in the first snapshot.
        let mut run = Watched { follower: Follower::new(&live), state: State::default() };
        run.step(&hub);
        let (watches, weak, of_run) = (Arc::downgrade(self), Arc::downgrade(&hub), name.to_owned());
        let work = move || follow(&mut run, &weak, &watches, &of_run);
        std::thread::Builder::new().name("follow".to_owned()).spawn(work).map_err(|_| WatchError::TooMany)?;
        hubs.insert(name.to_owned(), Arc::clone(&hub));
        Ok(hub)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchError {
    Unknown,
    TooMany,
}

struct Watched {
    follower: Follower,
    state: State,
}

impl Watched {
    fn step(&mut self, hub: &Hub) {
        // Pages are updated between portions of long files, too.
        while self.follower.poll(&mut self.state) {
            hub.publish(self.state.view());
        }
        hub.publish(self.state.view());
    }
}

/// Follows a run until it has had no page for a while.
fn follow(run: &mut Watched, hub: &Weak<Hub>, watches: &Weak<Watches>, name: &str) {
    let mut used = Instant::now();
    loop {
        std::thread::sleep(EVERY);
        let (Some(hub), Some(watches)) = (hub.upgrade(), watches.upgrade()) else { return };
        if hub.has_subscribers() {
            used = Instant::now();
        } else if used.elapsed() > LINGER {
            let mut hubs = watches.hubs.lock().unwrap_or_else(PoisonError::into_inner);
            // No page can join while this is locked, but one that has the hub already may.
            if Arc::strong_count(&hub) <= 2 {
                hubs.remove(name);
                return;
            }
        }
        run.step(&hub);
    }
}
