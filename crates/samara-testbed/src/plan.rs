//! Topics, publications and their times, as in the simulation with the same seed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samara_apps::columns::{Blocks, CellPlan};
use samara_apps::messages::TOPIC;
use samara_engine::units::Span;
use samara_gossipsub::Piece;
use samara_gossipsub::config::Parameters;
use samara_gossipsub::rpc::{Message, Topic};
use samara_lab::messages::Plan;
use samara_lab::network::{self, Hosts};
use samara_lab::pool::roles;
use samara_node::model::{BlockSpec, MessageSpec, Publication};
use samara_scenario::topology::Graph;
use samara_scenario::{Inputs, Queue};
use samara_sim::Recovery;
use samara_spec::columns::{Cells, Columns, Pieces};
use samara_spec::messages::Messages;
use samara_spec::mix::Mix;
use samara_spec::pool::Transactions;
use samara_spec::{Point, Scenario, TransportKind};

use crate::client::Metrics;
use crate::{pools, rivals};

/// The complete plan of a run.
pub(crate) struct Wanted {
    pub(crate) hosts: Hosts,
    pub(crate) graph: Graph,
    /// The topics of each node.
    pub(crate) topics: Vec<Vec<String>>,
    pub(crate) job: Job,
}

pub(crate) enum Job {
    /// Blocks of columns, and the custody of each node.
    Columns {
        custody: Vec<Vec<u32>>,
        columns: Blocks,
        /// Set if nodes exchange cells.
        cells: Option<Box<CellPlan>>,
    },
    Messages {
        plan: Plan,
    },
    /// Transactions at pools, with the group of each node.
    Transactions {
        roles: Vec<Option<usize>>,
    },
}

impl Wanted {
    pub(crate) fn new(point: &Point, inputs: &Inputs) -> Result<Self, String> {
        let scenario = &point.scenario;
        let nodes = scenario.network.nodes;
        let hosts = network::hosts(scenario, inputs, nodes, point.seed)?;
        possible(scenario)?;
        if let Some(key) = needs_hosts(scenario, &hosts) {
            return Err(format!(
                "{key}: samara node does not have it; remove it, or use samara testbed or samara run"
            ));
        }
        let (graph, custody) = network::graph(scenario, inputs, point.seed)?;
        if scenario.find::<Transactions>().is_some() {
            let job = Job::Transactions { roles: roles(scenario, point.seed) };
            return Ok(Self { hosts, graph, topics: vec![Vec::new(); nodes as usize], job });
        }
        if scenario.find::<Messages>().is_some() {
            let plan = Plan::of(scenario, inputs, point.seed)?;
            let topics = vec![vec![TOPIC.to_owned()]; nodes as usize];
            return Ok(Self { hosts, graph, topics, job: Job::Messages { plan } });
        }
        let workload: &Columns = scenario.part();
        let columns = Blocks::new(workload, point.seed);
        let cells = CellPlan::new(workload, point.seed).map(Box::new);
        let name = |column: &u32| columns.topics[*column as usize].as_str().to_owned();
        let topics = custody.iter().map(|kept| {
            let mut topics: Vec<String> = kept.iter().map(name).collect();
            // Pieces share a topic.
            topics.dedup();
            topics
        });
        let topics = topics.collect();
        Ok(Self { hosts, graph, topics, job: Job::Columns { custody, columns, cells } })
    }

    /// Nanoseconds from the start of the run to the first publication.
    pub(crate) fn warm_up(&self, scenario: &Scenario) -> u64 {
        match (&self.job, scenario.find::<Transactions>()) {
            // The first message of a file may be later.
            (Job::Messages { plan }, _) => plan.times.first().copied().unwrap_or(0),
            (_, Some(transactions)) => transactions.warm_up.nanos(),
            (_, None) => scenario.part::<Columns>().warm_up.nanos(),
        }
    }

    /// Nanoseconds from the first publication to the last.
    pub(crate) fn duration(&self, scenario: &Scenario) -> u64 {
        match &self.job {
            Job::Messages { plan, .. } => {
                plan.times.last().copied().unwrap_or(0) - plan.times.first().copied().unwrap_or(0)
            }
            Job::Columns { .. } => {
                let workload: &Columns = scenario.part();
                u64::from(workload.slots - 1) * workload.slot_interval.nanos()
            }
            Job::Transactions { .. } => {
                scenario.find::<Transactions>().map_or(0, |transactions| transactions.duration.nanos())
            }
        }
    }

