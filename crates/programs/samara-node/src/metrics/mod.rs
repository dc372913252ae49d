//! `/metrics`: the counters of a node in the text format of OpenMetrics.
//!
//! Engines and links declare their counters ([`samara_engine::counters!`]); the modules here declare
//! what only a node knows. The text and the tables of `docs/guides/node.md` derive from the
//! declarations. Names have the prefix `samara_`, and one for the part of the node; those of
//! counters end in `_total`.

mod group;
mod mix;
mod node;
mod pool;

use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use samara_engine::{Counted, Gauge, Kind, Number, prometheus};
use samara_net::mix::Status as MixSnapshot;
use samara_trace::live::Event;

use crate::control::Counts;
pub(crate) use group::GroupSnapshot;
pub(crate) use node::{Snapshot, State, Usage};
pub(crate) use pool::{PoolSnapshot, PoolState};

/// The media type of the result of [`Scrape::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A destination of the counters of a part of a node, which may be absent.
trait Table {
    fn add<C: Counted>(&mut self, prefix: &str, counted: Option<&C>);
}

/// The counters of all parts of a node at one moment.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) node: Snapshot,
    pub(crate) pool: Option<PoolSnapshot>,
    pub(crate) group: Option<GroupSnapshot>,
    pub(crate) mix: Option<MixSnapshot>,
    pub(crate) servers: Arc<Counts>,
    pub(crate) feed: FeedState,
    pub(crate) usage: Usage,
}

samara_engine::counters! {
    /// The events of `/live/N`.
    pub(crate) struct FeedState {
        /// Bytes of the events that the node keeps for `/live/N`.
        pub(crate) kept_bytes: Gauge,
        /// Events that left the memory of `/live/N` for newer ones.
        pub(crate) events_forgotten: u64,
    }
}

impl Scrape {
    fn add(&self, table: &mut impl Table) {
        node::add(Some(&self.node), table);
        table.add("", Some(&self.servers.refused()));
        table.add("live_", Some(&self.feed));
        pool::add(self.pool.as_ref(), table);
        group::add(self.group.as_ref(), table);
        mix::add(self.mix.as_ref(), table);
        table.add("", Some(&self.usage));
    }

    /// Returns the counts of errors by cause, as live lines have them.
    pub(crate) fn errors(&self) -> Vec<Event> {
        let mut causes = Causes(Vec::new());
        self.add(&mut causes);
        causes.0
    }

    pub(crate) fn text(self) -> Result<String, Error> {
        let mut registry = Registry::with_prefix("samara");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut text = Text { encoder, result: Ok(()) };
        self.add(&mut text);
        text.result
    }
}

/// The text of OpenMetrics, or the first error.
struct Text<'a> {
    encoder: DescriptorEncoder<'a>,
    result: Result<(), Error>,
}

/// The counts of errors by cause, without those that count nothing.
struct Causes(Vec<Event>);

/// The label of counters of errors.
const CAUSE: &str = "cause";

/// Returns the counts of errors of the mix, as live lines have them.
pub(crate) fn mix_errors(mix: &MixSnapshot) -> Vec<Event> {
    let mut causes = Causes(Vec::new());
    mix::add(Some(mix), &mut causes);
    causes.0
}

impl Table for Causes {
    fn add<C: Counted>(&mut self, prefix: &str, counted: Option<&C>) {
        let Some(counted) = counted else { return };
        for (counter, rows) in C::declared().iter().zip(counted.rows()) {
            if counter.label != Some(CAUSE) || counter.kind != Kind::Counter || counter.unit().1.is_some() {
                continue;
            }
            let of = format!("{prefix}{}", counter.name);
            self.0.extend(rows.into_iter().filter_map(|row| match row {
                (Some(cause), Number::Count(total)) => {
                    Some(Event::Errors { cause: format!("{of}: {cause}"), total })
                }
                _ => None,
            }));
            // One that counts nothing says that errors are counted.
            let mut is_first = true;
            self.0.retain(|event| {
                std::mem::take(&mut is_first) || !matches!(event, Event::Errors { total: 0, .. })
            });
        }
    }
}

impl Table for Text<'_> {
    fn add<C: Counted>(&mut self, prefix: &str, counted: Option<&C>) {
        let written =
            counted.map_or(Ok(()), |counted| prometheus::encode(prefix, counted, &mut self.encoder));
        self.result = self.result.and(written);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use samara_engine::Counter;

    use super::*;

    /// The tables of the documentation.
    #[derive(Default)]
    struct Docs {
        text: String,
        names: BTreeSet<String>,
    }

    impl Docs {
        fn begin(&mut self, title: &str) {
            let _ = write!(self.text, "\n{title}\n\n| metric | type | meaning |\n|---|---|---|\n");
        }
    }

    impl Table for Docs {
        fn add<C: Counted>(&mut self, prefix: &str, _: Option<&C>) {
            for Counter { name, label, help, kind } in C::declared() {
                let name = format!("{prefix}{name}");
                let (suffix, kind) = match kind {
                    Kind::Counter => ("_total", "counter"),
                    Kind::Gauge => ("", "gauge"),
                };
                let label = label.map(|label| format!("{{{label}}}")).unwrap_or_default();
                let _ = writeln!(self.text, "| `samara_{name}{suffix}{label}` | {kind} | {help} |");
                assert!(self.names.insert(name.clone()), "{name} is declared twice");
            }
        }
    }

    /// `SAMARA_UPDATE_DOCS=1 cargo test -p samara-node --lib metrics` writes the tables.
    #[test]
    fn the_documentation_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/node.md");
        let old = std::fs::read_to_string(path).expect("docs/guides/node.md");
        let (begin, end) = ("<!-- metrics -->\n", "<!-- end of metrics -->");
        let (before, rest) = old.split_once(begin).expect("the beginning of the tables");
        let (_, after) = rest.split_once(end).expect("the end of the tables");
        let mut docs = Docs::default();
        docs.begin("Every node:");
        node::add(None, &mut docs);
        docs.begin(
            "A behaviour of `samara-libp2p` in another program (`register_metrics`), beside those above up to\n\
             `samara_control_bytes_down_total`:",
        );
        docs.add::<samara_libp2p::Sizes>("swarm_", None);
        docs.begin("The control API and the server for metrics:");
        docs.add("", Some(&Counts::default().refused()));
        docs.begin("The events of [`/live/N`](#live-lines):");
        docs.add::<FeedState>("live_", None);
        docs.begin("The process of the node; values that the system does not report are missing:");
        docs.add::<Usage>("", None);
        docs.begin("With `[pool]`, under the names of celestia-core where it has one:");
        pool::add(None, &mut docs);
        docs.begin("With `[group]`:");
        group::add(None, &mut docs);
        docs.begin("With `[mix]`; the metrics of senders only at nodes with a gateway:");
        mix::add(None, &mut docs);
        let new = format!("{before}{begin}{}\n{end}{after}", docs.text);
        if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
            std::fs::write(path, &new).expect("docs/guides/node.md can be written");
        } else {
            assert!(old == new, "docs/guides/node.md is not current: SAMARA_UPDATE_DOCS=1 writes it");
        }
    }
}
