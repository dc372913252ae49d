//! Tests against the types and tracers of go-libp2p-pubsub (`interop/go-trace`).
//!
//! They need Go. Without it they print that they were skipped, or fail if `SAMARA_REQUIRE_PEERS` is
//! set.

use std::path::Path;
use std::process::Command;

use samara_trace::{Format, TraceEvent, TraceReader, TraceWriter, Type, WhenFull};

use crate::common::{all, options, path};
use crate::go_program::GoProgram;

static PROGRAM: GoProgram = GoProgram::new("go-trace", "it read and wrote no trace");

fn run(program: &Path, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().expect("the program starts");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

fn write(name: &str, format: Format) -> String {
    let path = path(name);
    let writer = TraceWriter::create(&path, options(format, 64, WhenFull::Wait)).unwrap();
    for event in all().into_iter().chain(all()) {
        writer.record(event);
    }
    assert_eq!(writer.finish().0.written, 26);
    path.to_str().expect("text").to_owned()
}

#[test]
fn go_reads_our_traces() {
    let Some(program) = PROGRAM.path() else { return };
    for (name, format, word) in
        [("ours.pb", Format::Protobuf, "protobuf"), ("ours.json", Format::Json, "json")]
    {
        let counts = run(program, &["count", &write(name, format), word]);
        let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
        for number in 0..13 {
            let name = Type::try_from(number).unwrap().name();
            assert_eq!(counts[name], 2, "{word}: {name} in {counts}");
        }
    }
}

#[test]
fn reads_traces_of_go_and_writes_the_same_bytes() {
    let Some(program) = PROGRAM.path() else { return };
    let ours = write("copied.pb", Format::Protobuf);
    let ours_json = write("copied.json", Format::Json);
    let (theirs, theirs_json) = (path("theirs.pb"), path("theirs.json"));
    run(program, &["copy", &ours, theirs.to_str().unwrap(), theirs_json.to_str().unwrap()]);
    let expected: Vec<TraceEvent> = all().into_iter().chain(all()).collect();
    for file in [&theirs, &theirs_json] {
        let events: Vec<_> = TraceReader::open(file).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(events, expected, "{}", file.display());
    }
    let read = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!(read(Path::new(&ours)), read(&theirs));
    assert_eq!(read(Path::new(&ours_json)), read(&theirs_json));
}
