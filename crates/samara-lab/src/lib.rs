//! Runs scenarios: builds the network and workload, runs them, and produces measurements and
//! results.

pub mod columns;
pub mod compare;
pub mod expect;
pub mod experiment;
pub mod explain;
pub mod family;
mod files;
pub mod group;
mod hops;
pub mod index;
pub mod messages;
pub mod metric;
pub mod mix;
pub mod network;
pub mod pool;
pub mod processes;
pub mod reference;
pub mod report;
pub mod results;
pub mod run;
pub mod sources;
pub mod statistics;
pub mod sweep;
pub mod torture;
pub mod usage;
