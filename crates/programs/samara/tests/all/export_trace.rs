//! Tests of `samara export trace`: traces of a simulated run for the viewers of the field.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use samara_trace::{Body, TraceEvent, TraceReader};
use serde_json::Value;

use crate::common::Scratch;

/// Creates the results of two runs of a small block.
fn results(name: &str) -> Scratch {
    let scratch = Scratch::new(&format!("export-trace-{name}"));
    let run = "run peerdas-small --seed 1 --only batch --only node-wide --set network.nodes=12 --quiet --out results";
    scratch.ok(run.split(' '));
    scratch
}

/// Exports the trace of one of them in a format, and returns its path.
fn export(scratch: &Scratch, format: &str) -> PathBuf {
    scratch.ok(["export", "trace", "results", "--run", "batch", "--format", format, "--out", format]);
    scratch.path(format)
}

fn events(path: &Path) -> Vec<TraceEvent> {
    TraceReader::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_copy_is_an_event_in_all_formats() {
    let scratch = results("forms");
    let file = export(&scratch, "protobuf");
    let protobuf = events(&file);
    assert_eq!(protobuf, events(&export(&scratch, "json")));
    let packed = std::fs::read(export(&scratch, "tracestat")).unwrap();
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, std::fs::read(file).unwrap());

    let count = |is: fn(&Body) -> bool| protobuf.iter().filter_map(TraceEvent::body).filter(is).count();
    assert_eq!(count(|body| matches!(body, Body::PublishMessage(_))), 32);
    // 11 nodes keep 12 columns each.
    let delivered = count(|body| matches!(body, Body::DeliverMessage(_)));
    assert!(delivered >= 11 * 12, "{delivered}");
    let received = count(|body| matches!(body, Body::RecvRpc(_)));
    assert_eq!(received, delivered + count(|body| matches!(body, Body::DuplicateMessage(_))));
    assert!(protobuf.is_sorted_by_key(|event| event.timestamp));
    // The first arrival takes at least the latency of 50 ms.
    let first = protobuf.iter().filter_map(|event| event.timestamp).min().unwrap();
    let arrivals = protobuf.iter().filter(|event| !matches!(event.body(), Some(Body::PublishMessage(_))));
    let earliest = arrivals.filter_map(|event| event.timestamp).min().unwrap();
    assert!(earliest - first > 50_000_000, "{}", earliest - first);
}

#[test]
fn timelines_have_every_copy() {
    let scratch = results("timelines");
    let received = events(&export(&scratch, "protobuf"))
        .iter()
        .filter(|event| matches!(event.body(), Some(Body::RecvRpc(_))))
        .count();
    let text = std::fs::read_to_string(export(&scratch, "chrome")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let all = json["traceEvents"].as_array().unwrap();
    let slices = all.iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(slices, received + 32);
    let names: Vec<&str> = all
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    assert_eq!((names.len(), names[0], names[11]), (12, "node 0", "node 11"));
    let perfetto = std::fs::read(export(&scratch, "perfetto")).unwrap();
    assert!(perfetto.len() > slices * 20, "{}", perfetto.len());
}

#[test]
fn rejects_ambiguous_or_missing_input() {
    let scratch = results("wrong");
    let refused =
        |args: &str| scratch.refused(format!("export trace {args} --format json --out never").split(' '));
    let error = refused("results");
    assert!(
        error.contains("found 2 runs; expected one") && error.contains("batch-seed1, node-wide-seed1"),
        "{error}"
    );
    let error = refused("results --run bath");
    assert!(error.contains("found 0 runs called bath"), "{error}");
    let error = refused("/nowhere");
    assert!(error.contains("/nowhere: cannot be read"), "{error}");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    let error = refused("empty");
    assert!(error.contains("expected trace files or a results directory"), "{error}");
    assert!(!scratch.path("never").exists(), "nothing is written if the input is missing");
}

/// Events of go-libp2p-pubsub 0.19, and an event that no release has.
const NEWEST: &str = r#"{"type":7,"peerID":"YQ==","timestamp":1,"sendRPC":{"sendTo":"Yg==","meta":{"messages":[{"messageID":"bQ==","topic":"t"}]}}}
{"type":13,"peerID":"YQ==","timestamp":2,"sendRPCCompleted":{"sendTo":"Yg==","meta":{"messages":[{"messageID":"bQ==","topic":"t"}]},"writeDurationNanos":5160}}
"#;
const UNKNOWN: &str = r#"{"type":99,"peerID":"YQ==","timestamp":3,"newThing":{"x":1}}
"#;

#[test]
fn traces_of_the_newest_go_keep_their_contents_and_unknown_ones_are_named() {
    let scratch = Scratch::new("export-trace-newest");
    let export = |from: &str, format: &str| {
        let out = format!("out.{format}");
        let args = ["export", "trace", from, "--format", format, "--output", &out];
        let output = scratch.command(args).output().unwrap();
        assert!(output.status.success());
        let written = std::fs::read(scratch.path(&format!("out.{format}"))).unwrap();
        (written, String::from_utf8(output.stderr).unwrap())
    };
    std::fs::write(scratch.path("newest.json"), NEWEST).unwrap();
    let (written, said) = export("newest.json", "json");
    assert_eq!((String::from_utf8(written).unwrap().as_str(), said.as_str()), (NEWEST, ""));
    export("newest.json", "protobuf");
    let (written, said) = export("out.protobuf", "json");
    assert_eq!((String::from_utf8(written).unwrap().as_str(), said.as_str()), (NEWEST, ""));

    std::fs::write(scratch.path("unknown.json"), format!("{NEWEST}{UNKNOWN}")).unwrap();
    for format in ["json", "protobuf", "tracestat", "perfetto", "chrome"] {
        let (_, said) = export("unknown.json", format);
        let named = "does not know: events of type 99 (1), fields newThing (1)\n";
        assert!(said.starts_with("note: ") && said.ends_with(named), "{format}: {said}");
    }
}
