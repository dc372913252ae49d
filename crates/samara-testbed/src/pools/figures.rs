//! Turns the reports and counters of pools into the measurements of a simulation.

use rustc_hash::FxHashMap;
use samara_cat::pool::{Cause as Refusal, PoolMetrics};
use samara_cat::{FrameKind, Ignored, Metrics};
use samara_engine::outbox::Tally;
use samara_lab::network;
use samara_lab::pool::measure::{TxCollector, TxRow};
use samara_lab::pool::{BlockRow, Totals, TransactionsMeasured};
use samara_lab::results::{DeliveryRow, Measured};
use samara_lab::run::with_paths;
use samara_sim::{Arrival, Arrivals, Cause, Compact, HostStats, Parts, Trigger};
use samara_spec::Point;

use super::Recorded;
use crate::plan::Wanted;
use crate::run::{MetricsSnapshots, growth, traffic};

/// Returns the measurements of the run. Adds reasons to distrust them to `recorded`.
pub(crate) fn measured(
    point: &Point,
    wanted: &Wanted,
    recorded: &mut Recorded,
    snapshots: (&MetricsSnapshots, &MetricsSnapshots),
) -> Box<dyn Measured> {
    let nodes = point.scenario.network.nodes;
    let counts = Counts(snapshots);
    for (name, what) in [
        ("samara_mempool_closed_links_total", "connections ended or failed during the run"),
        ("samara_mempool_events_lost_total", "events of pools were lost"),
    ] {
        let count = counts.of(name, "");
        if count > 0 {
            recorded.doubts.push(format!("{count} {what}"));
        }
    }
    let collector = collect(recorded, nodes);
    let driver = &recorded.driver;
    let since = |at: u64| at.saturating_sub(driver.start);
    let arrivals = arrivals(&collector, nodes, |from, to| network::latency_nanos(&wanted.hosts, from, to));
    let measured = TransactionsMeasured {
        collector,
        totals: counts.totals(),
        blocks: driver.blocks.iter().map(|(row, _)| BlockRow { at: since(row.at), ..*row }).collect(),
        keys_max: driver.maxima.keys,
        requests_max: driver.maxima.requests,
        pool_txs_max: driver.maxima.pool_txs,
        traffic: traffic(snapshots, frames),
        measured_nanos: since(recorded.end).saturating_sub(wanted.warm_up(&point.scenario)),
        end_nanos: since(recorded.end),
        ..TransactionsMeasured::new(point, wanted.hosts.clone(), &wanted.graph, super::uptime(nodes))
    };
    let explained = measured.explained(arrivals);
    with_paths(Box::new(measured), explained)
}

/// Returns the arrivals of transactions. Nodes report no requests: from the moment at which the
/// sender had the transaction, all but the latency of the emulated link is transport.
fn arrivals(collector: &TxCollector, nodes: u32, latency: impl Fn(u32, u32) -> u64) -> Arrivals {
    let mut arrivals = vec![FxHashMap::<u64, Arrival>::default(); nodes as usize];
    let mut deliveries: Vec<_> = collector.deliveries.known().collect();
    deliveries.sort_by_key(|delivery| delivery.nanos);
    for DeliveryRow { item, nanos, node, from, .. } in deliveries {
        let TxRow { origin, submitted, .. } = collector.rows[item as usize];
        let before = arrivals.get(from as usize).and_then(|of_sender| of_sender.get(&u64::from(item)));
        let at = submitted + nanos;
        let had = match before {
            Some(before) => before.at.min(at),
            None if from == origin => submitted,
            None => continue,
        };
        let on_link = latency(from, node).min(at - had);
        let mut parts = Parts::default();
        parts.add(Cause::Latency, on_link);
        parts.add(Cause::Transport, at - had - on_link);
        let (item, trigger, parts) = (u64::from(item), Trigger::Command, Compact::from(&parts));
        let arrival = Arrival { item, from, at, owed_at: had, trigger, asked: None, parts };
        arrivals[node as usize].insert(item, arrival);
    }
    Arrivals::new(arrivals)
}

