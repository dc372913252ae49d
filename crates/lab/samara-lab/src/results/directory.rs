//! A results directory: all files needed to view a result again and to reproduce it.
//!
//! The mark `unfinished` exists while the directory is being written; `complete` replaces it at the
//! end. Foreign files are never removed, and a finished result only on request. A link, a pipe or a
//! device is foreign, whatever its name.
//!
//! One process at a time writes the directory and holds the lock. The marks describe the directory
//! even after a kill: with `complete` it is complete; with `unfinished` alone the next run may
//! replace it. No entry of a result exists without at least one mark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use samara_document::keys;
use samara_scenario::{Loaded, Point};
use thiserror::Error;

use super::columns::Rows;
use super::{Measured, Outcome, Run, Summary, tables};
use crate::files::inputs::{COPIES, INPUTS, Stored};
use crate::files::{self, FileError, Kind, LOCK, Lock};

const COMPLETE: &str = "complete";
const UNFINISHED: &str = "unfinished";
/// Maximum number of bytes in the name of a run's directory. The names of its live files are longer.
const NAME_BYTES_MAX: usize = 200;
/// The names of all entries of a result, with their kinds.
const PARTS: [(&str, Kind); 12] = [
    (COMPLETE, Kind::File),
    (UNFINISHED, Kind::File),
    (LOCK, Kind::File),
    ("scenario.toml", Kind::File),
    (INPUTS, Kind::File),
    (COPIES, Kind::Directory),
    ("summary.json", Kind::File),
    ("report.html", Kind::File),
    ("figures", Kind::Directory),
    ("runs", Kind::Directory),
    ("nodes", Kind::Directory),
    ("live", Kind::Directory),
];

/// The reason why a results directory cannot be used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    #[error(
        "{0}: holds a finished result; choose another directory with --out, or overwrite it with --force"
    )]
    Finished(PathBuf),
    #[error(
        "{0}: another process is writing a result there; wait until it ends, or choose another directory with --out"
    )]
    Busy(PathBuf),
    #[error("{0}; choose another directory with --out")]
    Uncreated(FileError),
    /// The directory contains a foreign entry.
    #[error("{path}: contains {entry}, which is not part of a result; choose another directory with --out")]
    Foreign { path: PathBuf, entry: String },
    /// Two runs would write the same files.
    #[error("the runs \"{0}\" and \"{1}\" would both be in runs/{2}; rename one of them")]
    SameName(String, String, String),
    /// A run has a name too long for a directory, of this many bytes.
    #[error(
        "the name of a run with the values of the sweep and the seed has {0} bytes, and a directory's at most \
         {NAME_BYTES_MAX}: \"{1}\"; use shorter ones"
    )]
    LongName(usize, String),
    /// A file that the scenario names cannot be read.
    #[error("{0}")]
    Input(String),
    /// The directory cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A results directory that only this process is writing.
#[derive(Debug)]
pub struct ResultsDirectory {
    path: PathBuf,
    /// Held for the lifetime of this value.
    _lock: Lock,
}

