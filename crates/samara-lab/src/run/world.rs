//! From a blueprint to the simulator's hosts and network.

use std::sync::Arc;

use samara_sim::{HostConfig, Latency, Network, SimConfig};

use super::setup::World;
use super::{Job, RunError, faults, transport};
use crate::scenario::ScenarioError;
use crate::topology::{Blueprint, LatencyModel};

impl From<ScenarioError> for RunError {
    fn from(error: ScenarioError) -> Self {
        Self::Network(Box::new(error))
    }
}

/// The simulator's configuration, who is there, and what goes wrong.
pub(super) fn world(job: &Job, threads: usize) -> Result<(SimConfig, World, Vec<faults::Fault>), RunError> {
    let scenario = &job.run.scenario;
    let blueprint = job.run.blueprint(job.seed)?;
    let faults = faults::draw(&scenario.fault, &blueprint, job.seed);
    let latency = match &blueprint.latency {
        LatencyModel::Constant(latency) => Latency::Constant(*latency),
        LatencyModel::Uniform { min, max } => Latency::Uniform { min: *min, max: *max },
        LatencyModel::Regions(matrix) => Latency::Regions(matrix.clone()),
    };
    let config = SimConfig {
        seed: job.seed,
        threads,
        network: Network {
            latency,
            jitter: scenario.network.jitter.duration(),
            loss: scenario.network.loss.fraction(),
            partitions: faults::partitions(&faults, blueprint.hosts.len()),
        },
        transport: transport::transport(&scenario.transport),
        nic: transport::nic(scenario.network.queue.uplink),
        downlink_queue: transport::downlink(scenario.network.queue.downlink),
    };
    Ok((config, who(blueprint), faults))
}

fn who(blueprint: Blueprint) -> World {
    let rates = blueprint.hosts.iter().map(|host| HostConfig {
        uplink_bps: host.uplink.bits_per_second(),
        downlink_bps: host.downlink.bits_per_second(),
        region: host.region,
    });
    World {
        rates: rates.collect(),
        validation: blueprint.hosts.iter().map(|host| host.validation_time).collect(),
        class_of: blueprint.hosts.iter().map(|host| host.class).collect(),
        region_of: blueprint.hosts.iter().map(|host| host.region).collect(),
        classes: blueprint.classes,
        regions: blueprint.regions,
        edges: blueprint.graph.edges().to_vec(),
        custody: Arc::new(blueprint.custody),
        publisher: blueprint.publisher,
        observer: blueprint.observer,
        notes: blueprint.notes,
    }
}
