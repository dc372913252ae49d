//! The brief of a host with a pool for programs of others.

use crate::section::{self, Transactions};
use samara_cat::config::Parameters;
use samara_scenario::{ConnectionSpec, Scenario};
use serde::Serialize;
use serde_json::{Value, json};

use super::world;
use samara_lab::brief;
use samara_lab::experiment::Problem;
use samara_lab::network::Hosts;

/// Returns the briefing of a host in a group, an index into those of the scenario, or in none.
pub(super) fn of(
    scenario: &Scenario,
    workload: &Transactions,
    hosts: &Hosts,
    (host, group): (u32, Option<usize>),
) -> Result<Value, Problem> {
    let ConnectionSpec { ping, .. } = scenario.transport.connection.as_ref().ok_or_else(|| {
        let why = "is missing, and programs of others speak with pools over the connections of CometBFT only";
        ("transport.connection".to_owned(), why.to_owned())
    })?;
    brief::can_validate(scenario, hosts, host)?;
    if workload.signers.is_some() {
        let why = "is set, but applications of other programs accept transactions in any order; remove it";
        return Err(("pool.signers".to_owned(), why.to_owned()));
    }
    Ok(json!({ "pool": {
        "bytes": workload.size.bytes(),
        "signers": world::signers(workload, scenario.network.nodes as usize),
        "flush": section::flush(scenario),
        "ping": ping,
        "protocol": protocol(scenario, workload, group)?,
    } }))
}

/// Returns the keys of `[protocol]` for a host. The preset is always among them: it names a generation
/// of pools.
fn protocol(scenario: &Scenario, workload: &Transactions, group: Option<usize>) -> Result<Value, Problem> {
    let kind = scenario.selected.protocol();
    let Some(index) = group else {
        let mut protocol = brief::as_json(brief::protocol(scenario)?)?;
        protocol["preset"] = value(scenario.part::<Parameters>().preset)?;
        return Ok(protocol);
    };
    let group = &workload.groups[index];
    if group.adversary.is_some() {
        let why = "programs of others follow the protocol; choose other programs, or another seed";
        return Err((format!("pool.group.{index}.adversary"), why.to_owned()));
    }
    Ok(json!({ "kind": kind, "preset": value(group.preset.unwrap_or_default())? }))
}

fn value(part: impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(part).map_err(|error| ("protocol".to_owned(), error.to_string()))
}
