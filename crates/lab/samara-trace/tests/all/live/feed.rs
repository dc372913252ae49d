//! Tests of live lines in memory and of their readers.

use proptest::prelude::*;
use samara_trace::live::{Event, FEED_BYTES_MAX, Feed, FeedError, FeedReader, Line, Step};

use super::errors;

fn slots(round: u64) -> Event {
    Event::Slots { round, step: Step::Entered, slots: 1 }
}

fn team(team: u64) -> Event {
    Event::Team { team, members: vec!["a".into(), "b".into()] }
}

fn feed(started: u64, bytes: usize) -> Feed {
    Feed::with_limit(Some("node-1".into()), "node", started, bytes)
}

/// Reads an answer to the end.
fn read(reader: &mut FeedReader, feed: &Feed, counts: Vec<Event>) -> Vec<Line> {
    let mut lines = Vec::new();
    let answer = feed.answer(reader.next(), 9, counts);
    let head = reader.take(answer.as_bytes(), |line| lines.push(line)).unwrap().expect("no restart");
    assert_eq!((head.name.as_deref(), head.now_unix_ns), (Some("node-1"), 9));
    lines
}

fn events(lines: &[Line]) -> Vec<Event> {
    let is_event = |line: &&Line| !matches!(line.event, Event::Started { .. });
    lines.iter().filter(is_event).map(|line| line.event.clone()).collect()
}

#[test]
fn each_answer_has_the_new_events_and_the_counts_of_the_moment() {
    let (mut feed, mut reader) = (feed(1, 1 << 20), FeedReader::default());
    feed.push(5, slots(0));
    let lines = read(&mut reader, &feed, vec![errors(1)]);
    assert!(matches!(&lines[0].event, Event::Started { role, .. } if role == "node"));
    assert_eq!(events(&lines), [slots(0), errors(1)]);
    assert_eq!(read(&mut reader, &feed, Vec::new()), []);
    // Times do not go back.
    feed.push(4, slots(1));
    let lines = read(&mut reader, &feed, vec![errors(2), errors(3)]);
    assert_eq!((lines[0].at_ns, events(&lines)), (5, vec![slots(1), errors(2), errors(3)]));
    // Two readers do not affect each other.
    assert_eq!(events(&read(&mut FeedReader::default(), &feed, Vec::new())), [slots(0), slots(1)]);
    let counts = reader.counts();
    assert_eq!((counts.missing, counts.garbage, counts.unknown), (0, 0, 0));
}

/// A reader that does not come, or comes late, costs a bounded number of bytes, and learns how many
/// events it has missed.
#[test]
fn forgotten_events_are_counted_and_what_stays_valid_is_repeated() {
    let (mut feed, mut reader) = (feed(1, 1000), FeedReader::default());
    feed.push(2, team(3));
    read(&mut reader, &feed, vec![errors(0)]);
    (0..1000).for_each(|round| feed.push(3, slots(round)));
    assert!(feed.bytes() <= 1000 && feed.forgotten() > 900, "{feed:?}");
    let lines = read(&mut reader, &feed, vec![errors(1)]);
    assert!(matches!(lines[0].event, Event::Started { .. }));
    assert_eq!((&lines[1].event, lines.last().map(|line| &line.event)), (&team(3), Some(&errors(1))));
    // Two events were read before.
    assert_eq!(reader.counts().missing, feed.forgotten() - 2);
    feed.push(4, slots(1000));
    assert_eq!(events(&read(&mut reader, &feed, Vec::new())), [slots(1000)]);
    assert_eq!(reader.counts().missing, feed.forgotten() - 3);
}

#[test]
fn a_restart_is_noticed_although_its_numbers_fit() {
    let mut reader = FeedReader::default();
    let mut first = feed(1, 1000);
    first.push(2, slots(0));
    read(&mut reader, &first, Vec::new());
    let mut second = feed(2, 1000);
    (1..5).for_each(|round| second.push(3, slots(round)));
    let answer = second.answer(reader.next(), 9, vec![errors(1)]);
    let restarted = reader.take(answer.as_bytes(), |line| panic!("{line:?}"));
    assert_eq!((restarted, reader.next()), (Ok(None), 0));
    assert_eq!(events(&read(&mut reader, &second, Vec::new())), [1, 2, 3, 4].map(slots));
    assert_eq!(reader.counts().missing, 0);
}

#[test]
fn answers_are_bounded_and_count_what_does_not_fit() {
    let mut feed = feed(1, usize::MAX);
    let long = |at: u64| Event::Errors { cause: "x".repeat(50_000), total: at };
    (0..30).for_each(|at| feed.push(2, long(at)));
    assert!(feed.bytes() <= 1 << 20 && feed.forgotten() == 11, "{} {}", feed.bytes(), feed.forgotten());
    let (mut reader, mut came, mut more) = (FeedReader::default(), Vec::new(), true);
    for is_last in [false, false, false, true] {
        let answer = feed.answer(reader.next(), 9, (100..130).map(long).collect());
        assert!(answer.len() <= FEED_BYTES_MAX, "{}", answer.len());
        let head = reader.take(answer.as_bytes(), |line| came.push(line)).unwrap().unwrap();
        assert!(head.omitted > 20, "{head:?}");
        assert_eq!((head.more, more), (!is_last, true));
        more = head.more;
    }
    let events =
        events(&came).into_iter().filter(|event| matches!(event, Event::Errors { total: ..100, .. }));
    assert_eq!(events.count(), 20);
    assert_eq!(reader.counts().missing, 11);
}

#[test]
fn answers_of_strangers_are_errors_or_counted() {
    let mut reader = FeedReader::default();
    let mut take = |body: &[u8]| reader.take(body, |line| panic!("{line:?}"));
    for body in [&b""[..], b"x", b"\n", b"{}\n", b"\xff\xfe\n", b"[1]\n{}\n", b"{\"v\":1}\n"] {
        assert_eq!(take(body), Err(FeedError::Malformed), "{body:?}");
    }
    assert_eq!(take(b"{\"v\":2,\"what\":1}\n"), Err(FeedError::Version(2)));
    let head =
        r#"{"v":1,"started_unix_ns":1,"now_unix_ns":1,"next":18446744073709551615,"more":true,"omitted":0}"#;
    let body = format!("{head}\ngarbage\n{{\"v\":1,\"seq\":0}}\n{{\"v\":7}}\nincomplete");
    assert!(take(body.as_bytes()).unwrap().is_some());
    assert_eq!((reader.counts().garbage, reader.counts().other_version), (3, 1));
}

proptest! {
    /// Whatever an answer has after its head, a reader counts it or skips it, and goes on.
    #[test]
    fn any_answer_leaves_the_reader_usable(bytes in proptest::collection::vec(any::<u8>(), 0..200), has_head: bool) {
        let (mut feed, mut reader) = (feed(1, 1000), FeedReader::default());
        feed.push(2, slots(0));
        let head = feed.answer(0, 9, Vec::new());
        let mut answer = if has_head { head.into_bytes() } else { Vec::new() };
        answer.extend(bytes);
        let taken = reader.take(&answer, |_| ());
        prop_assert_eq!(taken.is_ok(), has_head);
        feed.push(3, slots(1));
        let answer = feed.answer(reader.next(), 9, Vec::new());
        let mut lines = Vec::new();
        reader.take(answer.as_bytes(), |line| lines.push(line)).unwrap().expect("no restart");
        prop_assert_eq!(lines.last().map(|line| &line.event), Some(&slots(1)));
    }
}
