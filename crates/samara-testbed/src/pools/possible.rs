//! Checks that real pools support a scenario with transactions. Everything else is rejected, never
//! omitted.

use samara_cat::Preset;
use samara_cat::config::Parameters;
use samara_engine::units::Span;
use samara_spec::pool::Transactions;
use samara_spec::pool::flush;
use samara_spec::{ConnectionSpec, FlushSpec, Scenario, TransportKind};

/// Keys of `[protocol]` that a node file has.
const CAT_KEYS: [&str; 1] = ["preset"];
const UNLIMITED: &str = "real connections have no limit of their own; set it to \"0 bit/s\"";
const APPLICATION: &str =
    "the application behind real pools accepts everything, and has no signers, priorities or gas;";

/// Rejects the first key that a real pool does not support.
pub(crate) fn check(scenario: &Scenario, transactions: &Transactions) -> Result<(), String> {
    if scenario.transport.kind != TransportKind::Tcp {
        return Err("transport.kind: connections of pools use TCP; set it to \"tcp\"".to_owned());
    }
    let Some(connection) = &scenario.transport.connection else {
        return Err("transport.connection: missing; real pools use channels: add the section with \
                    send_rate = \"0 bit/s\" and receive_rate = \"0 bit/s\""
            .to_owned());
    };
    let written =
        toml::Value::try_from(scenario.part::<Parameters>()).map_err(|error| format!("cat: {error}"))?;
    let mut keys = written.as_table().into_iter().flat_map(toml::Table::keys);
    let other_key = keys.find(|key| !CAT_KEYS.contains(&key.as_str()));
    let hostile = transactions.groups.iter().position(|group| group.adversary.is_some());
    let refused = [
        (connection.send_rate.bps() > 0, format!("transport.connection.send_rate: {UNLIMITED}")),
        (connection.receive_rate.bps() > 0, format!("transport.connection.receive_rate: {UNLIMITED}")),
        (
            connection.ping != ConnectionSpec::default().ping,
            "transport.connection.ping: real connections ping every 60 s; remove it".to_owned(),
        ),
        (transactions.signed, format!("pool.signed: {APPLICATION} set it to false")),
        (transactions.priorities > 1, format!("pool.priorities: {APPLICATION} set it to 1")),
        (transactions.gas != Transactions::default().gas, format!("pool.gas: {APPLICATION} remove it")),
        (transactions.invalid.fraction() > 0.0, format!("pool.invalid: {APPLICATION} set it to \"0 %\"")),
        (
            transactions.consensus.nanos() > 0,
            "pool.consensus: proposals that spread before their commit exist in the simulator only; set it to \"0 s\""
                .to_owned(),
        ),
        (
            other_key.is_some(),
            format!(
                "protocol.{}: real pools support the keys of their preset only; remove it, or use samara run",
                other_key.map_or("", String::as_str)
            ),
        ),
        (
            hostile.is_some(),
            format!(
                "pool.group.{}.adversary: hostile nodes exist in the simulator only; remove it",
                hostile.unwrap_or_default()
            ),
        ),
    ];
    refused.into_iter().find(|(is_refused, _)| *is_refused).map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns the preset of a node: that of its group, or the scenario's.
pub(crate) fn preset(scenario: &Scenario, role: Option<usize>) -> Preset {
    match role {
        Some(group) => scenario.part::<Transactions>().groups[group].preset.unwrap_or_default(),
        None => scenario.part::<Parameters>().preset,
    }
}

/// Returns the time that packets wait for more, for the node file; zero if they do not wait.
pub(crate) fn flush_throttle(scenario: &Scenario) -> Span {
    match flush(scenario) {
        FlushSpec::Throttle(span) => span,
        FlushSpec::WhenIdle => Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::units::{Rate, Share};
    use samara_scenario::Inputs;
    use samara_spec::pool::{Adversary, CatGroup};
    use samara_spec::{Overrides, load_source};

    use super::*;

    fn scenario() -> Scenario {
        let none = Rate::from_bps(0);
        let connection = ConnectionSpec { send_rate: none, receive_rate: none, ..ConnectionSpec::default() };
        let text = "[scenario]\nname = \"x\"\ntitle = \"x\"\n[pool]\nrate = 10.0\nsigned = false\n";
        let loaded = load_source("x", text, Inputs::default(), &Overrides::default()).unwrap();
        let mut scenario = loaded.scenario;
        scenario.transport.connection = Some(connection);
        scenario
    }

    fn cat(scenario: &mut Scenario) -> &mut Parameters {
        scenario.find_mut().unwrap()
    }

    fn refused(change: impl FnOnce(&mut Scenario, &mut Transactions)) -> String {
        let mut scenario = scenario();
        let mut transactions = scenario.part::<Transactions>().clone();
        change(&mut scenario, &mut transactions);
        let error = check(&scenario, &transactions).expect_err("the scenario is rejected");
        error.split(": ").next().unwrap().to_owned()
    }

    #[test]
    fn rejects_keys_that_real_pools_do_not_support() {
        let plain = scenario();
        check(&plain, plain.part()).expect("a plain scenario is valid");
        assert_eq!(refused(|scenario, _| scenario.transport.kind = TransportKind::Quic), "transport.kind");
        assert_eq!(refused(|scenario, _| scenario.transport.connection = None), "transport.connection");
        let limited = |scenario: &mut Scenario, _: &mut Transactions| {
            scenario.transport.connection = Some(ConnectionSpec::default());
        };
        assert_eq!(refused(limited), "transport.connection.send_rate");
        let clients = Transactions { rate: None, ..plain.part::<Transactions>().clone() };
        check(&plain, &clients).expect("closed-loop clients are valid");
        assert_eq!(refused(|_, transactions| transactions.signed = true), "pool.signed");
        assert_eq!(refused(|_, transactions| transactions.priorities = 2), "pool.priorities");
        assert_eq!(refused(|_, transactions| transactions.gas = 2), "pool.gas");
        let some = Share::parse("1 %").unwrap();
        assert_eq!(refused(|_, transactions| transactions.invalid = some), "pool.invalid");
        let second = Span::from_millis(1000);
        assert_eq!(refused(|_, transactions| transactions.consensus = second), "pool.consensus");
        assert_eq!(refused(|scenario, _| cat(scenario).coalesce = Some(second)), "protocol.coalesce");
        assert_eq!(
            refused(|scenario, _| cat(scenario).check_presence = Some(false)),
            "protocol.check_presence"
        );
        let adversary = Some(Adversary::Silent);
        let group = CatGroup { name: "a".to_owned(), share: some, preset: None, adversary, rate: None };
        assert_eq!(refused(|_, transactions| transactions.groups.push(group)), "pool.group.0.adversary");
    }

    #[test]
    fn the_scenario_overrides_the_flush_throttle_of_the_preset() {
        let mut scenario = scenario();
        assert_eq!(flush_throttle(&scenario), Span::default());
        cat(&mut scenario).preset = Preset::Cat2023;
        assert_eq!(flush_throttle(&scenario), Span::from_millis(100));
        let connection = scenario.transport.connection.as_mut().unwrap();
        connection.flush = Some(FlushSpec::Throttle(Span::from_millis(7)));
        assert_eq!(flush_throttle(&scenario), Span::from_millis(7));
    }
}
