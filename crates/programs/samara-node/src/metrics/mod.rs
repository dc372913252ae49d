//! `/metrics`: the counters of a node in the text format of OpenMetrics.
//!
//! Each part of a node has one table of [`Metric`]s. It is the source of the text with its `HELP`
//! lines, and of the tables of `docs/guides/node.md`. Names have the prefix `samara_`; those of
//! counters end in `_total`.

mod group;
mod mix;
mod node;
mod pool;

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use samara_net::mix::Status as MixSnapshot;

use crate::control::Counts;
pub(crate) use group::GroupSnapshot;
pub(crate) use node::{Snapshot, TopicSizes, Usage};
pub(crate) use pool::PoolSnapshot;

/// The media type of the result of [`Scrape::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The declaration of a metric. Its values come from the snapshot `S`.
struct Metric<S> {
    /// The name without prefix and suffix. It ends with the unit, if there is one.
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
    kind: MetricType,
    read: fn(&S, &mut Rows),
}

/// Declares the metrics of a snapshot. Each has its meaning, its name with its labels, its kind,
/// and `=` with its value or `=>` with code that adds its rows.
macro_rules! metrics {
    ($NAME:ident |$snapshot:ident: $S:ty, $rows:ident| $(
        $(#[doc = $meaning:literal])+
        $name:ident $([$($label:ident),+])?: $kind:ident $(= $value:expr)? $(=> $add:expr)?;
    )*) => {
        pub(super) const $NAME: &[crate::metrics::Metric<$S>] = &[$(crate::metrics::Metric {
            name: stringify!($name),
            labels: &[$($(stringify!($label)),+)?],
            meaning: concat!($($meaning),+).trim_ascii(),
            kind: prometheus_client::metrics::MetricType::$kind,
            read: |$snapshot: &$S, $rows: &mut crate::metrics::Rows| {
                $($rows.add([], $value);)?
                $($add;)?
            },
        }),*];
    };
}
use metrics;

/// The values of a metric, each with the values of its labels.
#[derive(Default)]
struct Rows(Vec<(Vec<String>, Number)>);

#[derive(Clone, Copy)]
enum Number {
    Count(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Number {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl Rows {
    fn add<const N: usize>(&mut self, labels: [&str; N], value: impl Into<Number>) {
        self.0.push((labels.map(str::to_owned).to_vec(), value.into()));
    }

    /// Adds the only value, if it is known.
    fn known(&mut self, value: Option<impl Into<Number>>) {
        value.into_iter().for_each(|value| self.add([], value));
    }

    /// Adds a value for each value of the only label.
    fn each<'a, V: Into<Number>>(&mut self, values: impl IntoIterator<Item = (&'a str, V)>) {
        values.into_iter().for_each(|(name, value)| self.add([name], value));
    }
}

/// The counters of all parts of a node at one moment.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) node: Snapshot,
    pub(crate) pool: Option<PoolSnapshot>,
    pub(crate) group: Option<GroupSnapshot>,
    pub(crate) mix: Option<MixSnapshot>,
    pub(crate) servers: Arc<Counts>,
    pub(crate) usage: Usage,
}

impl Scrape {
    pub(crate) fn text(self) -> Result<String, Error> {
        let mut registry = Registry::with_prefix("samara");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        write(node::METRICS, Some(&self.node), &mut encoder)?;
        write(node::SERVERS, Some(&self.servers), &mut encoder)?;
        write(pool::METRICS, self.pool.as_ref(), &mut encoder)?;
        for (name, meaning, count) in
            self.pool.iter().flat_map(|pool| pool::counters(&pool.engine, &pool.pool))
        {
            let mut row = encoder.encode_descriptor(&name, meaning, None, MetricType::Counter)?;
            row.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        write(group::METRICS, self.group.as_ref(), &mut encoder)?;
        write(mix::METRICS, self.mix.as_ref(), &mut encoder)?;
        write(node::PROCESS, Some(&self.usage), &mut encoder)
    }
}

/// Writes the metrics of a part, if the node has it.
fn write<S>(
    metrics: &[Metric<S>],
    snapshot: Option<&S>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let Some(snapshot) = snapshot else { return Ok(()) };
    for metric in metrics {
        let mut rows = Rows::default();
        (metric.read)(snapshot, &mut rows);
        let mut family = encoder.encode_descriptor(metric.name, metric.meaning, None, metric.kind)?;
        for (values, number) in rows.0 {
            let labels = metric.labels.iter().zip(&values);
            let labels: Vec<(&str, &str)> = labels.map(|(name, value)| (*name, value.as_str())).collect();
            if labels.is_empty() {
                put(&mut family, metric.kind, number)?;
            } else {
                put(&mut family.encode_family(&labels)?, metric.kind, number)?;
            }
        }
    }
    Ok(())
}

fn put(row: &mut MetricEncoder<'_>, kind: MetricType, number: Number) -> Result<(), Error> {
    match (kind, number) {
        (MetricType::Counter, Number::Count(count)) => row.encode_counter::<NoLabelSet, _, u64>(&count, None),
        (MetricType::Counter, Number::Real(real)) => row.encode_counter::<NoLabelSet, _, u64>(&real, None),
        (_, Number::Count(count)) => row.encode_gauge(&count),
        (_, Number::Real(real)) => row.encode_gauge(&real),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use super::*;

    /// The rows of a part in the documentation.
    fn table<S>(title: &str, metrics: &[Metric<S>], names: &mut BTreeSet<String>) -> String {
        let mut text = format!("\n{title}\n\n| metric | type | meaning |\n|---|---|---|\n");
        for metric in metrics {
            assert!(names.insert(metric.name.to_owned()), "{} is declared twice", metric.name);
            let (suffix, kind) = match metric.kind {
                MetricType::Counter => ("_total", "counter"),
                _ => ("", "gauge"),
            };
            let labels = metric.labels.join(",");
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let (name, meaning) = (metric.name, metric.meaning);
            let _ = writeln!(text, "| `samara_{name}{suffix}{labels}` | {kind} | {meaning} |");
        }
        text
    }

    /// `SAMARA_UPDATE_DOCS=1 cargo test -p samara-node --lib metrics` writes the tables.
    #[test]
    fn the_documentation_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/node.md");
        let old = std::fs::read_to_string(path).expect("docs/guides/node.md");
        let (begin, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->");
        let (before, rest) = old.split_once(begin).expect("the beginning of the tables");
        let (_, after) = rest.split_once(end).expect("the end of the tables");
        let mut names = BTreeSet::new();
        let mut counted = String::new();
        for (name, meaning, _) in pool::counters(&Default::default(), &Default::default()) {
            assert!(names.insert(name.clone()), "{name} is declared twice");
            let _ = writeln!(counted, "| `samara_{name}_total` | counter | {meaning} |");
        }
        let tables = [
            table("Every node:", node::METRICS, &mut names),
            table("The control API and the server for metrics:", node::SERVERS, &mut names),
            table(
                "The process of the node; values that the system does not report are missing:",
                node::PROCESS,
                &mut names,
            ),
            table(
                "With `[cat]`, under the names of celestia-core where it has one:",
                pool::METRICS,
                &mut names,
            ),
            counted,
            table("With `[ring]`:", group::METRICS, &mut names),
            table(
                "With `[mix]`; the metrics of senders only at nodes with a gateway:",
                mix::METRICS,
                &mut names,
            ),
        ];
        let new = format!("{before}{begin}{}\n{end}{after}", tables.concat());
        if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
            std::fs::write(path, &new).expect("docs/guides/node.md can be written");
        } else {
            assert!(old == new, "docs/guides/node.md is not current: SAMARA_UPDATE_DOCS=1 writes it");
        }
    }
}
