//! Scenario files and configuration files: TOML documents that are read with errors a user can act on.
//!
//! This crate knows no family of experiments and no protocol.

mod document;

pub use document::{Problem, from_table, from_value, line_of, parse, unknown_key};

/// The candidate that is most like a word, if one is alike at all.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
