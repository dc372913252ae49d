//! Property tests: lines come out whole, once and in order, however the file is split into reads
//! and writes.

use std::fs::OpenOptions;
use std::io::Write;

use proptest::prelude::*;
use samara_trace::live::{Event, Latencies, Line, LiveReader, RoundState, Step};

use super::{all, directory, events};

fn event() -> impl Strategy<Value = Event> {
    let name = "[a-z\"\\\\\u{e4}\u{1f600}\n]{0,12}";
    let (number, maybe) = (any::<u64>, || prop::option::of(any::<u64>()));
    let failed = |(round, cause, team)| {
        let (state, slots) = (RoundState::Failed, None);
        Event::Round { round, state, team, slots, cause }
    };
    let latencies = |(round, values): (u64, Vec<(u64, u64)>)| {
        let mut latencies = Latencies::default();
        values.iter().for_each(|(value, slots)| latencies.add(*value, *slots));
        Event::Latencies { round, latencies }
    };
    prop_oneof![
        (name, number()).prop_map(|(cause, total)| Event::Errors { cause, total }),
        (number(), number()).prop_map(|(round, slots)| Event::Slots { round, step: Step::Left, slots }),
        (number(), prop::option::of(name), maybe()).prop_map(failed),
        (maybe(), prop::collection::vec(name, 0..4), maybe())
            .prop_map(|(team, members, loop_ns)| Event::Ping { team, members, loop_ns }),
        (number(), prop::collection::vec((0..1_u64 << 50, 0..1_u64 << 10), 0..20)).prop_map(latencies),
    ]
}

proptest! {
    #[test]
    fn lines_round_trip_in_any_pieces(
        said in prop::collection::vec(event(), 0..20),
        cuts in prop::collection::vec(1..200_usize, 1..40),
    ) {
        let path = directory("pieces").join("x.jsonl");
        let mut bytes = Vec::new();
        for (seq, event) in (0..).zip(&said) {
            let line = Line { v: 1, seq, at_ns: seq, node: None, event: event.clone() };
            bytes.extend(serde_json::to_vec(&line).unwrap());
            bytes.push(b'\n');
        }
        let mut reader = LiveReader::new(&path);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let (mut rest, mut read) = (&bytes[..], Vec::new());
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            file.write_all(now).unwrap();
            rest = later;
            read.extend(events(&all(&mut reader)));
        }
        file.write_all(rest).unwrap();
        read.extend(events(&all(&mut reader)));
        prop_assert_eq!(read, said);
        let counts = reader.counts();
        prop_assert_eq!((counts.garbage, counts.missing, counts.unknown_fields), (0, 0, 0));
    }

    /// Reading arbitrary bytes ends, and counts every line once.
    #[test]
    fn any_bytes_are_counted(bytes in prop::collection::vec(prop::sample::select(&b"{}\"v:1,\n\x00\xff "[..]), 0..300)) {
        let path = directory("bytes").join("x.jsonl");
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = LiveReader::new(&path);
        let said = all(&mut reader);
        prop_assert!(said.is_empty());
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        let filled = lines.filter(|line| !line.iter().all(u8::is_ascii_whitespace)).count() as u64;
        let counts = reader.counts();
        prop_assert_eq!(counts.garbage + counts.other_version + counts.unknown, filled);
    }

    #[test]
    fn merged_latencies_equal_those_of_all_values(values in prop::collection::vec((0..1_u64 << 41, 1..50_u64), 1..30), at in 0..30_usize) {
        let of = |values: &[(u64, u64)]| {
            let mut latencies = Latencies::default();
            values.iter().for_each(|(value, slots)| latencies.add(*value, *slots));
            latencies
        };
        let (one, other) = values.split_at(at.min(values.len()));
        let mut merged = of(one);
        merged.merge(&of(other));
        prop_assert_eq!(&merged, &of(&values));
        let total: u64 = values.iter().map(|(_, slots)| slots).sum();
        let sum: u128 = values.iter().map(|(value, slots)| u128::from(*value) * u128::from(*slots)).sum();
        prop_assert_eq!(merged.count(), total);
        prop_assert_eq!(merged.mean_ns(), Some(sum as f64 / total as f64));
        let json = serde_json::to_string(&merged).unwrap();
        prop_assert_eq!(serde_json::from_str::<Latencies>(&json).unwrap(), merged);
    }
}
