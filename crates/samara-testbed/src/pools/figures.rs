//! Turns the reports and counters of pools into the measurements of a simulation.

use samara_cat::pool::{Cause, PoolMetrics};
use samara_cat::{FrameKind, Ignored, Metrics};
use samara_engine::outbox::Tally;
use samara_lab::pool::measure::TxCollector;
use samara_lab::run::{BlockRow, Totals, TransactionsMeasured};
use samara_sim::HostStats;
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
) -> TransactionsMeasured {
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
    TransactionsMeasured {
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
    }
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
                collector.added(&keys[*number as usize], node, None, since(arrival.at_unix_ns));
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
        for cause in Cause::ALL {
            *pool.refused_mut(cause) = labelled("rejected_txs", "cause", cause.name());
        }
        for cause in Ignored::ALL {
            *engine.ignored_mut(cause) = labelled("ignored", "cause", cause.name());
        }
        Totals { engine, pool }
    }
}
