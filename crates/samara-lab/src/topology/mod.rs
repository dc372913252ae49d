//! The network of a run: hosts, who is connected to whom, latencies, and who subscribes to what.
//!
//! Everything follows from the scenario and a seed; runs that are compared with the same seed have the same network.

mod barabasi_albert;
mod blueprint;
mod custody;
mod graph;
mod hosts;
mod import;
mod latency;
mod pairing;
mod python;
mod regions;
mod shapes;

pub use barabasi_albert::barabasi_albert;
pub use blueprint::{Blueprint, BuildError};
pub use custody::{Unreached, check_custody, draw_custody, read_custody, repair_custody};
pub use graph::{Degrees, Graph, GraphError, Link};
pub use hosts::Host;
pub use import::{ImportError, Imported, read_edges, read_graphml};
pub use latency::{LATENCY_FLOOR, LatencyModel};
pub use python::PythonRandom;
pub use regions::{RegionTableError, RegionWeights, read_region_table};
pub use shapes::{full_mesh, random_regular, regional, ring};

/// Which stream of [`Purpose::Topology`](samara_engine::Purpose::Topology) draws what.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Graph = 0,
    Classes = 1,
    Regions = 2,
    Publisher = 3,
    Custody = 4,
}

impl Stream {
    fn rng(self, seed: u64) -> samara_engine::NodeRng {
        samara_engine::NodeRng::new(seed, self as u64, samara_engine::Purpose::Topology)
    }
}
