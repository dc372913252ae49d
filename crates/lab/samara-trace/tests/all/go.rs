//! Tests against the types and tracers of go-libp2p-pubsub (`interop/go-trace`).
//!
//! They need Go. Without it they print that they were skipped, or fail if `SAMARA_REQUIRE_PEERS` is
//! set.

use std::path::Path;
use std::process::Command;

use samara_trace::{Format, TraceEvent, TraceReader, TraceWriter, Type, WhenFull};

use crate::common::{all, options, path};
use crate::go_program::{GoProgram, Release};

static PROGRAM: GoProgram = GoProgram::new("go-trace", "it read and wrote no trace");

fn run(program: &Path, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().expect("the program starts");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// One event of each kind that a release knows.
fn known(release: Release) -> Vec<TraceEvent> {
    let mut events = all();
    if release == Release::Pinned {
        events.retain(|event| event.kind != Some(Type::SendRpcCompleted as i32));
    }
    events
}

/// Writes all kinds of events twice.
fn write(name: &str, format: Format, release: Release) -> String {
    let path = path(&format!("{release:?}-{name}"));
    let writer = TraceWriter::create(&path, options(format, 64, WhenFull::Wait)).unwrap();
    for event in known(release).into_iter().chain(known(release)) {
        writer.record(event);
    }
    assert_eq!(writer.finish().0.written, 2 * known(release).len() as u64);
    path.to_str().expect("text").to_owned()
}

#[test]
fn go_reads_our_traces() {
    for (release, (name, format, word)) in Release::ALL.into_iter().flat_map(|release| {
        [("ours.pb", Format::Protobuf, "protobuf"), ("ours.json", Format::Json, "json")]
            .map(|file| (release, file))
    }) {
        let Some(program) = PROGRAM.path(release) else { return };
        let counts = run(program, &["count", &write(name, format, release), word]);
        let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
        for event in known(release) {
            let name = event.body().unwrap().kind().name();
            assert_eq!(counts[name], 2, "{release:?}, {word}: {name} in {counts}");
        }
    }
}

#[test]
fn reads_traces_of_go_and_writes_the_same_bytes() {
    for release in Release::ALL {
        let Some(program) = PROGRAM.path(release) else { return };
        let ours = write("copied.pb", Format::Protobuf, release);
        let ours_json = write("copied.json", Format::Json, release);
        let (theirs, theirs_json) = (path("theirs.pb"), path("theirs.json"));
        run(program, &["copy", &ours, theirs.to_str().unwrap(), theirs_json.to_str().unwrap()]);
        let expected: Vec<TraceEvent> = known(release).into_iter().chain(known(release)).collect();
        for file in [&theirs, &theirs_json] {
            let mut reader = TraceReader::open(file).unwrap();
            let events: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();
            assert_eq!(events, expected, "{release:?}: {}", file.display());
            assert!(reader.unread().is_empty(), "{release:?}: {}", reader.unread());
        }
        let read = |path: &Path| std::fs::read(path).unwrap();
        assert_eq!(read(Path::new(&ours)), read(&theirs), "{release:?}");
        assert_eq!(read(Path::new(&ours_json)), read(&theirs_json), "{release:?}");
    }
}
