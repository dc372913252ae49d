//! What is wrong with a scenario: everything that can be found at once, each with its place.

use std::fmt;

use super::source::Source;
use super::tree::Origin;

/// All that is wrong with a scenario. Never empty. Displays every problem with the line that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

/// Something that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named; for a key that was set on the command line, that it was.
    pub file: String,
    /// Where in the file; `None` of what was set on the command line or is not there at all.
    pub place: Option<Place>,
    /// The key with its tables: `network.topology.degree`. Empty if the whole file is meant.
    pub key: String,
    /// The run in which it is a problem, if it is none in the file itself.
    pub run: Option<String>,
    /// What is wrong, with the value that was found.
    pub message: String,
    /// What is allowed.
    pub allowed: Option<String>,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
    /// The whole line.
    pub text: String,
}

/// A problem before its place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: Vec<String>,
    pub(crate) origin: Option<Origin>,
    pub(crate) message: String,
    pub(crate) allowed: Option<String>,
    pub(crate) suggestion: Option<String>,
}

impl Finding {
    /// A problem of a key, whose place is looked up.
    pub(crate) fn of(key: &str, message: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            path: key.split('.').map(str::to_owned).collect(),
            origin: None,
            message: message.into(),
            allowed: Some(allowed.into()),
            suggestion: None,
        }
    }

    /// With its place in the source.
    pub(crate) fn placed(self, source: &Source, run: Option<&str>) -> Problem {
        let (file, place) = match self.origin {
            Some(Origin::File(span)) => (source.name().to_owned(), Some(Place::of(source.text(), span))),
            Some(Origin::Set(text)) => (format!("--set {text}"), None),
            Some(Origin::Made) | None => (source.name().to_owned(), None),
        };
        Problem {
            file,
            place,
            key: written(&self.path),
            run: run.map(str::to_owned),
            message: self.message,
            allowed: self.allowed,
            suggestion: self.suggestion,
        }
    }
}

/// A path as a dotted key; parts that TOML would quote are quoted.
pub(crate) fn written(path: &[String]) -> String {
    let bare =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let parts = path.iter().map(|part| if bare(part) { part.clone() } else { format!("{part:?}") });
    parts.collect::<Vec<_>>().join(".")
}

/// The last boundary between letters up to this byte.
fn boundary(text: &str, byte: usize) -> usize {
    let byte = byte.min(text.len());
    (0..=byte).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

impl Place {
    /// The place of these bytes of a text.
    pub(crate) fn of(text: &str, span: std::ops::Range<usize>) -> Self {
        let start = boundary(text, span.start);
        let end = boundary(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[..start].matches('\n').count() + 1;
        let width = text[start..end.min(line_end).max(start)].trim_end().chars().count().max(1);
        Self {
            line,
            column: text[line_start..start].chars().count() + 1,
            width,
            text: text[line_start..line_end].trim_end().to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => write!(out, "error: {}", self.message)?,
            false => write!(out, "error: {}: {}", self.key, self.message)?,
        }
        let digits = self.place.as_ref().map_or(1, |place| place.line.to_string().len());
        let indent = " ".repeat(digits);
        match &self.place {
            Some(Place { line, column, width, text }) => {
                let expanded = text.replace('\t', " ");
                writeln!(out, "\n{indent}--> {}:{line}:{column}", self.file)?;
                writeln!(out, "{indent} |")?;
                writeln!(out, "{line} | {expanded}")?;
                write!(out, "{indent} | {}{}", " ".repeat(column - 1), "^".repeat(*width))?;
            }
            None => write!(out, "\n{indent}--> {}", self.file)?,
        }
        if let Some(run) = &self.run {
            write!(out, "\n{indent} = in run: {run}")?;
        }
        if let Some(allowed) = &self.allowed {
            write!(out, "\n{indent} = allowed: {allowed}")?;
        }
        if let Some(suggestion) = &self.suggestion {
            write!(out, "\n{indent} = did you mean {suggestion}?")?;
        }
        Ok(())
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                out.write_str("\n\n")?;
            }
            problem.fmt(out)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    /// A single problem.
    pub(crate) fn one(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }

    /// Sorted by place and without repetitions; `None` if there are none. A problem that shows in several runs is told
    /// once.
    pub(crate) fn all(mut problems: Vec<Problem>) -> Option<Self> {
        let place = |problem: &Problem| problem.place.as_ref().map(|place| (place.line, place.column));
        problems.sort_by_key(place);
        let mut kept: Vec<Problem> = Vec::new();
        for problem in problems {
            let same = |other: &Problem| {
                (&other.file, &other.place, &other.key, &other.message)
                    == (&problem.file, &problem.place, &problem.key, &problem.message)
            };
            if !kept.iter().any(same) {
                kept.push(problem);
            }
        }
        (!kept.is_empty()).then_some(Self { problems: kept })
    }
}
