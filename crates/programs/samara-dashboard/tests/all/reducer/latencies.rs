//! Tests of the latencies of slots with several rounds in flight, where the blog's dashboard
//! failed.

use proptest::prelude::*;
use samara_trace::live::{Clock, Event, Latencies, RoundState, Step};

use super::Lines;
use crate::common::{MS, round, slots, started};

/// Round r enters at 400 r ms and leaves 1000 + 10 r ms later, so that three are always in flight.
#[test]
fn overlapping_rounds_are_kept_apart() {
    let mut lines = Lines::default();
    lines.say("first", 0, started("node", Clock::Wall, 1));
    let mut events = Vec::new();
    for number in 0..40 {
        let entered = 400 * number;
        events.push((entered, number, Step::Entered));
        events.push((entered + 1000 + 10 * number, number, Step::Left));
    }
    events.sort_by_key(|(at, ..)| *at);
    let (mut flying, mut most) = (0, 0);
    for (at, number, step) in events {
        flying += if step == Step::Entered { 1 } else { -1 };
        most = most.max(flying);
        lines.say("first", at * MS, slots(number, step, 250));
    }
    assert!(most >= 3);
    let latency = lines.part("latency")["team"].clone();
    assert_eq!((latency["slots"].as_u64(), latency["rounds"].as_u64()), (Some(10_000), Some(40)));
    assert_eq!(latency["mean_ms"], 1195.0);
    assert_eq!((&latency["min_ms"], &latency["max_ms"]), (&1000.0.into(), &1390.0.into()));
    let p50 = latency["p50_ms"].as_f64().unwrap();
    assert!((p50 - 1190.0).abs() < 12.0, "{p50}");
    for number in 24..40_u64 {
        let shown = lines.part(&format!("round/wall/{number}"));
        assert_eq!(shown["latency_mean_ms"], 1000.0 + 10.0 * number as f64);
        assert_eq!(shown["entered_ms"], 400.0 * number as f64);
    }
}

#[test]
fn no_latency_before_all_slots_have_left() {
    let mut lines = Lines::default();
    lines.say("first", 0, started("node", Clock::Wall, 1));
    lines.say("first", 0, slots(1, Step::Entered, 100));
    lines.say("first", 5 * MS, slots(1, Step::Left, 60));
    assert!(lines.part("latency")["team"].is_null());
    assert!(lines.part("round/wall/1")["latency_mean_ms"].is_null());
    lines.say("first", 10 * MS, slots(1, Step::Left, 40));
    assert_eq!(lines.part("latency")["team"]["mean_ms"], 7.0);
}

/// Slots may leave before the last ones have entered.
#[test]
fn latency_waits_for_the_known_number_of_slots() {
    let mut lines = Lines::default();
    let known =
        Event::Round { round: 1, state: RoundState::Queued, team: None, slots: Some(20), cause: None };
    lines.say("scheduler", 0, known);
    for (at, step) in [(0, Step::Entered), (4, Step::Left), (6, Step::Entered)] {
        lines.say("first", at * MS, slots(1, step, 10));
        assert!(lines.part("latency")["team"].is_null());
    }
    lines.say("first", 12 * MS, slots(1, Step::Left, 10));
    assert_eq!(lines.part("latency")["team"]["mean_ms"], 5.0);
}

#[test]
fn failed_rounds_have_no_latency() {
    let mut lines = Lines::default();
    lines.say("first", 0, slots(1, Step::Entered, 100));
    lines.say("scheduler", MS, round(1, RoundState::Failed));
    lines.say("first", 5 * MS, slots(1, Step::Left, 100));
    assert!(lines.part("latency")["team"].is_null());
    assert_eq!(lines.part("outcomes")["failed"], 1);
}

/// Exits on the clock that measured the entries are preferred, even to earlier exits on another
/// clock.
#[test]
fn exits_on_other_clocks_count_only_without_own_exits() {
    let mut lines = Lines::default();
    for (number, first_tells) in [(1, true), (2, false)] {
        lines.say("last", 9 * MS, slots(number, Step::Left, 10));
        lines.say("first", 0, slots(number, Step::Entered, 10));
        assert_eq!(lines.part("latency")["across_clocks"], false);
        if first_tells {
            lines.say("first", 12 * MS, slots(number, Step::Left, 10));
        }
        lines.say("scheduler", 13 * MS, round(number, RoundState::Completed));
        let expected = if first_tells { 12.0 } else { 9.0 };
        assert_eq!(lines.part(&format!("round/wall/{number}"))["latency_mean_ms"], expected);
    }
    assert_eq!(lines.part("latency")["across_clocks"], true);
}

#[test]
fn senders_are_shown_separately_and_each_round_once() {
    let mut lines = Lines::default();
    let mut latencies = Latencies::default();
    latencies.add(20 * MS, 3);
    for _ in 0..2 {
        let event = Event::Latencies { round: 1, latencies: latencies.clone() };
        lines.say("client", 30 * MS, event);
    }
    let latency = lines.part("latency");
    assert!(latency["team"].is_null());
    assert_eq!((&latency["senders"]["slots"], &latency["senders"]["mean_ms"]), (&3.into(), &20.0.into()));
}

#[test]
fn simulations_with_separate_clocks_have_separate_rounds() {
    let mut lines = Lines::default();
    for (source, latency) in [("a", 10), ("b", 30)] {
        lines.say(source, 0, started("simulation", Clock::Virtual, 1));
        lines.say(source, 0, slots(1, Step::Entered, 5));
        lines.say(source, latency * MS, slots(1, Step::Left, 5));
        assert_eq!(lines.part(&format!("round/{source}/1"))["latency_mean_ms"], latency as f64);
    }
}

proptest! {
    /// The mean equals that of the true pairs, whatever the order of exits.
    #[test]
    fn mean_does_not_depend_on_the_pairing(
        slots_of in prop::collection::vec((0..1_000_u64, 0..1_000_u64), 1..40),
    ) {
        let mut lines = Lines::default();
        // All slots enter before the first one leaves.
        let true_mean = slots_of.iter().map(|(into, out)| 1_000 + out - into).sum::<u64>() as f64 / slots_of.len() as f64;
        let mut events: Vec<_> = slots_of.iter().map(|(into, _)| (*into, Step::Entered)).collect();
        events.extend(slots_of.iter().map(|(_, out)| (1_000 + out, Step::Left)));
        events.sort_by_key(|(at, _)| *at);
        for (at, step) in events {
            lines.say("first", at * MS, slots(1, step, 1));
        }
        let mean = lines.part("latency")["team"]["mean_ms"].as_f64().unwrap();
        prop_assert!((mean - true_mean).abs() < 1e-3, "{} {}", mean, true_mean);
    }
}
