use samara_lab::family::set_base;
use samara_lab::run::{RunOptions, run_alone};
use samara_lab::testing::{load_with, reports_too_many_deliveries};
use samara_ring::Ring;

use super::*;

#[test]
fn too_many_deliveries_are_reported() {
    set_base(&[&crate::FAMILY]);
    let loaded =
        load_with("ring", &[("group.messages", "20")], &["ring"], Some(1)).expect("a valid scenario");
    let options = RunOptions::new(1, &loaded.inputs);
    let measured =
        run_alone::<Broadcasting<Ring>>(&loaded.points[0], options, &mut |_, _| {}).expect("it runs");
    reports_too_many_deliveries(
        measured,
        |measured| &mut measured.deliveries,
        "group.messages or network.nodes",
    );
}
