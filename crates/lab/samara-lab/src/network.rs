//! Converts a scenario's network and transport for the simulator: graph, hosts, latencies, faults,
//! transport.

use std::sync::Arc;
use std::time::Duration;

use samara_engine::{NodeRng, Purpose, Time, derive_seed};
use samara_sim::{
    Congestion, Control, DATAGRAM_HEADER, DownlinkQueue, FqCoDel, GatewayConfig, HostConfig, Http2Config,
    Latency, Losses, Network, NicDiscipline, PairLatencies, Partition, QueueSize, QuicConfig, Recovery,
    RtoFloor, SendBuffer, TcpConfig, Transport, UDP_PAYLOAD, Window, Writers,
};

use samara_document::study;
use samara_document::topology::{self, Graph};
use samara_document::{
    FairQueue, HostTable, Inputs, Interface, Names, Placed, Queue, Regions, UplinkQueue, host_names,
    listed_regions,
};
use samara_engine::units::{Rate, Share, Size, Span};
use samara_engine::uplink::LimitConfig;
use samara_scenario::{Fault, FaultKind, Scenario, Stack, TransportKind, latency, losses};

/// The hosts of a run, with their validation times and latencies.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub configs: Vec<HostConfig>,
    /// Time that each host needs to validate a message.
    pub validation: Vec<Duration>,
    /// The class of each host, an index into the scenario's classes; `None` for hosts without a
    /// class.
    pub class: Vec<Option<usize>>,
    /// The names of the hosts in files, by number; `None` if files use their numbers.
    pub names: Option<Arc<Names>>,
    /// The names of the regions of hosts; empty without regions.
    pub regions: Vec<String>,
    pub latency: Latency,
    /// Losses that differ from pair to pair.
    pub losses: Option<Losses>,
}

impl Hosts {
    /// Returns the names of regions, and the region of each host; both are empty without regions.
    pub fn placed(&self) -> (Vec<String>, Vec<u16>) {
        let region = self.configs.iter().map(|host| host.region);
        (self.regions.clone(), if self.regions.is_empty() { Vec::new() } else { region.collect() })
    }
}

/// Returns true if all pairs of hosts have the same latency.
pub fn has_one_latency(network: &samara_document::Network) -> bool {
    network.regions.is_none() && network.latency_file.is_none()
}

/// Reads or draws classes, regions and latencies.
///
/// Observers, the hosts from number `scenario.network.nodes` on, have no class.
pub fn hosts(scenario: &Scenario, inputs: &Inputs, count: u32, seed: u64) -> Result<Hosts, String> {
    let network = &scenario.network;
    let table = network.nodes_file.as_ref().map(|file| HostTable::read(file, inputs)).transpose()?;
    // `class_of_nodes` draws the same classes.
    let mut rng = NodeRng::new(seed, 1, Purpose::Topology);
    let class = classes(scenario, table.as_deref(), count, &mut rng);
    let own = |host: usize| class[host].map(|class| &network.classes[class]);
    let listed = table.as_deref();
    let placed = listed.and_then(|table| table.region.as_ref().map(|region| (table, region)));
    let regions = match placed {
        Some((table, placed)) => listed_regions(network, table, placed, count)?,
        None => regions(scenario, count, seed, &mut rng),
    };
    let placed_in = regions;
    let mut configs: Vec<HostConfig> = placed_in
        .iter()
        .enumerate()
        .map(|(host, region)| {
            let uplink = listed.and_then(|table| table.uplink.as_ref()?.get(host).copied());
            let downlink = listed.and_then(|table| table.downlink.as_ref()?.get(host).copied());
            let class = own(host);
            let uplink = uplink.or(class.and_then(|class| class.uplink)).unwrap_or(network.uplink);
            let downlink = downlink.or(class.and_then(|class| class.downlink)).unwrap_or(network.downlink);
            HostConfig { uplink_bps: uplink.bps(), downlink_bps: downlink.bps(), region: *region }
        })
        .collect();
    if let Some(publisher) = (scenario.family().publisher)(scenario) {
        let config = &mut configs[publisher.host as usize];
        config.uplink_bps = publisher.uplink.map_or(config.uplink_bps, Rate::bps);
        config.downlink_bps = publisher.downlink.map_or(config.downlink_bps, Rate::bps);
    }
    let validation = (0..class.len())
        .map(|host| {
            let listed = listed.and_then(|table| table.validation.as_ref()?.get(host).copied());
            let own = listed.or(own(host).and_then(|class| class.validation_time));
            own.unwrap_or(network.validation_time).duration()
        })
        .collect();
    Ok(Hosts {
        configs,
        validation,
        class,
        names: host_names(network, inputs)?,
        regions: match (&network.regions, placed) {
            (Some(regions), _) => regions.names.clone(),
            (None, Some((table, _))) => table.regions.clone(),
            (None, None) => Vec::new(),
        },
        latency: match &network.regions {
            Some(regions) if regions.pair_factor.is_some() => of_pairs(regions, &placed_in, seed)?,
            _ => latency(scenario, inputs, count)?,
        },
        losses: losses(scenario, inputs, count)?,
    })
}

