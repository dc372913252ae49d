//! The common part of the briefings of all families for programs of others, and their refusals.

use samara_scenario::Scenario;
use serde_json::Value;

use crate::experiment::Problem;
use crate::network::Hosts;

/// Refuses the first key that is used, since no briefing has it.
pub fn refuse(keys: &[(bool, &str)]) -> Result<(), Problem> {
    let used = keys.iter().find(|(is_used, _)| *is_used);
    used.map_or(Ok(()), |(_, key)| Err(((*key).to_owned(), "programs of others do not have it".to_owned())))
}

/// Explains why a number is wrong in an event: there are only `count` of these things.
pub fn no_such(what: &str, number: u32, count: usize) -> Option<String> {
    (number as usize >= count).then(|| format!("it tells of {what} {number}, but there are {count}"))
}

/// Refuses work that takes time: the simulator models it, and a program of others has its own.
pub fn can_validate(scenario: &Scenario, hosts: &Hosts, host: u32) -> Result<(), Problem> {
    let takes_time = hosts.validation.get(host as usize).is_some_and(|time| !time.is_zero());
    refuse(&[
        (takes_time, "network.validation_time"),
        (scenario.network.stalled_periods.fraction() > 0.0, "network.stalled_periods"),
    ])
}

/// Returns the keys of `[protocol]`.
pub fn protocol(scenario: &Scenario) -> Result<toml::Table, Problem> {
    scenario.selected.protocol_keys().map_err(|error| ("protocol".to_owned(), error.to_string()))
}

/// Returns the keys of `[protocol]` in the form of a briefing.
pub fn as_json(keys: toml::Table) -> Result<Value, Problem> {
    serde_json::to_value(keys).map_err(|error| ("protocol".to_owned(), error.to_string()))
}