    /// The number of messages of others with which each node is done.
    pub(crate) fn deliveries(&self, scenario: &Scenario) -> Vec<u64> {
        match &self.job {
            Job::Messages { plan, .. } => {
                let of_others = |node| plan.publishers.iter().filter(|publisher| **publisher != node).count();
                (0..scenario.network.nodes).map(|node| of_others(node) as u64).collect()
            }
            Job::Columns { custody, .. } => {
                let workload: &Columns = scenario.part();
                // The counters of nodes do not tell the pieces of one payload from those of another.
                let is_told = workload.pieces.is_some() && workload.slots == 1;
                let needed =
                    workload.needed().filter(|_| is_told).map_or(usize::MAX, |needed| needed as usize);
                let of_node = |(node, kept): (usize, &Vec<u32>)| {
                    let is_publisher = node == workload.publisher as usize;
                    if is_publisher { 0 } else { kept.len().min(needed) as u64 * u64::from(workload.slots) }
                };
                custody.iter().enumerate().map(of_node).collect()
            }
            // Those of pools are counted on submission.
            Job::Transactions { .. } => Vec::new(),
        }
    }

    /// Returns the number of messages of others that a node has, as its metrics say.
    pub(crate) fn received(&self, node: usize, scenario: &Scenario, metrics: &Metrics) -> f64 {
        let delivered = metrics.sum("samara_messages_delivered_total", "");
        match &self.job {
            // A node publishes the columns that it has completed from cells.
            Job::Columns { cells: Some(_), .. } if node != scenario.part::<Columns>().publisher as usize => {
                delivered + metrics.sum("samara_messages_published_total", "")
            }
            _ => delivered,
        }
    }

    /// The publications of each node in the order of time, with the first one at `first_unix_ns`.
    pub(crate) fn publications(&self, scenario: &Scenario, first_unix_ns: u64) -> Vec<Vec<Publication>> {
        let message = |topic: &str, bytes: u64| MessageSpec {
            topic: topic.to_owned(),
            random_bytes: Some(bytes as usize),
            ..MessageSpec::default()
        };
        let publication =
            |at_unix_ns, batch| Publication { at_unix_ns, batch: Some(batch), ..Publication::default() };
        let mut all = vec![Vec::new(); scenario.network.nodes as usize];
        match &self.job {
            Job::Messages { plan } => {
                let first = plan.times.first().copied().unwrap_or(0);
                for ((publisher, at), size) in plan.publishers.iter().zip(&plan.times).zip(&plan.sizes) {
                    let batch = vec![message(TOPIC, *size)];
                    all[*publisher as usize].push(publication(first_unix_ns + (at - first), batch));
                }
            }
            // Pools have their own schedule.
            Job::Transactions { .. } => {}
            Job::Columns { columns, cells, .. } => {
                let workload: &Columns = scenario.part();
                let segment = |number: u32| {
                    let Message { topic, data, .. } = &*columns.messages[number as usize];
                    let topic = topic.as_ref().map_or("", Topic::as_str);
                    if workload.pieces.is_none() {
                        return message(topic, data.len() as u64);
                    }
                    // Pieces have a header, and so the bytes of the simulation.
                    MessageSpec {
                        topic: topic.to_owned(),
                        data: Some(STANDARD.encode(data)),
                        ..MessageSpec::default()
                    }
                };
                let own = &mut all[workload.publisher as usize];
                for slot in 0..workload.slots {
                    let at = first_unix_ns + u64::from(slot) * workload.slot_interval.nanos();
                    if let Some(plan) = cells {
                        let block = BlockSpec {
                            group: plan
                                .groups()
                                .nth(slot as usize)
                                .map(|id| STANDARD.encode(id))
                                .unwrap_or_default(),
                            topics: columns.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
                            push: plan.pushed(slot).iter().collect(),
                        };
                        let block = Some(block);
                        own.push(Publication { at_unix_ns: at, block, ..Publication::default() });
                        continue;
                    }
                    let messages = columns.of_slot(slot).map(segment);
                    if workload.batch {
                        own.push(publication(at, messages.collect()));
                    } else {
                        own.extend(messages.map(|message| publication(at, vec![message])));
                    }
                }
            }
        }
        all
    }
}

/// Time after the last publication during which the testbed waits for deliveries.
pub(crate) fn patience(scenario: &Scenario) -> Span {
    match scenario.find::<Messages>() {
        Some(messages) => messages.cool_down,
        None => scenario.find::<Columns>().map_or(Span::default(), |workload| workload.deadline),
    }
}

