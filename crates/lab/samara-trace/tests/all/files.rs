//! Tests that written events can be read, and that errors in files are reported.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use prost::Message;
use samara_trace::{
    AddPeer, Body, DeliverMessage, EVENT_BYTES_MAX, Format, Join, MessageMeta, Place, QUEUE_BYTES_MAX,
    RecvRpc, RemovePeer, RpcMeta, SendRpcCompleted, SubMeta, TraceError, TraceEvent, TraceEventBatch,
    TraceOptions, TraceReader, TraceWriter, WhenFull,
};

use crate::common::{all, options, path};

#[test]
fn all_kinds_of_events_round_trip_in_both_formats() {
    for (format, name) in [(Format::Protobuf, "all.pb"), (Format::Json, "all.json")] {
        let path = path(name);
        let writer = TraceWriter::create(&path, options(format, 4, WhenFull::Wait)).unwrap();
        for event in all() {
            assert!(writer.record(event));
        }
        assert_eq!(writer.finish().0.written, 14);
        let reader = TraceReader::open(&path).unwrap();
        assert_eq!(reader.format(), format);
        let events: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(events, all());
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event.body().unwrap().kind() as usize, at);
        }
    }
}

/// Editors of text put the mark of the order of bytes before JSON.
#[test]
fn a_mark_before_json_is_read_over() {
    let path = path("marked.json");
    let writer = TraceWriter::create(&path, options(Format::Json, 4, WhenFull::Wait)).unwrap();
    all().into_iter().for_each(|event| assert!(writer.record(event)));
    writer.finish().1.unwrap();
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, ["\u{feff}".as_bytes(), &text].concat()).unwrap();
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.format(), Format::Json);
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), all());
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

/// Lines of releases before 0.16, and a line of 0.19.
#[test]
fn reads_names_of_all_releases() {
    let text = r#"{"type":4,"addPeer":{"peerID":"YQ==","proto":"/meshsub/1.1.0"}}
{"type":"ON_NEW_OUTBOUND_STREAM","onNewOutboundStream":{"peerID":"YQ==","proto":"/meshsub/1.1.0"}}
{"type":"REMOVE_PEER","removePeer":{"peerID":"YQ=="}}
{"type":13,"sendRPCCompleted":{"sendTo":"YQ==","meta":{"messages":[{"messageID":"bQ=="}]},"writeDurationNanos":5160}}
"#;
    let mut reader = TraceReader::new(Path::new("x"), Format::Json, text.as_bytes());
    let events: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();
    assert!(reader.unread().is_empty(), "{}", reader.unread());
    let peer_id = Some(b"a".to_vec());
    let added = AddPeer { peer_id: peer_id.clone(), proto: Some("/meshsub/1.1.0".to_owned()) };
    assert_eq!(events[0].body(), Some(Body::AddPeer(added)));
    assert_eq!(events[0], events[1]);
    assert_eq!(events[2].body(), Some(Body::RemovePeer(RemovePeer { peer_id: peer_id.clone() })));
    let message = MessageMeta { message_id: Some(b"m".to_vec()), topic: None };
    let meta = Some(RpcMeta { messages: vec![message], ..RpcMeta::default() });
    let completed = SendRpcCompleted { send_to: peer_id, meta, write_nanos: Some(5160) };
    assert_eq!(events[3].body(), Some(Body::SendRpcCompleted(completed)));
}

#[test]
fn unknown_types_and_fields_are_counted_by_name() {
    let text = r#"{"type":14,"newThing":{"x":1}}
{"type":14}
{}
{"type":7,"sendRPC":{"sendTo":"YQ==","meta":{"messages":[{"messageID":"bQ=="},{"size":1}],"control":{"choke":[]}}}}
"#;
    let mut reader = TraceReader::new(Path::new("x"), Format::Json, text.as_bytes());
    assert!(reader.by_ref().all(|event| event.is_ok()));
    assert_eq!(
        reader.unread().to_string(),
        "events of type 14 (2), events without a type (1), fields newThing (1), \
         fields sendRPC.meta.control.choke (1), fields sendRPC.meta.messages.size (1)"
    );

    // Type 14 with a field 18, and SEND_RPC whose field 11 has an unknown field 9.
    let bytes = [6, 0x08, 14, 0x92, 0x01, 1, 7, 6, 0x08, 7, 0x5a, 2, 0x48, 1];
    let mut reader = TraceReader::new(Path::new("x"), Format::Protobuf, &bytes[..]);
    assert!(reader.by_ref().all(|event| event.is_ok()));
    let named = "events of type 14 (1), fields 18 (1), fields within SEND_RPC (1)";
    assert_eq!(reader.unread().to_string(), named);
}

