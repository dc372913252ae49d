//! Checks of values. Each problem names the key, the value that was found, and the allowed values.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use samara_document::keys::get;
use samara_document::{
    FairQueue, Interface, Network, Placed, Problem, Queue, Regions, Topology, UplinkQueue,
};
use samara_engine::config::ConfigError;
use samara_engine::units::{Share, Size, Span};
use samara_sim::{FqCoDel, LATENCY_FLOOR, PairLatencies};

use crate::{FaultKind, Scenario, Stack, TransportKind};

/// Maximum number of links between nodes: each has state at both ends.
const LINKS_MAX: u64 = 1 << 26;
/// Maximum number of regions: each pair has a latency.
pub(crate) const REGIONS_MAX: usize = 1_000;
/// Maximum virtual time of a run: a year.
const RUN_MAX: Span = Span::from_millis(8_760 * 3_600_000);
/// Minimum of periods that repeat through a run, far below those of real networks.
const PERIOD_MIN: Span = Span::from_millis(1);
/// Number of heartbeats of all nodes above which a note says so.
const HEARTBEATS_NOTED: u64 = 1_000_000_000;
/// Maximum number of bytes of a name that becomes that of a directory. Suffixes follow.
const NAME_BYTES_MAX: usize = 200;
/// Maximum latency and jitter of a path, far above those of real networks: the simulator visits every
/// step of a path.
const PATH_MAX: Span = Span::from_millis(60_000);

/// Returns the problems of a scenario, and a note on a run that would take long. Checks whose
/// computations need a value in its range follow its own check, and are left out if that fails.
pub(crate) fn problems(
    scenario: &Scenario,
    given: &toml::Table,
    text: &str,
) -> (Vec<Problem>, Option<String>) {
    let mut checks = Checks { text, problems: Vec::new(), longest: Span::default() };
    let family = scenario.family();
    for (key, why) in family.unused.iter().filter(|(key, _)| get(given, key).is_some()) {
        checks.wrong(key, format!("has no effect in [{}]: {why}; remove it", family.section));
    }
    checks.about(scenario);
    if let Some((key, message)) = wrong_nodes(scenario, given) {
        checks.wrong(key, message);
        checks.name_defaults(scenario, given);
        return (checks.problems, None);
    }
    checks.network(scenario);
    checks.transport(scenario);
    if family.has_topology() {
        checks.topology(scenario);
    }
    (family.check)(&mut checks, scenario);
    checks.faults(scenario);
    checks.published(scenario);
    checks.name_defaults(scenario, given);
    let note = checks.long_run(scenario);
    (checks.problems, note)
}

/// Explains why a scenario cannot have its number of nodes. Returns the key that determines it, which
/// may be that of a file, and the message.
pub(crate) fn wrong_nodes(scenario: &Scenario, given: &toml::Table) -> Option<(&'static str, String)> {
    let (nodes, most) = (scenario.network.nodes, scenario.family().nodes_max);
    if (2..=most).contains(&nodes) {
        return None;
    }
    let files = ["network.nodes_file", "network.latency_file", "network.topology.file"];
    let file = files.into_iter().find(|key| get(given, key).is_some());
    Some(match file.filter(|_| get(given, "network.nodes").is_none()) {
        Some(file) => (file, format!("has {nodes} nodes; allowed are 2 to {most}")),
        None => ("network.nodes", format!("is {nodes}; allowed is 2 to {most}")),
    })
}

/// Explains why a class of nodes cannot have a name.
pub(crate) fn wrong_class(name: &str) -> Option<String> {
    if name.is_empty() || name.contains(['.', ':']) {
        return Some(format!("is \"{name}\"; expected a name without . and : for by_class.NAME of metrics"));
    }
    let is_reserved = name == OTHER_NODES;
    is_reserved.then(|| format!("is \"{name}\", the name of all nodes without a class; choose another one"))
}

/// The remedy for two keys that exclude each other.
pub fn keep_one(one: &str, other: &str) -> String {
    format!("keep one of them (--set {one}= or --set {other}= removes one)")
}