/// Returns the key for which a scenario needs hosts, since `samara node` lacks its protocol, its faults,
/// or what the simulated application does; `None` if nodes have all of it.
pub(crate) fn needs_hosts(scenario: &Scenario, hosts: &Hosts) -> Option<&'static str> {
    if scenario.find::<Mix>().is_some() {
        return None;
    }
    let has_node = ["gossipsub", "cat"].contains(&scenario.selected.protocol())
        && (scenario.find::<Columns>().is_some()
            || scenario.find::<Messages>().is_some()
            || scenario.find::<Transactions>().is_some());
    let columns = |has: fn(&Columns) -> bool| scenario.find::<Columns>().is_some_and(has);
    let of_pieces = |pieces: &Pieces| {
        let shares = [pieces.withholding, pieces.silent, pieces.spoofing];
        pieces.omitted > 0 || shares.iter().any(|share| !share.is_zero())
    };
    let pieces = scenario.find::<Columns>().and_then(|workload| workload.pieces.as_ref());
    let cells = scenario.find::<Columns>().and_then(|workload| workload.cells.as_ref());
    let gossip = scenario.find::<Parameters>();
    let needs = [
        (!has_node, "protocol.kind"),
        (scenario.faults.iter().any(|fault| !fault.kind.is_rival()), "fault"),
        (columns(|workload| workload.observer), "columns.observer"),
        (columns(|workload| workload.repair.is_some()), "columns.repair"),
        (columns(|workload| workload.rows > 0), "columns.rows"),
        (cells.is_some_and(|cells: &Cells| cells.upgraded.fraction() < 1.0), "columns.cells.upgraded"),
        (cells.is_some_and(|cells: &Cells| !cells.deployed.is_zero()), "columns.cells.deployed"),
        (pieces.is_some_and(of_pieces), "columns.pieces"),
        (hosts.validation.iter().any(|time| !time.is_zero()), "network.validation_time"),
        (scenario.network.stalled_periods.fraction() > 0.0, "network.stalled_periods"),
        (gossip.is_some_and(|gossip| gossip.heartbeat_order.is_some()), "protocol.heartbeat_order"),
    ];
    needs.iter().find(|(is_needed, _)| *is_needed).map(|(_, key)| *key)
}

/// Rejects everything that only a simulation can do.
fn possible(scenario: &Scenario) -> Result<(), String> {
    rivals::possible(scenario)?;
    let kind = scenario.transport.kind;
    let regions = scenario.network.regions.as_ref();
    let pieces = scenario.find::<Columns>().and_then(|workload| workload.pieces.as_ref());
    let refused = [
        (
            kind == TransportKind::Ideal,
            "transport.kind: found \"ideal\"; expected \"tcp\" or \"quic\" for real sockets",
        ),
        (
            kind == TransportKind::Datagram,
            "transport.kind: found \"datagram\"; expected \"tcp\" or \"quic\" for real sockets",
        ),
        (
            kind == TransportKind::Grpc,
            "transport.kind: found \"grpc\"; expected \"tcp\" or \"quic\" for real sockets",
        ),
        (
            pieces.is_some_and(|pieces| pieces.id_size.bytes() != u64::from(Piece::ID_BYTES)),
            "columns.pieces.id_size: nodes have ids of 20 B; remove it for the testbed",
        ),
        (
            scenario.transport.recovery.is_some_and(|recovery| recovery != Recovery::Linux),
            "transport.recovery: real nodes have that of the kernel; remove it for the testbed",
        ),
        (
            regions.is_some_and(|regions| regions.gateway.is_some()),
            "network.regions.gateway: gateways exist in the simulator only; remove it for the testbed",
        ),
        (
            matches!(scenario.network.downlink_queue, Queue::FqCodel { .. }),
            "network.downlink_queue.kind: found \"fq-codel\", which exists in the simulator only; expected \"codel\" or \
             \"drop-tail\"",
        ),
    ];
    refuse(&refused)?;
    match scenario.find::<Transactions>() {
        Some(transactions) => pools::check(scenario, transactions),
        None => Ok(()),
    }
}

/// Returns the first error that applies.
pub(crate) fn refuse(refused: &[(bool, &str)]) -> Result<(), String> {
    let first = refused.iter().find(|(is_refused, _)| *is_refused);
    first.map_or(Ok(()), |(_, error)| Err((*error).to_owned()))
}
