//! A results directory: everything that is needed to look at a result again, and to run it again.
//!
//! While it is being written it has `unfinished`, which `complete` replaces at the end. Nothing that a result does not have
//! is ever removed, and a finished result only if that was asked for.
//!
//! One process at a time writes it, which holds the lock. The marks say what a directory is wherever a kill interrupts that process:
//! with `complete` everything is there, and with `unfinished` alone the next run may replace it. No entry of a result is ever there
//! without one of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use samara_scenario::keys;
use serde::Serialize;
use thiserror::Error;

use super::{Measured, Outcome, Run, Summary, TableError, tables};
use crate::files::{self, LOCK, Lock};
use crate::scenario::{Loaded, Point};

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
    /// It holds a finished result.
    #[error(
        "{0}: holds a finished result; choose another directory with --out, or overwrite it with --force"
    )]
    Finished(PathBuf),
    /// Another process is writing it.
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
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that the scenario names cannot be read.
    #[error("{0}")]
    Input(String),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
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
        io_at(path, files::create_dir_all(path))?;
        if parts(path, force)?.is_empty() {
            mark_unfinished(path)?;
        }
        let lock = io_at(&path.join(LOCK), Lock::take(path))?;
        let lock = lock.ok_or_else(|| DirectoryError::Busy(path.to_path_buf()))?;
        // Another process may have finished a result meanwhile.
        let old = parts(path, force)?;
        mark_unfinished(path)?;
        let directory = Self { path: path.to_path_buf(), _lock: lock };
        directory.clear(old)?;
        let figures = path.join("figures");
        io_at(&figures, files::create_dir_all(&figures))?;
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
            io_at(&path, files::remove(&path))?;
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory for what the real nodes of a run need and leave.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn nodes(&self, point: &Point) -> Result<PathBuf, DirectoryError> {
        let directory = self.path.join("nodes").join(point_name(point));
        io_at(&directory, files::create_dir_all(&directory))?;
        Ok(directory)
    }

    /// Writes the tables of a run.
    ///
    /// # Errors
    /// A table cannot be written.
    pub fn run(&self, measured: &dyn Measured, outcome: &Outcome) -> Result<(), DirectoryError> {
        self.of_run(measured.point(), &outcome.run, |directory| {
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
        made: &BTreeMap<String, RecordBatch>,
    ) -> Result<(), DirectoryError> {
        self.of_run(point, run, |directory| {
            made.iter().try_for_each(|(name, batch)| tables::write(directory, name, batch))
        })
    }

    fn of_run(
        &self,
        point: &Point,
        run: &Run,
        write: impl FnOnce(&Path) -> Result<(), TableError>,
    ) -> Result<(), DirectoryError> {
        let directory = self.path.join("runs").join(point_name(point));
        io_at(&directory, files::create_dir_all(&directory))?;
        write(&directory)?;
        tables::configuration(&configuration(point)).write(&directory)?;
        let json = serde_json::to_string_pretty(run).unwrap_or_default();
        let path = directory.join("run.json");
        io_at(&path, files::write(&path, json.as_bytes()))
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
        io_at(&path, files::write(&path, bytes))
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
            io_at(&unfinished, files::remove(&unfinished))?;
        }
        Ok(())
    }
}