/// Returns the class of each node, an index into the scenario's classes.
///
/// # Errors
/// The file of nodes cannot be read.
pub fn class_of_nodes(scenario: &Scenario, inputs: &Inputs, seed: u64) -> Result<Vec<Option<usize>>, String> {
    let network = &scenario.network;
    let table = network.nodes_file.as_ref().map(|file| HostTable::read(file, inputs)).transpose()?;
    let mut rng = NodeRng::new(seed, 1, Purpose::Topology);
    Ok(classes(scenario, table.as_deref(), network.nodes, &mut rng))
}

/// Returns the class of each host: that of the file of hosts, or else drawn by the shares.
fn classes(
    scenario: &Scenario,
    table: Option<&HostTable>,
    count: u32,
    rng: &mut NodeRng,
) -> Vec<Option<usize>> {
    let network = &scenario.network;
    if let Some((table, listed)) = table.and_then(|table| Some((table, table.class.as_ref()?))) {
        let number = |class: u16| {
            let name = &table.classes[usize::from(class)];
            network.classes.iter().position(|class| class.name == *name)
        };
        let numbers: Vec<Option<usize>> = (0..table.classes.len() as u16).map(number).collect();
        let mut class: Vec<Option<usize>> =
            listed.iter().map(|class| class.and_then(|class| numbers[usize::from(class)])).collect();
        class.resize(count as usize, None);
        return class;
    }
    let first = network.classes_from.unwrap_or(0);
    let mut class: Vec<Option<usize>> = vec![None; first as usize];
    for (index, spec) in network.classes.iter().enumerate() {
        let share = spec.share.map_or(0.0, Share::fraction);
        let members = share * f64::from(network.nodes - first);
        // A share of a whole number can come out just below it.
        let members = if network.classes_from.is_some() { (members + 1e-6).floor() } else { members.round() };
        class.extend(std::iter::repeat_n(Some(index), members as usize));
    }
    class.resize(network.nodes as usize, None);
    if network.classes_from.is_none() {
        rng.shuffle(&mut class);
    }
    let publisher = (scenario.family().publisher)(scenario);
    let named = publisher.and_then(|publisher| Some((publisher.host, publisher.class?)));
    if let Some((host, name)) = named.filter(|(host, _)| *host < network.nodes) {
        // It takes the place of another host, so classes keep their sizes.
        let is_named = |class: &Option<usize>| class.is_some_and(|class| network.classes[class].name == name);
        let other = class.iter().position(is_named).filter(|_| !is_named(&class[host as usize]));
        other.into_iter().for_each(|other| class.swap(other, host as usize));
    }
    class.resize(count as usize, None);
    class
}

/// Returns the latencies of all pairs of hosts: that of their regions, times the factor of the pair.
fn of_pairs(regions: &Regions, region_of: &[u16], seed: u64) -> Result<Latency, String> {
    let seed = regions.seed.unwrap_or(seed);
    let (least, most) = regions.pair_factor.unwrap_or((1.0, 1.0));
    let factor = |from: u32, to: u32| {
        if regions.placed == Placed::Study {
            return study::pair_factor(seed, (from, to), (least, most));
        }
        let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
        let unit = (derive_seed(seed, pair, Purpose::Network) >> 11) as f64 / (1_u64 << 53) as f64;
        least + (most - least) * unit
    };
    let base = |from: u32, to: u32| {
        let [row, column] = [from, to].map(|host| usize::from(region_of[host as usize]));
        regions.latency[row][column].nanos() as f64
    };
    let hosts = region_of.len() as u32;
    let nanos = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
    let nanos =
        nanos.map(|(from, to)| if from == to { 0 } else { (base(from, to) * factor(from, to)) as u32 });
    PairLatencies::new(region_of.len(), nanos.collect::<Vec<u32>>())
        .map(Latency::Pairs)
        .ok_or_else(|| "network.regions.pair_factor: there are fewer than two hosts".to_owned())
}

