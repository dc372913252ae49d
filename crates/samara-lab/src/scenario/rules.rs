//! What must hold between the keys of a scenario: what cannot be, and what no host could reach.
//!
//! What needs files or the graph itself is found when the network is [built](crate::topology::Blueprint::build).

use super::error::Finding;
use super::model::{
    Columns, FaultKind, FaultTime, FeedbackSource, Latency, Network, Preset, Publisher, Scenario, Schedule,
    Topology, Workload,
};
use crate::units::{Rate, Share, Span};

/// All that is impossible in a scenario that is well formed.
pub(crate) fn broken(scenario: &Scenario) -> Vec<Finding> {
    let mut rules = Rules { findings: Vec::new() };
    rules.seeds(scenario);
    rules.network(&scenario.network);
    rules.topology(&scenario.network);
    rules.latency(&scenario.network.latency, "network.latency");
    rules.classes(&scenario.network);
    rules.transport(scenario);
    rules.gossipsub(scenario);
    let Workload::Columns(columns) = &scenario.workload;
    rules.columns(columns, &scenario.network);
    rules.times(columns, scenario);
    rules.faults(scenario);
    rules.findings
}

struct Rules {
    findings: Vec<Finding>,
}

impl Rules {
    fn must(&mut self, holds: bool, key: &str, message: impl Into<String>, allowed: impl Into<String>) {
        if !holds {
            self.findings.push(Finding::of(key, message, allowed));
        }
    }

    fn positive_rate(&mut self, rate: Option<Rate>, key: &str) {
        if let Some(rate) = rate {
            self.must(
                rate.bits_per_second() >= 8,
                key,
                format!("nothing gets through at {rate}"),
                "8 bit/s or more",
            );
        }
    }

    fn positive_time(&mut self, time: Option<Span>, key: &str) {
        if let Some(time) = time {
            self.must(time.nanos() > 0, key, format!("{time} is no time at all"), "more than 0 s");
        }
    }

    fn seeds(&mut self, scenario: &Scenario) {
        let mut seeds = scenario.scenario.seeds.clone();
        seeds.sort_unstable();
        for pair in seeds.windows(2).filter(|pair| pair[0] == pair[1]) {
            let message = format!("the seed {} is there twice: its results would be the same", pair[0]);
            self.must(false, "scenario.seeds", message, "different seeds");
        }
    }

    fn network(&mut self, network: &Network) {
        self.positive_rate(Some(network.bandwidth), "network.bandwidth");
        self.positive_rate(network.uplink, "network.uplink");
        self.positive_rate(network.downlink, "network.downlink");
        let loss = network.loss;
        self.must(
            loss < Share::WHOLE,
            "network.loss",
            format!("with a loss of {loss} nothing arrives"),
            "less than 100 %",
        );
        if let super::model::DownlinkQueue::DropTail { size } = network.queue.downlink {
            let key = "network.queue.downlink.size";
            self.must(
                size.bytes() >= 1500,
                key,
                format!("{size} does not hold one packet"),
                "1500 B or more",
            );
        }
        if network.nodes.is_none() && !matches!(network.topology, Topology::File { .. }) {
            self.must(false, "network.nodes", "this key is missing", "how many hosts there are (2 or more)");
        }
    }

