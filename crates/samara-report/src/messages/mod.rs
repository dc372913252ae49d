//! The report of a stream of messages.

mod figures;
mod page;
mod table;
mod words;

use samara_lab::results::{MessageMetrics, MessagesData, Outcome};
use samara_lab::statistics::Statistics;

use crate::about::{About, by_place, mean_and_confidence};

/// A report over results of a stream of messages.
#[derive(Debug)]
pub(crate) struct MessagesReport {
    about: About,
    results: Vec<Outcome<MessagesData>>,
    /// The axes of a sweep: key and label.
    axes: Vec<(String, String)>,
    rows: Vec<Row>,
}

/// Runs that differ in their seeds only: means over seeds, times in milliseconds.
#[derive(Clone, Debug)]
struct Row {
    run: String,
    label: String,
    series: String,
    /// The values of the sweep's axes, as written in the scenario.
    point: Vec<String>,
    seeds: usize,
    messages: f64,
    mean: f64,
    /// Half the width of the 95 % confidence interval of the mean.
    confidence: f64,
    p50: f64,
    p99: f64,
    max: f64,
    latency: f64,
    bound: f64,
    hops: f64,
    hops_max: f64,
    incomplete: f64,
    delivery_ratio: f64,
    copies: f64,
    answered: f64,
    bytes_up: f64,
    payload_share: f64,
    duplicate_share: f64,
    control_share: f64,
    lost: f64,
    again: f64,
    uplink: f64,
    interval: f64,
    inter_arrival: f64,
    inter_arrival_p99: f64,
}

impl Row {
    /// The part of messages that reached everybody.
    fn ratio(&self) -> f64 {
        1.0 - self.incomplete / self.messages
    }
}

/// Results that are drawn together.
struct Series<'a> {
    name: &'a str,
    results: Vec<&'a Outcome<MessagesData>>,
}

impl MessagesReport {
    pub(crate) fn new(
        about: About,
        axes: Vec<(String, String)>,
        results: Vec<Outcome<MessagesData>>,
    ) -> Self {
        let groups = by_place(&results, &axes, |result| &result.run);
        let rows = groups.into_iter().map(|((run, point), results)| row(run, point, &results)).collect();
        Self { about, rows, axes, results }
    }

    /// The results of the first seed of each run, series by series.
    fn series(&self) -> Vec<Series<'_>> {
        let mut all: Vec<Series<'_>> = Vec::new();
        for (_, results) in by_place(&self.results, &self.axes, |result| &result.run) {
            let first = results[0];
            match all.iter_mut().find(|series| series.name == first.series) {
                Some(series) => series.results.push(first),
                None => all.push(Series { name: &first.series, results: vec![first] }),
            }
        }
        all
    }
}

impl crate::Pages for MessagesReport {
    fn html(&self) -> String {
        page::page(self)
    }

    fn figures(&self) -> Vec<(String, String)> {
        figures::all(self)
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

fn row(run: String, point: Vec<String>, results: &[&Outcome<MessagesData>]) -> Row {
    let over = |value: &dyn Fn(&MessageMetrics) -> f64| {
        results.iter().map(|result| value(&result.metrics)).sum::<f64>() / results.len() as f64
    };
    let of = |statistics: Option<Statistics>, value: fn(&Statistics) -> f64| {
        statistics.as_ref().map_or(f64::NAN, value)
    };
    let means: Vec<f64> =
        results.iter().map(|result| of(result.metrics.dissemination_ms, |s| s.mean)).collect();
    let (mean, confidence) = mean_and_confidence(&means);
    Row {
        run,
        label: results[0].label.clone(),
        series: results[0].series.clone(),
        point,
        seeds: results.len(),
        messages: over(&|m| m.messages as f64),
        mean,
        confidence,
        p50: over(&|m| of(m.dissemination_ms, |s| s.p50)),
        p99: over(&|m| of(m.dissemination_ms, |s| s.p99)),
        max: over(&|m| of(m.dissemination_ms, |s| s.max)),
        latency: over(&|m| of(m.delivery_latency_ms, |s| s.mean)),
        bound: over(&|m| m.lower_bound_ms),
        hops: over(&|m| of(m.last_delivery_hop, |s| s.mean)),
        hops_max: over(&|m| of(m.last_delivery_hop, |s| s.max)),
        incomplete: over(&|m| m.incomplete as f64),
        delivery_ratio: over(&|m| m.delivery_ratio),
        copies: over(&|m| m.duplication_factor),
        answered: over(&|m| m.answered_copies as f64),
        bytes_up: over(&|m| m.bytes_up_per_node),
        payload_share: over(&|m| m.payload_share),
        duplicate_share: over(&|m| m.duplicate_share),
        control_share: over(&|m| m.control_share),
        lost: over(&|m| m.queue_drops as f64),
        again: over(&|m| m.retransmissions as f64),
        uplink: over(&|m| m.uplink_utilisation_max),
        interval: over(&|m| of(m.publish_interval_ms, |s| s.mean)),
        inter_arrival: over(&|m| of(m.inter_arrival_ms, |s| s.mean)),
        inter_arrival_p99: over(&|m| of(m.inter_arrival_ms, |s| s.p99)),
    }
}
