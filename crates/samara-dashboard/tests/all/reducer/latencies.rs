//! Latencies of slots, with several rounds in flight: the blog's dashboard failed there.

use proptest::prelude::*;
use samara_trace::live::{Clock, Event, Latencies, RoundState, Step};

use super::Teller;
use crate::common::{MS, round, slots, started};

/// Round r enters at 400 r ms and is out 1000 + 10 r ms later, so that three are always in flight.
#[test]
fn rounds_that_overlap_are_never_mixed_up() {
    let mut teller = Teller::default();
    teller.say("first", 0, started("node", Clock::Wall, 1));
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
        teller.say("first", at * MS, slots(number, step, 250));
    }
    assert!(most >= 3);
    let latency = teller.part("latency")["team"].clone();
    assert_eq!((latency["slots"].as_u64(), latency["rounds"].as_u64()), (Some(10_000), Some(40)));
    assert_eq!(latency["mean_ms"], 1195.0);
    assert_eq!((&latency["min_ms"], &latency["max_ms"]), (&1000.0.into(), &1390.0.into()));
    let p50 = latency["p50_ms"].as_f64().unwrap();
    assert!((p50 - 1190.0).abs() < 12.0, "{p50}");
    for number in 24..40_u64 {
        let shown = teller.part(&format!("round/wall/{number}"));
        assert_eq!(shown["latency_mean_ms"], 1000.0 + 10.0 * number as f64);
        assert_eq!(shown["entered_ms"], 400.0 * number as f64);
    }
}

#[test]
fn nothing_is_shown_before_all_slots_are_out() {
    let mut teller = Teller::default();
    teller.say("first", 0, started("node", Clock::Wall, 1));
    teller.say("first", 0, slots(1, Step::Entered, 100));
    teller.say("first", 5 * MS, slots(1, Step::Left, 60));
    assert!(teller.part("latency")["team"].is_null());
    assert!(teller.part("round/wall/1")["latency_mean_ms"].is_null());
    teller.say("first", 10 * MS, slots(1, Step::Left, 40));
    assert_eq!(teller.part("latency")["team"]["mean_ms"], 7.0);
}

/// Slots may leave before the last ones have entered.
#[test]
fn whoever_knows_how_many_there_are_waits_for_all() {
    let mut teller = Teller::default();
    let known =
        Event::Round { round: 1, state: RoundState::Queued, team: None, slots: Some(20), cause: None };
    teller.say("scheduler", 0, known);
    for (at, step) in [(0, Step::Entered), (4, Step::Left), (6, Step::Entered)] {
        teller.say("first", at * MS, slots(1, step, 10));
        assert!(teller.part("latency")["team"].is_null());
    }
    teller.say("first", 12 * MS, slots(1, Step::Left, 10));
    assert_eq!(teller.part("latency")["team"]["mean_ms"], 5.0);
}

#[test]
fn rounds_that_fail_have_no_latency() {
    let mut teller = Teller::default();
    teller.say("first", 0, slots(1, Step::Entered, 100));
    teller.say("scheduler", MS, round(1, RoundState::Failed));
    teller.say("first", 5 * MS, slots(1, Step::Left, 100));
    assert!(teller.part("latency")["team"].is_null());
    assert_eq!(teller.part("outcomes")["failed"], 1);
}

/// The clock that saw slots in is the one that counts, even if another one has seen them out before.
#[test]
fn exits_elsewhere_count_only_if_the_first_node_tells_of_none() {
    let mut teller = Teller::default();
    for (number, first_tells) in [(1, true), (2, false)] {
        teller.say("last", 9 * MS, slots(number, Step::Left, 10));
        teller.say("first", 0, slots(number, Step::Entered, 10));
        assert_eq!(teller.part("latency")["across_clocks"], false);
        if first_tells {
            teller.say("first", 12 * MS, slots(number, Step::Left, 10));
        }
        teller.say("scheduler", 13 * MS, round(number, RoundState::Completed));
        let expected = if first_tells { 12.0 } else { 9.0 };
        assert_eq!(teller.part(&format!("round/wall/{number}"))["latency_mean_ms"], expected);
    }
    assert_eq!(teller.part("latency")["across_clocks"], true);
}

#[test]
fn senders_are_shown_apart_and_each_round_once() {
    let mut teller = Teller::default();
    let mut latencies = Latencies::default();
    latencies.add(20 * MS, 3);
    for _ in 0..2 {
        let told = Event::Latencies { round: 1, latencies: latencies.clone() };
        teller.say("client", 30 * MS, told);
    }
    let latency = teller.part("latency");
    assert!(latency["team"].is_null());
    assert_eq!((&latency["senders"]["slots"], &latency["senders"]["mean_ms"]), (&3.into(), &20.0.into()));
}

#[test]
fn rounds_of_simulations_with_clocks_of_their_own_are_not_the_same() {
    let mut teller = Teller::default();
    for (source, latency) in [("a", 10), ("b", 30)] {
        teller.say(source, 0, started("simulation", Clock::Virtual, 1));
        teller.say(source, 0, slots(1, Step::Entered, 5));
        teller.say(source, latency * MS, slots(1, Step::Left, 5));
        assert_eq!(teller.part(&format!("round/{source}/1"))["latency_mean_ms"], latency as f64);
    }
}

proptest! {
    /// Whoever is whom: the mean is that of the true pairs.
    #[test]
    fn the_mean_does_not_depend_on_who_is_whom(
        slots_of in prop::collection::vec((0..1_000_u64, 0..1_000_u64), 1..40),
    ) {
        let mut teller = Teller::default();
        // All are in before the first is out.
        let true_mean = slots_of.iter().map(|(into, out)| 1_000 + out - into).sum::<u64>() as f64 / slots_of.len() as f64;
        let mut events: Vec<_> = slots_of.iter().map(|(into, _)| (*into, Step::Entered)).collect();
        events.extend(slots_of.iter().map(|(_, out)| (1_000 + out, Step::Left)));
        events.sort_by_key(|(at, _)| *at);
        for (at, step) in events {
            teller.say("first", at * MS, slots(1, step, 1));
        }
        let mean = teller.part("latency")["team"]["mean_ms"].as_f64().unwrap();
        prop_assert!((mean - true_mean).abs() < 1e-3, "{} {}", mean, true_mean);
    }
}
