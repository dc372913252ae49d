use samara_lab::family::set_base;
use samara_lab::run::{RunOptions, run_alone};
use samara_lab::testing::{load_with, reports_too_many_deliveries};

use super::*;

#[test]
fn too_many_deliveries_are_reported() {
    set_base(&[&crate::FAMILY]);
    let loaded = load_with(
        "cat",
        &[("pool.clients", "20"), ("pool.spread", "1 s"), ("pool.duration", "8 s")],
        &["cat"],
        Some(1),
    )
    .expect("a valid scenario");
    let options = RunOptions::new(1, &loaded.inputs);
    let measured = run_alone::<Pooling>(&loaded.points[0], options, &mut |_, _| {}).expect("it runs");
    reports_too_many_deliveries(
        measured,
        |measured| &mut measured.collector.deliveries,
        "pool.duration or network.nodes",
    );
}
