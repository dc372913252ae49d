//! Traces of GossipSub nodes, in the format of go-libp2p-pubsub (`pb/trace.proto`, `trace.go`,
//! `tracer.go` of v0.19).
//!
//! Tools for traces of go nodes read these traces, and [`TraceReader`] reads those of go nodes, in
//! either [`Format`]. It counts by name what it does not know ([`Unread`]). [`TraceWriter`] writes the events of a running node without blocking it. The
//! module [`live`] has the current status of runs with any protocol.
//!
//! ```
//! use samara_trace::{Body, Join, TraceEvent, TraceOptions, TraceReader, TraceWriter};
//!
//! let path = std::env::temp_dir().join(format!("samara-trace-{}.pb", std::process::id()));
//! let writer = TraceWriter::create(&path, TraceOptions::default())?;
//! writer.record(TraceEvent::new(b"me", 1_700_000_000_000_000_000, Body::Join(Join { topic: Some("t".into()) })));
//! let (counts, error) = writer.finish();
//! error?;
//! assert_eq!(counts.written, 1);
//!
//! let events = TraceReader::open(&path)?.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(events[0].body(), Some(Body::Join(Join { topic: Some("t".into()) })));
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod event;
mod json;
pub mod live;
mod reader;
mod timeline;
mod unread;
mod writer;

pub use clock::{unix_ns, unix_ns_of};
pub use event::{
    AddPeer, Body, ControlGraftMeta, ControlIDontWantMeta, ControlIHaveMeta, ControlIWantMeta, ControlMeta,
    ControlPruneMeta, DeliverMessage, DropRpc, DuplicateMessage, Graft, Join, Leave, MessageMeta, Prune,
    PublishMessage, RecvRpc, RejectMessage, RemovePeer, RpcMeta, SendRpc, SendRpcCompleted, SubMeta,
    TraceEvent, TraceEventBatch, Type, reason,
};
pub use reader::{EVENT_BYTES_MAX, Format, Place, TraceError, TraceReader};
pub use timeline::Timeline;
pub use unread::Unread;
pub use writer::{
    Counts, FILE_BYTES_DEFAULT, QUEUE_BYTES_MAX, QUEUE_DEFAULT, TraceOptions, TraceWriter, WhenFull,
};
