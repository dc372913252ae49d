//! Which runs there are in a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Runs that are listed, the newest ones.
const LISTED_MAX: usize = 100;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// The directory of live files in that of the results.
const LIVE: &str = "live";

/// A directory of results, or one that holds several.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    root: PathBuf,
}

/// A run that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunInfo {
    /// The name of its directory.
    pub(crate) name: String,
    /// When a source of it last said something, in milliseconds since 1970.
    pub(crate) heard_unix_ms: u64,
    /// Whether its results are complete.
    pub(crate) complete: bool,
}

impl Runs {
    /// Of a directory, which need not exist yet.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where they are.
    pub(crate) fn root(&self) -> &Path {
        &self.root
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

    /// The live files of a run. Names are taken from the list only: nobody can ask for another directory.
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

/// A directory with live files.
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
