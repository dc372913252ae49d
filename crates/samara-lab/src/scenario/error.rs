//! What is wrong with a scenario, so that whoever wrote it can mend it.

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key (dotted), where one is to blame.
    pub key: Option<String>,
    /// The line of the file, counted from 1, where it can be told.
    pub line: Option<usize>,
    /// What was found, what is allowed, what to do.
    pub message: String,
}

/// Everything that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or the name of the built-in scenario.
    pub source: String,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    pub(crate) fn one(source: &str, message: impl Into<String>) -> Self {
        let problem = Problem { key: None, line: None, message: message.into() };
        Self { source: source.to_owned(), problems: vec![problem] }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.source)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
            if let Some(key) = &problem.key {
                write!(f, "{key}: ")?;
            }
            f.write_str(problem.message.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

/// The line of the first place where a file sets a key, counted from 1. Understands sections, arrays of sections (by
/// index), and dotted keys; not inline tables, whose line is that of the table.
pub(crate) fn line_of(text: &str, key: &str) -> Option<usize> {
    let wanted: Vec<&str> = key.split('.').collect();
    let mut section: Vec<String> = Vec::new();
    let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut best: Option<(usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let path: Vec<String> = if let Some(name) = line.strip_prefix("[[").and_then(|l| l.split("]]").next())
        {
            let count = counts.entry(name.trim().to_owned()).or_default();
            section = name.trim().split('.').map(str::to_owned).collect();
            section.push(count.to_string());
            *count += 1;
            section.clone()
        } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            section = name.trim().split('.').map(str::to_owned).collect();
            section.clone()
        } else if let Some((name, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let mut path = section.clone();
            path.extend(
                name.trim().trim_matches('"').split('.').map(|part| part.trim().trim_matches('"').to_owned()),
            );
            path
        } else {
            continue;
        };
        // The longest path that leads to the key wins: its own line, or that of the table around it.
        let matches = path.len() <= wanted.len() && path.iter().zip(&wanted).all(|(a, b)| a == b);
        if matches && best.is_none_or(|(len, _)| path.len() > len) {
            best = Some((path.len(), number + 1));
        }
    }
    best.map(|(_, line)| line)
}

/// The candidate that is most like a word, if one is alike at all.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
