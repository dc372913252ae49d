//! The network of a run with transactions: the roles of nodes, and their protocols.

use std::sync::Arc;
use std::time::Duration;

use crate::application::Adversary;
use crate::application::{Honest, Hostile, Ledger, Node, signer};
use crate::section::{self, Transactions};
use samara_cat::pool::Signer;
use samara_cat::{Cat, Config};
use samara_engine::{NodeRng, Outbox, Purpose};
use samara_scenario::Scenario;
use samara_sim::{NodeFactory, identity_of};

use super::Clients;
use crate::measure::Uptime;
use samara_lab::experiment::{Plan, ProtocolOf};
use samara_lab::network;

/// Default number of attacks of a hostile node per second.
const HOSTILE_RATE: f64 = 100.0;

/// Returns the group of each node, an index into the scenario's groups; `None` for nodes without a
/// group.
fn roles(scenario: &Scenario, seed: u64) -> Vec<Option<usize>> {
    let nodes = scenario.network.nodes;
    let mut roles = Vec::new();
    for (index, group) in scenario.part::<Transactions>().groups.iter().enumerate() {
        let members = (group.share.fraction() * f64::from(nodes)).round() as usize;
        roles.extend(std::iter::repeat_n(Some(index), members));
    }
    roles.resize(nodes as usize, None);
    NodeRng::new(seed, 3, Purpose::Topology).shuffle(&mut roles);
    roles
}

pub(crate) fn uptime(scenario: &Scenario, seed: u64) -> Uptime {
    let hostile = |role: Option<usize>| {
        role.is_some_and(|role| scenario.part::<Transactions>().groups[role].adversary.is_some())
    };
    let mut honest: Vec<bool> = roles(scenario, seed).into_iter().map(|role| !hostile(role)).collect();
    network::hostile(scenario, seed).for_each(|host| honest[host as usize] = false);
    Uptime { honest, down: network::down(scenario, seed) }
}

#[derive(Clone)]
struct Kind {
    config: Arc<Config>,
    adversary: Option<(Adversary, Duration)>,
}

/// Returns the kinds of nodes: those without a group, then each group.
fn kinds(scenario: &Scenario) -> Vec<Kind> {
    let own = Kind { config: Arc::new(section::config(scenario)), adversary: None };
    let groups = scenario.part::<Transactions>().groups.iter().map(|group| {
        let interval = Duration::from_secs_f64(1.0 / group.rate.unwrap_or(HOSTILE_RATE));
        Kind {
            config: Arc::new(section::group_config(group)),
            adversary: group.adversary.map(|adversary| (adversary, interval)),
        }
    });
    std::iter::once(own).chain(groups).collect()
}

/// Returns the number of signers that applications know.
pub(super) fn signers(workload: &Transactions, nodes: usize) -> u32 {
    if workload.signed { Clients::signer_count(workload, nodes) } else { 0 }
}

/// The nodes of a run, and the protocols that pairs of them agree on.
pub(super) struct Pools {
    pub(super) nodes: NodeFactory<Node>,
    /// The kind of each node.
    kind_of: Arc<[usize]>,
    /// The protocol of each pair of kinds.
    names: Arc<[Vec<Arc<str>>]>,
}

impl Pools {
    pub(super) fn plan(plan: &Plan<'_>, workload: &Transactions) -> Self {
        let kinds = kinds(plan.scenario);
        let roles = roles(plan.scenario, plan.seed).into_iter();
        let kind_of: Arc<[usize]> = roles.map(|role| role.map_or(0, |role| role + 1)).collect();
        let names = protocols(&kinds).into();
        let nodes = plan.nodes() as usize;
        let signers: Arc<[Signer]> = (0..signers(workload, nodes)).map(signer).collect();
        let in_order = workload.signers.is_some();
        let validation = plan.network().hosts.validation.clone();
        let of = Arc::clone(&kind_of);
        let node = move |host: u32| {
            let Kind { config, adversary } = &kinds[of[host as usize]];
            let outbox = Outbox::new(config.outbox());
            if let Some((adversary, interval)) = adversary {
                return (Node::Hostile(Hostile::new(*adversary, *interval, Arc::clone(config))), outbox);
            }
            let ledger = Ledger::new(Arc::clone(&signers), validation[host as usize]).in_order(in_order);
            let cat = Cat::new(Arc::clone(config), &identity_of(host), ledger);
            let cat = cat.expect("the configuration was checked");
            (Node::Honest(Box::new(Honest::new(cat))), outbox)
        };
        Self { nodes: Arc::new(node), kind_of, names }
    }

    /// Returns the group of a host, an index into the scenario's groups.
    pub(super) fn group_of(&self, host: u32) -> Option<usize> {
        self.kind_of[host as usize].checked_sub(1)
    }

    pub(super) fn protocols(&self) -> ProtocolOf {
        let (kind_of, names) = (Arc::clone(&self.kind_of), Arc::clone(&self.names));
        Box::new(move |a, b| {
            let (a, b) = (kind_of[a as usize], kind_of[b as usize]);
            Arc::clone(&names[a.min(b)][a.max(b)])
        })
    }
}

/// Returns the protocol of each pair of kinds: the best of the first that the second knows. All
/// kinds know flooding.
fn protocols(kinds: &[Kind]) -> Vec<Vec<Arc<str>>> {
    let name = |a: &Kind, b: &Kind| a.config.agree(&b.config).map_or("", samara_cat::Protocol::name).into();
    kinds.iter().map(|a| kinds.iter().map(|b| name(a, b)).collect()).collect()
}
