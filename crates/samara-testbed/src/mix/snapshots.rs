//! The counters of nodes and of the relay before and after a run, and the traffic between them.

use samara_emulation::RelayReport;
use samara_sim::HostStats;

use crate::TestbedError;
use crate::client::{Client, Metrics};
use crate::process::NodeProcess;
use crate::run::emulated;
use crate::wire::Wire;

/// The counters of nodes and of the relay at one moment.
pub(crate) struct MetricsSnapshots {
    /// Metrics by node.
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) relay: Option<RelayReport>,
}

impl MetricsSnapshots {
    /// Takes a snapshot. Processes that are not `alive`, which have ended on purpose, count
    /// nothing.
    pub(crate) fn new(
        nodes: &mut [NodeProcess],
        wire: &mut Wire,
        alive: impl Fn(&mut NodeProcess) -> bool,
    ) -> Result<Self, TestbedError> {
        let metrics = nodes.iter_mut().map(|node| {
            if alive(node) { node.ask("measurement", Client::metrics) } else { Ok(Metrics::default()) }
        });
        let metrics = metrics.collect::<Result<_, _>>()?;
        let relay = match wire {
            Wire::Loopback => None,
            Wire::Relay(relay) => Some(relay.report()?),
        };
        Ok(Self { metrics, relay })
    }
}

/// Traffic of each node between two snapshots. `frames` fills in the nodes' own counts; its second
/// argument returns the growth of a metric with a label. Packets and their loss are known for
/// emulated links only.
pub(crate) fn traffic(
    (before, after): (&MetricsSnapshots, &MetricsSnapshots),
    frames: impl Fn(&mut HostStats, &dyn Fn(&str, &str) -> u64),
) -> Vec<HostStats> {
    (0..after.metrics.len())
        .map(|node| {
            let since = |name: &str, label: &str| {
                let value = |snapshots: &MetricsSnapshots| snapshots.metrics[node].sum(name, label);
                (value(after) - value(before)).max(0.0) as u64
            };
            let mut stats = HostStats::default();
            frames(&mut stats, &since);
            if let (Some(before), Some(after)) = (&before.relay, &after.relay) {
                emulated(&mut stats, &before.hosts[node], &after.hosts[node]);
            }
            stats
        })
        .collect()
}
