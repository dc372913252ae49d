//! Sources that restart, files that are told again, runs that are replaced.

use samara_dashboard::state::State;
use samara_trace::live::{Clock, Event, Line, Step};

use super::Teller;
use crate::common::{MS, running, slots, started};

fn line(seq: u64, at_ns: u64, event: Event) -> Line {
    Line { v: 1, seq, at_ns, node: None, event }
}

#[test]
fn lines_that_are_told_again_count_once() {
    let lines = [
        line(0, 0, started("node", Clock::Wall, 1)),
        line(1, 0, slots(1, Step::Entered, 10)),
        line(2, 5 * MS, slots(1, Step::Left, 4)),
        line(3, 9 * MS, slots(1, Step::Left, 6)),
    ];
    let mut state = State::default();
    lines[..3].iter().for_each(|line| state.apply("a", line));
    lines.iter().for_each(|line| state.apply("a", line));
    let view = state.view();
    assert_eq!(
        (&view["latency"]["team"]["slots"], &view["latency"]["team"]["mean_ms"]),
        (&10.into(), &7.4.into())
    );
}

/// What a writer adds at the start of a new file has the number of the line after it.
#[test]
fn a_new_file_goes_on_where_the_old_one_ended() {
    let mut state = State::default();
    state.apply("a", &line(0, 0, started("node", Clock::Wall, 1)));
    state.apply("a", &line(7, 0, slots(1, Step::Entered, 10)));
    for added in [
        started("node", Clock::Wall, 1),
        Event::Team { team: 0, members: vec!["a".into()] },
        Event::Dropped { lines: 2 },
    ] {
        state.apply("a", &line(8, MS, added));
    }
    state.apply("a", &line(8, MS, slots(1, Step::Left, 10)));
    let view = state.view();
    assert_eq!(view["latency"]["team"]["mean_ms"], 1.0);
    assert_eq!(view["sources"][0]["dropped"], 2);
}

#[test]
fn a_node_that_restarts_keeps_its_rounds_and_loses_its_links() {
    let mut state = State::default();
    let errors = || Event::Errors { cause: "timeout".into(), total: 3 };
    state.apply("a", &line(0, 0, started("node", Clock::Wall, 1)));
    state.apply("a", &line(1, 0, errors()));
    state.apply("a", &line(2, 0, slots(1, Step::Entered, 10)));
    state.apply("b", &line(0, 0, errors()));
    state.apply("a", &line(0, 9, started("node", Clock::Wall, 2)));
    let view = state.view();
    assert_eq!(view["errors"].as_array().unwrap().len(), 1, "those of the other node");
    assert!(view.contains_key("round/wall/1"));
}

#[test]
fn another_run_in_the_same_place_starts_from_nothing() {
    let mut teller = Teller::default();
    teller.say("session", 0, started("session", Clock::Wall, 1));
    teller.say_of("session", Some("old"), 0, running(0.5, 1));
    teller.say("a", 0, slots(1, Step::Entered, 10));
    teller.seq.clear();
    teller.say("session", 0, started("session", Clock::Wall, 2));
    teller.say_of("session", Some("new"), 0, running(0.1, 1));
    let view = teller.state.view();
    assert!(!view.contains_key("round/wall/1") && !view.contains_key("job/session/old"));
    assert!(view.contains_key("job/session/new"));
    assert_eq!(view["sources"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_is_gone_takes_its_claims_with_it() {
    let mut teller = Teller::default();
    teller.say("a", 0, Event::Queue { queue: "q".into(), entries: 3, bytes: None });
    teller.state.forget("a");
    assert_eq!(teller.part("queues")["all"], 0);
    assert_eq!(teller.part("sources"), serde_json::json!([]));
}