fn regions(scenario: &Scenario, count: u32, seed: u64, rng: &mut NodeRng) -> Vec<u16> {
    let Some(regions) = &scenario.network.regions else { return vec![0; count as usize] };
    let total: f64 = regions.weights.iter().sum();
    if regions.placed == Placed::Study {
        let weights: Vec<u64> = regions.weights.iter().map(|weight| *weight as u64).collect();
        let seed = regions.seed.unwrap_or(seed);
        return (0..count).map(|host| study::region(seed, host, &weights) as u16).collect();
    }
    let mut own = regions.seed.map(|seed| NodeRng::new(seed, 2, Purpose::Topology));
    let rng = own.as_mut().unwrap_or(rng);
    if regions.placed == Placed::InOrder {
        let mut sum = 0.0;
        let ends: Vec<u32> = regions
            .weights
            .iter()
            .map(|weight| {
                sum += weight;
                (sum / total * f64::from(scenario.network.nodes)).round() as u32
            })
            .collect();
        let last = ends.len() - 1;
        let of = |host: u32| ends.iter().position(|end| host < *end).unwrap_or(last) as u16;
        return (0..count).map(of).collect();
    }
    (0..count)
        .map(|_| {
            let mut drawn = rng.unit() * total;
            let last = regions.weights.len() - 1;
            let found = regions.weights.iter().position(|weight| {
                drawn -= weight;
                drawn < 0.0
            });
            found.unwrap_or(last) as u16
        })
        .collect()
}

/// Returns the graph of a scenario, and the custody columns of each node. Both have no columns if
/// the scenario has none.
pub fn graph(scenario: &Scenario, inputs: &Inputs, seed: u64) -> Result<(Graph, Vec<Vec<u32>>), String> {
    let (columns, custody) = custody(scenario, inputs, seed)?;
    Ok((topology::build(&scenario.network, (columns, &custody), inputs, seed)?, custody))
}

/// Returns the number of columns and the custody columns of each node; 0 and an empty list without
/// columns.
pub fn custody(scenario: &Scenario, inputs: &Inputs, seed: u64) -> Result<(u32, Vec<Vec<u32>>), String> {
    scenario.family().custody.map_or(Ok((0, Vec::new())), |custody| custody(scenario, inputs, seed))
}

/// Returns the simulator's network: latency, jitter, loss, partitions and gateways.
pub fn network(scenario: &Scenario, hosts: &Hosts, seed: u64) -> Network {
    let spec = &scenario.network;
    let count = hosts.configs.len();
    let latency = hosts.latency.clone();
    let partitions = scenario
        .faults
        .iter()
        .enumerate()
        .filter(|(_, fault)| fault.kind == (FaultKind::Partition {}))
        .map(|(index, fault)| {
            let mut group_of = vec![0; count];
            for host in hit(scenario, index, seed) {
                group_of[host as usize] = 1;
            }
            let until = fault.until.map_or(Time::MAX, |until| Time::from_nanos(until.nanos()));
            Partition { from: Time::from_nanos(fault.at.nanos()), until, group_of }
        })
        .collect();
    let gateways = gateways(spec.regions.as_ref());
    let (jitter, loss, losses) = (spec.jitter.duration(), spec.loss.fraction(), hosts.losses.clone());
    Network { latency, jitter, loss, losses, partitions, gateways }
}

fn gateways(regions: Option<&Regions>) -> Vec<GatewayConfig> {
    let Some((regions, rate)) = regions.and_then(|regions| Some((regions, regions.gateway?))) else {
        return Vec::new();
    };
    let queue = queue(regions.gateway_queue);
    vec![GatewayConfig { up_bps: rate.bps(), down_bps: rate.bps(), queue }; regions.names.len()]
}

