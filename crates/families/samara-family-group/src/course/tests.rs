use samara_lab::family::set_base;
use samara_lab::results::Measured;
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

#[test]
fn faults_after_the_last_delivery_are_late() {
    set_base(&[&crate::FAMILY]);
    let late = |fault: &str| {
        let set = [("group.messages", "5"), ("fault", fault)];
        let loaded = load_with("ring", &set, &["ring"], Some(1)).expect("a valid scenario");
        let options = RunOptions::new(1, &loaded.inputs);
        let measured = run_alone::<Broadcasting<Ring>>(&loaded.points[0], options, &mut |_, _| {});
        measured.expect("it runs").outcome().ended_at(None).run.late_faults
    };
    assert_eq!(late("[{ kind = \"crash\", at = \"200 s\", nodes = [1] }]"), [0]);
    let early = late("[{ kind = \"crash\", at = \"10 ms\", nodes = [1] }]");
    assert_eq!(early, [0; 0], "members wait for it in vain");
}
