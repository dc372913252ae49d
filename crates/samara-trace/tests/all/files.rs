//! Tests that written events can be read, and that errors in files are reported.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use prost::Message;
use samara_trace::{
    Format, Place, TraceError, TraceEvent, TraceEventBatch, TraceReader, TraceWriter, WhenFull,
};

use crate::common::{all, path};

#[test]
fn all_kinds_of_events_round_trip_in_both_formats() {
    for (format, name) in [(Format::Protobuf, "all.pb"), (Format::Json, "all.json")] {
        let path = path(name);
        let writer = TraceWriter::create(&path, format, 4, WhenFull::Wait).unwrap();
        for event in all() {
            assert!(writer.record(event));
        }
        assert_eq!(writer.finish().0.written, 13);
        let reader = TraceReader::open(&path).unwrap();
        assert_eq!(reader.format(), format);
        let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(events, all());
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event.body().unwrap().kind() as usize, at);
        }
    }
}

#[test]
fn batches_round_trip() {
    let batch = TraceEventBatch { batch: all() };
    assert_eq!(TraceEventBatch::decode(&batch.encode_to_vec()[..]).unwrap(), batch);
}

#[test]
fn reads_types_by_number_and_name() {
    let text = "{\"type\":\"JOIN\",\"join\":{\"topic\":\"t\"}}\n\n{\"type\":9,\"join\":{\"topic\":\"t\"},\"new\":1}\n";
    let reader = TraceReader::new(Path::new("x"), Format::Json, text.as_bytes());
    let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(events[0], events[1]);
}

fn read(format: Format, bytes: &[u8]) -> (usize, String, Place) {
    let mut good = 0;
    let mut reader = TraceReader::new(Path::new("node.trace"), format, bytes);
    loop {
        match reader.next().expect("an error before the end") {
            Ok(_) => good += 1,
            Err(error) => {
                assert!(reader.next().is_none(), "nothing follows an error");
                let text = error.to_string();
                let TraceError::Malformed { place, .. } = error else { panic!("{error}") };
                return (good, text, place);
            }
        }
    }
}

#[test]
fn errors_name_file_and_position() {
    let mut bytes = Vec::new();
    let first = &all()[0];
    Format::Protobuf.encode(first, &mut bytes);
    let second = bytes.len() as u64;
    Format::Protobuf.encode(first, &mut bytes);
    let (good, text, place) = read(Format::Protobuf, &bytes[..bytes.len() - 3]);
    assert_eq!((good, place), (1, Place::Offset(second)));
    assert!(text.starts_with(&format!("node.trace: byte {second}: ")), "{text}");
    assert!(text.contains("ends"), "{text}");

    let cases: [(&[u8], &str); 4] = [
        (&[0xff; 11], "varint"),
        (&[0x80], "within the length"),
        (&[0xff, 0xff, 0xff, 0xff, 0x0f, 1], "is this a trace"),
        (&[2, 0x08, 0x80], "not an event"),
    ];
    for (bytes, expected) in cases {
        let (good, text, place) = read(Format::Protobuf, bytes);
        assert_eq!((good, place), (0, Place::Offset(0)));
        assert!(text.contains(expected), "{text}");
    }

    let json = b"{\"type\":9}\n\n{\"type\":9,\"peerID\":\"%\"}\n";
    let (good, text, place) = read(Format::Json, json);
    assert_eq!((good, place), (1, Place::Line(3)));
    assert!(text.starts_with("node.trace: line 3: ") && text.contains("base64"), "{text}");
    let (_, text, _) = read(Format::Json, b"{\"type\":9,\"pe");
    assert!(text.contains("cut off"), "{text}");
    let (_, text, _) = read(Format::Json, b"{\"type\":\"DANCE\"}\n");
    assert!(text.contains("DANCE") && text.contains("DELIVER_MESSAGE"), "{text}");
    let (_, text, _) = read(Format::Json, b"{\"type\":-1}\n");
    assert!(text.contains("integer `-1`"), "{text}");

    let missing = TraceReader::open(Path::new("no/such.pb")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.pb: cannot be read"), "{missing}");
}

/// A writer that blocks until the test permits each write.
struct Slow(Receiver<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn events_beyond_the_queue_are_dropped_and_counted() {
    let (go, wait) = channel();
    let writer = TraceWriter::into(Slow(wait), Format::Json, 8, WhenFull::Drop).unwrap();
    // The thread holds at most one event, and the queue eight.
    let taken = (0..1000).filter(|_| writer.record(TraceEvent::default())).count() as u64;
    assert!((8..1000).contains(&taken), "{taken}");
    assert_eq!(writer.counts().dropped, 1000 - taken);
    drop(go);
    let (written, error) = writer.finish();
    error.unwrap();
    assert_eq!((written.written, written.dropped), (taken, 1000 - taken));
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no space"))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn disk_errors_are_reported_and_do_not_block_callers() {
    let writer = TraceWriter::into(Full, Format::Json, 1, WhenFull::Wait).unwrap();
    for _ in 0..100 {
        writer.record(all()[7].clone());
    }
    let (counts, error) = writer.finish();
    assert_eq!((counts.written + counts.failed, counts.dropped), (100, 0));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("no space"), "{error}");
}
