//! `/metrics`: what a node counts, in the text format of OpenMetrics.
//!
//! Names are those of the simulator's results where they mean the same, with the prefix `samara_`; counters end in `_total`.

mod group;
mod mix;
mod pool;

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use samara_engine::outbox::{Counters, LossCause};
use samara_gossipsub::Metrics;
use samara_gossipsub::Sizes;
use samara_libp2p::Traffic;
use samara_net::mix::Status as MixSnapshot;

pub(crate) use group::GroupSnapshot;
pub(crate) use pool::PoolSnapshot;

use crate::node::LinkCounts;
use crate::process::Usage;

/// The media type of what [`text`] gives.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a node has counted at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Metrics,
    pub(crate) sizes: Sizes,
    pub(crate) lanes: Vec<(&'static str, Counters)>,
    pub(crate) traffic: Traffic,
    pub(crate) topics: Vec<TopicSizes>,
    /// Connected peers by what their link speaks.
    pub(crate) protocols: BTreeMap<String, u64>,
    pub(crate) owed_copies: usize,
    pub(crate) links: LinkCounts,
    pub(crate) dials_failed: u64,
    pub(crate) trace: Option<samara_trace::Counts>,
}

/// A joined topic.
#[derive(Clone, Debug)]
pub(crate) struct TopicSizes {
    pub(crate) topic: String,
    pub(crate) subscribers: usize,
    pub(crate) mesh: usize,
}

/// The text for Prometheus.
pub(crate) fn text(
    snapshot: Snapshot,
    pool: Option<PoolSnapshot>,
    group: Option<GroupSnapshot>,
    mix: Option<MixSnapshot>,
) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("samara");
    registry.register_collector(Box::new(Scrape { snapshot, pool, group, mix, usage: Usage::now() }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    snapshot: Snapshot,
    pool: Option<PoolSnapshot>,
    group: Option<GroupSnapshot>,
    mix: Option<MixSnapshot>,
    usage: Usage,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut out = Out(encoder);
        self.messages(&mut out)?;
        self.control(&mut out)?;
        self.copies(&mut out)?;
        self.links(&mut out)?;
        if let Some(pool) = &self.pool {
            pool.encode(&mut out)?;
        }
        if let Some(group) = &self.group {
            group.encode(&mut out)?;
        }
        if let Some(mix) = &self.mix {
            mix::encode(mix, &mut out)?;
        }
        self.process(&mut out)
    }
}

impl Scrape {
    fn messages(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let engine = &self.snapshot.engine;
        out.counter("messages_published", "Messages that were published here", engine.messages_published)?;
        let nobody = engine.messages_published_to_nobody;
        out.counter("messages_published_to_nobody", "Of these, such that nobody was known to want", nobody)?;
        let received = engine.messages_received;
        out.counter("messages_received", "Copies of messages that came, duplicates included", received)?;
        out.counter(
            "messages_delivered",
            "Messages of others that were accepted",
            engine.messages_delivered,
        )?;
        let duplicates = engine.duplicates_received;
        out.counter("messages_duplicate", "Copies of messages that were known", duplicates)?;
        let ignored = engine.ignored_by_cause().map(|(cause, count)| ([("cause", cause.name())], count));
        out.counters(
            "ignored",
            "What came from peers and had no effect, messages by validation included",
            ignored,
        )
    }

    fn control(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let engine = &self.snapshot.engine;
        out.counter("rpcs_received", "Frames that came", engine.rpcs_received)?;
        let kinds = [
            (["ihave_ids", "sent"], engine.ihave_ids_sent),
            (["ihave_ids", "received"], engine.ihave_ids_received),
            (["iwant_ids", "sent"], engine.iwant_ids_sent),
            (["iwant_ids", "received"], engine.iwant_ids_received),
            (["idontwant_ids", "sent"], engine.idontwant_ids_sent),
            (["idontwant_ids", "received"], engine.idontwant_ids_received),
            (["grafts", "sent"], engine.grafts_sent),
            (["grafts", "received"], engine.grafts_received),
            (["prunes", "sent"], engine.prunes_sent),
            (["prunes", "received"], engine.prunes_received),
        ];
        let kinds = kinds.map(|([kind, way], count)| ([("kind", kind), ("direction", way)], count));
        out.counters("control", "Control messages, or the ids in them", kinds)?;
        out.counter("promises_broken", "Announced messages that did not come", engine.promises_broken)?;
        out.counter("heartbeats", "Heartbeats", engine.heartbeats)
    }