/// Returns the least latency between any two hosts, in nanoseconds.
pub fn least_latency_nanos(hosts: &Hosts) -> u64 {
    let least = match &hosts.latency {
        Latency::Constant(latency) => *latency,
        Latency::Uniform { min, .. } => *min,
        Latency::Regions(matrix) => matrix.iter().flatten().min().copied().unwrap_or_default(),
        Latency::Pairs(pairs) => pairs.least(),
    };
    least.as_nanos() as u64
}

/// Returns the latency from one host to another in nanoseconds, or its minimum if it is drawn.
pub fn latency_nanos(hosts: &Hosts, from: u32, to: u32) -> u64 {
    let region = |host: u32| usize::from(hosts.configs[host as usize].region);
    let latency = match &hosts.latency {
        Latency::Constant(latency) => *latency,
        Latency::Uniform { min, .. } => *min,
        Latency::Regions(matrix) => matrix[region(from)][region(to)],
        Latency::Pairs(pairs) => pairs.get(from, to),
    };
    latency.as_nanos() as u64
}

/// Returns the hosts that a fault hits. A random fault never hits the publisher of blocks.
pub fn hit(scenario: &Scenario, fault: usize, seed: u64) -> Vec<u32> {
    let mut rng = NodeRng::new(seed, fault as u64, Purpose::Faults);
    if let Some(hosts) = &scenario.faults[fault].nodes {
        return hosts.clone();
    }
    let publisher = (scenario.family().publisher)(scenario).map(|publisher| publisher.host);
    let mut hosts: Vec<u32> = (0..scenario.network.nodes).filter(|host| Some(*host) != publisher).collect();
    rng.shuffle(&mut hosts);
    let share = scenario.faults[fault].share.fraction();
    hosts.truncate((share * f64::from(scenario.network.nodes)).round() as usize);
    hosts
}

/// Returns the nodes that break the rules of the protocol at some time.
pub fn hostile(scenario: &Scenario, seed: u64) -> impl Iterator<Item = u32> {
    let faults = scenario.faults.iter().enumerate().filter(|(_, fault)| fault.kind.is_hostile());
    faults.flat_map(move |(index, _)| hit(scenario, index, seed))
}

/// Returns the ranges of time in which each node is down, in nanoseconds: from a crash until the next
/// start, or for ever. A node that is down does not crash again, and its first start counts.
pub fn down(scenario: &Scenario, seed: u64) -> Vec<Vec<(u64, u64)>> {
    let mut changes = vec![Vec::new(); scenario.network.nodes as usize];
    for (index, fault) in scenario.faults.iter().enumerate() {
        let (at, until) = (fault.at.nanos(), fault.until.map(|until| until.nanos()));
        let is_down = match fault.kind {
            FaultKind::Crash {} | FaultKind::Vanish {} => at,
            // A member that leaves runs on until another process takes its place.
            FaultKind::Leave {} => until.unwrap_or(u64::MAX),
            _ => continue,
        };
        for host in hit(scenario, index, seed) {
            let of_host = &mut changes[host as usize];
            of_host.push((is_down, true));
            of_host.extend(until.map(|until| (until, false)));
        }
    }
    let ranges = |mut changes: Vec<(u64, bool)>| {
        changes.sort_by_key(|(at, _)| *at);
        let (mut ranges, mut since) = (Vec::new(), None);
        for (at, is_down) in changes {
            match (since, is_down) {
                (None, true) => since = Some(at),
                (Some(from), false) => {
                    ranges.push((from, at));
                    since = None;
                }
                _ => {}
            }
        }
        ranges.extend(since.map(|from| (from, u64::MAX)));
        ranges.retain(|(from, until)| from < until);
        ranges
    };
    changes.into_iter().map(ranges).collect()
}

/// Returns, for each node, whether a fault can keep it from what the protocol promises: any fault but
/// slow links, rivals for them, and links that break for a moment.
pub fn harmed(scenario: &Scenario, seed: u64) -> Vec<bool> {
    let mut harmed = vec![false; scenario.network.nodes as usize];
    let harms = |index: &usize| {
        let fault = &scenario.faults[*index];
        !fault.kind.only_slows() && !is_momentary(fault, scenario)
    };
    for index in (0..scenario.faults.len()).filter(harms) {
        hit(scenario, index, seed).into_iter().for_each(|host| harmed[host as usize] = true);
    }
    harmed
}

