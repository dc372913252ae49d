//! From a scenario and its network to nodes, and to what their lower bound depends on.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Frame, Outbox};
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::{Config, GossipSub};
use samara_sim::{HostConfig, Latency, SimConfig, identity_of};

use super::{RunError, transport};
use crate::bounds::Limits;
use crate::jobs::columns::{Blocks, ColumnsNode, Role};
use crate::scenario::{Columns, GossipSub as Parameters, Schedule};

/// Who is there and what everybody keeps.
pub(super) struct World {
    pub(super) rates: Vec<HostConfig>,
    pub(super) validation: Vec<Duration>,
    /// Dialler and listener.
    pub(super) edges: Vec<(u32, u32)>,
    /// By node, sorted: everything for an observer, and for a publisher that joins everything.
    pub(super) custody: Arc<Vec<Vec<u16>>>,
    pub(super) publisher: u32,
    pub(super) observer: Option<u32>,
    /// By node: an index into `classes`.
    pub(super) class_of: Vec<u16>,
    /// By node: an index into `regions`.
    pub(super) region_of: Vec<u16>,
    pub(super) classes: Vec<String>,
    pub(super) regions: Vec<String>,
    /// What had to be adapted.
    pub(super) notes: Vec<String>,
}

/// Makes the node of a host and its outbox, again after a restart.
pub(super) type Factory = Arc<dyn Fn(u32) -> (ColumnsNode, Outbox<RpcFrame>) + Send + Sync>;

/// A factory of nodes.
pub(super) fn factory(
    parameters: &Parameters,
    workload: &Columns,
    world: &World,
    config: Config,
    blocks: &Arc<Blocks>,
) -> Result<Factory, RunError> {
    let (publisher, observer) = (world.publisher, world.observer);
    let mut plain = config;
    plain.report_duplicates = true;
    let mut deferred = plain.clone();
    deferred.validator = Some(ValidatorHook::deferred());
    let own = |host: u32| if world.validation[host as usize].is_zero() { &plain } else { &deferred };
    let mut publishing = own(publisher).clone();
    publishing.observers = observer.iter().map(|host| identity_of(*host)).collect();
    let mut observing = observer.map_or(&plain, own).clone();
    if observer.is_some() {
        observing.report_to = vec![identity_of(publisher)];
    }
    let [plain, deferred, publishing, observing] = [plain, deferred, publishing, observing].map(Arc::new);
    // What can go wrong goes wrong here, not when a host starts.
    for config in [&plain, &deferred, &publishing, &observing] {
        GossipSub::new(Arc::clone(config), identity_of(0))
            .map_err(|error| RunError::Engine(error.to_string()))?;
    }
    let batch = parameters.publish.filter(|schedule| *schedule != Schedule::Sequential);
    let all: Vec<u16> = (0..workload.columns as u16).collect();
    let (custody, blocks) = (Arc::clone(&world.custody), Arc::clone(blocks));
    let validation = world.validation.clone();
    let subscribes_all = workload.publisher_subscribes_all;
    Ok(Arc::new(move |host| {
        let own = || custody.get(host as usize).cloned().unwrap_or_default();
        let (config, joins) = if host == publisher {
            (&publishing, if subscribes_all { all.clone() } else { own() })
        } else if Some(host) == observer {
            (&observing, all.clone())
        } else if validation[host as usize].is_zero() {
            (&plain, own())
        } else {
            (&deferred, own())
        };
        let role = Role {
            joins,
            validation: validation[host as usize],
            batch: batch.filter(|_| host == publisher),
            observer: observer.map(identity_of),
        };
        let outbox = Outbox::new(config.outbox_config());
        let Ok(router) = GossipSub::new(Arc::clone(config), identity_of(host)) else {
            unreachable!("the same configuration was accepted before")
        };
        (ColumnsNode::new(router, Arc::clone(&blocks), role), outbox)
    }))
}

/// What the lower bound of a run depends on.
pub(super) fn limits(config: &SimConfig, world: &World, blocks: &Blocks) -> Limits {
    let publisher = world.publisher as usize;
    let others = || (0..world.rates.len()).filter(|host| *host != publisher);
    let latency = match &config.network.latency {
        Latency::Constant(latency) => *latency,
        Latency::Uniform { min, .. } => *min,
        Latency::Regions(matrix) => matrix.iter().flatten().min().copied().unwrap_or_default(),
    };
    let relay_uplink_bps = others().map(|host| world.rates[host].uplink_bps).max().unwrap_or(1);
    let validation = others().map(|host| world.validation[host]).min().unwrap_or_default();
    Limits {
        copy_bytes: blocks.sample().map_or(0, |message| {
            let mut rpc = Rpc::default();
            rpc.publish.push(Arc::clone(message));
            transport::wire_bytes(RpcFrame::new(rpc).encoded_len() as u64, &config.transport)
        }),
        publisher_uplink_bps: world.rates[publisher].uplink_bps,
        relay_uplink_bps,
        latency_nanos: latency.max(samara_sim::LATENCY_FLOOR).as_nanos() as u64,
        validation_nanos: validation.as_nanos() as u64,
    }
}
