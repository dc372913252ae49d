//! From a scenario file to a network and a workload, through a run, to measurements and results.

pub mod bounds;
pub mod data;
pub mod jobs;
pub mod measure;
pub mod network;
pub mod reference;
pub mod results;
pub mod run;
pub mod scenario;
pub mod sweep;
pub mod topology;
pub mod units;
pub mod usage;
