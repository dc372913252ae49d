//! `samara export trace`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use samara_document::file;
use samara_family_columns::Columns;
use samara_lab::results::{Rows, cannot_write, write_named_by};
use samara_scenario::load;
use samara_trace::{
    Body, DeliverMessage, DuplicateMessage, Format, MessageMeta, PublishMessage, RecvRpc, RpcMeta, Timeline,
    TraceEvent, TraceReader, Unread,
};

/// Options of `samara export trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceOptions {
    /// A results directory, a directory in which Shadow has run, or trace files of nodes.
    #[arg(required = true, value_name = "RESULT|TRACE")]
    pub(crate) input: Vec<PathBuf>,
    /// The run, if the results directory has several; with its seed, if the run has several.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Output format.
    #[arg(long, value_enum)]
    pub(crate) format: TraceFormat,
    /// Output file; an existing file is replaced.
    #[arg(long = "output", alias = "out", short, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// Formats of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// go-libp2p-pubsub's protobuf, each event with its length: the format of its PBTracer.
    Protobuf,
    /// go-libp2p-pubsub's JSON, a line for each event: the format of its JSONTracer.
    Json,
    /// The same protobuf, packed with gzip: the format of go-libp2p-pubsub-tracer's traced and
    /// tracestat.
    Tracestat,
    /// A timeline for Perfetto (ui.perfetto.dev), in its protobuf.
    Perfetto,
    /// A timeline in the JSON of Chrome's about:tracing, which Perfetto also reads.
    Chrome,
}

/// The source of a trace's events.
enum Source {
    /// Trace files of nodes: the name and path of each.
    Files(Vec<(String, PathBuf)>),
    /// The events of a simulated run, and its number of nodes.
    Simulated(Vec<TraceEvent>, u32),
}

pub(crate) fn run(options: &TraceOptions) -> Result<ExitCode, String> {
    let source = source(options)?;
    let mut unread = Unread::default();
    let counts = write_named_by(&options.out, |file| write(&source, options, file, &mut unread))?;
    if !unread.is_empty() {
        crate::terminal::complain(format_args!(
            "note: the output lacks contents of the traces that this version does not know: {unread}"
        ));
    }
    crate::print(&format!("{}: {counts}\n", options.out.display()))
}

/// Writes a trace, and returns what it has. `unread` gets what it lacks.
fn write(
    source: &Source,
    options: &TraceOptions,
    file: &mut File,
    unread: &mut Unread,
) -> Result<String, String> {
    let format = options.format;
    let wrong = |error: std::io::Error| cannot_write(&options.out, &error);
    let mut out = BufWriter::new(file);
    let counts = match format {
        TraceFormat::Protobuf => events(source, (Format::Protobuf, &wrong), &mut out, unread)?,
        TraceFormat::Json => events(source, (Format::Json, &wrong), &mut out, unread)?,
        TraceFormat::Tracestat => {
            let mut packed = GzEncoder::new(&mut out, Compression::default());
            let counts = events(source, (Format::Protobuf, &wrong), &mut packed, unread)?;
            packed.finish().map_err(wrong)?;
            counts
        }
        TraceFormat::Perfetto | TraceFormat::Chrome => {
            let timeline = timeline(source, unread)?;
            let written = if format == TraceFormat::Perfetto {
                timeline.write_perfetto(&mut out)
            } else {
                timeline.write_chrome(&mut out)
            };
            written.map_err(wrong)?;
            let (nodes, messages, slices) = timeline.counts();
            format!("{nodes} nodes, {messages} messages, {slices} slices")
        }
    };
    out.flush().map_err(wrong)?;
    Ok(counts)
}

