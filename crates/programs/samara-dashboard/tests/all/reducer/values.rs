//! Tests that no metric has a value before it is known, as in the race of the blog's dashboard.

use samara_trace::live::{Clock, Event, RoundState, Step};

use super::Lines;
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
fn unknown_values_are_not_zero() {
    let lines = Lines::default();
    for name in ["outcomes", "overall", "errors"] {
        assert!(lines.part(name).is_null(), "{name}");
    }
    assert!(lines.part("latency")["team"].is_null() && lines.part("latency")["senders"].is_null());
}

#[test]
fn link_needs_a_measured_round_trip_and_two_counts_for_a_rate() {
    let mut lines = Lines::default();
    lines.say("a", 0, link(None, Some(1000)));
    let shown = lines.part("links")["rows"][0].clone();
    assert!(shown["round_trip_ms"].is_null() && shown["up_bytes_per_s"].is_null());
    assert!(shown["down_bytes"].is_null() && shown["queued_frames"].is_null());
    lines.say("a", 2_000 * MS, link(Some(90 * MS), Some(3000)));
    // A report without values keeps the earlier ones.
    lines.say("a", 2_000 * MS, link(None, None));
    let shown = lines.part("links")["rows"][0].clone();
    assert_eq!((&shown["round_trip_ms"], &shown["up_bytes_per_s"]), (&90.0.into(), &1000.0.into()));
}

#[test]
fn links_that_have_gone_keep_no_values() {
    let mut lines = Lines::default();
    let rows = |lines: &Lines| lines.part("links")["rows"].clone();
    let is_bare = |row: &serde_json::Value| {
        ["round_trip_ms", "up_bytes", "up_bytes_per_s", "queued_frames"].iter().all(|key| row[key].is_null())
    };
    for at in [0, 1_000 * MS] {
        lines.say("a", at, link(Some(90 * MS), Some(at + 1)));
    }
    assert!(!is_bare(&rows(&lines)[0]) && rows(&lines)[0]["up"] == true);
    // The source writes nothing: its process was killed.
    lines.state.note_reading("a", samara_trace::live::ReadCounts::default(), true);
    assert!(is_bare(&rows(&lines)[0]) && rows(&lines)[0]["up"].is_null());
    lines.state.note_reading("a", samara_trace::live::ReadCounts::default(), false);
    assert_eq!(rows(&lines)[0]["up"], true);
    let Event::Link { peer, .. } = link(None, None) else { unreachable!() };
    let gone = Event::Link {
        peer,
        up: false,
        round_trip_ns: None,
        bytes_up: None,
        bytes_down: None,
        queued_frames: None,
        queued_bytes: None,
    };
    lines.say("a", 2_000 * MS, gone);
    assert!(is_bare(&rows(&lines)[0]) && rows(&lines)[0]["up"] == false);
    lines.say("a", 3_000 * MS, link(None, Some(7)));
    assert_eq!((&rows(&lines)[0]["up"], &rows(&lines)[0]["up_bytes"]), (&true.into(), &7.into()));
    let message = None;
    lines.say("a", 4_000 * MS, Event::Finished { outcome: samara_trace::live::Outcome::Ok, message });
    assert!(is_bare(&rows(&lines)[0]) && rows(&lines)[0]["up"] == false);
}

