//! What real pools can do of a scenario with transactions. Everything else is refused, never left out.

use samara_cat::Preset;
use samara_cat::config::Parameters;
use samara_engine::units::Span;
use samara_lab::pool::spec::flush;
use samara_lab::scenario::{ConnectionSpec, FlushSpec, Scenario, Transactions, TransportKind};

/// Keys of `[protocol]` that a node file has.
const CAT_KEYS: [&str; 1] = ["preset"];

/// The first key that a real pool cannot have.
pub(crate) fn check(scenario: &Scenario, transactions: &Transactions) -> Result<(), String> {
    if scenario.transport.kind != TransportKind::Tcp {
        return refuse("transport.kind", "connections of pools are on TCP; set it to \"tcp\"");
    }
    let Some(connection) = &scenario.transport.connection else {
        return refuse(
            "transport.connection",
            "is missing; real pools talk over channels: add the section with send_rate = \"0 bit/s\" and receive_rate = \"0 bit/s\"",
        );
    };
    check_connection(connection)?;
    check_workload(transactions)?;
    check_cat(scenario.part())?;
    check_groups(transactions)
}

fn refuse(key: &str, what: &str) -> Result<(), String> {
    Err(format!("{key}: {what}"))
}

fn check_connection(connection: &ConnectionSpec) -> Result<(), String> {
    for (key, rate) in [("send_rate", connection.send_rate), ("receive_rate", connection.receive_rate)] {
        if rate.bps() > 0 {
            let key = format!("transport.connection.{key}");
            return refuse(&key, "real connections have no limit of their own; set it to \"0 bit/s\"");
        }
    }
    if connection.ping != ConnectionSpec::default().ping {
        return refuse("transport.connection.ping", "real connections ping every 60 s; leave it out");
    }
    Ok(())
}

fn check_workload(transactions: &Transactions) -> Result<(), String> {
    let only_simulated =
        "the application behind real pools takes everything, and knows neither signers, priorities nor gas;";
    if transactions.signed {
        return refuse("pool.signed", &format!("{only_simulated} set it to false"));
    }
    if transactions.priorities > 1 {
        return refuse("pool.priorities", &format!("{only_simulated} set it to 1"));
    }
    if transactions.gas != Transactions::default().gas {
        return refuse("pool.gas", &format!("{only_simulated} leave it out"));
    }
    if transactions.invalid.fraction() > 0.0 {
        return refuse("pool.invalid", &format!("{only_simulated} set it to \"0 %\""));
    }
    if transactions.consensus.nanos() > 0 {
        return refuse(
            "pool.consensus",
            "proposals that spread before their commit exist in the simulator only; set it to \"0 s\"",
        );
    }
    Ok(())
}

fn check_cat(cat: &Parameters) -> Result<(), String> {
    let written = toml::Value::try_from(cat).map_err(|error| format!("cat: {error}"))?;
    let mut keys = written.as_table().into_iter().flat_map(toml::Table::keys);
    if let Some(key) = keys.find(|key| !CAT_KEYS.contains(&key.as_str())) {
        return refuse(
            &format!("protocol.{key}"),
            "real pools are as their preset is; leave it out, or use samara run",
        );
    }
    Ok(())
}

fn check_groups(transactions: &Transactions) -> Result<(), String> {
    match transactions.groups.iter().position(|group| group.adversary.is_some()) {
        Some(group) => refuse(
            &format!("pool.group.{group}.adversary"),
            "hostile nodes exist in the simulator only; leave it out",
        ),
        None => Ok(()),
    }
}

/// The preset of a node: that of its group, or the scenario's.
pub(crate) fn preset(scenario: &Scenario, role: Option<usize>) -> Preset {
    match role {
        Some(group) => scenario.part::<Transactions>().groups[group].preset.unwrap_or_default(),
        None => scenario.part::<Parameters>().preset,
    }
}

/// How long packets wait for more, in the words of a node file: zero for not at all.
pub(crate) fn flush_throttle(scenario: &Scenario) -> Span {
    match flush(scenario) {
        FlushSpec::Throttle(span) => span,
        FlushSpec::WhenIdle => Span::default(),
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::units::{Rate, Share};
    use samara_lab::scenario::{Adversary, CatGroup, Overrides, load_source};
    use samara_scenario::Inputs;

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
        let error = check(&scenario, &transactions).expect_err("it is refused");
        error.split(": ").next().unwrap().to_owned()
    }

    #[test]
    fn what_real_pools_cannot_do_is_refused_by_its_key() {
        let plain = scenario();
        check(&plain, plain.part()).expect("nothing is wrong");
        assert_eq!(refused(|scenario, _| scenario.transport.kind = TransportKind::Quic), "transport.kind");
        assert_eq!(refused(|scenario, _| scenario.transport.connection = None), "transport.connection");
        let limited = |scenario: &mut Scenario, _: &mut Transactions| {
            scenario.transport.connection = Some(ConnectionSpec::default());
        };
        assert_eq!(refused(limited), "transport.connection.send_rate");
        let clients = Transactions { rate: None, ..plain.part::<Transactions>().clone() };
        check(&plain, &clients).expect("clients wait for blocks");
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
    fn packets_wait_as_the_preset_says_unless_the_scenario_does() {
        let mut scenario = scenario();
        assert_eq!(flush_throttle(&scenario), Span::default());
        cat(&mut scenario).preset = Preset::Cat2023;
        assert_eq!(flush_throttle(&scenario), Span::from_millis(100));
        let connection = scenario.transport.connection.as_mut().unwrap();
        connection.flush = Some(FlushSpec::Throttle(Span::from_millis(7)));
        assert_eq!(flush_throttle(&scenario), Span::from_millis(7));
    }
}