/// Checks that all files can be opened before anything is written.
fn files(files: Vec<(String, PathBuf)>) -> Result<Source, String> {
    for (_, path) in &files {
        // Refuses files of the kernel, too.
        file::open(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        TraceReader::open(path).map_err(|error| error.to_string())?;
    }
    Ok(Source::Files(files))
}

/// The events of the given trace files, or of one run in the given results directory.
fn source(options: &TraceOptions) -> Result<Source, String> {
    let [directory] = options.input.as_slice() else { return files(named(&options.input)) };
    if !directory.is_dir() {
        return files(named(&options.input));
    }
    let runs = run_directory(directory, options.run.as_deref())?;
    copies_of(directory, &runs)
}

fn named(files: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), path.clone())).collect()
}

/// The directory of the requested run, or of the only one.
fn run_directory(directory: &Path, run: Option<&str>) -> Result<String, String> {
    let entries = std::fs::read_dir(directory.join("runs")).map_err(|error| {
        format!("{}: {error}; expected trace files or a results directory", directory.join("runs").display())
    })?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let without_seed = |name: &str| name.rsplit_once("-seed").map_or(name, |(run, _)| run).to_owned();
    let of_run: Vec<&String> = match run {
        None => names.iter().collect(),
        Some(run) => names.iter().filter(|name| *name == run || without_seed(name) == run).collect(),
    };
    match of_run.as_slice() {
        [name] => Ok((*name).clone()),
        found => Err(format!(
            "{}: found {} runs{}; expected one: select it with --run, from {}",
            directory.display(),
            found.len(),
            run.map(|run| format!(" called {run}")).unwrap_or_default(),
            names.join(", ")
        )),
    }
}

/// The events of a run, from its table of copies.
fn copies_of(directory: &Path, run: &str) -> Result<Source, String> {
    let table = directory.join("runs").join(run).join("copies.parquet");
    if !table.is_file() {
        return Err(format!(
            "{}: does not exist; runs record copies of columns only, and `samara node` its own trace",
            table.display()
        ));
    }
    let scenario = directory.join("scenario.toml");
    let loaded = load(&scenario.to_string_lossy(), &[], &[], None).map_err(|error| error.to_string())?;
    let point = loaded.points.iter().find(|point| samara_lab::results::point_name(point) == run);
    let point = point.ok_or_else(|| format!("{}: has no run {run}", scenario.display()))?;
    let events = copies(&table, point.scenario.part::<Columns>())?;
    Ok(Source::Simulated(events, point.scenario.network.nodes))
}

/// Writes all events in the order of time, and returns their number as text. `wrong` returns the
/// message for an error of writing.
fn events(
    source: &Source,
    (format, wrong): (Format, &dyn Fn(std::io::Error) -> String),
    out: &mut impl Write,
    unread: &mut Unread,
) -> Result<String, String> {
    let (mut count, mut bytes) = (0, Vec::new());
    each(source, unread, |event| {
        bytes.clear();
        format.encode(event, &mut bytes);
        count += 1;
        out.write_all(&bytes).map_err(wrong)
    })?;
    Ok(format!("{count} events"))
}

fn timeline(source: &Source, unread: &mut Unread) -> Result<Timeline, String> {
    let mut timeline = Timeline::default();
    match source {
        Source::Simulated(_, nodes) => {
            (0..*nodes).for_each(|node| timeline.name(&peer_id(node), &format!("node {node}")));
        }
        Source::Files(files) => {
            for (name, path) in files {
                // The first event has the peer id of the trace's node.
                let first = TraceReader::open(path).map_err(|error| error.to_string())?.next().transpose();
                let first = first.map_err(|error| error.to_string())?;
                if let Some(peer) = first.and_then(|event| event.peer_id) {
                    timeline.name(&peer, name);
                }
            }
        }
    }
    each(source, unread, |event| {
        timeline.add(event);
        Ok(())
    })?;
    Ok(timeline)
}

