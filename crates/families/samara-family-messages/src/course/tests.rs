use samara_baselines::PubSub;
use samara_lab::family::set_base;
use samara_lab::run::{RunOptions, run_alone};
use samara_lab::testing::{load_with, reports_too_many_deliveries};

use super::*;

#[test]
fn plans_follow_the_seed_and_the_rate() {
    let messages =
        Messages { duration: samara_engine::units::Span::from_millis(2_000), ..Messages::default() };
    let plan = Plan::new(&messages, 95, 1);
    assert_eq!(plan.times.len(), 400);
    assert_eq!((plan.times[0], plan.times[399]), (10_000_000_000, 11_995_000_000));
    assert_eq!(plan, Plan::new(&messages, 95, 1));
    assert!(plan.publishers != Plan::new(&messages, 95, 2).publishers);
    let poisson = Plan::new(&Messages { arrivals: Arrivals::Poisson, ..messages }, 95, 1);
    assert_eq!(poisson.publishers, plan.publishers, "publishers do not depend on the times");
    assert!(poisson.times.is_sorted());
    let mean = (poisson.times[399] - poisson.times[0]) as f64 / 399.0;
    assert!((mean - 5e6).abs() < 1e6, "{mean}");
}

#[test]
fn too_many_deliveries_are_reported() {
    set_base(&[&crate::FAMILY]);
    let loaded = load_with(
        "gossip-baselines",
        &[("messages.duration", "1 s"), ("messages.rate", "5"), ("messages.cool_down", "5 s")],
        &["floodsub"],
        Some(1),
    )
    .expect("a valid scenario");
    let options = RunOptions::new(1, &loaded.inputs);
    let measured = run_alone::<Streaming<BaselineMember<PubSub>>>(&loaded.points[0], options, &mut |_, _| {})
        .expect("it runs");
    reports_too_many_deliveries(
        measured,
        |measured| &mut measured.collector.deliveries,
        "messages.duration or network.nodes",
    );
}