/// The name of the nodes without a class in metrics by class.
pub const OTHER_NODES: &str = "others";

pub struct Checks<'a> {
    text: &'a str,
    problems: Vec<Problem>,
    /// Maximum virtual time of the run, if it is known.
    longest: Span,
}

impl Checks<'_> {
    /// Returns the number of problems so far.
    pub fn count(&self) -> usize {
        self.problems.len()
    }

    /// Adds a problem with the value of a key.
    pub fn wrong(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(Problem::at(self.text, key, message));
    }

    pub fn range<T: PartialOrd + Display>(&mut self, key: &str, found: T, least: T, most: T) {
        if found < least || found > most {
            self.wrong(key, format!("is {found}; allowed is {least} to {most}"));
        }
    }

    /// Checks the parts of a run's virtual time. `key` is that of the most important part.
    pub fn lasts(&mut self, key: &str, parts: &[Span]) {
        let nanos = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.nanos()));
        self.longest = Span::from_nanos(nanos.max(self.longest.nanos()));
        if nanos > RUN_MAX.nanos() {
            let all = Span::from_nanos(nanos);
            self.wrong(key, format!("makes a run of {all}; a run has at most {RUN_MAX} of virtual time"));
        }
    }

    /// Checks a period that repeats through the run, if there is one.
    pub fn period(&mut self, key: &str, period: Span) {
        if period.nanos() > 0 && period < PERIOD_MIN {
            self.wrong(key, format!("is {period}; allowed is {PERIOD_MIN} or more"));
        }
    }

    /// Returns a note on a run that takes long, since nodes have work in each of its seconds.
    fn long_run(&self, scenario: &Scenario) -> Option<String> {
        let beat = (scenario.selected.protocol_kind().heartbeat)(scenario);
        let beat = beat.filter(|beat| *beat >= PERIOD_MIN).unwrap_or(Span::from_millis(1_000));
        let beats = u128::from(self.longest.nanos() / beat.nanos()) * u128::from(scenario.network.nodes);
        (beats > u128::from(HEARTBEATS_NOTED)).then(|| {
            format!(
                "a run simulates up to {} of {} nodes, {beats} heartbeats of {beat} in all, which takes hours; Ctrl-C \
                 ends it",
                self.longest, scenario.network.nodes
            )
        })
    }

    pub fn sizes(&mut self, key: &str, found: Size, least: u64, most: u64) {
        self.range(key, found, Size::from_bytes(least), Size::from_bytes(most));
    }

    /// Rejects keys that a section must not have. Each key comes with whether it is present.
    pub fn refuse<'k>(
        &mut self,
        section: &str,
        keys: impl IntoIterator<Item = (&'k str, bool)>,
        message: &str,
    ) {
        for (key, _) in keys.into_iter().filter(|(_, is_given)| *is_given) {
            self.wrong(&format!("{section}.{key}"), message);
        }
    }

    /// Rejects keys of a section beside another key of it. Each comes with whether it is present.
    pub fn exclude<'k>(
        &mut self,
        other: &str,
        keys: impl IntoIterator<Item = (&'k str, bool)>,
        message: &str,
    ) {
        let section = other.split('.').next().unwrap_or_default();
        for (key, _) in keys.into_iter().filter(|(_, is_given)| *is_given) {
            let key = format!("{section}.{key}");
            self.wrong(&key, format!("{message}; {}", keep_one(&key, other)));
        }
    }

    /// Adds to problems with values that nobody has set that these are defaults.
    fn name_defaults(&mut self, scenario: &Scenario, given: &toml::Table) {
        if self.problems.is_empty() {
            return;
        }
        let (network, transport) = Default::default();
        let defaults =
            Scenario { network, transport, selected: scenario.selected.defaults(), ..scenario.clone() };
        let [written, defaults] = [scenario, &defaults].map(|one| one.to_toml().unwrap_or_default());
        for Problem { key, message, .. } in &mut self.problems {
            let Some(key) = key.as_deref().filter(|key| get(given, key).is_none()) else { continue };
            // Parameters of a protocol have their defaults from its preset.
            let value = get(&written, key).filter(|value| !value.is_table());
            let has_default = value.is_some() && value == get(&defaults, key);
            let is_of_preset = key.starts_with("protocol.") && message.starts_with("found ");
            if has_default || is_of_preset {
                *message += "; this is the default, since the scenario does not set the key";
            }
        }
    }

    fn about(&mut self, scenario: &Scenario) {
        let name = &scenario.scenario.name;
        if name.len() > NAME_BYTES_MAX {
            let message = format!("has {} bytes; results directories allow {NAME_BYTES_MAX}", name.len());
            self.wrong("scenario.name", message);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            self.wrong(
                "scenario.name",
                format!("is \"{name}\"; results directories need letters, digits, - and _ only"),
            );
        }
        let mut seeds = BTreeSet::new();
        if let Some(seed) = scenario.scenario.seeds.iter().find(|seed| !seeds.insert(**seed)) {
            self.wrong("scenario.seeds", format!("has {seed} twice; expected different seeds"));
        }
        if scenario.scenario.seeds.is_empty() {
            self.wrong("scenario.seeds", "is empty; expected at least one seed, for example [1]");
        }
    }

    fn network(&mut self, scenario: &Scenario) {
        let network = &scenario.network;
        let is_ideal = matches!(scenario.transport.kind, TransportKind::Ideal { .. });
        for (key, rate) in [("network.uplink", network.uplink), ("network.downlink", network.downlink)] {
            if rate.bps() == 0 {
                self.wrong(key, "is 0 bit/s; a node needs a positive rate");
            }
        }
        for (key, time) in [("network.latency", network.latency), ("network.jitter", network.jitter)] {
            if time > PATH_MAX {
                self.wrong(key, format!("is {time}; allowed is at most {PATH_MAX}"));
            }
        }
        if network.loss.fraction() >= 1.0 {
            self.wrong("network.loss", format!("is {}; allowed is below 100 %", network.loss));
        }
        if network.loss.fraction() > 0.0 && is_ideal {
            self.wrong(
                "network.loss",
                "the ideal transport does not retransmit; use kind = \"tcp\", \"quic\" or \"datagram\", or no loss",
            );
        }
        let loses = network.latency_file.as_ref().is_some_and(|spec| spec.loss.is_some());
        if loses && is_ideal {
            self.wrong(
                "network.latency_file",
                "has a loss, but the ideal transport does not retransmit; use kind = \"tcp\", \"quic\" or \"datagram\", or no loss",
            );
        }
        let shares: f64 = network.classes.iter().filter_map(|class| Some(class.share?.fraction())).sum();
        if shares > 1.0 + 1e-9 {
            self.wrong(
                "network.class",
                format!("the shares add up to {:.4} %; at most 100 %", shares * 100.0),
            );
        }
        if network.classes_from.is_some_and(|first| first >= network.nodes) {
            self.range(
                "network.classes_from",
                network.classes_from.unwrap_or(0),
                0,
                network.nodes.saturating_sub(1),
            );
        }
        for (i, class) in network.classes.iter().enumerate() {
            if [class.uplink, class.downlink].into_iter().flatten().any(|rate| rate.bps() == 0) {
                self.wrong(&format!("network.class.{i}"), "has a rate of 0 bit/s; it must be positive");
            }
            if class.custody.is_some() && scenario.family().custody.is_none() {
                let message =
                    format!("the nodes of [{}] keep no columns; remove it", scenario.family().section);
                self.wrong(&format!("network.class.{i}.custody"), message);
            }
            let (name, before) = (&class.name, &network.classes[..i]);
            let key = format!("network.class.{i}.name");
            if let Some(why) = wrong_class(name) {
                self.wrong(&key, why);
            } else if before.iter().any(|other| other.name == *name) {
                self.wrong(&key, format!("is \"{name}\", as that of another class; choose another one"));
            }
        }
        if let Some(regions) = &network.regions {
            self.regions(regions);
        }
        self.queues(network);
    }

    fn queues(&mut self, network: &Network) {
        if let UplinkQueue::FqCodel(queue) = network.uplink_queue {
            self.fair_queue("network.uplink_queue", queue);
        }
        if let UplinkQueue::Fifo { time, size } = network.uplink_queue {
            match (time, size) {
                (Some(_), Some(_)) | (None, None) => {
                    let message = "needs either `time` (such as \"500 ms\") or `size` (such as \"256 KiB\")";
                    self.wrong("network.uplink_queue", message);
                }
                (Some(time), None) => {
                    let (least, most) = (Span::from_millis(1), Span::from_millis(60_000));
                    self.range("network.uplink_queue.time", time, least, most);
                }
                (None, Some(size)) => self.sizes("network.uplink_queue.size", size, 3_000, 1 << 30),
            }
        }
        if network.uplink_queue.is_behind() && network.interface != Interface::RoundRobin {
            self.wrong(
                "network.interface",
                format!(
                    "is replaced by network.uplink_queue; {}",
                    keep_one("network.interface", "network.uplink_queue")
                ),
            );
        }
        let gateways =
            network.regions.as_ref().map(|regions| ("network.regions.gateway_queue", regions.gateway_queue));
        for (key, queue) in gateways.into_iter().chain([("network.downlink_queue", network.downlink_queue)]) {
            if let Queue::FqCodel(queue) = queue {
                self.fair_queue(key, queue);
            }
        }
    }

    fn fair_queue(&mut self, key: &str, queue: FairQueue) {
        // The least quantum of Linux, and a step of segments at most.
        self.sizes(&format!("{key}.quantum"), queue.quantum, 256, 1 << 20);
        self.range(&format!("{key}.buckets"), queue.buckets, 1, FqCoDel::BUCKETS_MAX);
    }

    fn regions(&mut self, regions: &Regions) {
        let count = regions.names.len();
        if count > REGIONS_MAX {
            self.wrong("network.regions", format!("has {count} regions; allowed are at most {REGIONS_MAX}"));
            return;
        }
        if count == 0 || regions.weights.len() != count || regions.latency.len() != count {
            let rows = regions.latency.len();
            self.wrong(
                "network.regions",
                format!(
                    "{count} names, {} weights and {rows} rows of latency; each region needs a name, a weight, and a \
                     row with a latency to every region (or weights_file, and network.latency_file)",
                    regions.weights.len()
                ),
            );
            return;
        }
        let mut names = BTreeSet::new();
        if let Some((at, name)) = regions.names.iter().enumerate().find(|(_, name)| !names.insert(*name)) {
            let message = format!("is \"{name}\" again; each region needs a name of its own");
            self.wrong(&format!("network.regions.names.{at}"), message);
        }
        let is_wrong = |weight: &&f64| !weight.is_finite() || **weight < 0.0;
        if let Some(weight) = regions.weights.iter().find(is_wrong) {
            let message = format!("has {weight}; expected 0 or more");
            self.wrong("network.regions.weights", message);
        } else if regions.weights.iter().sum::<f64>() <= 0.0 {
            self.wrong("network.regions.weights", "is 0 for all regions; expected more for at least one");
        }
        let is_whole = |weight: &f64| weight.fract() == 0.0 && *weight < 1e9;
        if regions.placed == Placed::Study && !regions.weights.iter().all(is_whole) {
            self.wrong("network.regions.weights", "has fractions; placed = \"study\" needs whole numbers");
        }
        if let Some((at, row)) = regions.latency.iter().enumerate().find(|(_, row)| row.len() != count) {
            let message = format!("has {} values; expected one for each of the {count} regions", row.len());
            self.wrong(&format!("network.regions.latency.{at}"), message);
            return;
        }
        self.gateways(regions);
        self.pair_factor(regions);
    }

    fn pair_factor(&mut self, regions: &Regions) {
        let Some((least, most)) = regions.pair_factor else { return };
        let key = "network.regions.pair_factor";
        if !(least > 0.0 && least <= most && most <= 100.0) {
            self.wrong(
                key,
                format!("is [{least}, {most}]; expected a minimum above 0 and a maximum up to 100"),
            );
        }
        if regions.gateway.is_some() {
            self.wrong(key, "is not possible with network.regions.gateway; remove one of them");
        }
        let longest = regions.latency.iter().flatten().map(|latency| latency.nanos()).max().unwrap_or(0);
        if longest as f64 * most >= PairLatencies::MAX.as_nanos() as f64 {
            let limit = PairLatencies::MAX;
            self.wrong(key, format!("makes latencies longer than {limit:?}; expected a smaller maximum"));
        }
    }

    /// The simulator splits the path between regions into three parts, none of which is shorter
    /// than the shortest path.
    fn gateways(&mut self, regions: &Regions) {
        let Some(rate) = regions.gateway else { return };
        if rate.bps() == 0 {
            self.wrong("network.regions.gateway", "is 0 bit/s; it must be positive");
        }
        let all = regions.latency.iter().flatten().map(|latency| latency.duration());
        let least = all.min().unwrap_or_default().max(LATENCY_FLOOR);
        for (from, row) in regions.latency.iter().enumerate() {
            let near = |(to, latency): &(usize, Duration)| *to != from && *latency < 3 * least;
            if let Some((to, latency)) = row.iter().map(|latency| latency.duration()).enumerate().find(near) {
                let (from, to) = (&regions.names[from], &regions.names[to]);
                self.wrong(
                    "network.regions.latency",
                    format!(
                        "is {latency:?} from {from} to {to}; with gateways, expected at least three times the lowest latency of all, \
                         {least:?}"
                    ),
                );
                return;
            }
        }
    }

    fn transport(&mut self, scenario: &Scenario) {
        use TransportKind::{Datagram, Grpc, Quic, Tcp};
        let kind = &scenario.transport.kind;
        if let Quic { max_udp_payload: Some(bytes), .. } | Datagram { max_udp_payload: Some(bytes), .. } =
            kind
        {
            // RFC 9000 sections 14.1 and 18.2.
            self.range("transport.max_udp_payload", *bytes, 1200, 65_527);
        }
        if let Some(segment) = kind.max_segment() {
            // The minimum for every host (RFC 1122 section 4.2.2.6), and the maximum that fits into
            // a packet.
            self.sizes("transport.max_segment", segment, 536, 65_483);
        }
        if let Tcp { unsent: Some(unsent), .. } = kind {
            self.sizes("transport.unsent", *unsent, 4_096, 1 << 30);
        }
        if let Grpc { http2_window: Some(window), .. } = kind {
            // RFC 9113 section 6.9.1.
            self.sizes("transport.http2_window", *window, 1, (1 << 31) - 1);
        }
        if let Datagram { datagram_header: Some(bytes), .. } = kind {
            // The number of the frame is the least that a receiver needs.
            self.range("transport.datagram_header", *bytes, 4, 256);
        }
        if let Some(packets) = kind.tcp().and_then(|tcp| tcp.ack_every) {
            self.range("transport.ack_every", packets, 1, 64);
        }
        // Below 2^14 ms: RFC 9000 section 18.2.
        let most = Span::from_millis((1 << 14) - 1);
        if let Quic { max_ack_delay: Some(delay), .. } = kind
            && *delay > most
        {
            self.wrong("transport.max_ack_delay", format!("is {delay}; allowed is at most {most}"));
        }
        if let Quic { initial_receive_window: Some(0), .. } = kind {
            self.wrong("transport.initial_receive_window", "is 0 packets; expected 1 or more");
        }
        let wrong_stack = match (scenario.transport.stack, kind) {
            (Stack::Linux, _) | (Stack::Shadow, Tcp { .. } | Grpc { .. }) | (Stack::QuicGo, Quic { .. }) => {
                None
            }
            (Stack::Shadow, _) => {
                Some("\"shadow\", an implementation of TCP; remove it, or use kind = \"tcp\"")
            }
            (Stack::QuicGo, _) => {
                Some("\"quic-go\", which needs kind = \"quic\"; remove it, or set that kind")
            }
        };
        if let Some(stack) = wrong_stack {
            self.wrong("transport.stack", format!("is {stack}"));
        }
    }

    fn topology(&mut self, scenario: &Scenario) {
        let (nodes, topology) = (scenario.network.nodes, &scenario.network.topology);
        let links = {
            let nodes = u64::from(nodes);
            let drawn = match topology {
                Topology::RandomRegular { degree, .. } => nodes * u64::from(*degree) / 2,
                Topology::RandomDials { dials, .. } => nodes * u64::from(*dials),
                Topology::BarabasiAlbert { attachments, .. } => nodes * u64::from(*attachments),
                Topology::FullMesh { .. } => nodes * (nodes - 1) / 2,
                Topology::Ring { .. } | Topology::File { .. } => nodes,
            };
            // Subscribers look for that many peers in each of their topics.
            let topics = (scenario.family().topics)(scenario);
            let found = topics.saturating_mul(u64::from(topology.topic_peers_min())).min(nodes);
            drawn.saturating_add(nodes * found)
        };
        if links > LINKS_MAX {
            let message = format!(
                "may have {links} links of {nodes} nodes; allowed are at most {LINKS_MAX}; use fewer nodes, or fewer links of a node"
            );
            self.wrong("network.topology", message);
        }
        match *topology {
            Topology::RandomRegular { degree, .. } => {
                if degree == 0 || degree >= nodes {
                    self.wrong(
                        "network.topology.degree",
                        format!(
                            "is {degree}, with {nodes} nodes; allowed is 1 to {most}; change the degree or network.nodes",
                            most = nodes.saturating_sub(1)
                        ),
                    );
                } else if u64::from(nodes) * u64::from(degree) % 2 == 1 {
                    self.wrong(
                        "network.topology.degree",
                        format!(
                            "is {degree} with {nodes} nodes; every link has two ends, so nodes x degree must be even; change the degree or \
                             network.nodes",
                        ),
                    );
                }
            }
            Topology::BarabasiAlbert { attachments, .. } => {
                self.range("network.topology.attachments", attachments, 1, nodes.saturating_sub(1));
            }
            Topology::RandomDials { dials, .. } => {
                self.range("network.topology.dials", dials, 1, nodes.saturating_sub(1));
            }
            Topology::File { .. } | Topology::FullMesh { .. } | Topology::Ring { .. } => {}
        }
    }

    /// Checks that publishing, which starts at `key`, starts after the links are up.
    pub fn starts_after_links(&mut self, key: &str, warm_up: Span, scenario: &Scenario) {
        let links = &scenario.transport.links;
        if links.until < links.from {
            self.wrong("transport.links.until", format!("is {}, before from = {}", links.until, links.from));
        }
        if warm_up <= links.until {
            self.wrong(
                key,
                format!("is {warm_up}; it must be later than transport.links.until = {}", links.until),
            );
        }
    }

    /// Reports an error of an engine's configuration. `key` is that of the field in `[protocol]`.
    pub fn engine(&mut self, error: &ConfigError, key: Option<&str>) {
        let message = format!("found {}, expected {}", error.found, error.expected);
        match key {
            Some(key) => self.wrong(&format!("protocol.{key}"), message),
            None => self.wrong("protocol", format!("{}: {message}", error.field)),
        }
    }

    fn faults(&mut self, scenario: &Scenario) {
        let end = (scenario.family().end)(scenario);
        for (i, fault) in scenario.faults.iter().enumerate() {
            let key = |name: &str| format!("fault.{i}.{name}");
            if fault.share.fraction() > 1.0 {
                self.wrong(&key("share"), format!("is {}; allowed is up to 100 %", fault.share));
            }
            match &fault.nodes {
                None if fault.share == Share::default() => {
                    let message = "is 0 %, and nodes is absent; set a share, for example \"5 %\", or nodes";
                    self.wrong(&key("share"), message);
                }
                Some(_) if fault.share != Share::default() => {
                    let remedy = keep_one(&key("share"), &key("nodes"));
                    self.wrong(&key("share"), format!("is set, and nodes as well; {remedy}"));
                }
                Some(hosts) => self.hosts(&key("nodes"), hosts, scenario.network.nodes),
                None => {}
            }
            match (&fault.kind, fault.until) {
                (FaultKind::Partition {} | FaultKind::Cut { .. }, None) => {
                    let what = fault.kind.name();
                    let message = format!("is missing; a {what} needs an end, for example \"20 s\"");
                    self.wrong(&key("until"), message);
                }
                (FaultKind::Reset { .. } | FaultKind::Reconnect { .. }, Some(_)) => {
                    let what = fault.kind.name();
                    let why = "nodes connect again at once; remove it";
                    self.wrong(&key("until"), format!("has no effect with kind = \"{what}\"; {why}"));
                }
                (_, Some(until)) if until <= fault.at => {
                    let message = format!("is {until}; it must be later than at = {}", fault.at);
                    self.wrong(&key("until"), message);
                }
                _ => {}
            }
            if let Some(factor) = fault.kind.factor() {
                let is_count = (1.0..=100.0).contains(&factor);
                let is_whole = is_count && factor.fract() == 0.0;
                let (is_right, expected) = match fault.kind {
                    FaultKind::Flood { .. } | FaultKind::Invent { .. } => {
                        (is_count, "expected 1 to 100 frames")
                    }
                    FaultKind::Upload { .. } => (is_whole, "expected 1 to 100 connections, a whole number"),
                    FaultKind::Node { .. } => (is_whole, "expected 1 to 100 links, a whole number"),
                    _ => (factor > 0.0 && factor <= 1.0, "it must be above 0 and at most 1"),
                };
                if !is_right {
                    self.wrong(&key("factor"), format!("is {factor}; {expected}"));
                }
            }
            let loses = matches!(fault.kind, FaultKind::Cut { .. } | FaultKind::Partition {});
            if loses && matches!(scenario.transport.kind, TransportKind::Ideal { .. }) {
                self.wrong(
                    &key("kind"),
                    "loses packets, but the ideal transport does not retransmit; use transport.kind = \"tcp\" or another",
                );
            }
            if fault.kind == (FaultKind::Leave {}) && !scenario.family().can_leave {
                let section = scenario.family().section;
                let message = format!("is \"leave\", which nodes of [{section}] cannot do; use \"crash\"");
                self.wrong(&key("kind"), message);
            }
            if fault.kind.rival().is_some() && !scenario.network.uplink_queue.is_behind() {
                let message = "needs a queue that the node shares with others behind its router; set network.uplink_queue to a kind other than \"host\", for example { kind = \"fifo\", time = \"500 ms\" }";
                self.wrong(&key("kind"), message);
            }
            if let Some(message) = (scenario.family().wrong_fault)(scenario, &fault.kind) {
                self.wrong(&key("kind"), message);
            }
            if let Some(hosts) = fault.kind.peers() {
                self.hosts(&key("peers"), hosts, scenario.network.nodes);
            }
            if let Some(end) = end.filter(|end| fault.at >= *end) {
                let message =
                    format!("is {}, but the run ends at {end} at the latest; use an earlier time", fault.at);
                self.wrong(&key("at"), message);
            }
        }
    }

    /// Checks numbers of hosts, of which there are so many.
    fn hosts(&mut self, key: &str, hosts: &[u32], nodes: u32) {
        if hosts.is_empty() {
            self.wrong(key, "is empty; expected numbers of nodes, for example [1]");
        } else if let Some(host) = hosts.iter().find(|host| **host >= nodes) {
            self.wrong(key, format!("has node {host}; nodes are numbered 0 to {}", nodes - 1));
        }
    }

    fn published(&mut self, scenario: &Scenario) {
        for (i, figure) in scenario.published.iter().enumerate() {
            if let Some(message) = figure.problem() {
                self.wrong(&format!("published.{i}"), message);
            }
            let runs = [Some(&figure.run), figure.over.as_ref()];
            for run in runs.into_iter().flatten() {
                let is_there = |spec: &crate::RunSpec| spec.name == *run;
                if !scenario.runs.is_empty() && !scenario.runs.iter().any(is_there) {
                    self.wrong(&format!("published.{i}"), format!("there is no run \"{run}\""));
                }
            }
        }
    }
}