    fn topology(&mut self, network: &Network) {
        let Some(nodes) = network.nodes else { return };
        let most = nodes - 1;
        match &network.topology {
            Topology::RandomRegular { degree } => {
                let (key, degree) = ("network.topology.degree", *degree);
                let message = format!("{degree} is impossible: each of {nodes} nodes has {most} others");
                self.must(degree <= most, key, message, format!("1 to {most}"));
                let even = u64::from(nodes) * u64::from(degree) % 2 == 0;
                let message =
                    format!("{nodes} nodes with {degree} links each is impossible: every link has two ends");
                self.must(even, key, message, "an even degree, or an even number of nodes");
                let connected = degree > 1 || nodes == 2;
                let message = format!("nodes with {degree} link each cannot all be reached");
                self.must(connected, key, message, format!("2 to {most}"));
            }
            Topology::Regions { degree, local } => {
                let (key, degree) = ("network.topology.degree", *degree);
                let message = format!("{degree} is impossible: each of {nodes} nodes has {most} others");
                self.must(degree <= most, key, message, format!("1 to {most}"));
                let key = "network.topology.local";
                let message = format!("with {local} of the links within a region, no region reaches another");
                self.must(*local < Share::WHOLE, key, message, "less than 100 %");
                let regions = matches!(network.latency, Latency::Regions(_));
                let message = "there are no regions";
                self.must(
                    regions,
                    "network.topology.kind",
                    message,
                    "this kind together with network.latency.kind = \"regions\"",
                );
            }
            Topology::BarabasiAlbert { m, .. } => {
                let message = format!("{m} is impossible: each of {nodes} nodes has {most} others");
                self.must(*m <= most, "network.topology.m", message, format!("1 to {most}"));
            }
            Topology::FullMesh => {
                let message = format!(
                    "a full mesh of {nodes} nodes has {} links",
                    u64::from(nodes) * u64::from(most) / 2
                );
                self.must(nodes <= 20_000, "network.topology", message, "at most 20000 nodes in a full mesh");
            }
            Topology::Ring | Topology::File { .. } => {}
        }
    }

    fn latency(&mut self, latency: &Latency, key: &str) {
        match latency {
            Latency::Constant { .. } => {}
            Latency::Uniform { min, max } => {
                let message = format!("{max} is less than min = {min}");
                self.must(min <= max, &format!("{key}.max"), message, format!("{min} or more"));
            }
            Latency::Regions(table) => {
                let one = table.table.is_some() == table.region.is_empty();
                let message = "both table and region are given, or neither";
                self.must(one, key, message, "either table = \"FILE\" or a list of region");
                self.regions(table, key);
            }
        }
    }

    fn regions(&mut self, table: &super::model::RegionTable, key: &str) {
        for (index, region) in table.region.iter().enumerate() {
            let here = format!("{key}.region.{index}");
            let twice = table.region[..index].iter().any(|other| other.name == region.name);
            let message = format!("there are two regions {:?}", region.name);
            self.must(!twice, &format!("{here}.name"), message, "different names");
            let names: Vec<&str> = table.region.iter().map(|region| region.name.as_str()).collect();
            for name in region.latency.keys().filter(|name| !names.contains(&name.as_str())) {
                let message = format!("there is no region {name:?}");
                self.must(false, &format!("{here}.latency.{name}"), message, names.join(", "));
            }
            for other in &table.region {
                let given =
                    region.latency.contains_key(&other.name) || other.latency.contains_key(&region.name);
                let message = format!("the latency from {:?} to {:?} is missing", region.name, other.name);
                self.must(given, &format!("{here}.latency"), message, "a latency for each pair of regions");
            }
        }
        let total: u64 = table.region.iter().map(|region| u64::from(region.weight)).sum();
        let weighed = table.region.is_empty() || total > 0;
        self.must(weighed, &format!("{key}.region"), "all weights are 0", "at least one weight above 0");
    }

