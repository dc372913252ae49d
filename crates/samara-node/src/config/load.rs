//! Reading `node.toml`, and what can be wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Checked, NodeConfig};

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1, where it can be told.
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
    ///
    /// # Errors
    /// The first thing that is wrong, with file and key.
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
    ///
    /// # Errors
    /// The first thing that is wrong, with file and key.
    pub fn parse(text: &str, path: &Path) -> Result<Checked, ConfigError> {
        let syntax = |error: &toml::de::Error, key: Option<String>| ConfigError {
            file: path.to_owned(),
            line: error.span().map(|span| line_at(text, span.start)),
            key,
            message: error.message().to_owned(),
        };
        let source = toml::Deserializer::parse(text).map_err(|error| syntax(&error, None))?;
        let config: Self = serde_path_to_error::deserialize(source).map_err(|error| {
            let key = error.path().to_string();
            syntax(error.inner(), Some(key).filter(|key| key != "."))
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        config.resolve(directory).check().map_err(|(key, message)| ConfigError {
            file: path.to_owned(),
            line: line_of_key(text, &key),
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
        if let Some(relay) = &mut self.relay {
            resolve(&mut relay.identity);
            relay.live.iter_mut().for_each(resolve);
        }
        self
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The line that sets `section.key` (what follows is within its value), for values that are wrong in what they mean; that of
/// the section, if the value is a default.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let mut parts = key.split('.');
    let (first, second) = (parts.next()?, parts.next());
    // A list outside of all sections: what follows is an index.
    let second = second.filter(|second| second.parse::<usize>().is_err());
    let (mut section, mut fallback) = ("", None);
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
            if section == first {
                fallback = Some(number);
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let wanted = second.map_or(("", first), |second| (first, second));
            if (section, name.trim()) == wanted {
                return Some(number);
            }
        }
    }
    fallback
}