/// Returns what is in a directory that may be made a results directory.
fn parts(path: &Path, force: bool) -> Result<Vec<String>, DirectoryError> {
    let mut names = Vec::new();
    for entry in io_at(path, fs::read_dir(path))? {
        names.push(io_at(path, entry)?.file_name().to_string_lossy().into_owned());
    }
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
fn mark_unfinished(path: &Path) -> Result<(), DirectoryError> {
    let path = path.join(UNFINISHED);
    let text = "This run was interrupted, or is still going on.\n";
    io_at(&path, files::change(|| fs::write(&path, text)))
}

fn io_at<T>(path: &Path, result: io::Result<T>) -> Result<T, DirectoryError> {
    result.map_err(|source| DirectoryError::Io { path: path.to_path_buf(), source })
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
    let text = toml::to_string(&point.scenario).unwrap_or_default();
    let mut rows = vec![("run".to_owned(), point.run.clone()), ("seed".to_owned(), point.seed.to_string())];
    if let Ok(table) = text.parse::<toml::Table>() {
        keys::flatten("", &toml::Value::Table(table), &mut rows);
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::run::{RunOptions, run};
    use crate::scenario::load;

    /// What is written: a small run, made once.
    struct Work {
        loaded: Loaded,
        measured: Box<dyn Measured>,
        outcome: Outcome,
    }

    impl Work {
        fn new() -> Self {
            let keys = [("network.nodes", "20"), ("network.topology.degree", "6"), ("columns.count", "4")];
            let more = [("columns.custody", "2"), ("columns.blobs", "1"), ("columns.warm_up", "2 s")];
            let set: Vec<_> =
                keys.iter().chain(&more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let loaded = load("peerdas-small", &set, &["batch".to_owned()], Some(1)).unwrap();
            let stop = AtomicBool::new(false);
            let options = RunOptions { threads: 1, inputs: &loaded.inputs, stop: &stop };
            let measured = run(&loaded.points[0], options, |_| {}).unwrap();
            let outcome = measured.outcome();
            Self { loaded, measured, outcome }
        }

        /// Writes a result with this digest.
        fn write(&self, path: &Path, digest: &str, force: bool) -> Result<(), DirectoryError> {
            let directory = ResultsDirectory::create(path, &self.loaded, force)?;
            directory.run(&*self.measured, &self.outcome)?;
            directory.text("report.html", digest)?;
            directory.finish(&summary(digest), true)
        }
    }

    fn summary(digest: &str) -> Summary {
        Summary {
            scenario: "s".to_owned(),
            version: "1".to_owned(),
            seed: 1,
            nodes: 1,
            digest: digest.to_owned(),
            wall_s: 0.0,
            cpu_s: 0.0,
            peak_rss_bytes: 0,
            steps: 0,
            processes: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// A path that nothing is at, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("samara-directory-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The paths of all files below a directory but marks and lock.
    fn files_of(path: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut directories = vec![path.to_path_buf()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let entry = entry.unwrap().path();
                if entry.is_dir() {
                    directories.push(entry);
                } else if ![UNFINISHED, LOCK].iter().any(|name| entry.ends_with(name)) {
                    files.push(entry.strip_prefix(path).unwrap().to_path_buf());
                }
            }
        }
        files.sort();
        files
    }

    /// Fails unless a directory with `complete` has all files of one result; returns whose.
    fn whole(path: &Path, expected: &[PathBuf]) -> Option<String> {
        let digest = fs::read_to_string(path.join(COMPLETE)).ok()?.trim().to_owned();
        assert_eq!(files_of(path), expected);
        assert_eq!(fs::read_to_string(path.join("report.html")).unwrap(), digest);
        assert!(fs::read_to_string(path.join("summary.json")).unwrap().contains(&format!("\"{digest}\"")));
        Some(digest)
    }

    #[test]
    fn a_kill_at_any_step_leaves_a_whole_result_or_one_that_the_next_run_replaces() {
        let work = Work::new();
        let scratch = Scratch::new("kill");
        let path = &scratch.0;
        work.write(path, "old", false).unwrap();
        let expected = files_of(path);
        assert!(expected.len() >= 9, "{expected:?}");
        // What the killed run finds: nothing, a result without its end, a finished one, or one with both marks.
        let begin: [&dyn Fn(); 4] = [
            &|| {},
            &|| assert!(files::kill::after(9, || drop(work.write(path, "old", false)))),
            &|| work.write(path, "old", false).unwrap(),
            &|| {
                work.write(path, "old", false).unwrap();
                mark_unfinished(path).unwrap();
            },
        ];
        for (number, begin) in begin.iter().enumerate() {
            let mut steps = 0;
            loop {
                let _ = fs::remove_dir_all(path);
                begin();
                let is_killed = files::kill::after(steps, || drop(work.write(path, "new", true)));
                let context = format!("case {number}, killed after {steps} changes");
                match whole(path, &expected) {
                    Some(digest) => {
                        assert!(digest == "new" || digest == "old" && number >= 2, "{context}");
                        let again = work.write(path, "next", false);
                        assert!(matches!(again, Err(DirectoryError::Finished(_))), "{context}: {again:?}");
                    }
                    None => {
                        work.write(path, "next", false).unwrap_or_else(|error| panic!("{context}: {error}"));
                        assert!(!path.join(UNFINISHED).exists() && !path.join(LOCK).exists(), "{context}");
                        assert_eq!(whole(path, &expected).as_deref(), Some("next"), "{context}");
                    }
                }
                if !is_killed {
                    break;
                }
                steps += 1;
            }
            assert!(steps > 20, "case {number} has {steps} steps");
        }
    }

    #[test]
    fn a_directory_has_one_writer_at_a_time() {
        let work = Work::new();
        let scratch = Scratch::new("busy");
        let path = &scratch.0;
        let first = ResultsDirectory::create(path, &work.loaded, false).unwrap();
        let files = files_of(path);
        for force in [false, true] {
            let second = ResultsDirectory::create(path, &work.loaded, force);
            assert!(matches!(second, Err(DirectoryError::Busy(_))), "{second:?}");
        }
        assert_eq!(files_of(path), files, "nothing of the first is touched");
        first.run(&*work.measured, &work.outcome).unwrap();
        first.finish(&summary("first"), true).unwrap();
        assert!(matches!(ResultsDirectory::create(path, &work.loaded, true), Err(DirectoryError::Busy(_))));
        drop(first);
        assert!(!path.join(LOCK).exists() && !path.join(UNFINISHED).exists());
        work.write(path, "second", true).unwrap();
    }

    #[test]
    fn nothing_that_is_no_part_of_a_result_is_touched() {
        let work = Work::new();
        for name in [LOCK, "scenario.toml", "scenario.toml.17.tmp", "notes.17.tmp", "figures"] {
            let scratch = Scratch::new("foreign");
            fs::create_dir_all(&scratch.0).unwrap();
            fs::write(scratch.0.join(name), "mine").unwrap();
            let created = ResultsDirectory::create(&scratch.0, &work.loaded, true);
            assert!(matches!(created, Err(DirectoryError::Foreign { .. })), "{name}: {created:?}");
            assert_eq!(fs::read_to_string(scratch.0.join(name)).unwrap(), "mine");
            assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "{name}");
        }
    }
}
