//! The brief of a host for programs of others, with messages and with columns alike.

use samara_gossipsub::config::{Parameters, settled};
use samara_lab::brief::{as_json, refuse};
use samara_lab::experiment::Problem;
use samara_lab::network::Hosts;
use samara_scenario::Scenario;
use serde_json::Value;

/// Refuses what programs of others cannot do.
pub fn can_run(scenario: &Scenario, hosts: &Hosts, host: u32) -> Result<(), Problem> {
    samara_lab::brief::can_validate(scenario, hosts, host)?;
    let gossip = scenario.find::<Parameters>();
    let is_given = |key: &str| gossip.is_some_and(|gossip| gossip.given().has(key));
    refuse(&[
        (is_given("heartbeat_order"), "protocol.heartbeat_order"),
        (is_given("heartbeat_offsets"), "protocol.heartbeat_offsets"),
    ])
}

/// Returns the keys of `[protocol]`. Other implementations know the values of presets, not which of
/// them follow a key: these are among the keys.
pub fn protocol(scenario: &Scenario) -> Result<Value, Problem> {
    let mut keys = samara_lab::brief::protocol(scenario)?;
    if let Some(gossip) = scenario.find::<Parameters>() {
        let settled = toml::Table::try_from(settled(gossip));
        keys.extend(settled.map_err(|error| ("protocol".to_owned(), error.to_string()))?);
    }
    as_json(keys)
}