impl ResultsDirectory {
    /// Starts a results directory: creates it, or clears an unfinished or overwritten result.
    ///
    /// # Errors
    /// Returns an error if the directory holds a finished result and `force` is false, another
    /// process is writing it, it contains foreign entries, it cannot be written, or two runs would
    /// have the same directory.
    pub fn create(path: &Path, loaded: &Loaded, force: bool) -> Result<Self, DirectoryError> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for point in &loaded.points {
            let directory = point_name(point);
            if directory.len() > NAME_BYTES_MAX {
                return Err(DirectoryError::LongName(directory.len(), directory));
            }
            if let Some(other) = names.insert(directory.clone(), point.name()) {
                return Err(DirectoryError::SameName(other, point.name(), directory));
            }
        }
        files::create_dir_all(path).map_err(DirectoryError::Uncreated)?;
        if parts(path, force)?.is_empty() {
            mark_unfinished(path)?;
        }
        let lock = Lock::take(path)?;
        let lock = lock.ok_or_else(|| DirectoryError::Busy(path.to_path_buf()))?;
        // Another process may have finished a result since the first check.
        let old = parts(path, force)?;
        let stored = Stored::read(loaded).map_err(DirectoryError::Input)?;
        mark_unfinished(path)?;
        let directory = Self { path: path.to_path_buf(), _lock: lock };
        directory.clear(old)?;
        files::create_dir_all(&path.join("figures"))?;
        stored.write(path)?;
        directory.text("scenario.toml", &stored.text)?;
        Ok(directory)
    }

    /// Removes the parts of an earlier result. The mark `complete` goes first.
    fn clear(&self, mut old: Vec<String>) -> Result<(), DirectoryError> {
        old.retain(|name| ![UNFINISHED, LOCK].contains(&name.as_str()));
        old.sort_by_key(|name| name != COMPLETE);
        for name in &old {
            files::remove(&self.path.join(name))?;
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory for the files of a run's real nodes.
    pub fn nodes(&self, point: &Point) -> Result<PathBuf, DirectoryError> {
        let directory = self.path.join("nodes").join(point_name(point));
        files::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Writes the tables of a run.
    pub fn run(&self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), DirectoryError> {
        self.of_run(measured.setting().0, &outcome.run, |directory| {
            tables::tables(measured, outcome).iter().try_for_each(|table| table.write(directory))
        })
    }

    /// Writes tables of a run that exist in memory.
    pub fn run_tables(
        &self,
        point: &Point,
        run: &Run,
        made: &BTreeMap<String, Arc<Rows>>,
    ) -> Result<(), DirectoryError> {
        self.of_run(point, run, |directory| {
            made.iter().try_for_each(|(name, rows)| tables::write(directory, name, rows))
        })
    }

    fn of_run(
        &self,
        point: &Point,
        run: &Run,
        write: impl FnOnce(&Path) -> Result<(), FileError>,
    ) -> Result<(), DirectoryError> {
        let directory = self.path.join("runs").join(point_name(point));
        files::create_dir_all(&directory)?;
        write(&directory)?;
        tables::configuration(&configuration(point)).write(&directory)?;
        let json = serde_json::to_string_pretty(run).unwrap_or_default();
        files::write(&directory.join("run.json"), json.as_bytes())?;
        Ok(files::sync_names(&directory)?)
    }

    /// Writes a text file atomically.
    pub fn text(&self, name: &str, text: &str) -> Result<(), DirectoryError> {
        self.bytes(name, text.as_bytes())
    }

    /// Writes a file atomically.
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        Ok(files::write(&self.path.join(name), bytes)?)
    }

    /// Writes the summary. It comes before pages and figures, so that an error in these does not cost
    /// the measurements.
    pub fn summary(&self, summary: &Summary) -> Result<(), DirectoryError> {
        let json = serde_json::to_string_pretty(summary).unwrap_or_default();
        self.text("summary.json", &(json + "\n"))
    }

    /// Writes the mark `complete`, if the result is.
    pub fn finish(&self, summary: &Summary, complete: bool) -> Result<(), DirectoryError> {
        if complete {
            // The mark follows the names of all other files.
            let runs = self.path.join("runs");
            [&runs, &self.path]
                .into_iter()
                .filter(|path| path.exists())
                .try_for_each(|path| files::sync_names(path))?;
            self.text(COMPLETE, &format!("{}\n", summary.digest))?;
            files::remove(&self.path.join(UNFINISHED))?;
        }
        Ok(())
    }
}

/// Returns the entries of a directory that may become a results directory.
fn parts(path: &Path, force: bool) -> Result<Vec<String>, DirectoryError> {
    let names = files::entries(path)?;
    // Read the marks after the entries, and in this order: a finishing process sets `complete`
    // before it removes `unfinished`.
    let is_unfinished = files::kind(&path.join(UNFINISHED)) == Some(Kind::File);
    let is_complete = files::kind(&path.join(COMPLETE)) == Some(Kind::File);
    if is_complete && !force {
        return Err(DirectoryError::Finished(path.to_path_buf()));
    }
    // A directory that contains only a `scenario.toml` is a user's project.
    let is_marked = is_unfinished || is_complete;
    let is_part = |name: &str| {
        let whole = files::final_name(name);
        let part = PARTS.iter().find(|(part, _)| *part == whole);
        let part = part.map(|(_, kind)| if whole == name { *kind } else { Kind::File });
        // The lock of another process may be gone by now.
        is_marked && part.is_some_and(|part| files::kind(&path.join(name)).is_none_or(|kind| kind == part))
    };
    match names.iter().find(|name| !is_part(name)) {
        Some(entry) => Err(DirectoryError::Foreign { path: path.to_path_buf(), entry: entry.clone() }),
        None => Ok(names),
    }
}

fn mark_unfinished(path: &Path) -> Result<(), FileError> {
    files::mark(&path.join(UNFINISHED), "This run was interrupted, or is still in progress.\n")
}

/// Returns the name of a run's directory below `runs` and `nodes`.
pub fn point_name(point: &Point) -> String {
    slug(&format!("{}-seed{}", point.name(), point.seed))
}

/// Converts a name to one that every file system accepts.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

fn configuration(point: &Point) -> Vec<(String, String)> {
    let mut rows = vec![("run".to_owned(), point.run.clone()), ("seed".to_owned(), point.seed.to_string())];
    if let Ok(table) = point.scenario.to_toml() {
        keys::flatten("", &toml::Value::Table(table), &mut rows);
    }
    rows
}

#[cfg(test)]
mod tests;
