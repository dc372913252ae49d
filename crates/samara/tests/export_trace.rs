//! `samara export trace`: what the field's viewers read, from a simulated run.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use samara_trace::{Body, TraceEvent, TraceReader};
use serde_json::Value;

fn samara(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_samara")).args(arguments).output();
    output.expect("samara starts")
}

fn refused(arguments: &[&str]) -> String {
    let output = samara(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn file(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export-trace");
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(name)
}

/// Two runs of a small block, once for all tests.
fn results() -> &'static str {
    static RESULTS: OnceLock<String> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let out = file("results").display().to_string();
        let args = "run peerdas-small --seed 1 --only batch --only node-wide --set network.nodes=12 --force --quiet \
                    --format json --out";
        let ran = samara(&args.split_whitespace().chain([out.as_str()]).collect::<Vec<_>>());
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        out
    })
}

fn export(format: &str, name: &str) -> PathBuf {
    let out = file(name);
    let to = ["--run", "batch", "--format", format, "--out", out.to_str().unwrap()];
    let exported = samara(&[&["export", "trace", results()], &to[..]].concat());
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    out
}

fn events(path: &Path) -> Vec<TraceEvent> {
    TraceReader::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_copy_is_an_event_and_all_forms_have_the_same() {
    let protobuf = events(&export("protobuf", "trace.pb"));
    assert_eq!(protobuf, events(&export("json", "trace.json")));
    let packed = std::fs::read(export("tracestat", "trace.pb.gz")).unwrap();
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, std::fs::read(file("trace.pb")).unwrap());

    let count = |is: fn(&Body) -> bool| protobuf.iter().filter_map(TraceEvent::body).filter(is).count();
    assert_eq!(count(|body| matches!(body, Body::PublishMessage(_))), 32);
    // 11 nodes keep 12 columns each.
    let delivered = count(|body| matches!(body, Body::DeliverMessage(_)));
    assert!(delivered >= 11 * 12, "{delivered}");
    let received = count(|body| matches!(body, Body::RecvRpc(_)));
    assert_eq!(received, delivered + count(|body| matches!(body, Body::DuplicateMessage(_))));
    assert!(protobuf.is_sorted_by_key(|event| event.timestamp));
    // Nothing arrives before it has crossed the network: 50 ms.
    let first = protobuf.iter().filter_map(|event| event.timestamp).min().unwrap();
    let arrivals = protobuf.iter().filter(|event| !matches!(event.body(), Some(Body::PublishMessage(_))));
    let earliest = arrivals.filter_map(|event| event.timestamp).min().unwrap();
    assert!(earliest - first > 50_000_000, "{}", earliest - first);
}

#[test]
fn timelines_have_every_copy() {
    let received = events(&export("protobuf", "again.pb"))
        .iter()
        .filter(|event| matches!(event.body(), Some(Body::RecvRpc(_))))
        .count();
    let text = std::fs::read_to_string(export("chrome", "trace.chrome.json")).unwrap();
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
    let perfetto = std::fs::read(export("perfetto", "trace.perfetto")).unwrap();
    assert!(perfetto.len() > slices * 20, "{}", perfetto.len());
}

#[test]
fn what_is_wrong_is_said() {
    let out = file("never").display().to_string();
    let _ = std::fs::remove_file(&out);
    let error = refused(&["export", "trace", results(), "--format", "json", "--out", &out]);
    assert!(
        error.contains("found 2 runs; expected one") && error.contains("batch-seed1, node-wide-seed1"),
        "{error}"
    );
    let error = refused(&["export", "trace", results(), "--run", "bath", "--format", "json", "--out", &out]);
    assert!(error.contains("found 0 runs called bath"), "{error}");
    let error = refused(&["export", "trace", "/nowhere", "--format", "json", "--out", &out]);
    assert!(error.contains("/nowhere: cannot be read"), "{error}");
    let empty = file("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let error = refused(&["export", "trace", empty.to_str().unwrap(), "--format", "json", "--out", &out]);
    assert!(error.contains("expected trace files, a results directory"), "{error}");
    assert!(!Path::new(&out).exists(), "nothing is written before the input is known to be there");
}