    fn classes(&mut self, network: &Network) {
        let (mut share, mut count) = (0.0, 0u64);
        for (index, class) in network.class.iter().enumerate() {
            let key = format!("network.class.{index}");
            let twice = network.class[..index].iter().any(|other| other.name == class.name);
            let message = format!("there are two classes {:?}", class.name);
            self.must(!twice, &format!("{key}.name"), message, "different names");
            let one = class.share.is_some() != class.count.is_some();
            self.must(one, &key, "both share and count are given, or neither", "either share or count");
            self.positive_rate(class.bandwidth, &format!("{key}.bandwidth"));
            self.positive_rate(class.uplink, &format!("{key}.uplink"));
            self.positive_rate(class.downlink, &format!("{key}.downlink"));
            share += class.share.map_or(0.0, Share::fraction);
            count += u64::from(class.count.unwrap_or(0));
            if class.region.is_some() && !matches!(network.latency, Latency::Regions(_)) {
                let key = format!("{key}.region");
                self.must(
                    false,
                    &key,
                    "there are no regions",
                    "a region together with network.latency.kind = \"regions\"",
                );
            }
        }
        let message = format!("the classes have {:.4} % of the hosts", share * 100.0);
        self.must(share <= 1.0 + 1e-9, "network.class", message, "at most 100 % together");
        if let Some(nodes) = network.nodes {
            let taken = count as f64 + share * f64::from(nodes);
            let message = format!("the classes have {taken:.1} hosts of {nodes}");
            self.must(
                taken <= f64::from(nodes) + 0.5,
                "network.class",
                message,
                format!("at most {nodes} together"),
            );
        }
    }

    fn transport(&mut self, scenario: &Scenario) {
        let transport = &scenario.transport;
        let mss = transport.mss.map_or(1460, |mss| mss.bytes());
        let message = format!("{mss} B is no packet size");
        self.must((64..=65_535).contains(&mss), "transport.mss", message, "64 B to 65535 B");
        let header = transport.header.map_or(40, |header| header.bytes());
        self.must(header <= 1000, "transport.header", format!("{header} B is too long"), "0 B to 1000 B");
        self.positive_time(transport.min_rto, "transport.min_rto");
        self.positive_time(transport.initial_rto, "transport.initial_rto");
        if let super::model::Established::Dialled { from, until } = transport.established {
            let message = format!("{until} is before from = {from}");
            self.must(from <= until, "transport.established.until", message, format!("{from} or more"));
        }
        if let super::model::Framing::Custom { lead, large, .. } = transport.framing {
            let message = format!("{lead} is not a packet of its own");
            let key = "transport.framing.lead";
            self.must(lead.bytes() <= mss, key, message, format!("0 B to {mss} B"));
            let message = format!("{large} is longer than any layer's overhead");
            self.must(large.bytes() <= 65_535, "transport.framing.large", message, "0 B to 65535 B");
        }
    }

    fn gossipsub(&mut self, scenario: &Scenario) {
        let params = &scenario.gossipsub;
        let (d, low) = match params.preset {
            Preset::Spec => (6, 4),
            Preset::Ethereum => (8, 6),
            Preset::GoLibp2pPubsub => (6, 5),
        };
        let d = params.degree.unwrap_or(d);
        let low = params.degree_low.unwrap_or(low);
        let high = params.degree_high.unwrap_or(12);
        let key = |name: &str| format!("gossipsub.{name}");
        let at_most = format!("at most degree = {d}");
        self.must(low <= d, &key("degree_low"), format!("{low} is more than degree = {d}"), at_most.clone());
        let message = format!("{high} is less than degree = {d}");
        self.must(high >= d, &key("degree_high"), message, format!("{d} or more"));
        let score = params.degree_score.unwrap_or(4);
        self.must(score <= d, &key("degree_score"), format!("{score} is more than degree = {d}"), at_most);
        let out = params.degree_out.unwrap_or(2);
        let holds = out == 0 || (out < low && out < d.div_ceil(2));
        let allowed = format!("0, or less than degree_low = {low} and less than half of degree = {d}");
        self.must(holds, &key("degree_out"), format!("{out} is too many (specification v1.1)"), allowed);
        let (length, gossip) = (params.history_length, params.history_gossip.unwrap_or(3));
        let length = length.unwrap_or(if params.preset == Preset::Ethereum { 6 } else { 5 });
        let message = format!("{gossip} is more than history_length = {length}");
        self.must(gossip <= length, &key("history_gossip"), message, format!("at most {length}"));
        self.positive_time(params.heartbeat, &key("heartbeat"));
        self.positive_time(params.seen_ttl, &key("seen_ttl"));
        self.positive_time(params.iwant_follow_up, &key("iwant_follow_up"));
        let backoff = params.prune_backoff;
        if let Some(backoff) = backoff {
            let message = format!("{backoff} is less than a second, and whole seconds travel");
            self.must(backoff.nanos() >= 1_000_000_000, &key("prune_backoff"), message, "1 s or more");
        }
        self.schedules(scenario);
    }

