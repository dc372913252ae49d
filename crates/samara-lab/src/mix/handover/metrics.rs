//! The figures of batches that one node hands to another.

use crate::scenario::Handover;
use serde::Serialize;

use crate::metric::metrics;
use crate::run::{BatchTimes, HandoverMeasured};

metrics! {
    /// The figures of a run with batches. Times are in milliseconds.
    pub struct HandoverMetrics {
        /// Payloads of a batch.
        pub payloads: u32 = "payloads", Neither, [];
        /// Bytes of a batch.
        pub batch_bytes: u64 = "bytes", Neither, [];
        /// Time from the moment in which all payloads of the first batch on a connection are ready until all are at
        /// the other node.
        pub first_ms: f64 = "ms", Less, [""];
        /// The same time of the other batches: the median.
        pub later_ms: f64 = "ms", Less, [""];
        /// The least time of the other batches.
        pub later_min_ms: f64 = "ms", Less, [];
        /// The longest time of the other batches.
        pub later_max_ms: f64 = "ms", Less, [];
        /// What the first batch took from the beginning of the work on it, by cause: `computation_ms`, then
        /// `idle_restart_ms`, `window_ms`, `slow_start_ms`, `serialisation_ms`, `latency_ms`: by how much sooner it
        /// is there when one cause after the other is taken away, in this order.
        pub first_parts: HandoverParts = "ms", Neither, [];
        /// The same parts of the other batches: medians.
        pub later_parts: HandoverParts = "ms", Neither, [];
        /// Bytes that the first node sent, per byte of payload.
        pub wire_bytes_per_byte: f64 = "bytes", Less, [""];
        /// Packets sent again.
        pub retransmissions: u64 = "packets", Less, [""];
    }
}

/// What a batch took from the beginning of the work on it, by cause: by how much sooner it is there when one after the other is taken away, in this
/// order from `idle_restart` on. In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HandoverParts {
    /// Until its last payload was ready.
    pub computation_ms: f64,
    /// The congestion window had shrunk while nothing was sent.
    pub idle_restart_ms: f64,
    /// The receiver of HTTP/2 let only so much be on the way.
    pub window_ms: f64,
    /// The congestion window began small.
    pub slow_start_ms: f64,
    /// The link took its time for each byte.
    pub serialisation_ms: f64,
    /// The way itself.
    pub latency_ms: f64,
}

impl HandoverParts {
    /// The names of the parts, and their values, in their order.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("computation", self.computation_ms),
            ("idle restart", self.idle_restart_ms),
            ("window of HTTP/2", self.window_ms),
            ("slow start", self.slow_start_ms),
            ("serialisation", self.serialisation_ms),
            ("latency", self.latency_ms),
        ]
    }

    /// All of it.
    pub fn total_ms(&self) -> f64 {
        self.named().iter().map(|(_, ms)| ms).sum()
    }
}

/// Computes the figures of a run.
pub fn handover_metrics(measured: &HandoverMeasured) -> HandoverMetrics {
    let handover = measured.point.scenario.part::<Handover>().clone();
    let took = |batch: &BatchTimes| (batch.whole - batch.ready) as f64 / 1e6;
    let first = |batches: &[BatchTimes]| batches.first().map_or(0.0, took);
    let later = |batches: &[BatchTimes]| median(batches.iter().skip(1).map(took).collect());
    let computation =
        median(measured.batches.iter().map(|batch| (batch.ready - batch.begun) as f64 / 1e6).collect());
    let all = measured.batches.iter().skip(1).map(took);
    let bytes = handover.bytes() as f64 * measured.batches.len() as f64;
    HandoverMetrics {
        payloads: handover.payloads,
        batch_bytes: handover.bytes(),
        first_ms: first(&measured.batches),
        later_ms: later(&measured.batches),
        later_min_ms: all.clone().fold(f64::INFINITY, f64::min),
        later_max_ms: all.fold(0.0, f64::max),
        first_parts: parts(measured, computation, first),
        later_parts: parts(measured, computation, later),
        wire_bytes_per_byte: measured.sent_bytes as f64 / bytes,
        retransmissions: measured.retransmissions,
    }
}

fn parts(
    measured: &HandoverMeasured,
    computation_ms: f64,
    took: impl Fn(&[BatchTimes]) -> f64,
) -> HandoverParts {
    let mut left = took(&measured.batches);
    let mut gains = measured.without.iter().map(|batches| {
        let without = took(batches);
        std::mem::replace(&mut left, without) - without
    });
    let mut next = || gains.next().unwrap_or(0.0);
    let (idle_restart_ms, window_ms, slow_start_ms, serialisation_ms) = (next(), next(), next(), next());
    HandoverParts {
        computation_ms,
        idle_restart_ms,
        window_ms,
        slow_start_ms,
        serialisation_ms,
        latency_ms: left,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => values[middle - 1].midpoint(values[middle]),
    }
}
