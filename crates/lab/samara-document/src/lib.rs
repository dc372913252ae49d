//! Scenario files, configuration files and the files that they name, read with errors a user can
//! act on.
//!
//! This crate depends on no family of experiments, no protocol and no simulator. The description of
//! networks (hosts, graphs, latencies) is behind the feature `network`, since the configuration of
//! a node does not need it. An error that is a text states the problem and the expected content,
//! and names file and line if a file causes it.

mod document;
pub mod file;
#[cfg(feature = "network")]
mod graph;
#[cfg(feature = "network")]
mod hosts;
#[cfg(feature = "network")]
mod inputs;
pub mod keys;
#[cfg(feature = "network")]
mod latency;
#[cfg(feature = "network")]
mod network;
pub mod study;
#[cfg(feature = "network")]
pub mod table;
pub mod text;
#[cfg(feature = "network")]
pub mod topology;

pub use document::{Mismatch, Problem, ScenarioError, from_table, from_value, line_of, parse};
#[cfg(feature = "network")]
pub use {
    graph::{GraphFile, unused_attributes},
    hosts::{HostTable, RegionWeights, host_names, listed_regions},
    inputs::{Inputs, PREFIX},
    latency::LatencyTable,
    network::{
        FairQueue, HostClass, Interface, LatencyFile, LatencyFormat, LatencyKind, LatencyOf, LatencyUnit,
        Network, Paths, Placed, Queue, Regions, Topology, UplinkQueue,
    },
    table::Names,
};

/// Maximum length of words that are compared.
const WORD_BYTES_MAX: usize = 100;

/// The candidate that is most similar to a word, if one is similar enough; otherwise the first one
/// that begins with the word.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison takes the product of the lengths, and no name of ours is as long.
    let is_short = |word: &str| word.len() <= WORD_BYTES_MAX;
    let candidates: Vec<&str> = candidates.into_iter().filter(|candidate| is_short(candidate)).collect();
    if !is_short(word) {
        return None;
    }
    let longer =
        || candidates.iter().copied().find(|candidate| word.len() > 2 && candidate.starts_with(word));
    candidates
        .iter()
        .copied()
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let is_like = *distance < 2 || 2 * distance < word.len().max(candidate.len());
            is_like && *distance <= 1 + candidate.len() / 3
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
        .or_else(longer)
}