    fn schedules(&mut self, scenario: &Scenario) {
        let Workload::Columns(columns) = &scenario.workload;
        let params = &scenario.gossipsub;
        for (key, schedule) in [("publish", params.publish), ("forward", params.forward)] {
            let key = format!("gossipsub.{key}");
            match schedule {
                Some(Schedule::Staggered { timeout }) => {
                    self.positive_time(Some(timeout), &format!("{key}.timeout"));
                }
                Some(Schedule::Feedback { source: FeedbackSource::Observer, .. }) => {
                    let allowed = "the number of a node in workload.observer";
                    self.must(
                        columns.observer.is_some(),
                        &format!("{key}.source"),
                        "there is no observer",
                        allowed,
                    );
                }
                _ => {}
            }
        }
    }

    fn columns(&mut self, columns: &Columns, network: &Network) {
        let all = columns.columns;
        if columns.custody_file.is_none() {
            let custody = columns.custody;
            let message = format!("{custody} is impossible: there are {all} columns");
            self.must(custody <= all, "workload.custody", message, format!("1 to {all}"));
        }
        let size = columns.blob_size;
        self.must(size.bytes() > 0, "workload.blob_size", "there is nothing to send", "1 B or more");
        let bytes = columns.column_bytes();
        let message = format!(
            "a column would have {bytes} B: {} blobs of {size}, coded to twice their size, in {all} columns",
            columns.blobs
        );
        self.must(bytes <= 1 << 30, "workload.blob_size", message, "columns of at most 1 GiB");
        let in_range = |node: u32| network.nodes.is_none_or(|nodes| node < nodes);
        let last = network.nodes.map_or(u32::MAX, |nodes| nodes - 1);
        match &columns.publisher {
            Publisher::Node(node) => {
                let message = format!("there is no node {node}");
                self.must(
                    in_range(*node),
                    "workload.publisher",
                    message,
                    format!("0 to {last}, \"random\" or \"class:NAME\""),
                );
            }
            Publisher::Class(name) => {
                let names: Vec<&str> = network.class.iter().map(|class| class.name.as_str()).collect();
                let there = names.contains(&name.as_str());
                let allowed = match names.is_empty() {
                    true => "the number of a node, or \"random\": there are no classes".to_owned(),
                    false => {
                        names.iter().map(|name| format!("\"class:{name}\"")).collect::<Vec<_>>().join(", ")
                    }
                };
                self.must(there, "workload.publisher", format!("there is no class {name:?}"), allowed);
            }
            Publisher::Random => {}
        }
        if let Some(observer) = columns.observer {
            let message = format!("there is no node {observer}");
            self.must(in_range(observer), "workload.observer", message, format!("0 to {last}"));
            let other = columns.publisher != Publisher::Node(observer);
            self.must(other, "workload.observer", "the publisher cannot observe itself", "another node");
        }
    }

