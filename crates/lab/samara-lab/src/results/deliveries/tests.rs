use std::collections::BTreeSet;

use super::*;
use crate::toy;

const ROW: DeliveryRow = DeliveryRow { item: 1, nanos: 2_500_000, node: 3, from: 2, detail: 4 };

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
    let loaded = toy::loaded(&["first"]);
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
