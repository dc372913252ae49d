//! What lies between two hosts: latency, jitter, loss.

use rustc_hash::FxHashMap;
use samara_engine::{NodeRng, Purpose, derive_seed};

use super::nanos;
use crate::config::{EmulationConfig, Latency};

/// One direction between two hosts.
#[derive(Debug)]
struct Path {
    latency: u64,
    /// Each direction has a stream of its own: what it loses does not depend on other traffic.
    rng: NodeRng,
}

/// All paths that were used so far.
#[derive(Debug)]
pub(crate) struct Paths {
    seed: u64,
    latency: Latency,
    regions: Vec<u16>,
    jitter: u64,
    loss: f64,
    paths: FxHashMap<(u32, u32), Path>,
}

impl Paths {
    pub(crate) fn new(config: &EmulationConfig) -> Self {
        Self {
            seed: config.seed,
            latency: config.latency.clone(),
            regions: config.hosts.iter().map(|host| host.region).collect(),
            jitter: nanos(config.jitter),
            loss: config.loss,
            paths: FxHashMap::default(),
        }
    }

    /// How long the next packet is on its way, in nanoseconds; `None` if it is lost.
    pub(crate) fn travel(&mut self, from: u32, to: u32) -> Option<u64> {
        if !self.paths.contains_key(&(from, to)) {
            let path = self.path(from, to);
            self.paths.insert((from, to), path);
        }
        let path = self.paths.get_mut(&(from, to))?;
        if self.loss > 0.0 && path.rng.chance(self.loss) {
            return None;
        }
        let jitter = if self.jitter > 0 { path.rng.below(self.jitter + 1) } else { 0 };
        Some(path.latency + jitter)
    }

    fn path(&self, from: u32, to: u32) -> Path {
        let direction = u64::from(from) << 32 | u64::from(to);
        Path { latency: self.latency(from, to), rng: NodeRng::new(self.seed, direction, Purpose::Transport) }
    }

    fn latency(&self, from: u32, to: u32) -> u64 {
        match &self.latency {
            Latency::Constant(latency) => nanos(*latency),
            Latency::Uniform { min, max } => {
                // The same draw as in samara-sim, so that a seed means the same network in both.
                let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
                let drawn = derive_seed(self.seed, pair, Purpose::Network);
                let span = nanos(*max) - nanos(*min);
                nanos(*min) + ((u128::from(drawn) * u128::from(span + 1)) >> 64) as u64
            }
            Latency::Regions(matrix) => {
                let row = self.regions[from as usize];
                let column = self.regions[to as usize];
                nanos(matrix[usize::from(row)][usize::from(column)])
            }
            Latency::Pairs(matrix) => nanos(matrix[from as usize][to as usize]),
        }
    }
}
