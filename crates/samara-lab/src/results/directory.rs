//! A results directory: everything that is needed to look at a result again, and to run it again.
//!
//! While it is being written it has `unfinished`, which becomes `complete` at the end. Nothing that a result does not have
//! is ever removed, and a finished result only if that was asked for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use serde::Serialize;
use thiserror::Error;

use super::{Measured, Outcome, Run, Summary, TableError, tables};
use crate::scenario::{Loaded, Point};

/// The file whose presence says that everything is there.
const COMPLETE: &str = "complete";
/// The file whose presence says that something is missing.
const UNFINISHED: &str = "unfinished";
/// The files that the scenario names, and what was in them.
const INPUTS: &str = "inputs.json";
/// All that a result consists of.
const PARTS: [&str; 10] = [
    COMPLETE,
    UNFINISHED,
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

/// A results directory that is being written.
#[derive(Debug)]
pub struct ResultsDirectory {
    path: PathBuf,
}

impl ResultsDirectory {
    /// Starts a results directory: makes it, or empties one that was not finished (or is to be overwritten).
    ///
    /// # Errors
    /// It holds a finished result and `force` is not set, it holds something else, or it cannot be written.
    pub fn create(path: &Path, loaded: &Loaded, force: bool) -> Result<Self, DirectoryError> {
        let directory = Self { path: path.to_path_buf() };
        if path.exists() {
            directory.clear(force)?;
        }
        io_at(path, fs::create_dir_all(path.join("figures")))?;
        directory.text(UNFINISHED, "This run was interrupted, or is still going on.\n")?;
        directory.text("scenario.toml", &loaded.text)?;
        directory.inputs(loaded)?;
        Ok(directory)
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

    /// Removes the parts of an earlier result.
    fn clear(&self, force: bool) -> Result<(), DirectoryError> {
        let mut names = Vec::new();
        for entry in io_at(&self.path, fs::read_dir(&self.path))? {
            names.push(io_at(&self.path, entry)?.file_name().to_string_lossy().into_owned());
        }
        let has = |part: &str| names.iter().any(|name| name == part);
        let marked = has(COMPLETE) || has(UNFINISHED);
        // A directory with a `scenario.toml` alone is somebody's project.
        if let Some(entry) = names.iter().find(|name| !marked || !PARTS.contains(&name.as_str())) {
            return Err(DirectoryError::Foreign { path: self.path.clone(), entry: entry.clone() });
        }
        if has(COMPLETE) && !force {
            return Err(DirectoryError::Finished(self.path.clone()));
        }
        for name in &names {
            let path = self.path.join(name);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            io_at(&path, removed)?;
        }
        Ok(())
    }

    /// Whether there is a result at `path` from which nothing is missing.
    pub fn is_finished(path: &Path) -> bool {
        path.join(COMPLETE).exists()
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
        io_at(&directory, fs::create_dir_all(&directory))?;
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
        io_at(&directory, fs::create_dir_all(&directory))?;
        write(&directory)?;
        tables::configuration(&configuration(point)).write(&directory)?;
        let json = serde_json::to_string_pretty(run).unwrap_or_default();
        let path = directory.join("run.json");
        io_at(&path, fs::write(&path, json))
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn text(&self, name: &str, text: &str) -> Result<(), DirectoryError> {
        self.bytes(name, text.as_bytes())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn bytes(&self, name: &str, bytes: &[u8]) -> Result<(), DirectoryError> {
        let path = self.path.join(name);
        io_at(&path, fs::write(&path, bytes))
    }

    /// Writes the summary and, if nothing is missing, the mark of a finished result.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(&self, summary: &Summary, complete: bool) -> Result<(), DirectoryError> {
        let json = serde_json::to_string_pretty(summary).unwrap_or_default();
        self.text("summary.json", &(json + "\n"))?;
        if complete {
            let unfinished = self.path.join(UNFINISHED);
            io_at(&unfinished, fs::remove_file(&unfinished))?;
            self.text(COMPLETE, &format!("{}\n", summary.digest))?;
        }
        Ok(())
    }
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
        flatten_toml("", &toml::Value::Table(table), &mut rows);
    }
    rows
}

/// The values of a document by their dotted keys.
pub(crate) fn flatten_toml(prefix: &str, value: &toml::Value, rows: &mut Vec<(String, String)>) {
    let below = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| flatten_toml(&below(key), value, rows))
        }
        toml::Value::Array(array) if array.iter().any(toml::Value::is_table) => {
            for (i, value) in array.iter().enumerate() {
                flatten_toml(&below(&i.to_string()), value, rows);
            }
        }
        other => rows.push((prefix.to_owned(), crate::scenario::plain(other))),
    }
}
