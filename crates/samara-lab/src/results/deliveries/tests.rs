use std::collections::BTreeSet;

use samara_apps::messages::BaselineMember;
use samara_baselines::PubSub;
use samara_ring::Ring;
use samara_scenario::Inputs;
use samara_spec::{Loaded, load};

use super::*;
use crate::group::run::Broadcasting;
use crate::messages::run::Streaming;
use crate::mix::run::Teams;
use crate::pool::run::Pooling;
use crate::results::{Measured, tables};
use crate::run::{RunOptions, run_alone};

const ROW: DeliveryRow = DeliveryRow { item: 1, nanos: 2_500_000, node: 3, from: 2, detail: 4 };

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

#[test]
fn some_items_are_followed_from_node_to_node() {
    let loaded = one_run("gossip-baselines", &[("network.nodes", "4")], "floodsub");
    let mut deliveries = Deliveries::default();
    // 40 items of node 0; all reach node 1 and from there node 2, but item 4 misses node 2.
    for item in 0..40 {
        let row = DeliveryRow { item, node: 1, from: 0, nanos: 5, detail: 0 };
        deliveries.add(row);
        if item != 4 {
            deliveries.add(DeliveryRow { node: 2, from: 1, nanos: 9, ..row });
        }
    }
    let items = (0..40).map(|item| (item, 0));
    let of_point = |point| deliveries.spread(point, items.clone(), |row| row.item, |node| node != 3);
    let spread = of_point(&loaded.points[0]);
    let items: Vec<u16> = spread.publishers.keys().copied().collect();
    assert_eq!((items.len(), items.is_sorted_by_key(|item| item / 3)), (14, true), "one of three: {items:?}");
    let places: BTreeSet<u16> = items.iter().map(|item| item % 3).collect();
    assert_eq!(places.len(), 3, "publishers may take turns: {items:?}");
    let of = |node, item| spread.arrivals.iter().find(|one| (one.node, one.item) == (node, item));
    let seen = |node, item| of(node, item).map(|one| (one.nanos, one.from, one.hops));
    assert_eq!((seen(1, 0), seen(2, 0)), (Some((Some(5), 0, 1)), Some((Some(9), 1, 2))));
    assert_eq!(seen(2, 4), Some((None, NOBODY, 0)), "it never arrived");
    assert_eq!((seen(0, 4), seen(3, 4), seen(1, 1)), (None, None, None));
    assert!(spread.arrivals.is_sorted_by_key(|one| (one.node, one.item)));
    let mut swept = loaded.points[0].clone();
    swept.sweep.insert("network.nodes".to_owned(), 4.into());
    assert!(of_point(&swept).arrivals.is_empty(), "no page shows them");
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
    let mut measured =
        run_alone::<Streaming<BaselineMember<PubSub>>>(&loaded.points[0], options, &mut |_, _| {}).unwrap();
    overfill(&mut measured.collector.deliveries);
    assert_absent(&measured, "messages.duration or network.nodes");

    let keys = [("pool.clients", "20"), ("pool.spread", "1 s"), ("pool.duration", "8 s")];
    let loaded = one_run("cat", &keys, "cat");
    let mut measured = run_alone::<Pooling>(&loaded.points[0], options, &mut |_, _| {}).unwrap();
    overfill(&mut measured.collector.deliveries);
    assert_absent(&measured, "pool.duration or network.nodes");

    let loaded = one_run("ring", &[("group.messages", "20")], "ring");
    let mut measured = run_alone::<Broadcasting<Ring>>(&loaded.points[0], options, &mut |_, _| {}).unwrap();
    overfill(&mut measured.deliveries);
    assert_absent(&measured, "group.messages or network.nodes");

    let loaded = one_run("mix", &[("mix.batch", "10"), ("mix.rounds", "5")], "equal");
    let mut measured = run_alone::<Teams>(&loaded.points[0], options, &mut |_, _| {}).unwrap();
    overfill(&mut measured.deliveries);
    assert_absent(&measured, "mix.rounds or mix.team");
}
