//! Where a scenario comes from, and the files that it names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data;

/// The text of a scenario and where it was found.
#[derive(Debug)]
pub(crate) struct Source {
    name: String,
    text: String,
    files: Files,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str, folder: Option<&Path>) -> Arc<Self> {
        let files = Files { folder: folder.map(Path::to_owned) };
        Arc::new(Self { name: name.to_owned(), text: text.to_owned(), files })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
}

/// Opens the files that a scenario names.
#[derive(Clone, Debug, Default)]
pub struct Files {
    folder: Option<PathBuf>,
}

/// A file that a scenario names cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such data set.
    #[error("no data set {name:?} comes along")]
    NoDataSet {
        /// The name after "builtin:".
        name: String,
        /// Those that there are.
        there_are: String,
    },
    /// The operating system refuses, or the compressed data are broken.
    #[error("{} cannot be read: {error}", path.display())]
    Io {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Files {
    /// Files are looked for in this folder, or, without one, in the current one.
    pub fn beside(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_owned) }
    }

    /// The text of a file: of a data set that comes along ("builtin:NAME"), or of a file relative to the scenario's folder,
    /// or, if it is not there, to the current one. A name that ends in ".zst" is decompressed.
    ///
    /// # Errors
    /// A file that is not there or cannot be read as text.
    pub fn read(&self, name: &str) -> Result<String, FileError> {
        if let Some(data_set) = name.strip_prefix("builtin:") {
            return data::read(data_set).ok_or_else(|| FileError::NoDataSet {
                name: data_set.to_owned(),
                there_are: data::names().collect::<Vec<_>>().join(", "),
            });
        }
        let path = self.path(name);
        let io = |error| FileError::Io { path: path.clone(), error };
        let bytes = std::fs::read(&path).map_err(io)?;
        let bytes = match path.extension().is_some_and(|extension| extension == "zst") {
            true => zstd::decode_all(bytes.as_slice()).map_err(io)?,
            false => bytes,
        };
        let invalid = |error| io(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        String::from_utf8(bytes).map_err(invalid)
    }

    fn path(&self, name: &str) -> PathBuf {
        let there = self.folder.as_ref().map(|folder| folder.join(name));
        match there {
            Some(path) if path.exists() || !Path::new(name).exists() => path,
            _ => PathBuf::from(name),
        }
    }
}
