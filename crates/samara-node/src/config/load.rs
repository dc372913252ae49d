//! Reading `node.toml`, and what can be wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use samara_scenario::{self as document, Problem};

use super::{Checked, NodeConfig};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The key, with dots, where one is to blame.
    pub key: Option<String>,
    /// What was found, what was expected.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message.trim_end())
    }
}

impl std::error::Error for ConfigError {}

impl NodeConfig {
    /// Reads and checks a file. Relative paths in it start at its directory.
    pub fn load(path: &Path) -> Result<Checked, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            file: path.to_owned(),
            line: None,
            key: None,
            message: format!(
                "cannot be read: {error}; expected the configuration of a node, see docs/node.toml"
            ),
        })?;
        Self::parse(&text, path)
    }

    /// The same for a text; `path` is where it is from.
    pub fn parse(text: &str, path: &Path) -> Result<Checked, ConfigError> {
        let config: Self = document::parse(text).map_err(|Problem { key, line, message }| ConfigError {
            file: path.to_owned(),
            line,
            key,
            message,
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        config.resolve(directory).check().map_err(|(key, message)| ConfigError {
            file: path.to_owned(),
            line: document::line_of(text, &key),
            key: Some(key),
            message,
        })
    }

    fn resolve(mut self, directory: &Path) -> Self {
        let resolve = |path: &mut PathBuf| *path = directory.join(&*path);
        self.identity.key_file.iter_mut().for_each(resolve);
        self.trace.iter_mut().for_each(|trace| resolve(&mut trace.file));
        self.plan.publications.iter_mut().for_each(resolve);
        self.plan.metrics.iter_mut().for_each(|look| resolve(&mut look.file));
        if let Some(mix) = &mut self.mix {
            resolve(&mut mix.identity);
            mix.live.iter_mut().for_each(resolve);
        }
        self
    }
}