/// Returns true if a fault breaks links for less than the least time after which a protocol or a
/// transport gives up.
pub fn is_momentary(fault: &Fault, scenario: &Scenario) -> bool {
    match fault.kind {
        FaultKind::Reset { .. } | FaultKind::Reconnect { .. } => true,
        FaultKind::Cut { .. } => fault.until.is_some_and(|until| {
            until.nanos().saturating_sub(fault.at.nanos()) < least_timeout(scenario).as_nanos() as u64
        }),
        _ => false,
    }
}

/// Returns the least time of silence after which a protocol or a transport gives a peer up.
pub fn least_timeout(scenario: &Scenario) -> Duration {
    let of_transport = transport(scenario).dead_peer_timeout;
    (scenario.family().least_timeout)(scenario).map_or(of_transport, |own| own.min(of_transport))
}

/// Returns the hosts, of so many, to which a fault of links affects the links of a host.
pub fn other_ends(fault: &Fault, host: u32, hosts: u32) -> Vec<u32> {
    let all = fault.kind.peers().map_or_else(|| (0..hosts).collect(), <[u32]>::to_vec);
    all.into_iter().filter(|peer| *peer != host).collect()
}

pub fn transport(scenario: &Scenario) -> Transport {
    let spec = &scenario.transport;
    let payload = |bytes: Option<u32>| bytes.unwrap_or(UDP_PAYLOAD);
    let mut transport = match &spec.kind {
        TransportKind::Ideal { .. } => Transport::ideal(),
        TransportKind::Tcp { .. } => Transport::tcp(),
        TransportKind::Quic { max_udp_payload, .. } => Transport::quic_with(payload(*max_udp_payload)),
        TransportKind::Grpc { http2_window, .. } => Transport::grpc(Http2Config {
            window: http2_window
                .map_or(Window::Estimated, |window| Window::Fixed { bytes: window.bytes() as u32 }),
        }),
        TransportKind::Datagram { max_udp_payload, datagram_header, .. } => {
            Transport::udp_with(payload(*max_udp_payload), datagram_header.unwrap_or(DATAGRAM_HEADER))
        }
    };
    match (&spec.kind, &mut transport.control) {
        (TransportKind::Tcp { tcp: own, .. } | TransportKind::Grpc { tcp: own, .. }, Control::Tcp(tcp)) => {
            if spec.stack == Stack::Shadow {
                *tcp = shadow();
                transport.writers = Writers::InTurn;
            }
            set(&mut tcp.congestion, own.congestion);
            set(&mut tcp.recovery, own.recovery);
            set(&mut tcp.initial_window, own.initial_window);
            set(&mut tcp.receive_window, own.receive_window);
            set(&mut tcp.min_rto, own.min_rto.map(Span::duration));
            set(&mut tcp.delayed_ack, own.delayed_ack.map(Span::duration));
            set(&mut tcp.ack_every, own.ack_every);
            set(&mut tcp.idle_restart, own.idle_restart);
        }
        (
            TransportKind::Quic {
                initial_window,
                receive_window,
                initial_receive_window,
                streams,
                max_ack_delay,
                max_udp_payload,
                ..
            },
            Control::Quic(quic),
        ) => {
            if spec.stack == Stack::QuicGo {
                *quic = QuicConfig::quic_go(payload(*max_udp_payload));
            }
            set(&mut quic.initial_receive_window, *initial_receive_window);
            set(&mut quic.initial_window, *initial_window);
            set(&mut quic.receive_window, *receive_window);
            set(&mut quic.max_ack_delay, max_ack_delay.map(Span::duration));
            set(&mut quic.streams, *streams);
        }
        _ => {}
    }
    transport.limit = spec.kind.node_limit().unwrap_or(true).then(LimitConfig::default);
    if let TransportKind::Quic { ip_headers: Some(false), .. }
    | TransportKind::Datagram { ip_headers: Some(false), .. } = spec.kind
    {
        transport.header -= std::mem::take(&mut transport.ip_header);
    }
    (scenario.family().transport)(scenario, &mut transport);
    if let Some(segment) = spec.kind.max_segment() {
        transport.mss = segment.bytes() as u32;
        if let Control::Tcp(TcpConfig { send_buffer: SendBuffer::Auto { per_packet, min }, .. }) =
            &mut transport.control
        {
            // Two segments for each packet of the window, as with the usual segment size.
            (*per_packet, *min) = (2 * transport.mss, (*min).max(4 * u64::from(transport.mss)));
        }
    }
    transport
}

