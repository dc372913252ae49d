//! No metric before it has a value: the blog's race.

use samara_trace::live::{Clock, Event, RoundState};

use super::Teller;
use crate::common::{MS, round, started};

fn link(round_trip_ns: Option<u64>, bytes_up: Option<u64>) -> Event {
    Event::Link {
        peer: "b".into(),
        up: true,
        round_trip_ns,
        bytes_up,
        bytes_down: None,
        queued_frames: None,
        queued_bytes: None,
    }
}

#[test]
fn nothing_is_zero_before_it_is_known() {
    let teller = Teller::default();
    for name in ["outcomes", "overall", "errors"] {
        assert!(teller.part(name).is_null(), "{name}");
    }
    assert!(teller.part("latency")["team"].is_null() && teller.part("latency")["senders"].is_null());
}

#[test]
fn a_link_has_no_round_trip_before_it_was_measured_and_no_rate_before_two_counts() {
    let mut teller = Teller::default();
    teller.say("a", 0, link(None, Some(1000)));
    let shown = teller.part("links")["rows"][0].clone();
    assert!(shown["round_trip_ms"].is_null() && shown["up_bytes_per_s"].is_null());
    assert!(shown["down_bytes"].is_null() && shown["queued_frames"].is_null());
    teller.say("a", 2_000 * MS, link(Some(90 * MS), Some(3000)));
    // What is left out is not forgotten.
    teller.say("a", 2_000 * MS, link(None, None));
    let shown = teller.part("links")["rows"][0].clone();
    assert_eq!((&shown["round_trip_ms"], &shown["up_bytes_per_s"]), (&90.0.into(), &1000.0.into()));
}

#[test]
fn rounds_that_only_nodes_tell_of_have_no_state() {
    let mut teller = Teller::default();
    teller.say("a", 0, crate::common::slots(4, samara_trace::live::Step::Entered, 1));
    assert!(teller.part("round/wall/4")["state"].is_null());
    assert!(teller.part("outcomes")["completed"].is_null(), "nobody has said that none is complete");
    teller.say("scheduler", 0, round(4, RoundState::Realtime));
    assert_eq!(
        (&teller.part("outcomes")["completed"], &teller.part("outcomes")["realtime"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_state_that_is_told_late_does_not_make_a_round_go_back() {
    let mut teller = Teller::default();
    teller.say("scheduler", 9, round(4, RoundState::Completed));
    teller.say("other", 5, round(4, RoundState::Realtime));
    assert_eq!(teller.part("round/wall/4")["state"], "completed");
}

#[test]
fn errors_that_are_not_counted_are_not_none() {
    let mut teller = Teller::default();
    assert!(teller.part("errors").is_null());
    teller.say("a", 0, Event::Errors { cause: "timeout".into(), total: 0 });
    assert_eq!(teller.part("errors"), serde_json::json!([]));
    teller.say("a", 0, Event::Errors { cause: "timeout".into(), total: 2 });
    assert_eq!(teller.part("errors")[0]["total"], 2);
}

#[test]
fn a_ping_shows_with_the_links_that_were_measured() {
    let mut teller = Teller::default();
    let members = vec!["a".to_owned(), "b".to_owned()];
    let ping = |loop_ns| Event::Ping { team: None, members: members.clone(), loop_ns };
    teller.say("a", 0, ping(None));
    let shown = teller.part("pings")[0].clone();
    assert!(shown["loop_ms"].is_null() && shown["links"][0]["round_trip_ms"].is_null());
    teller.say("a", 0, link(Some(80 * MS), None));
    teller.say("a", 0, ping(Some(85 * MS)));
    let shown = teller.part("pings")[0].clone();
    assert_eq!((&shown["loop_ms"], &shown["back"], &shown["lost"]), (&85.0.into(), &1.into(), &1.into()));
    // One side has measured it: that holds for both.
    assert_eq!(shown["links"][0]["round_trip_ms"], 80.0);
    assert_eq!(shown["links"][1]["round_trip_ms"], 80.0);
}

#[test]
fn rates_are_of_the_last_seconds_and_added_up_over_sources() {
    let mut teller = Teller::default();
    let total = |total| Event::Throughput { of: "messages".into(), total, bytes: None };
    for source in ["a", "b"] {
        teller.say(source, 0, total(0));
        assert!(teller.part("throughput")[0]["per_s"].as_f64().unwrap_or(-1.0) <= 0.0 || source == "b");
        for second in 1..=20_u64 {
            teller.say(
                source,
                second * 1000 * MS,
                total(if second <= 10 { second * 1000 } else { 10_000 + (second - 10) * 10 }),
            );
        }
    }
    let shown = teller.part("throughput")[0].clone();
    assert_eq!(
        (&shown["per_s"], &shown["total"], &shown["sources"]),
        (&20.0.into(), &20_200.0.into(), &2.into())
    );
}

#[test]
fn everything_is_bounded() {
    let mut teller = Teller::default();
    teller.say("a", 0, started("node", Clock::Wall, 1));
    let long = "x".repeat(5000);
    for number in 0..6000 {
        teller.say("a", number, round(number, RoundState::Pending));
        teller.say("a", number, Event::Errors { cause: format!("{number}{long}"), total: 1 });
        teller.say("a", number, Event::Queue { queue: number.to_string(), entries: number, bytes: None });
        teller.say(
            "a",
            number,
            Event::Phase { round: 1, phase: number.to_string(), edge: samara_trace::live::Edge::Begin },
        );
        let members = vec![number.to_string()];
        teller.say("a", number, Event::Ping { team: None, members, loop_ns: Some(1) });
    }
    let view = teller.state.view();
    let bytes: usize = view.values().map(|value| value.to_string().len()).sum();
    assert!(bytes < 1_000_000, "{bytes}");
    assert_eq!(view["rounds"].as_array().unwrap().len(), 16);
}