#[test]
fn rounds_reported_only_by_nodes_have_no_state() {
    let mut lines = Lines::default();
    lines.say("a", 0, crate::common::slots(4, samara_trace::live::Step::Entered, 1));
    assert!(lines.part("round/wall/4")["state"].is_null());
    assert!(
        lines.part("outcomes")["completed"].is_null(),
        "no source has reported that no round is complete"
    );
    lines.say("scheduler", 0, round(4, RoundState::Realtime));
    assert_eq!(
        (&lines.part("outcomes")["completed"], &lines.part("outcomes")["realtime"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn late_state_report_does_not_move_a_round_back() {
    let mut lines = Lines::default();
    lines.say("scheduler", 9, round(4, RoundState::Completed));
    lines.say("other", 5, round(4, RoundState::Realtime));
    assert_eq!(lines.part("round/wall/4")["state"], "completed");
}

#[test]
fn uncounted_errors_differ_from_no_errors() {
    let mut lines = Lines::default();
    assert!(lines.part("errors").is_null());
    lines.say("a", 0, Event::Errors { cause: "timeout".into(), total: 0 });
    assert_eq!(lines.part("errors"), serde_json::json!([]));
    lines.say("a", 0, Event::Errors { cause: "timeout".into(), total: 2 });
    assert_eq!(lines.part("errors")[0]["total"], 2);
}

#[test]
fn ping_is_shown_with_measured_links() {
    let mut lines = Lines::default();
    let members = vec!["a".to_owned(), "b".to_owned()];
    let ping = |loop_ns| Event::Ping { team: None, members: members.clone(), loop_ns };
    lines.say("a", 0, ping(None));
    let shown = lines.part("pings")[0].clone();
    assert!(shown["loop_ms"].is_null() && shown["links"][0]["round_trip_ms"].is_null());
    lines.say("a", 0, link(Some(80 * MS), None));
    lines.say("a", 0, ping(Some(85 * MS)));
    let shown = lines.part("pings")[0].clone();
    assert_eq!((&shown["loop_ms"], &shown["back"], &shown["lost"]), (&85.0.into(), &1.into(), &1.into()));
    // A measurement on one side counts for both directions.
    assert_eq!(shown["links"][0]["round_trip_ms"], 80.0);
    assert_eq!(shown["links"][1]["round_trip_ms"], 80.0);
}

#[test]
fn rates_cover_the_last_seconds_and_add_up_over_sources() {
    let mut lines = Lines::default();
    let total = |total| Event::Throughput { of: "messages".into(), total, bytes: None };
    for source in ["a", "b"] {
        lines.say(source, 0, total(0));
        assert!(lines.part("throughput")[0]["per_s"].as_f64().unwrap_or(-1.0) <= 0.0 || source == "b");
        for second in 1..=20_u64 {
            lines.say(
                source,
                second * 1000 * MS,
                total(if second <= 10 { second * 1000 } else { 10_000 + (second - 10) * 10 }),
            );
        }
    }
    let shown = lines.part("throughput")[0].clone();
    assert_eq!(
        (&shown["per_s"], &shown["total"], &shown["sources"]),
        (&20.0.into(), &20_200.0.into(), &2.into())
    );
}

#[test]
fn rates_of_a_source_that_has_stopped_are_zero() {
    let mut lines = Lines::default();
    for second in 0..4_u64 {
        let total = Event::Throughput { of: "messages".into(), total: second * 1000, bytes: None };
        lines.say("a", second * 1000 * MS, total);
    }
    assert_eq!(lines.part("throughput")[0]["per_s"], 1000.0);
    let outcome = samara_trace::live::Outcome::Ok;
    lines.say("a", 3_500 * MS, Event::Finished { outcome, message: None });
    let shown = lines.part("throughput")[0].clone();
    assert_eq!((&shown["per_s"], &shown["total"]), (&0.0.into(), &3000.0.into()));
}

#[test]
fn teams_that_have_stopped_have_no_rate() {
    let mut lines = Lines::default();
    let slots = |round, step| Event::Slots { round, step, slots: 100 };
    for number in 0..5_u64 {
        lines.say("a", number * 1000 * MS, slots(number, Step::Entered));
        lines.say("a", (number * 1000 + 500) * MS, slots(number, Step::Left));
    }
    let rate = |lines: &mut Lines, second: u64| {
        lines.say("b", second * 1000 * MS, Event::Queue { queue: "jobs".into(), entries: 0, bytes: None });
        lines.part("outcomes")["payloads_per_s"].clone()
    };
    // The last slots left after 4.5 s.
    assert_eq!([9, 10].map(|second| rate(&mut lines, second)), [100.0, 0.0]);
    lines.say("a", 11_000 * MS, slots(9, Step::Entered));
    lines.say("a", 11_500 * MS, slots(9, Step::Left));
    assert!(lines.part("outcomes")["payloads_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn state_is_bounded() {
    let mut lines = Lines::default();
    lines.say("a", 0, started("node", Clock::Wall, 1));
    let long = "x".repeat(5000);
    for number in 0..6000 {
        lines.say("a", number, round(number, RoundState::Pending));
        lines.say("a", number, Event::Errors { cause: format!("{number}{long}"), total: 1 });
        lines.say("a", number, Event::Queue { queue: number.to_string(), entries: number, bytes: None });
        lines.say(
            "a",
            number,
            Event::Phase { round: 1, phase: number.to_string(), edge: samara_trace::live::Edge::Begin },
        );
        let members = vec![number.to_string()];
        lines.say("a", number, Event::Ping { team: None, members, loop_ns: Some(1) });
    }
    let view = lines.state.view();
    let bytes: usize = view.values().map(|value| value.to_string().len()).sum();
    assert!(bytes < 1_000_000, "{bytes}");
    assert_eq!(view["rounds"].as_array().unwrap().len(), 16);
}
