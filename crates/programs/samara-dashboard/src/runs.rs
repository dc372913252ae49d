//! Lists the runs in a directory, and follows those that pages show.

use std::collections::BTreeMap;
use std::fs::{self, File, FileType};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use samara_trace::live::{LiveReader, Said, open_regular};
use samara_trace::unix_ns;
use serde::Serialize;

use crate::hub::Hub;
use crate::nodes::{NodeAddress, NodeFollower};
use crate::state::State;

/// Maximum number of listed runs. The newest ones are listed.
const LISTED_MAX: usize = 100;
/// Maximum number of entries read from a directory.
const ENTRIES_MAX: usize = 10_000;
/// Name of the directory of live files in a results directory.
const LIVE: &str = "live";
/// Maximum number of followed files of a run.
const FILES_MAX: usize = 1024;
/// Maximum number of bytes read from a file before the next file's turn.
const PORTION: usize = 4 << 20;
/// Interval between two searches for new files.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a source that writes nothing and has not finished counts as silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Interval between two updates of all files and pages.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which a run without pages is still followed, in case a page reconnects.
const LINGER: Duration = Duration::from_secs(60);
/// Time for which a request waits until the files of a run have been read for the first time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of runs followed at once.
const WATCHED_MAX: usize = 16;

/// Name of the run of nodes on other machines.
pub(crate) const NODES: &str = "nodes (live)";

/// A results directory, or a directory of several, and nodes on other machines.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    pub(crate) root: PathBuf,
    nodes: Vec<NodeAddress>,
}

/// The lines of a run.
enum Lines {
    /// The directory of live files.
    Files(PathBuf),
    Nodes,
}

/// A run in the list that pages show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunInfo {
    pub(crate) name: String,
    /// Time of a source's last write, in milliseconds since 1970.
    pub(crate) heard_unix_ms: u64,
    pub(crate) complete: bool,
}

impl Runs {
    /// Lists the runs of a directory, which need not exist yet, and that of nodes, if there are some.
    pub(crate) fn new(root: &Path, nodes: &[NodeAddress]) -> Self {
        Self { root: root.to_owned(), nodes: nodes.to_vec() }
    }

    /// Returns all runs: that of the nodes, and then the newest first.
    pub(crate) fn list(&self) -> Vec<RunInfo> {
        let heard_unix_ms = unix_ns() / 1_000_000;
        let nodes = RunInfo { name: NODES.to_owned(), heard_unix_ms, complete: false };
        let mut runs = self.of_files();
        if !self.nodes.is_empty() {
            runs.retain(|run| run.name != NODES);
            runs.insert(0, nodes);
        }
        runs
    }