    fn times(&mut self, columns: &Columns, scenario: &Scenario) {
        self.positive_time(Some(columns.deadline), "workload.deadline");
        if columns.slots + columns.warm_up_slots > 1 {
            self.positive_time(Some(columns.slot_interval), "workload.slot_interval");
        }
        let intervals = u64::from(columns.slots) + u64::from(columns.warm_up_slots) - 1;
        let spans = [(columns.warm_up, 1), (columns.slot_interval, intervals), (columns.deadline, 1)];
        let total: u128 =
            spans.iter().map(|(span, times)| u128::from(span.nanos()) * u128::from(*times)).sum();
        // 2^62 ns are 146 years; beyond, sums of times could overflow.
        let message = "the run would take longer than can be counted in nanoseconds";
        self.must(total < 1 << 62, "workload.slot_interval", message, "146 years in all");
        if let Some(duration) = scenario.scenario.duration {
            let message = format!("the run would end after {duration}, before the first publication");
            let allowed = format!("more than workload.warm_up = {}", columns.warm_up);
            self.must(duration > columns.warm_up, "scenario.duration", message, allowed);
        }
        if let super::model::Established::Dialled { until, .. } = scenario.transport.established {
            let message = format!("links are dialled until {until}, after the first publication");
            let allowed = format!("less than workload.warm_up = {}", columns.warm_up);
            self.must(until < columns.warm_up, "transport.established.until", message, allowed);
        }
    }

    fn faults(&mut self, scenario: &Scenario) {
        for (index, fault) in scenario.fault.iter().enumerate() {
            let key = |name: &str| format!("fault.{index}.{name}");
            let here = format!("fault.{index}");
            for node in
                fault.nodes.iter().filter(|node| scenario.network.nodes.is_some_and(|nodes| **node >= nodes))
            {
                let last = scenario.network.nodes.map_or(0, |nodes| nodes - 1);
                self.must(false, &key("nodes"), format!("there is no node {node}"), format!("0 to {last}"));
            }
            let drawn = fault.share.is_some() || fault.class.is_some();
            let message = "it hits no hosts, or both named and drawn ones";
            self.must(drawn == fault.nodes.is_empty(), &here, message, "either nodes, or share or class");
            if let Some(class) = &fault.class {
                let names: Vec<&str> =
                    scenario.network.class.iter().map(|class| class.name.as_str()).collect();
                let message = format!("there is no class {class:?}");
                self.must(names.contains(&class.as_str()), &key("class"), message, names.join(", "));
            }
            if let FaultTime::Drawn { from, until } = fault.at {
                let message = format!("{until} is before from = {from}");
                self.must(from <= until, &key("at.until"), message, format!("{from} or more"));
            }
            if let Some(until) = fault.until {
                let begin = fault.at.latest();
                let message = format!("{until} is not after the beginning at {begin}");
                self.must(until > begin, &key("until"), message, format!("more than {begin}"));
            }
            let belongs = [
                ("silent", fault.silent.is_some(), FaultKind::Crash),
                ("uplink", fault.uplink.is_some(), FaultKind::Slow),
                ("downlink", fault.downlink.is_some(), FaultKind::Slow),
                ("mean_up", fault.mean_up.is_some(), FaultKind::Churn),
                ("mean_down", fault.mean_down.is_some(), FaultKind::Churn),
            ];
            for (name, given, kind) in belongs {
                let message = "it means nothing for this kind of fault";
                let allowed = format!("only with kind = \"{}\"", format!("{kind:?}").to_lowercase());
                self.must(!given || fault.kind == kind, &key(name), message, allowed);
            }
            self.positive_rate(fault.uplink, &key("uplink"));
            self.positive_rate(fault.downlink, &key("downlink"));
            let slow = fault.uplink.is_some() || fault.downlink.is_some();
            self.must(
                fault.kind != FaultKind::Slow || slow,
                &here,
                "it does not say how slow",
                "uplink, downlink or both",
            );
            let churn = fault.mean_up.is_some() && fault.mean_down.is_some();
            self.must(
                fault.kind != FaultKind::Churn || churn,
                &here,
                "it does not say how often",
                "mean_up and mean_down",
            );
            self.positive_time(fault.mean_up, &key("mean_up"));
            self.positive_time(fault.mean_down, &key("mean_down"));
        }
    }
}