/// Collects submissions, arrivals and blocks.
fn collect(recorded: &Recorded, nodes: u32) -> TxCollector {
    let driver = &recorded.driver;
    let submissions = &driver.submissions;
    let since = |at: u64| at.saturating_sub(driver.start);
    let mut collector = TxCollector::new(nodes);
    let keys: Vec<_> = submissions.iter().map(|submission| submission.transaction.key()).collect();
    for ((submission, key), at) in submissions.iter().zip(&keys).zip(&recorded.submitted) {
        collector.submitted(*key, since(*at), submission.node, submission.valid);
    }
    for (arrivals, node) in recorded.arrivals.iter().zip(0..) {
        for arrival in arrivals {
            if let Some(number) = driver.numbers.get(&arrival.key) {
                let from = arrival.from.as_ref().and_then(|from| recorded.nodes.get(from).copied());
                collector.added(&keys[*number as usize], node, from, since(arrival.at_unix_ns));
            }
        }
    }
    // A pool that accepted a client's transaction has reported its arrival.
    for ((submission, key), number) in submissions.iter().zip(&keys).zip(0..) {
        if !collector.has_been(number, submission.node) {
            collector.refused(key);
        }
    }
    for (row, numbers) in &driver.blocks {
        numbers.iter().for_each(|number| collector.committed(*number, since(row.at)));
    }
    collector
}

/// Fills in the bytes of a pool's frames. Without emulated links, bytes on the wire are those of
/// sealed frames.
fn frames(stats: &mut HostStats, since: &dyn Fn(&str, &str) -> u64) {
    let bytes = |kind: &str, direction: &str| {
        since("samara_mempool_bytes_total", &format!("kind=\"{kind}\",direction=\"{direction}\""))
    };
    stats.frames_sent.payload_bytes = bytes("payload", "up");
    stats.frames_sent.control_bytes = bytes("control", "up");
    stats.frames_received.payload_bytes = bytes("payload", "down");
    stats.frames_received.control_bytes = bytes("control", "down");
    stats.frames_received.frames = since("samara_mempool_frames_total", "direction=\"received\"");
    stats.sent.bytes = bytes("wire", "up");
    stats.received.bytes = bytes("wire", "down");
}

/// The counts of all pools together between two snapshots.
struct Counts<'a>((&'a MetricsSnapshots, &'a MetricsSnapshots));

impl Counts<'_> {
    fn of(&self, name: &str, label: &str) -> u64 {
        growth(self.0, name, label)
    }

    fn totals(&self) -> Totals {
        let labelled = |name: &str, label: &str, value: &str| {
            self.of(&format!("samara_mempool_{name}_total"), &format!("{label}=\"{value}\""))
        };
        let count = |name: &str| self.of(&format!("samara_mempool_{name}_total"), "");
        let (mut engine, mut pool) = (Metrics::default(), PoolMetrics::default());
        engine.counters_mut().chain(pool.counters_mut()).for_each(|(name, value)| *value = count(name));
        engine.refused_bodies = labelled("queue_refusals", "kind", "bodies");
        engine.refused_frames = labelled("queue_refusals", "kind", "frames");
        for kind in FrameKind::ALL {
            let label = format!("kind=\"{}\",direction=\"received\"", kind.name());
            let copies = self.of("samara_mempool_frames_total", &label);
            let bytes = self.of("samara_mempool_frame_bytes_total", &label);
            *engine.received_mut(kind) = Tally { copies, bytes };
        }
        for cause in Refusal::ALL {
            *pool.refused_mut(cause) = labelled("rejected_txs", "cause", cause.name());
        }
        for cause in Ignored::ALL {
            *engine.ignored_mut(cause) = labelled("ignored", "cause", cause.name());
        }
        Totals { engine, pool }
    }
}

#[cfg(test)]
mod tests {
    use samara_cat::TxKey;
    use samara_sim::{Origin, parts_of};

    use super::*;

    /// A client submits at node 0 at 1,000; node 1 has the transaction at 1,100, node 2 gets it from
    /// there at 1,120, less than the latency, and nobody knows where node 3 got it.
    #[test]
    fn arrivals_of_pools_are_latency_and_transport() {
        let mut collector = TxCollector::new(4);
        let key = TxKey::of(b"a");
        collector.submitted(key, 1_000, 0, true);
        collector.added(&key, 0, None, 1_000);
        collector.added(&key, 2, Some(1), 1_120);
        collector.added(&key, 1, Some(0), 1_100);
        collector.added(&key, 3, None, 1_200);
        let arrivals = arrivals(&collector, 4, |_, _| 30);
        let path = |node| arrivals.path(node, 0, Origin { host: 0, at: 1_000 });
        let parts = |node| parts_of(&path(node).unwrap()).iter().collect::<Vec<_>>();
        assert_eq!(parts(1), [(Cause::Latency, 30), (Cause::Transport, 70)]);
        assert_eq!(parts(2), [(Cause::Latency, 50), (Cause::Transport, 70)]);
        assert_eq!(path(2).unwrap().len(), 2);
        assert!(path(3).is_none());
    }
}
