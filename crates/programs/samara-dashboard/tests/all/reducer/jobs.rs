//! Tests of the progress of runs.

use samara_trace::live::{Clock, Event, Outcome, Progress, RunState};

use super::Lines;
use crate::common::{MS, running, started};

fn waiting() -> Event {
    Event::Progress(Progress::default())
}

#[test]
fn remaining_time_follows_from_the_last_seconds() {
    let mut lines = Lines::default();
    lines.say_of("session", Some("batch"), 0, running(0.0, 0));
    assert!(lines.part("job/session/batch")["left_ms"].is_null(), "too early for an estimate");
    // 2 % per second until the tenth second, then 4 % per second.
    for second in 1..=10_u64 {
        lines.say_of("session", Some("batch"), second, running(0.02 * second as f64, second * 1000 * MS));
    }
    let left = lines.part("job/session/batch")["left_ms"].as_f64().unwrap();
    assert!((left - 40_000.0).abs() < 1.0, "{left}");
    for second in 11..=15_u64 {
        let share = 0.2 + 0.04 * (second - 10) as f64;
        lines.say_of("session", Some("batch"), second, running(share, second * 1000 * MS));
    }
    let left = lines.part("job/session/batch")["left_ms"].as_f64().unwrap();
    assert!((left - 0.6 / 0.4 * 15_000.0).abs() < 1.0, "{left}");
}

#[test]
fn overall_progress_is_the_mean_of_all_runs() {
    let mut lines = Lines::default();
    lines.say("session", 0, started("session", Clock::Wall, 1));
    for run in ["a", "b", "c", "d"] {
        lines.say_of("session", Some(run), 0, waiting());
    }
    lines.say_of("session", Some("a"), 1, running(0.5, 1));
    assert_eq!(lines.part("overall")["share"], 0.125);
    let done = |share| {
        let Event::Progress(progress) = running(share, 9) else { panic!("no progress") };
        Event::Progress(Progress { state: RunState::Done, ..progress })
    };
    for run in ["a", "b", "c", "d"] {
        lines.say_of("session", Some(run), 2, done(1.0));
    }
    let overall = lines.part("overall");
    assert_eq!((&overall["share"], &overall["done"]), (&1.0.into(), &4.into()));
    assert!(lines.part("job/session/a")["left_ms"].is_null());
}

#[test]
fn interrupted_runs_are_shown_as_stopped() {
    let mut lines = Lines::default();
    lines.say_of("session", Some("a"), 0, running(0.2, 0));
    lines.say_of("session", Some("a"), 0, running(0.4, 5_000 * MS));
    lines.say_of("session", Some("b"), 0, waiting());
    assert!(!lines.part("job/session/a")["left_ms"].is_null());
    lines.say("session", 9, Event::Finished { outcome: Outcome::Interrupted, message: None });
    for run in ["a", "b"] {
        let job = lines.part(&format!("job/session/{run}"));
        assert_eq!(job["state"], "stopped");
        assert!(job["left_ms"].is_null());
    }
    let overall = lines.part("overall");
    assert_eq!(
        (&overall["stopped"], &overall["running"], &overall["waiting"]),
        (&2.into(), &0.into(), &0.into())
    );
}

#[test]
fn invalid_share_is_unknown() {
    let mut lines = Lines::default();
    for share in [f64::NAN, -0.1, 1.1] {
        lines.say_of("session", Some("a"), 0, running(share, 1));
        assert!(lines.part("job/session/a")["share"].is_null());
        assert!(lines.part("overall")["share"].is_null());
    }
}

#[test]
fn progress_follows_deliveries_and_their_curve() {
    let mut lines = Lines::default();
    // A run with most deliveries long before its last virtual time.
    for step in 0..=1000_u64 {
        let Event::Progress(progress) = running(0.0002 * step as f64, step * MS) else {
            panic!("no progress")
        };
        let (virtual_ns, expected) = (Some(step * MS), Some(1000));
        let event =
            Progress { virtual_ns, deliveries: Some(step), deliveries_expected: expected, ..progress };
        lines.say_of("session", Some("a"), step, Event::Progress(event));
    }
    let job = lines.part("job/session/a");
    assert_eq!(job["share"], 1.0);
    let curve = job["curve"].as_array().unwrap();
    assert!((40..=200).contains(&curve.len()), "{}", curve.len());
    assert_eq!((&curve[0], &curve[curve.len() - 1][1]), (&serde_json::json!([0.0, 0.0]), &1.0.into()));
}

#[test]
fn changing_rates_have_no_estimate() {
    let mut lines = Lines::default();
    for second in 1..=40_u64 {
        // Slow for half a minute, then ten times as fast.
        let share = if second <= 30 { 0.004 * second as f64 } else { 0.12 + 0.04 * (second - 30) as f64 };
        lines.say_of("session", Some("a"), second, running(share, second * 1000 * MS));
    }
    assert!(lines.part("job/session/a")["left_ms"].is_null());
}