    fn of_files(&self) -> Vec<RunInfo> {
        if let Some(run) = info(&self.root, &self.own_name()) {
            return vec![run];
        }
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        let named = entries.take(ENTRIES_MAX).filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            // The type of a link is not that of its target.
            entry.file_type().ok().filter(FileType::is_dir).and_then(|_| info(&entry.path(), &name))
        });
        let mut runs: Vec<RunInfo> = named.collect();
        runs.sort_by(|a, b| b.heard_unix_ms.cmp(&a.heard_unix_ms).then(a.name.cmp(&b.name)));
        runs.truncate(LISTED_MAX);
        runs
    }

    fn lines(&self, name: &str) -> Option<Lines> {
        if name == NODES && !self.nodes.is_empty() {
            return Some(Lines::Nodes);
        }
        self.live(name).map(Lines::Files)
    }

    /// Returns the directory of a run's live files. Only listed names are accepted, so a request
    /// cannot name another directory.
    pub(crate) fn live(&self, name: &str) -> Option<PathBuf> {
        let run = self.of_files().into_iter().find(|run| run.name == name)?;
        let is_root = info(&self.root, &self.own_name()).is_some();
        Some(if is_root { self.root.join(LIVE) } else { self.root.join(run.name).join(LIVE) })
    }

    /// Opens the report of a run. Returns it with its length; `None` if there is no such run, or it
    /// has no report yet.
    pub(crate) fn report(&self, name: &str) -> Option<(File, u64)> {
        let file = open_regular(&self.live(name)?.parent()?.join("report.html")).ok()?;
        let length = file.metadata().ok()?.len();
        Some((file, length))
    }

    fn own_name(&self) -> String {
        let absolute = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        absolute.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

/// Returns the run in a directory. A link to a directory of live files has none: it may lead out of
/// the results.
fn info(path: &Path, name: &str) -> Option<RunInfo> {
    let live = path.join(LIVE);
    if !fs::symlink_metadata(&live).ok()?.is_dir() {
        return None;
    }
    let files = fs::read_dir(live).ok()?;
    let last_write =
        files.take(ENTRIES_MAX).filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max();
    let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Some(RunInfo {
        name: name.to_owned(),
        heard_unix_ms: since(last_write?).as_millis() as u64,
        complete: fs::symlink_metadata(path.join("complete")).is_ok(),
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
    last_growth: Instant,
}

impl Follower {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: BTreeMap::new(), scanned: None }
    }

    /// Applies new lines to the state. Returns true if more are available.
    pub(crate) fn poll(&mut self, state: &mut State) -> bool {
        if self.scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN_INTERVAL) {
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
            // A file with a read error may be readable later, and shows as silent until then.
            has_more |= more.unwrap_or(false);
            if came {
                followed.last_growth = Instant::now();
            }
            let is_silent = followed.last_growth.elapsed() > SILENT_AFTER;
            state.note_reading(name, followed.reader.counts(), is_silent);
        }
        has_more
    }

    /// Adds new files, and removes deleted ones.
    fn scan(&mut self, state: &mut State) {
        self.scanned = Some(Instant::now());
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut there = Vec::new();
        for entry in entries.flatten() {
            // A link may lead out of the results, and a pipe would block.
            if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
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
                // A file that was last written long ago is silent from the start.
                let age =
                    fs::symlink_metadata(&path).ok().and_then(|file| file.modified().ok()?.elapsed().ok());
                let now = Instant::now();
                let last_growth = age.and_then(|age| now.checked_sub(age)).unwrap_or(now);
                self.files.insert(name, Followed { reader: LiveReader::new(&path), last_growth });
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

    /// Starts following the nodes, if there are some, so that the first page knows since when one does
    /// not answer.
    pub(crate) fn follow_nodes(self: &Arc<Self>) -> Result<(), WatchError> {
        match self.runs.lines(NODES) {
            Some(Lines::Nodes) => self.started(NODES, Lines::Nodes).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the hub of a run, and starts following the run. Its first snapshot contains all lines
    /// that exist already.
    pub(crate) fn hub(self: &Arc<Self>, name: &str) -> Result<Arc<Hub>, WatchError> {
        let lines = self.runs.lines(name).ok_or(WatchError::Unknown)?;
        let hub = self.started(name, lines)?;
        if hub.is_ready_within(PATIENCE) { Ok(hub) } else { Err(WatchError::Unreadable) }
    }

    /// Returns the hub of a run, which may not have read its files yet. A file system that does not
    /// answer blocks the thread of this run, and no other.
    fn started(self: &Arc<Self>, name: &str, lines: Lines) -> Result<Arc<Hub>, WatchError> {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hub) = hubs.get(name) {
            return Ok(Arc::clone(hub));
        }
        if hubs.len() >= WATCHED_MAX {
            return Err(WatchError::TooMany);
        }
        let hub = Arc::new(Hub::new());
        let source = match lines {
            Lines::Files(live) => Source::Files(Follower::new(&live)),
            Lines::Nodes => Source::Nodes(NodeFollower::start(&self.runs.nodes)),
        };
        let mut run = Watched { source, state: State::default() };
        let (watches, weak, of_run) = (Arc::downgrade(self), Arc::downgrade(&hub), name.to_owned());
        let work = move || follow(&mut run, &weak, &watches, &of_run);
        std::thread::Builder::new().name("follow".to_owned()).spawn(work).map_err(|_| WatchError::TooMany)?;
        hubs.insert(name.to_owned(), Arc::clone(&hub));
        Ok(hub)
    }

    /// Ends all pages.
    pub(crate) fn close(&self) {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|hub| hub.close());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchError {
    Unknown,
    TooMany,
    /// Its files could not be read within [`PATIENCE`].
    Unreadable,
}

struct Watched {
    source: Source,
    state: State,
}

/// The source of the lines of a run.
enum Source {
    Files(Follower),
    /// They are followed with and without a page: nodes keep their last lines only.
    Nodes(NodeFollower),
}

impl Watched {
    fn step(&mut self, hub: &Hub) {
        match &mut self.source {
            // Pages are also updated between portions of long files.
            Source::Files(files) => {
                while files.poll(&mut self.state) {
                    hub.publish(self.state.view());
                }
            }
            Source::Nodes(nodes) => nodes.poll(&mut self.state),
        }
        hub.publish(self.state.view());
    }
}

/// Follows a run; one of files until it has had no page for [`LINGER`].
fn follow(run: &mut Watched, hub: &Weak<Hub>, watches: &Weak<Watches>, name: &str) {
    if let Some(hub) = hub.upgrade() {
        run.step(&hub);
        hub.set_ready();
    }
    let mut used = Instant::now();
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let (Some(hub), Some(watches)) = (hub.upgrade(), watches.upgrade()) else { return };
        if hub.has_pages() || matches!(run.source, Source::Nodes(_)) {
            used = Instant::now();
        } else if used.elapsed() > LINGER {
            let mut hubs = watches.hubs.lock().unwrap_or_else(PoisonError::into_inner);
            // The lock keeps new pages out, but a page that has the hub already may still join.
            if Arc::strong_count(&hub) <= 2 {
                hubs.remove(name);
                return;
            }
        }
        run.step(&hub);
    }
}