/// Calls `take` with all events in the order of time, and adds what files have beside them to
/// `unread`. Events of one file keep their order.
fn each(
    source: &Source,
    unread: &mut Unread,
    mut take: impl FnMut(&TraceEvent) -> Result<(), String>,
) -> Result<(), String> {
    let files = match source {
        Source::Simulated(events, _) => return events.iter().try_for_each(take),
        Source::Files(files) => files,
    };
    let open = |(_, path): &(String, PathBuf)| TraceReader::open(path).map_err(|error| error.to_string());
    let mut readers = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut waiting: Vec<Option<TraceEvent>> = vec![None; files.len()];
    // Starts with every file, since any of them may have the earliest event.
    let mut next: BinaryHeap<_> = (0..files.len()).map(|file| Reverse((i64::MIN, file))).collect();
    while let Some(Reverse((at, file))) = next.pop() {
        if let Some(event) = waiting[file].take() {
            take(&event)?;
        }
        let event = readers[file].next().transpose().map_err(|error| error.to_string())?;
        if let Some(event) = &event {
            // Keeps the order of a file even if its node's clock was set back.
            next.push(Reverse((event.timestamp.unwrap_or(0).max(at), file)));
        }
        waiting[file] = event;
    }
    readers.iter().for_each(|reader| unread.merge(reader.unread()));
    Ok(())
}

/// Start of simulated runs on the clocks of their nodes: 1 January 2000, in nanoseconds since 1970.
const START_NS: i64 = 946_684_800_000_000_000;

/// The peer id of a simulated node.
///
/// Has the form of a real one, an identity multihash of a key of 32 bytes, with the node's number
/// in place of the key.
fn peer_id(node: u32) -> Vec<u8> {
    let mut id = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    id.resize(6 + 28, 0);
    id.extend(node.to_be_bytes());
    id
}

/// The events of a simulated run in the order of time: publications, arrivals, and the outcome of
/// each arrival.
fn copies(path: &Path, workload: &Columns) -> Result<Vec<TraceEvent>, String> {
    let mut events = Vec::new();
    let published = |slot: u32| {
        let nanos = workload.warm_up.nanos() + u64::from(slot) * workload.slot_interval.nanos();
        START_NS.saturating_add_unsigned(nanos)
    };
    for slot in 0..workload.slots {
        for column in 0..workload.count {
            let (message_id, topic) = names(slot, column);
            let body = Body::PublishMessage(PublishMessage { message_id, topic });
            events.push(TraceEvent::new(&peer_id(workload.publisher), published(slot), body));
        }
    }
    Rows::read(path, &["node", "from", "slot", "segment", "at_ms", "first"], |rows| {
        let number = |name| Some(rows.cells::<u32>(name)?.flatten().copied());
        let places = number("node")?.zip(number("from")?);
        let segments = number("slot")?.zip(number("segment")?);
        let arrivals = rows.cells::<f64>("at_ms")?.flatten().zip(rows.cells::<bool>("first")?.flatten());
        let copies = places.zip(segments).zip(arrivals);
        for (((node, from), (slot, segment)), (at_ms, is_first)) in copies {
            let at = published(slot) + (at_ms * 1e6).round() as i64;
            let (message_id, topic) = names(slot, segment);
            let received_from = Some(peer_id(from));
            let message = MessageMeta { message_id: message_id.clone(), topic: topic.clone() };
            let meta = Some(RpcMeta { messages: vec![message], ..RpcMeta::default() });
            let arrival = Body::RecvRpc(RecvRpc { received_from: received_from.clone(), meta });
            let outcome = if *is_first {
                Body::DeliverMessage(DeliverMessage { message_id, topic, received_from })
            } else {
                Body::DuplicateMessage(DuplicateMessage { message_id, topic, received_from })
            };
            events.extend([arrival, outcome].map(|body| TraceEvent::new(&peer_id(node), at, body)));
        }
        Some(())
    })?;
    // A stable sort keeps the outcome of a copy behind its arrival.
    events.sort_by_key(|event| event.timestamp);
    Ok(events)
}

/// The id and topic of a column: its slot and index, and Ethereum's topic name.
fn names(slot: u32, column: u32) -> (Option<Vec<u8>>, Option<String>) {
    let id = [slot.to_be_bytes(), column.to_be_bytes()].concat();
    (Some(id), Some(format!("/eth2/00000000/data_column_sidecar_{column}/ssz_snappy")))
}
