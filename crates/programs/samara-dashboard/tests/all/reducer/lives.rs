//! Tests of restarting sources, repeated files and replaced runs.

use samara_dashboard::state::State;
use samara_trace::live::{Clock, Event, Line, Step};

use super::Lines;
use crate::common::{MS, running, slots, started};

fn line(seq: u64, at_ns: u64, event: Event) -> Line {
    Line { v: 1, seq, at_ns, node: None, event }
}

#[test]
fn repeated_lines_count_once() {
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

/// A line that a writer adds at the start of a new file has the number of the line after it.
#[test]
fn new_file_continues_the_old_one() {
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
fn restarted_node_keeps_rounds_and_loses_links() {
    let mut state = State::default();
    let errors = || Event::Errors { cause: "timeout".into(), total: 3 };
    state.apply("a", &line(0, 0, started("node", Clock::Wall, 1)));
    state.apply("a", &line(1, 0, errors()));
    state.apply("a", &line(2, 0, slots(1, Step::Entered, 10)));
    state.apply("b", &line(0, 0, errors()));
    state.apply("a", &line(0, 9, started("node", Clock::Wall, 2)));
    let view = state.view();
    assert_eq!(view["errors"].as_array().unwrap().len(), 1, "the errors of the other node");
    assert!(view.contains_key("round/wall/1"));
}

#[test]
fn another_run_in_the_same_directory_starts_empty() {
    let mut lines = Lines::default();
    lines.say("session", 0, started("session", Clock::Wall, 1));
    lines.say_of("session", Some("old"), 0, running(0.5, 1));
    lines.say("a", 0, slots(1, Step::Entered, 10));
    lines.seq.clear();
    lines.say("session", 0, started("session", Clock::Wall, 2));
    lines.say_of("session", Some("new"), 0, running(0.1, 1));
    let view = lines.state.view();
    assert!(!view.contains_key("round/wall/1") && !view.contains_key("job/session/old"));
    assert!(view.contains_key("job/session/new"));
    assert_eq!(view["sources"].as_array().unwrap().len(), 1);
}

#[test]
fn deleted_file_removes_its_values() {
    let mut lines = Lines::default();
    lines.say("a", 0, Event::Queue { queue: "q".into(), entries: 3, bytes: None });
    lines.state.forget("a");
    assert_eq!(lines.part("queues")["all"], 0);
    assert_eq!(lines.part("sources"), serde_json::json!([]));
}
