//! The results directory.
//!
//! ```text
//! DIR/scenario.toml        the scenario as it was run, with what the command line set
//!     configuration.json   every run's whole configuration, its seed, and the version
//!     deliveries.parquet   a row for each node, slot and column
//!     traffic.parquet      a row for each run and node
//!     summary.json         the machine-readable result; only there once everything is
//!     report.html, figures/
//! ```
//!
//! While runs are under way, everything is in `DIR.partial`; the last step renames it. A run is written as soon as it is
//! finished, as a part of its own (a row group) of the tables, so that nothing that was finished is lost when the process is
//! stopped; [`Directory::interrupted`] then leaves a summary of what is there.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::document::Document;
use super::tables::{self, Table};
use crate::run::Finished;

/// Why results cannot be written or read.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// There are results already.
    #[error("{0} already holds results; choose another --out, or add --force to replace them")]
    Exists(PathBuf),
    /// There is something else.
    #[error("{0} is not a results directory (it holds no summary.json); choose another --out")]
    NotResults(PathBuf),
    /// The file system says no.
    #[error("{path}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What it says.
        error: std::io::Error,
    },
    /// A table cannot be written or read.
    #[error("{path}: {error}")]
    Table {
        /// Which.
        path: PathBuf,
        /// Why.
        error: parquet::errors::ParquetError,
    },
    /// A document cannot be written or read.
    #[error("{path}: {error}")]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
}

pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ResultsError + '_ {
    move |error| ResultsError::Io { path: path.to_path_buf(), error }
}

/// A results directory that is being written.
pub struct Directory {
    target: PathBuf,
    partial: PathBuf,
    deliveries: Table,
    traffic: Table,
}

/// Where results go unless told otherwise: `results/SCENARIO-SEED`, and if that is taken `results/SCENARIO-SEED-2` and so
/// on.
pub fn default_directory(scenario: &str, seed: u64) -> PathBuf {
    let base = PathBuf::from("results");
    let name = format!("{scenario}-{seed}");
    let numbered = (2..).map(|number| base.join(format!("{name}-{number}")));
    let free = |path: &PathBuf| !path.exists();
    std::iter::once(base.join(&name)).chain(numbered).find(free).unwrap_or_else(|| base.join(name))
}

impl Directory {
    /// Starts a results directory. What an interrupted run left in its place goes away.
    ///
    /// # Errors
    /// There are results already and `force` is not set, there is something that is no results directory, or the file
    /// system says no.
    pub fn create(target: &Path, force: bool) -> Result<Self, ResultsError> {
        Self::check(target, force)?;
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(".partial");
        let partial = target.with_file_name(name);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(io(&partial))?;
        }
        fs::create_dir_all(&partial).map_err(io(&partial))?;
        let table = |name: &str| {
            let path = partial.join(name);
            Table::create(&path).map_err(io(&path))
        };
        let (deliveries, traffic) = (table("deliveries.parquet")?, table("traffic.parquet")?);
        Ok(Self { target: target.to_path_buf(), partial, deliveries, traffic })
    }

    /// Whether a results directory could be started here: to be asked before hours of simulation.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn check(target: &Path, force: bool) -> Result<(), ResultsError> {
        let has_summary = target.join("summary.json").exists();
        let has_files = target.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if target.is_file() || (has_files && !has_summary) {
            return Err(ResultsError::NotResults(target.to_path_buf()));
        }
        if has_summary && !force {
            return Err(ResultsError::Exists(target.to_path_buf()));
        }
        Ok(())
    }

    /// Where the results are until they are finished.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes a file of text.
    ///
    /// # Errors
    /// The file system says no.
    pub fn write(&self, name: &str, text: &str) -> Result<(), ResultsError> {
        let path = self.partial.join(name);
        fs::write(&path, text).map_err(io(&path))
    }

    /// Writes a JSON document.
    ///
    /// # Errors
    /// The file system says no.
    pub fn write_json(&self, name: &str, value: &impl serde::Serialize) -> Result<(), ResultsError> {
        let path = self.partial.join(name);
        let text = serde_json::to_string_pretty(value).map_err(|error| ResultsError::Json { path, error })?;
        self.write(name, &(text + "\n"))
    }

    /// Adds what a finished run measured to the tables.
    ///
    /// # Errors
    /// The file system says no.
    pub fn add(&mut self, run: &Finished) -> Result<(), ResultsError> {
        let path = self.partial.clone();
        let wrap = |error| ResultsError::Table { path: path.clone(), error };
        self.deliveries.append(&tables::deliveries(run).map_err(wrap)?).map_err(wrap)?;
        self.traffic.append(&tables::traffic(run).map_err(wrap)?).map_err(wrap)
    }

    /// Completes the tables and the summary of what there is, without giving the directory its final name; returns where it
    /// is.
    ///
    /// # Errors
    /// The file system says no.
    pub fn interrupted(self, document: &Document) -> Result<PathBuf, ResultsError> {
        self.write_json("summary.partial.json", document)?;
        let partial = self.partial.clone();
        self.close()?;
        Ok(partial)
    }

    fn close(self) -> Result<(), ResultsError> {
        let path = self.partial;
        let wrap = |error| ResultsError::Table { path: path.clone(), error };
        self.deliveries.close().map_err(wrap)?;
        self.traffic.close().map_err(wrap)
    }

    /// Writes the summary, completes the tables and gives the directory its final name; `last` writes what is made from
    /// the finished files (the report) before that.
    ///
    /// # Errors
    /// The file system says no, or `last` does.
    pub fn finish<E: From<ResultsError>>(
        self,
        document: &Document,
        last: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        self.write_json("summary.json", document)?;
        let (partial, target) = (self.partial.clone(), self.target.clone());
        self.close()?;
        last(&partial)?;
        if target.exists() {
            // Only results get here, see `create`; the old ones go when the new ones are complete.
            fs::remove_dir_all(&target).map_err(io(&target))?;
        }
        fs::rename(&partial, &target).map_err(io(&target))?;
        Ok(target)
    }
}
