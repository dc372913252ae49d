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
