//! What nodes join and publish, and when: that of the simulation with the same seed.

use samara_lab::columns::app::Blocks;
use samara_lab::messages::app::TOPIC;
use samara_lab::network::{self, Hosts};
use samara_lab::run::{Plan, roles};
use samara_lab::scenario::Columns;
use samara_lab::scenario::Group;
use samara_lab::scenario::Messages;
use samara_lab::scenario::Transactions;
use samara_lab::scenario::{Point, Scenario, TransportKind};
use samara_scenario::Inputs;
use samara_scenario::topology::Graph;

use crate::client::{Payload, Publication};
use crate::pools;

/// Everything that a run is to do.
pub(crate) struct Wanted {
    pub(crate) hosts: Hosts,
    pub(crate) graph: Graph,
    /// By node.
    pub(crate) topics: Vec<Vec<String>>,
    pub(crate) job: Job,
}

/// What is published.
pub(crate) enum Job {
    /// Blocks of columns, and who keeps which.
    Columns { custody: Vec<Vec<u32>>, columns: Blocks },
    /// A stream of messages.
    Messages { plan: Plan },
    /// Transactions at pools: the group of each node.
    Transactions { roles: Vec<Option<usize>> },
}

impl Wanted {
    pub(crate) fn new(point: &Point, inputs: &Inputs) -> Result<Self, String> {
        let scenario = &point.scenario;
        let nodes = scenario.network.nodes;
        let hosts = network::hosts(scenario, inputs, nodes, point.seed)?;
        possible(scenario, &hosts)?;
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
        let columns = Blocks::new(workload.count, workload.slots, workload.column_bytes(), point.seed);
        let name = |column: &u32| columns.topics[*column as usize].as_str().to_owned();
        let topics = custody.iter().map(|kept| kept.iter().map(name).collect()).collect();
        Ok(Self { hosts, graph, topics, job: Job::Columns { custody, columns } })
    }

    /// Nanoseconds from the start of the run to the first publication.
    pub(crate) fn warm_up(&self, scenario: &Scenario) -> u64 {
        match (&self.job, scenario.find::<Transactions>()) {
            // A file of messages may have its first later.
            (Job::Messages { plan }, _) => plan.times.first().copied().unwrap_or(0),
            (_, Some(transactions)) => transactions.warm_up.nanos(),
            (_, None) => scenario.part::<Columns>().warm_up.nanos(),
        }
    }

    /// Payload bytes of each message of a stream.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        match &self.job {
            Job::Messages { plan } => plan.sizes.clone(),
            Job::Columns { .. } | Job::Transactions { .. } => Vec::new(),
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

    /// Deliveries that are to happen.
    pub(crate) fn deliveries(&self, scenario: &Scenario) -> u64 {
        match &self.job {
            Job::Messages { plan, .. } => plan.times.len() as u64 * u64::from(scenario.network.nodes - 1),
            Job::Columns { custody, .. } => {
                let publisher = scenario.part::<Columns>().publisher as usize;
                let waiting = custody.iter().enumerate().filter(|(node, _)| *node != publisher);
                let kept: usize = waiting.map(|(_, kept)| kept.len()).sum();
                kept as u64 * u64::from(scenario.part::<Columns>().slots)
            }
            // Those of pools are counted as they are submitted.
            Job::Transactions { .. } => 0,
        }
    }

    /// What each node publishes, in the order of time, if the first publication is at `first_unix_ns`.
    pub(crate) fn publications(&self, scenario: &Scenario, first_unix_ns: u64) -> Vec<Vec<Publication>> {
        let mut all = vec![Vec::new(); scenario.network.nodes as usize];
        match &self.job {
            Job::Messages { plan } => {
                let first = plan.times.first().copied().unwrap_or(0);
                for ((publisher, at), size) in plan.publishers.iter().zip(&plan.times).zip(&plan.sizes) {
                    let payload = Payload { topic: TOPIC.to_owned(), random_bytes: *size };
                    all[*publisher as usize]
                        .push(Publication { at_unix_ns: first_unix_ns + (at - first), batch: vec![payload] });
                }
            }
            // Pools have a schedule of their own.
            Job::Transactions { .. } => {}
            Job::Columns { columns, .. } => {
                let workload: &Columns = scenario.part();
                let bytes = workload.column_bytes();
                let payload = |topic: &samara_gossipsub::rpc::Topic| Payload {
                    topic: topic.as_str().to_owned(),
                    random_bytes: bytes,
                };
                let own = &mut all[workload.publisher as usize];
                for slot in 0..u64::from(workload.slots) {
                    let at_unix_ns = first_unix_ns + slot * workload.slot_interval.nanos();
                    let payloads = columns.topics.iter().map(payload);
                    if workload.batch {
                        own.push(Publication { at_unix_ns, batch: payloads.collect() });
                    } else {
                        own.extend(payloads.map(|payload| Publication { at_unix_ns, batch: vec![payload] }));
                    }
                }
            }
        }
        all
    }
}

/// What only a simulation can do is refused, never left out.
fn possible(scenario: &Scenario, hosts: &Hosts) -> Result<(), String> {
    let refuse = |key: &str, what: &str| Err(format!("{key}: {what}"));
    if scenario.find::<Group>().is_some() {
        return refuse("group", "groups run in the simulator only; use samara run");
    }
    let protocols = ["gossipsub", "cat"];
    if !protocols.contains(&scenario.selected.protocol()) {
        return refuse("protocol.kind", "baselines run in the simulator only; use samara run");
    }
    if !scenario.faults.is_empty() {
        return refuse("fault", "faults exist in the simulator only; remove them for the testbed");
    }
    if scenario.transport.kind == TransportKind::Ideal {
        return refuse("transport.kind", "found \"ideal\"; on real sockets there are \"tcp\" and \"quic\"");
    }
    if scenario.transport.kind == TransportKind::Grpc {
        return refuse("transport.kind", "found \"grpc\"; on real sockets there are \"tcp\" and \"quic\"");
    }
    if scenario.find::<Columns>().is_some_and(|workload| workload.observer) {
        return refuse("columns.observer", "hidden observers exist in the simulator only; set it to false");
    }
    if scenario.network.regions.as_ref().is_some_and(|regions| regions.gateway.is_some()) {
        return refuse(
            "network.regions.gateway",
            "gateways exist in the simulator only; remove it for the testbed",
        );
    }
    if hosts.validation.iter().any(|time| !time.is_zero()) {
        return refuse(
            "network.validation_time",
            "real nodes take the time that they take; remove it for the testbed",
        );
    }
    match scenario.find::<Transactions>() {
        Some(transactions) => pools::check(scenario, transactions),
        None => Ok(()),
    }
}
