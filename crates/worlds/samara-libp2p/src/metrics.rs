//! The counters of a behaviour in a registry of Prometheus.

use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use samara_engine::outbox::ByLane;
use samara_engine::prometheus;
use samara_gossipsub::{Metrics, Sizes as EngineSizes, WithGossipSub};

use crate::{Behaviour, LinkEvent, Sizes, Traffic};

/// Maximum age of exported values while the swarm is polled; heartbeats poll it.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The values that the behaviour exported last.
#[derive(Clone, Debug, Default)]
struct Values {
    engine: Metrics,
    tables: EngineSizes,
    lanes: ByLane,
    traffic: Traffic,
    sizes: Sizes,
}

#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Values>>);

impl Shared {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let Values { engine, tables, lanes, traffic, sizes } = self.values().clone();
        prometheus::encode("", &engine, &mut encoder)?;
        prometheus::encode("table_", &tables, &mut encoder)?;
        prometheus::encode("outbox_", &lanes, &mut encoder)?;
        prometheus::encode("", &traffic, &mut encoder)?;
        prometheus::encode("swarm_", &sizes, &mut encoder)
    }
}

/// The export of a behaviour to registries.
#[derive(Debug)]
pub(crate) struct Export {
    shared: Shared,
    /// The time of the last update.
    at: Option<Instant>,
}

impl<A: WithGossipSub, T: From<LinkEvent>> Behaviour<A, T> {
    /// Registers the counters of this behaviour, its engine and its outbox: names, units and meanings
    /// are those of `samara node` (`docs/guides/node.md`) without its prefix `samara_`, which
    /// [`sub_registry_with_prefix`](Registry::sub_registry_with_prefix) gives them. Values are at most one
    /// second older than the swarm's last poll. A second call replaces the destination of the first.
    pub fn register_metrics(&mut self, registry: &mut Registry) {
        let shared = Shared::default();
        registry.register_collector(Box::new(shared.clone()));
        self.export = Some(Export { shared, at: None });
        self.export_metrics();
    }

    /// Updates the registered values if they are old.
    pub(crate) fn export_metrics(&mut self) {
        let is_old = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() >= AGE_MAX);
        let Some(Export { shared, at }) = self.export.as_mut().filter(|export| is_old(export.at)) else {
            return;
        };
        *at = Some(Instant::now());
        let shared = shared.clone();
        let (engine, tables) = self.gossip(|engine, _| (engine.metrics().clone(), engine.sizes()));
        let (lanes, traffic, sizes) = (self.counters(), self.traffic(), self.sizes());
        *shared.values() = Values { engine, tables, lanes, traffic, sizes };
    }
}
