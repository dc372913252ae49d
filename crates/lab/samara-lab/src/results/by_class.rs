//! Metrics by class of nodes: a family hands over the values of single nodes that its metrics come
//! from, and the same metrics result for each class of `[[network.class]]`.

use samara_scenario::{OTHER_NODES, Point};
use samara_sim::HostStats;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Deliveries, DeliveryRow};
use crate::metric::groups::busy;
use crate::network::Hosts;
use crate::statistics::Statistics;

/// The key of these figures among the metrics of a run.
pub const BY_CLASS: &str = "by_class";
/// The number of nodes of a class, beside its metrics.
pub const CLASS_NODES: &str = "nodes";

/// The figures of each class of nodes. Without classes, it reads no values and has no figures.
#[derive(Clone, Debug, Default)]
pub struct ByClass {
    /// The class of each node; empty without classes.
    class: Vec<usize>,
    /// The name of each class with its figures; the last one is that of the nodes without a class.
    classes: Vec<(String, Map<String, Value>)>,
}

impl ByClass {
    pub fn of(point: &Point, hosts: &Hosts) -> Self {
        let network = &point.scenario.network;
        let count = network.classes.len();
        if count == 0 {
            return Self::default();
        }
        let names = network.classes.iter().map(|class| class.name.clone()).chain([OTHER_NODES.to_owned()]);
        let class = hosts.class.iter().take(network.nodes as usize).map(|class| class.unwrap_or(count));
        let mut own =
            Self { class: class.collect(), classes: names.map(|name| (name, Map::new())).collect() };
        let nodes: Vec<(u32, ())> = (0..network.nodes).map(|node| (node, ())).collect();
        own.add(CLASS_NODES, nodes, |nodes| Some(nodes.len()));
        own
    }

    /// Adds the statistics of values, each with its node. As with all figures, nodes can have several
    /// values or none, and a class without values has no figure.
    #[must_use]
    pub fn distribution(mut self, metric: &str, values: impl IntoIterator<Item = (u32, f64)>) -> Self {
        self.add(metric, values, Statistics::of);
        self
    }

    #[must_use]
    pub fn mean(self, metric: &str, values: impl IntoIterator<Item = (u32, f64)>) -> Self {
        self.ratio(metric, values.into_iter().map(|(node, value)| (node, value, 1.0)))
    }

    /// Adds the sum of parts over the sum of wholes: values are nodes, parts and wholes.
    #[must_use]
    pub fn ratio(mut self, metric: &str, values: impl IntoIterator<Item = (u32, f64, f64)>) -> Self {
        let values = values.into_iter().map(|(node, part, whole)| (node, (part, whole)));
        self.add(metric, values, |values: &[(f64, f64)]| {
            let (part, whole) = values.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            (whole > 0.0).then(|| part / whole)
        });
        self
    }

    /// Adds a sum, which is 0 for a class without values.
    #[must_use]
    pub fn sum(mut self, metric: &str, values: impl IntoIterator<Item = (u32, u64)>) -> Self {
        self.add(metric, values, |values| Some(values.iter().sum::<u64>()));
        self
    }

    #[must_use]
    pub fn max(mut self, metric: &str, values: impl IntoIterator<Item = (u32, f64)>) -> Self {
        self.add(metric, values, |values| values.iter().copied().reduce(f64::max));
        self
    }

    /// Adds the latency of the deliveries that count. There is none if they are too many to be recorded.
    #[must_use]
    pub fn deliveries(
        self,
        metric: &str,
        deliveries: &Deliveries,
        counts: impl Fn(&DeliveryRow) -> bool,
    ) -> Self {
        if deliveries.absence("").is_some() {
            return self;
        }
        let rows = deliveries.rows().iter().filter(|row| row.nanos != u64::MAX && counts(row));
        self.distribution(metric, rows.map(|row| (row.node, row.nanos as f64 / 1e6)))
    }

    /// Adds the metrics of [`NodeBytes`](crate::metric::groups::NodeBytes), over the nodes that count.
    #[must_use]
    pub fn bytes(self, traffic: &[HostStats], counts: impl Fn(u32) -> bool) -> Self {
        let of = |value: fn(&HostStats) -> u64| {
            let counted = (0..).zip(traffic).filter(|(node, _)| counts(*node));
            counted.map(move |(node, stats)| (node, value(stats) as f64)).collect::<Vec<_>>()
        };
        let [up, down] = [of(|stats| stats.sent.bytes), of(|stats| stats.received.bytes)];
        self.mean("bytes_up_per_node", up).mean("bytes_down_per_node", down)
    }

    /// Adds the mean share of a time in which the uplinks of nodes that count were busy.
    #[must_use]
    pub fn uplinks(self, traffic: &[HostStats], nanos: u64, counts: impl Fn(u32) -> bool) -> Self {
        let counted = (0..).zip(traffic).filter(|(node, _)| counts(*node));
        self.mean("uplink_utilisation", counted.map(|(node, stats)| (node, busy(stats, nanos))))
    }

    /// Computes a figure of each class from the values of its nodes.
    fn add<T, F: Serialize>(
        &mut self,
        metric: &str,
        values: impl IntoIterator<Item = (u32, T)>,
        figure: impl Fn(&[T]) -> Option<F>,
    ) {
        if self.classes.is_empty() {
            return;
        }
        let mut of_class: Vec<Vec<T>> = self.classes.iter().map(|_| Vec::new()).collect();
        for (node, value) in values {
            // Observers are no nodes of the network.
            if let Some(class) = self.class.get(node as usize) {
                of_class[*class].push(value);
            }
        }
        for ((_, figures), values) in self.classes.iter_mut().zip(&of_class) {
            let figure = serde_json::to_value(figure(values)).unwrap_or(Value::Null);
            figures.insert(metric.to_owned(), figure);
        }
    }

    /// Returns the figures of each class that has nodes, by name; `None` without classes.
    pub(super) fn into_value(self) -> Option<Value> {
        let has_nodes = |figures: &Map<String, Value>| figures[CLASS_NODES] != 0;
        let classes = self.classes.into_iter().filter(|(_, figures)| has_nodes(figures));
        let classes: Map<String, Value> = classes.map(|(name, of)| (name, Value::Object(of))).collect();
        (!classes.is_empty()).then_some(Value::Object(classes))
    }
}

/// Returns the metrics in which to look for a path: those of the class that it names, or all.
pub(crate) fn scope<'a>(metrics: &'a Value, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    match (parts.next(), parts.next()) {
        (Some(BY_CLASS), Some(class)) => metrics.get(BY_CLASS)?.get(class),
        _ => Some(metrics),
    }
}

#[cfg(test)]
mod tests;
