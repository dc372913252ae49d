//! Tests with files that grow, or have incomplete or invalid lines, or are truncated or replaced.

use std::fs::{self, OpenOptions};
use std::io::Write;

use samara_trace::live::{Event, LINE_BYTES_MAX, LiveReader, LiveWriter, ReadCounts, Said};

use super::{all, directory, errors, events, started};

const FIRST: &str = r#"{"v":1,"seq":0,"at_ns":1,"event":"errors","cause":"a","total":1}"#;
const SECOND: &str = r#"{"v":1,"seq":1,"at_ns":2,"event":"errors","cause":"a","total":2}"#;

fn total(said: &[Said]) -> Vec<u64> {
    let total = |event: &Event| match event {
        Event::Errors { total, .. } => *total,
        other => panic!("{other:?}"),
    };
    events(said).iter().map(total).collect()
}

#[test]
fn follows_a_file_that_does_not_exist_yet() {
    let results = directory("before");
    let mut reader = LiveReader::new(&results.join("live").join("node_1.jsonl"));
    assert_eq!(all(&mut reader), []);
    let writer = LiveWriter::create(&results, "node/1").unwrap();
    assert!(writer.say(1, started("node")));
    assert!(writer.say_of(Some("other"), 2, errors(3)));
    let (counts, error) = writer.finish();
    error.unwrap();
    assert_eq!(counts.written, 2);
    assert_eq!(events(&all(&mut reader)), [started("node"), errors(3)]);
    assert_eq!(reader.counts(), ReadCounts { lines: 2, ..ReadCounts::default() });
}

#[test]
fn incomplete_line_waits_for_its_end() {
    let path = directory("torn").join("x.jsonl");
    let mut reader = LiveReader::new(&path);
    let (start, end) = SECOND.split_at(20);
    fs::write(&path, format!("{FIRST}\n{start}")).unwrap();
    assert_eq!(total(&all(&mut reader)), [1]);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(format!("{end}\n").as_bytes()).unwrap();
    assert_eq!(total(&all(&mut reader)), [2]);
    assert_eq!(reader.counts().garbage, 0);
}

#[test]
fn truncated_file_is_read_from_its_start() {
    let path = directory("cut").join("x.jsonl");
    fs::write(&path, format!("{FIRST}\n{SECOND}\n{{\"v\":1,")).unwrap();
    let mut reader = LiveReader::new(&path);
    assert_eq!(total(&all(&mut reader)), [1, 2]);
    fs::write(&path, format!("{SECOND}\n")).unwrap();
    let said = all(&mut reader);
    assert_eq!(said[0], Said::Replaced);
    assert_eq!(total(&said), [2]);
    assert_eq!((reader.counts().replaced, reader.counts().garbage), (1, 1));
}

#[test]
fn replaced_file_is_first_read_to_its_end() {
    let results = directory("replaced");
    let path = results.join("x.jsonl");
    fs::write(&path, format!("{FIRST}\n")).unwrap();
    let mut reader = LiveReader::new(&path);
    assert_eq!(total(&all(&mut reader)), [1]);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(format!("{SECOND}\n").as_bytes()).unwrap();
    fs::rename(&path, results.join("x.jsonl.old")).unwrap();
    fs::write(&path, format!("{FIRST}\n")).unwrap();
    let said = all(&mut reader);
    assert!(matches!(said[..], [Said::Line(_), Said::Replaced, Said::Line(_)]), "{said:?}");
    assert_eq!(total(&said), [2, 1]);
}

#[test]
fn restarted_writer_is_detected() {
    let results = directory("restart");
    let mut reader = LiveReader::new(&results.join("live/x.jsonl"));
    for total in [1, 2] {
        let writer = LiveWriter::create(&results, "x").unwrap();
        writer.say(1, started("node"));
        writer.say(2, errors(total));
        drop(writer);
        let said = all(&mut reader);
        assert_eq!(said.contains(&Said::Replaced), total == 2);
        assert_eq!(events(&said), [started("node"), errors(total)]);
    }
    assert_eq!(reader.counts().missing, 0);
}

#[test]
fn new_file_starts_with_the_lines_still_valid() {
    let results = directory("rotated");
    let writer = LiveWriter::with_limits(&results, "x", 1 << 12, 2000).unwrap();
    let team = Event::Team { team: 4, members: vec!["a".into(), "b".into()] };
    writer.say(1, started("node"));
    writer.say(1, team.clone());
    for total in 0..100 {
        writer.say(total + 2, errors(total));
    }
    let (counts, error) = writer.finish();
    error.unwrap();
    assert_eq!((counts.written, counts.dropped), (102, 0));
    let mut reader = LiveReader::new(&results.join("live/x.jsonl"));
    let said = all(&mut reader);
    let events = events(&said);
    assert_eq!(events[..2], [started("node"), team]);
    assert_eq!(events.last(), Some(&errors(99)));
    assert_eq!(reader.counts().missing, 0);
    let times: Vec<u64> =
        said.iter().map(|said| if let Said::Line(line) = said { line.at_ns } else { 0 }).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(fs::metadata(results.join("live/x.jsonl")).unwrap().len() < 2500);
    assert!(results.join("live/x.jsonl.old").exists());
}

#[test]
fn invalid_lines_are_counted_and_skipped() {
    let path = directory("rubbish").join("x.jsonl");
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    let other = r#"{"v":2,"something":"else"}"#;
    let new = r#"{"v":1,"seq":1,"at_ns":2,"event":"of_next_year","field":[1]}"#;
    let extra = r#"{"v":1,"seq":5,"at_ns":9,"event":"errors","cause":"a","total":2,"more":{"x":1}}"#;
    let lines = [FIRST, "no json", long.as_str(), "{\"v\":1}", "\u{1}\u{2}", other, "", new, extra];
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let mut reader = LiveReader::new(&path);
    assert_eq!(total(&all(&mut reader)), [1, 2]);
    let expected = ReadCounts {
        lines: 2,
        garbage: 4,
        other_version: 1,
        unknown: 1,
        unknown_fields: 1,
        missing: 3,
        replaced: 0,
    };
    assert_eq!(reader.counts(), expected);
}

/// The test writes lines faster than the thread, so that a queue of 4 must drop some.
#[test]
fn slow_disk_drops_lines_and_reports_the_number() {
    let results = directory("slow");
    let writer = LiveWriter::with_limits(&results, "x", 4, u64::MAX).unwrap();
    let (said, taken): (u64, u64) = (0..200_000)
        .fold((0, 0), |(said, taken), at| (said + 1, taken + u64::from(writer.say(at, errors(at)))));
    assert!(taken < said, "nothing was dropped, so the test is void");
    // Waits until the queue has room again.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(writer.say(said, errors(said)));
    let (counts, error) = writer.finish();
    error.unwrap();
    assert_eq!((counts.written, counts.dropped), (taken + 1, said - taken));
    let mut reader = LiveReader::new(&results.join("live/x.jsonl"));
    let events = events(&all(&mut reader));
    let last = events.iter().rev().find_map(|event| match event {
        Event::Dropped { lines } => Some(*lines),
        _ => None,
    });
    assert_eq!(last, Some(said - taken));
    assert_eq!(reader.counts().missing, said - taken);
}
