//! How far runs are.

use samara_trace::live::{Clock, Event, Outcome, Progress, RunState};

use super::Teller;
use crate::common::{MS, running, started};

fn waiting() -> Event {
    Event::Progress(Progress::default())
}

#[test]
fn what_is_left_follows_from_the_last_seconds() {
    let mut teller = Teller::default();
    teller.say_of("session", Some("batch"), 0, running(0.0, 0));
    assert!(teller.part("job/session/batch")["left_ms"].is_null(), "too early to judge");
    // 2 % a second at first, 4 % a second from the tenth on.
    for second in 1..=10_u64 {
        teller.say_of("session", Some("batch"), second, running(0.02 * second as f64, second * 1000 * MS));
    }
    let left = teller.part("job/session/batch")["left_ms"].as_f64().unwrap();
    assert!((left - 40_000.0).abs() < 1.0, "{left}");
    for second in 11..=15_u64 {
        let share = 0.2 + 0.04 * (second - 10) as f64;
        teller.say_of("session", Some("batch"), second, running(share, second * 1000 * MS));
    }
    let left = teller.part("job/session/batch")["left_ms"].as_f64().unwrap();
    assert!((left - 0.6 / 0.4 * 15_000.0).abs() < 1.0, "{left}");
}

#[test]
fn all_runs_together_are_done_when_each_is() {
    let mut teller = Teller::default();
    teller.say("session", 0, started("session", Clock::Wall, 1));
    for run in ["a", "b", "c", "d"] {
        teller.say_of("session", Some(run), 0, waiting());
    }
    teller.say_of("session", Some("a"), 1, running(0.5, 1));
    assert_eq!(teller.part("overall")["share"], 0.125);
    let done = |share| {
        let Event::Progress(progress) = running(share, 9) else { panic!("no progress") };
        Event::Progress(Progress { state: RunState::Done, ..progress })
    };
    for run in ["a", "b", "c", "d"] {
        teller.say_of("session", Some(run), 2, done(1.0));
    }
    let overall = teller.part("overall");
    assert_eq!((&overall["share"], &overall["done"]), (&1.0.into(), &4.into()));
    assert!(teller.part("job/session/a")["left_ms"].is_null());
}

#[test]
fn runs_that_were_interrupted_do_not_go_on_for_ever() {
    let mut teller = Teller::default();
    teller.say_of("session", Some("a"), 0, running(0.2, 0));
    teller.say_of("session", Some("a"), 0, running(0.4, 5_000 * MS));
    teller.say_of("session", Some("b"), 0, waiting());
    assert!(!teller.part("job/session/a")["left_ms"].is_null());
    teller.say("session", 9, Event::Finished { outcome: Outcome::Interrupted, message: None });
    for run in ["a", "b"] {
        let job = teller.part(&format!("job/session/{run}"));
        assert_eq!(job["state"], "stopped");
        assert!(job["left_ms"].is_null());
    }
    let overall = teller.part("overall");
    assert_eq!(
        (&overall["stopped"], &overall["running"], &overall["waiting"]),
        (&2.into(), &0.into(), &0.into())
    );
}

#[test]
fn a_share_that_is_none_is_not_known() {
    let mut teller = Teller::default();
    for share in [f64::NAN, -0.1, 1.1] {
        teller.say_of("session", Some("a"), 0, running(share, 1));
        assert!(teller.part("job/session/a")["share"].is_null());
        assert!(teller.part("overall")["share"].is_null());
    }
}