#[test]
fn names_of_unknown_fields_are_bounded_and_printable() {
    let fields: Vec<String> =
        (0..100).map(|number| format!("\"\\u001b{number}{}\":1", "x".repeat(500))).collect();
    let line = format!("{{\"type\":9,{}}}\n", fields.join(","));
    let mut reader = TraceReader::new(Path::new("x"), Format::Json, line.as_bytes());
    assert!(reader.by_ref().all(|event| event.is_ok()));
    let text = reader.unread().to_string();
    assert!(text.ends_with(", others (68)") && text.len() < 3_000 && !text.contains('\u{1b}'), "{text}");
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
    let writer = TraceWriter::into(Slow(wait), options(Format::Json, 8, WhenFull::Drop)).unwrap();
    // The thread holds at most one event, and the queue eight.
    let taken = (0..1000).filter(|_| writer.record(TraceEvent::default())).count() as u64;
    assert!((8..1000).contains(&taken), "{taken}");
    assert_eq!(writer.counts().dropped, 1000 - taken);
    drop(go);
    let (written, error) = writer.finish();
    error.unwrap();
    assert_eq!((written.written, written.dropped), (taken, 1000 - taken));
}

/// An event with an id of this size.
fn large(bytes: usize) -> TraceEvent {
    let message_id = Some(vec![7; bytes]);
    TraceEvent::new(b"me", 0, Body::DeliverMessage(DeliverMessage { message_id, ..Default::default() }))
}

#[test]
fn bytes_of_events_that_wait_are_bounded() {
    let (go, wait) = channel();
    let options = options(Format::Protobuf, 1 << 16, WhenFull::Drop);
    let writer = TraceWriter::into(Slow(wait), options).unwrap();
    let taken = (0..100).filter(|_| writer.record(large(4 << 20))).count();
    assert_eq!(taken, QUEUE_BYTES_MAX / (4 << 20) - 1, "each is a little larger than 4 MiB");
    assert_eq!(writer.counts().dropped, 100 - taken as u64);
    drop(go);
    assert_eq!(writer.finish().0.written, taken as u64);
}

#[test]
fn a_caller_that_waits_loses_nothing_to_the_bound_of_bytes() {
    let options = options(Format::Protobuf, 1 << 16, WhenFull::Wait);
    let writer = TraceWriter::into(io::sink(), options).unwrap();
    for _ in 0..40 {
        assert!(writer.record(large(4 << 20)));
    }
    let counts = writer.finish().0;
    assert_eq!((counts.written, counts.dropped), (40, 0));
}

#[test]
fn event_that_the_reader_refuses_is_dropped_and_the_rest_can_be_read() {
    let path = path("long.json");
    let writer = TraceWriter::create(&path, options(Format::Json, 4, WhenFull::Wait)).unwrap();
    let change = SubMeta { subscribe: Some(true), topic: Some("\u{1}".repeat(1024)) };
    let meta = RpcMeta { subscription: vec![change; 10_000], ..Default::default() };
    let rpc = Body::RecvRpc(RecvRpc { received_from: None, meta: Some(meta) });
    let joined = || TraceEvent::new(b"me", 0, Body::Join(Join { topic: Some("t".to_owned()) }));
    for event in [joined(), TraceEvent::new(b"me", 0, rpc), joined()] {
        writer.record(event);
    }
    let counts = writer.finish().0;
    assert_eq!((counts.written, counts.dropped), (2, 1));
    let events: Vec<_> = TraceReader::open(&path).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(events, [joined(), joined()]);
    assert!(std::fs::metadata(&path).unwrap().len() < EVENT_BYTES_MAX as u64);
}

#[test]
fn file_does_not_grow_beyond_its_limit() {
    let path = path("limit.pb");
    let options = TraceOptions { when_full: WhenFull::Wait, bytes_max: 1000, ..TraceOptions::default() };
    let writer = TraceWriter::create(&path, options).unwrap();
    for _ in 0..10 {
        writer.record(large(200));
    }
    let counts = writer.finish().0;
    assert_eq!((counts.written, counts.dropped), (4, 6));
    assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
    assert_eq!(TraceReader::open(&path).unwrap().filter(Result::is_ok).count(), 4);
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
    let writer = TraceWriter::into(Full, options(Format::Json, 1, WhenFull::Wait)).unwrap();
    for _ in 0..100 {
        writer.record(all()[7].clone());
    }
    let (counts, error) = writer.finish();
    assert_eq!((counts.written + counts.failed, counts.dropped), (100, 0));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("no space"), "{error}");
}
