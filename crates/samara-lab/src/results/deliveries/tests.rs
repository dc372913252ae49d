use samara_scenario::Inputs;
use samara_spec::{Loaded, load};

use super::*;
use crate::results::{Measured, tables};
use crate::run::RunOptions;
use crate::{group, messages, mix, pool};

const ROW: DeliveryRow = DeliveryRow { item: 1, nanos: 2_500_000, node: 3, detail: 4 };

/// Adds deliveries until there is one too many.
fn overfill(deliveries: &mut Deliveries) {
    (deliveries.count()..=DELIVERIES_MAX).for_each(|_| deliveries.add(ROW));
}

#[test]
fn rows_are_kept_up_to_the_limit_and_dropped_beyond_it() {
    assert_eq!(size_of::<DeliveryRow>(), 24);
    let mut deliveries = Deliveries::default();
    (0..DELIVERIES_MAX).for_each(|_| deliveries.add(ROW));
    assert_eq!(deliveries.absence("a"), None);
    assert_eq!(deliveries.table(|_| Default::default()).unwrap().rows() as u64, DELIVERIES_MAX);
    (0..2).for_each(|_| deliveries.add(ROW));
    assert_eq!((deliveries.count(), deliveries.rows.capacity()), (DELIVERIES_MAX + 2, 0));
    assert!(deliveries.table(|_| Default::default()).is_none());
    let reason = "5,000,002 deliveries exceed the 5,000,000 that are recorded; reduce a or b";
    assert_eq!(deliveries.absence("a or b").as_deref(), Some(reason));
}

#[test]
fn unknown_publications_have_no_latency() {
    let mut deliveries = Deliveries::default();
    deliveries.add(ROW);
    deliveries.add(DeliveryRow { nanos: u64::MAX, ..ROW });
    let rows = deliveries.table(|_| Default::default()).unwrap().make();
    let latency: Vec<_> = rows.cells::<f64>("delivery_latency_ms").unwrap().collect();
    assert_eq!(latency, [Some(&2.5), None]);
}

fn one_run(scenario: &str, set: &[(&str, &str)], only: &str) -> Loaded {
    let set: Vec<_> = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    load(scenario, &set, &[only.to_owned()], Some(1)).unwrap()
}

/// Checks that a run with too many deliveries has no table, and states the keys to reduce.
fn assert_absent(measured: &dyn Measured, keys: &str) {
    let outcome = measured.outcome();
    let reason = format!("5,000,001 deliveries exceed the 5,000,000 that are recorded; reduce {keys}");
    assert_eq!(outcome.run.absent.get(DELIVERIES), Some(&reason));
    assert!(tables(measured, &outcome).iter().all(|table| table.name() != DELIVERIES));
}

#[test]
fn every_family_reports_that_its_deliveries_are_too_many() {
    let inputs = Inputs::default();
    let options = RunOptions::new(1, &inputs);

    let keys = [("messages.duration", "1 s"), ("messages.rate", "5"), ("messages.cool_down", "5 s")];
    let loaded = one_run("gossip-baselines", &keys, "floodsub");
    let mut measured = messages::run::run(&loaded.points[0], options, &mut |_| {}).unwrap();
    overfill(&mut measured.collector.deliveries);
    assert_absent(&measured, "messages.duration or network.nodes");

    let keys = [("pool.clients", "20"), ("pool.spread", "1 s"), ("pool.duration", "8 s")];
    let loaded = one_run("cat", &keys, "cat");
    let mut measured = pool::run::run(&loaded.points[0], options, &mut |_| {}).unwrap();
    overfill(&mut measured.collector.deliveries);
    assert_absent(&measured, "pool.duration or network.nodes");

    let loaded = one_run("ring", &[("group.messages", "20")], "ring");
    let mut measured = group::run::run(&loaded.points[0], options, &mut |_| {}).unwrap();
    overfill(&mut measured.deliveries);
    assert_absent(&measured, "group.messages or network.nodes");

    let loaded = one_run("mix", &[("mix.batch", "10"), ("mix.rounds", "5")], "equal");
    let mut measured = mix::run::run(&loaded.points[0], options, &mut |_| {}, &mut |_| {}).unwrap();
    overfill(&mut measured.deliveries);
    assert_absent(&measured, "mix.rounds or mix.team");
}
