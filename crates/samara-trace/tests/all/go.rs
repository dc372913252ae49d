//! Tests against the types and tracers of go-libp2p-pubsub (`interop/go-trace`).
//!
//! They need Go. Without it they print that they were skipped, or fail if `SAMARA_REQUIRE_PEERS` is
//! set.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use samara_trace::{Format, TraceEvent, TraceReader, TraceWriter, Type, WhenFull};

use crate::common::{all, options, path};

/// Builds the program once; `None` without Go.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if Command::new("go").arg("version").output().is_err() {
            assert!(
                std::env::var_os("SAMARA_REQUIRE_PEERS").is_none(),
                "SAMARA_REQUIRE_PEERS is set, but found no Go"
            );
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/go-trace");
        let program = path("go-trace");
        let built =
            Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output();
        let built = built.expect("go build runs");
        assert!(built.status.success(), "interop/go-trace: {}", String::from_utf8_lossy(&built.stderr));
        Some(program)
    };
    let program = PROGRAM.get_or_init(build).as_deref();
    if program.is_none() {
        // Written directly: the test harness captures the output of macros and shows it for
        // failures only.
        let _ = writeln!(std::io::stderr(), "SKIPPED: found no Go, so it read and wrote no trace");
    }
    program
}

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
    let Some(program) = program() else { return };
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
    let Some(program) = program() else { return };
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