/// Returns the configuration of TCP in Shadow 3.3, from its source
/// (`src/main/host/descriptor/tcp.c`).
///
/// The window counts packets and grows with acknowledgements even if it is not full. There is no
/// idle restart. A separate acknowledgement follows 1 ms after data, ahead of the data on the link.
/// Shadow does not measure round trips, since it clears the echoed timestamp before
/// acknowledgements leave; the timeout thus stays at its initial second. The window is 10 packets
/// after a timeout. Send buffers start at 128 KiB and grow by 4,808 bytes for each packet of the
/// window.
fn shadow() -> TcpConfig {
    TcpConfig {
        congestion: Congestion::Reno,
        recovery: Recovery::Rfc6675,
        initial_window: 10,
        receive_window: 1000,
        min_rto: Duration::from_secs(1),
        rto_floor: RtoFloor::Sum,
        loss_window: 10,
        initial_rto: Duration::from_secs(1),
        delayed_ack: Duration::from_millis(1),
        ack_every: u32::MAX,
        separate_acks: true,
        idle_restart: false,
        grow_unused: true,
        send_buffer: SendBuffer::Auto { per_packet: 4808, min: 131_072 },
    }
}

/// Returns the bytes that an idle uplink and an idle downlink pass in no time.
pub fn bursts(scenario: &Scenario) -> (u64, u64) {
    let transport = transport(scenario);
    let packet = u64::from(transport.mss + transport.header);
    if let TransportKind::Ideal { .. } = scenario.transport.kind {
        // It queues nowhere by FQ-CoDel.
        return (0, packet);
    }
    let bucket = u64::from(FqCoDel::BURST_BYTES);
    let up = if scenario.network.uplink_queue.is_behind() { bucket } else { 0 };
    let is_fair = matches!(scenario.network.downlink_queue, Queue::FqCodel(_));
    (up, if is_fair { bucket.max(packet) } else { packet })
}

pub fn nic(scenario: &Scenario) -> NicDiscipline {
    match (scenario.network.uplink_queue, scenario.network.interface) {
        (UplinkQueue::FqCodel(queue), _) => NicDiscipline::FqCoDel(fq_codel(queue)),
        (UplinkQueue::Fair {}, _) => NicDiscipline::FqCoDel(FqCoDel::without_drops()),
        (UplinkQueue::Fifo { time: Some(time), .. }, _) => {
            NicDiscipline::DropTail(QueueSize::Time(time.duration()))
        }
        (UplinkQueue::Fifo { time: None, size }, _) => {
            NicDiscipline::DropTail(QueueSize::Bytes(size.map_or(0, Size::bytes)))
        }
        (UplinkQueue::Host {}, Interface::RoundRobin) => NicDiscipline::RoundRobin,
        (UplinkQueue::Host {}, Interface::Fifo) => NicDiscipline::Fifo,
    }
}

pub fn downlink_queue(scenario: &Scenario) -> DownlinkQueue {
    queue(scenario.network.downlink_queue)
}

fn queue(spec: Queue) -> DownlinkQueue {
    match spec {
        Queue::DropTail { size } => DownlinkQueue::DropTail { bytes: size.bytes() },
        Queue::Codel { target, interval } => {
            DownlinkQueue::CoDel { target: target.duration(), interval: interval.duration() }
        }
        Queue::FqCodel(queue) => DownlinkQueue::FqCoDel(fq_codel(queue)),
    }
}

fn fq_codel(FairQueue { target, interval, quantum, buckets }: FairQueue) -> FqCoDel {
    let (target, interval) = (target.duration(), interval.duration());
    FqCoDel { target, interval, quantum: quantum.bytes() as u32, buckets }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
