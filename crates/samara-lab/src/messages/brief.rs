//! What programs of others learn of a host, with messages and with columns alike.

use samara_gossipsub::config::Parameters;
use samara_spec::Scenario;
use serde_json::Value;

use crate::experiment::Problem;
use crate::network::Hosts;

/// Refuses the first key that is used, since no briefing has it.
pub(crate) fn refuse(keys: &[(bool, &str)]) -> Result<(), Problem> {
    let used = keys.iter().find(|(is_used, _)| *is_used);
    used.map_or(Ok(()), |(_, key)| Err(((*key).to_owned(), "programs of others do not have it".to_owned())))
}

/// Returns what is wrong with a number of something, of which there are so many.
pub(crate) fn no_such(what: &str, number: u32, count: usize) -> Option<String> {
    (number as usize >= count).then(|| format!("it tells of {what} {number}, but there are {count}"))
}

/// Refuses work that takes time: the simulator models it, and a program of others has its own.
pub(crate) fn can_validate(scenario: &Scenario, hosts: &Hosts, host: u32) -> Result<(), Problem> {
    let takes_time = hosts.validation.get(host as usize).is_some_and(|time| !time.is_zero());
    let gossip = scenario.find::<Parameters>();
    refuse(&[
        (takes_time, "network.validation_time"),
        (scenario.network.stalled_periods.fraction() > 0.0, "network.stalled_periods"),
        (gossip.is_some_and(|gossip| gossip.heartbeat_order.is_some()), "protocol.heartbeat_order"),
    ])
}

/// Returns the keys of `[protocol]`. Other implementations know the values of presets, not which of
/// them follow a key: these are among the keys.
pub(crate) fn protocol(scenario: &Scenario) -> Result<Value, Problem> {
    let wrong = |error: &dyn std::fmt::Display| ("protocol".to_owned(), error.to_string());
    let mut keys = scenario.selected.protocol_keys().map_err(|error| wrong(&error))?;
    if let Some(gossip) = scenario.find::<Parameters>() {
        keys.extend(toml::Table::try_from(gossip.settled()).map_err(|error| wrong(&error))?);
    }
    serde_json::to_value(keys).map_err(|error| wrong(&error))
}
