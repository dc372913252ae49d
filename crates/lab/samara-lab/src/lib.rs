//! Runs scenarios: builds the network and workload, runs them, and produces measurements and
//! results.

pub mod brief;
pub mod compare;
pub mod expect;
pub mod experiment;
pub mod explain;
pub mod family;
mod files;
pub mod finding;
pub mod hops;
pub mod index;
pub mod metric;
pub mod network;
pub mod page;
pub mod processes;
pub mod reference;
pub mod report;
pub mod results;
pub mod run;
pub mod sources;
pub mod statistics;
pub mod sweep;
pub mod testing;
pub mod torture;
#[cfg(test)]
mod toy;
pub mod usage;