    fn copies(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Snapshot { engine, lanes, traffic, owed_copies, .. } = &self.snapshot;
        let reasons = [
            ("publish", engine.copies_published),
            ("forward", engine.copies_forwarded),
            ("answer", engine.copies_answered),
        ];
        let reasons = reasons.map(|(reason, count)| ([("reason", reason)], count));
        out.counters("copies_owed", "Copies of messages that were owed", reasons)?;
        out.gauge("owed_copies", "Copies of messages that are owed, or on their way", *owed_copies as f64)?;
        let suppressed = engine.copies_suppressed;
        out.counter("copies_suppressed", "Copies not owed because of an IDONTWANT", suppressed)?;
        out.counter(
            "withdrawn_copies",
            "Copies that were taken back before they left",
            engine.copies_withdrawn,
        )?;
        let sent = lanes.iter().map(|(lane, counters)| ([("lane", *lane)], counters.sent.copies));
        out.counters("frames_sent", "Frames handed to streams", sent)?;
        let expired = lanes.iter().map(|(lane, counters)| ([("lane", *lane)], counters.expired.copies));
        out.counters("frames_expired", "Frames not sent because their time was over", expired)?;
        let causes = [
            ("not_connected", LossCause::NotConnected),
            ("newest", LossCause::DroppedNewest),
            ("oldest", LossCause::DroppedOldest),
            ("refused", LossCause::Refused),
        ];
        let causes = causes.map(|(name, cause)| ([("cause", name)], engine.lost(cause)));
        out.counters("queue_drops", "Frames that did not fit into queues", causes)?;
        let up = [("payload", traffic.payload_up), ("control", traffic.control_up)];
        out.counters(
            "bytes_up",
            "Bytes of frames written",
            up.map(|(kind, bytes)| ([("kind", kind)], bytes)),
        )?;
        let down = [("payload", traffic.payload_down), ("control", traffic.control_down)];
        out.counters(
            "bytes_down",
            "Bytes of frames read",
            down.map(|(kind, bytes)| ([("kind", kind)], bytes)),
        )
    }

    fn links(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Snapshot { protocols, topics, links, sizes, dials_failed, trace, .. } = &self.snapshot;
        let peers = protocols.iter().map(|(name, count)| ([("protocol", name.as_str())], *count as f64));
        out.gauges("peers", "Connected peers by the protocol of their link", peers)?;
        let meshes = topics.iter().map(|topic| ([("topic", topic.topic.as_str())], topic.mesh as f64));
        out.gauges("mesh_size", "Peers in the mesh of a topic", meshes)?;
        let all = topics.iter().map(|topic| ([("topic", topic.topic.as_str())], topic.subscribers as f64));
        out.gauges("topic_peers", "Peers that have joined a topic", all)?;
        out.gauge("seen_ids", "Ids that are known as seen", sizes.seen as f64)?;
        out.gauge("cached_messages", "Messages that are kept to answer IWANT", sizes.cached as f64)?;
        let lost = "Copies that were owed when their link went down";
        out.counter("link_lost_copies", lost, links.copies_lost)?;
        out.counter("link_cut_copies", "Copies on their way when a stream broke", links.copies_cut)?;
        out.counter("malformed_frames", "Streams closed because of bad frames", links.malformed)?;
        let unsupported = "Connections with peers that speak none of the protocols";
        out.counter("peers_not_supported", unsupported, links.not_supported)?;
        out.counter("dials_failed", "Failed attempts to reach peers of the configuration", *dials_failed)?;
        let Some(trace) = trace else { return Ok(()) };
        let states = [("written", trace.written), ("dropped", trace.dropped), ("failed", trace.failed)];
        let states = states.map(|(state, count)| ([("state", state)], count));
        out.counters("trace_events", "Events of the trace", states)
    }

    fn process(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Usage { cpu_s, rss_bytes, peak_rss_bytes, open_fds } = self.usage;
        if let Some(seconds) = cpu_s {
            let help = "Processor time of the process, user and system";
            let metric = ConstCounter::new(seconds);
            out.metric("cpu_seconds", help, &metric, |encoder| metric.encode(encoder))?;
        }
        let gauges = [
            ("rss_bytes", "Memory of the process", rss_bytes),
            ("peak_rss_bytes", "The most memory that the process has had", peak_rss_bytes),
            ("open_fds", "Open file descriptors", open_fds),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                out.gauge(name, help, value as f64)?;
            }
        }
        Ok(())
    }
}

/// Writes metrics one after the other.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn metric<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        metric: &M,
        write: impl FnOnce(MetricEncoder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        write(self.0.encode_descriptor(name, help, None, metric.metric_type())?)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let metric = ConstCounter::new(value);
        self.metric(name, help, &metric, |encoder| metric.encode(encoder))
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        let metric = ConstGauge::new(value);
        self.metric(name, help, &metric, |encoder| metric.encode(encoder))
    }

    fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, &'l str); N], u64)>,
    ) -> Result<(), Error> {
        self.metric(name, help, &ConstCounter::new(0_u64), |mut encoder| {
            for (labels, value) in values {
                ConstCounter::new(value).encode(encoder.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }

    fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, &'l str); N], f64)>,
    ) -> Result<(), Error> {
        self.metric(name, help, &ConstGauge::new(0.0), |mut encoder| {
            for (labels, value) in values {
                ConstGauge::new(value).encode(encoder.encode_family(&labels)?)?;
            }
            Ok(())
        })
    }
}
