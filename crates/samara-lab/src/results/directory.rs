//! A results directory: everything that is needed to look at a result again, and to run it again.
//!
//! While it is being written it has `unfinished`, which `complete` replaces at the end. Nothing that a result does not have
//! is ever removed, and a finished result only if that was asked for.
//!
//! One process at a time writes it, which holds the lock. The marks say what a directory is wherever a kill interrupts that process:
//! with `complete` everything is there, and with `unfinished` alone the next run may replace it. No entry of a result is ever there
//! without one of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use samara_scenario::keys;
use samara_spec::{Loaded, Point};
use serde::Serialize;
use thiserror::Error;

use super::columns::Rows;
use super::{Measured, Outcome, Run, Summary, tables};
use crate::files::{self, FileError, LOCK, Lock};

/// The file whose presence says that everything is there.
const COMPLETE: &str = "complete";
/// The file whose presence says that something is missing.
const UNFINISHED: &str = "unfinished";
/// The files that the scenario names, and what was in them.
const INPUTS: &str = "inputs.json";
/// All that a result consists of.
const PARTS: [&str; 11] = [
    COMPLETE,
    UNFINISHED,
    LOCK,
    "scenario.toml",
    INPUTS,
    "summary.json",
    "report.html",
    "figures",
    "runs",
    "nodes",
    "live",
];

/// Why a results directory cannot be used.
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
    /// It holds something else.
    #[error("{path}: holds {entry}, which is no part of a result; choose another directory with --out")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Something in it.
        entry: String,
    },
    /// A file that the scenario names cannot be read.
    #[error("{0}")]
    Input(String),
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A file that a scenario names.
#[derive(Debug, Serialize)]
struct InputFile {
    /// The key that names it.
    key: &'static str,
    /// Its name there.
    file: String,
    /// Of its bytes as they are stored, in hexadecimal digits.
    sha256: String,
}

/// A results directory that is being written, by this process alone.
#[derive(Debug)]
pub struct ResultsDirectory {
    path: PathBuf,
    /// Held as long as the directory is.
    _lock: Lock,
}

impl ResultsDirectory {
    /// Starts a results directory: makes it, or empties one that was not finished (or is to be overwritten).
    ///
    /// # Errors
    /// It holds a finished result and `force` is not set, another process is writing it, it holds something else, or it cannot be written.
    pub fn create(path: &Path, loaded: &Loaded, force: bool) -> Result<Self, DirectoryError> {
        files::create_dir_all(path)?;
        if parts(path, force)?.is_empty() {
            mark_unfinished(path)?;
        }
        let lock = Lock::take(path)?;
        let lock = lock.ok_or_else(|| DirectoryError::Busy(path.to_path_buf()))?;
        // Another process may have finished a result meanwhile.
        let old = parts(path, force)?;
        mark_unfinished(path)?;
        let directory = Self { path: path.to_path_buf(), _lock: lock };
        directory.clear(old)?;
        let figures = path.join("figures");
        files::create_dir_all(&figures)?;
        directory.text("scenario.toml", &loaded.text)?;
        directory.inputs(loaded)?;
        Ok(directory)
    }

    /// Removes the parts of an earlier result: its mark first, which says that all the others are there.
    fn clear(&self, mut old: Vec<String>) -> Result<(), DirectoryError> {
        old.retain(|name| ![UNFINISHED, LOCK].contains(&name.as_str()));
        old.sort_by_key(|name| name != COMPLETE);
        for name in &old {
            let path = self.path.join(name);
            files::remove(&path)?;
        }
        Ok(())
    }

    /// Writes which files the scenario names, and their SHA-256, if it names any.
    fn inputs(&self, loaded: &Loaded) -> Result<(), DirectoryError> {
        let entry = |(key, file): (&'static str, String)| {
            let sha256 = loaded.inputs.sha256(&file).map_err(DirectoryError::Input)?;
            Ok(InputFile { key, file, sha256 })
        };
        let files: Vec<InputFile> =
            loaded.files().into_iter().map(entry).collect::<Result<_, DirectoryError>>()?;
        if files.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_string_pretty(&files).unwrap_or_default();
        self.text(INPUTS, &(json + "\n"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory for what the real nodes of a run need and leave.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn nodes(&self, point: &Point) -> Result<PathBuf, DirectoryError> {
        let directory = self.path.join("nodes").join(point_name(point));
        files::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Writes the tables of a run.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn run(&self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), DirectoryError> {
        self.of_run(measured.setting().0, &outcome.run, |directory| {
            tables::tables(measured, outcome).iter().try_for_each(|table| table.write(directory))
        })
    }

    /// Writes the tables of a run that were made before.
    ///
    /// # Errors
    /// A table cannot be written.
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
        let path = directory.join("run.json");
        Ok(files::write(&path, json.as_bytes())?)
    }

    /// Writes a text file, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&self, name: &str, text: &str) -> Result<(), DirectoryError> {
        self.bytes(name, text.as_bytes())
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        Ok(files::write(&path, bytes)?)
    }

    /// Writes the summary and, if nothing is missing, the mark of a finished result.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(&self, summary: &Summary, complete: bool) -> Result<(), DirectoryError> {
        let json = serde_json::to_string_pretty(summary).unwrap_or_default();
        self.text("summary.json", &(json + "\n"))?;
        if complete {
            self.text(COMPLETE, &format!("{}\n", summary.digest))?;
            let unfinished = self.path.join(UNFINISHED);
            files::remove(&unfinished)?;
        }
        Ok(())
    }
}

/// Returns what is in a directory that may be made a results directory.
fn parts(path: &Path, force: bool) -> Result<Vec<String>, DirectoryError> {
    let names = files::entries(path)?;
    // After the names, and in this order: a process that finishes meanwhile sets the second mark before it removes the first.
    let is_unfinished = path.join(UNFINISHED).exists();
    let is_complete = path.join(COMPLETE).exists();
    if is_complete && !force {
        return Err(DirectoryError::Finished(path.to_path_buf()));
    }
    // A directory with a `scenario.toml` alone is somebody's project.
    let is_marked = is_unfinished || is_complete;
    let is_part = |name: &str| is_marked && PARTS.contains(&files::final_name(name));
    match names.iter().find(|name| !is_part(name)) {
        Some(entry) => Err(DirectoryError::Foreign { path: path.to_path_buf(), entry: entry.clone() }),
        None => Ok(names),
    }
}

/// Says that something is missing.
fn mark_unfinished(path: &Path) -> Result<(), FileError> {
    files::mark(&path.join(UNFINISHED), "This run was interrupted, or is still going on.\n")
}

/// What the directory of a run is called, under `runs` and `nodes`.
pub fn point_name(point: &Point) -> String {
    slug(&format!("{}-seed{}", point.name(), point.seed))
}

/// A name that every file system takes.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Every value of a point's scenario, by its key.
fn configuration(point: &Point) -> Vec<(String, String)> {
    let mut rows = vec![("run".to_owned(), point.run.clone()), ("seed".to_owned(), point.seed.to_string())];
    if let Ok(table) = point.scenario.to_toml() {
        keys::flatten("", &toml::Value::Table(table), &mut rows);
    }
    rows
}

#[cfg(test)]
mod tests;
