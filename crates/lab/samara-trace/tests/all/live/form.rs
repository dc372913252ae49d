//! Tests of the format of lines, which other programs may write.

use samara_trace::live::{Clock, Event, Latencies, Line, RoundState};

fn line(event: Event) -> Line {
    Line { v: 1, seq: 3, at_ns: 1_760_000_000_123_456_789, node: None, event }
}

#[test]
fn lines_match_the_documentation() {
    let started =
        Event::Started { role: "node".into(), clock: Clock::Wall, started_unix_ns: 5, run: Some("a".into()) };
    let json = serde_json::to_string(&line(started)).unwrap();
    assert_eq!(
        json,
        r#"{"v":1,"seq":3,"at_ns":1760000000123456789,"event":"started","role":"node","clock":"wall","started_unix_ns":5,"run":"a"}"#
    );
    let round = Event::Round { round: 7, state: RoundState::Realtime, team: None, slots: None, cause: None };
    let json = serde_json::to_string(&Line { node: Some("n".into()), ..line(round) }).unwrap();
    assert_eq!(
        json,
        r#"{"v":1,"seq":3,"at_ns":1760000000123456789,"node":"n","event":"round","round":7,"state":"realtime"}"#
    );
}

/// Unknown values are omitted, never 0.
#[test]
fn unknown_values_are_omitted() {
    let link = Event::Link {
        peer: "b".into(),
        up: true,
        round_trip_ns: None,
        bytes_up: None,
        bytes_down: None,
        queued_frames: None,
        queued_bytes: None,
    };
    let json = serde_json::to_string(&line(link.clone())).unwrap();
    assert!(!json.contains("null") && !json.contains("bytes"), "{json}");
    assert_eq!(serde_json::from_str::<Line>(&json).unwrap().event, link);
}

#[test]
fn latencies_keep_their_exact_mean() {
    let mut latencies = Latencies::default();
    latencies.add(1_000_000, 3);
    latencies.add(2_000_001, 1);
    let json = serde_json::to_string(&latencies).unwrap();
    let read: Latencies = serde_json::from_str(&json).unwrap();
    assert_eq!(read, latencies);
    assert_eq!(read.count(), 4);
    assert_eq!(read.mean_ns(), Some(5_000_001.0 / 4.0));
    assert_eq!((read.min_ns(), read.max_ns()), (Some(1_000_000), Some(2_000_001)));
    let median = read.quantile_ns(0.5).unwrap();
    assert!(median.abs_diff(1_000_000) < 10_000, "{median}");
}

#[test]
fn no_latencies_have_no_mean() {
    let none = Latencies::default();
    assert_eq!(
        (none.mean_ns(), none.min_ns(), none.max_ns(), none.quantile_ns(0.5)),
        (None, None, None, None)
    );
    let read: Latencies = serde_json::from_str(&serde_json::to_string(&none).unwrap()).unwrap();
    assert_eq!(read, none);
}

#[test]
fn rejects_contradictory_latencies() {
    for json in [
        r#"{"sum_ns":1,"min_ns":5,"max_ns":4,"buckets":[[5,1]]}"#,
        r#"{"sum_ns":99,"min_ns":4,"max_ns":5,"buckets":[[5,1]]}"#,
        r#"{"sum_ns":9,"min_ns":4,"max_ns":5,"buckets":[[5,18446744073709551615],[4,1]]}"#,
    ] {
        assert!(serde_json::from_str::<Latencies>(json).is_err(), "{json}");
    }
}
