//! Files of others: traces, live status, graphs, tables and scenarios.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use samara_document::table::read_pairs;
use samara_document::topology::{nodes_of, read_file};
use samara_document::{
    GraphFile, HostTable, Inputs, LatencyFile, LatencyKind, LatencyTable, LatencyUnit, Network,
    RegionWeights, Topology,
};
use samara_engine::units::Span;
use samara_scenario::{Overrides, builtin, load_source};
use samara_trace::live::{Clock, Event, Latencies, Line, LiveReader, ReadCounts, RoundState, Said, Step};
use samara_trace::{
    Body, ControlIHaveMeta, ControlMeta, DeliverMessage, Format, Join, MessageMeta, RpcMeta, SendRpc,
    SubMeta, Timeline, TraceEvent, TraceReader,
};

// ---- traces ----

/// Reads events, of the format that the first byte selects.
pub(crate) fn trace(data: &[u8]) {
    let Some((format, bytes)) = data.split_first() else { return };
    let format = if format % 2 == 0 { Format::Protobuf } else { Format::Json };
    let read = |bytes: &[u8]| -> Vec<TraceEvent> {
        TraceReader::new(Path::new("trace"), format, bytes).map_while(Result::ok).collect()
    };
    let write = |events: &[TraceEvent]| {
        let mut written = Vec::new();
        events.iter().for_each(|event| format.encode(event, &mut written));
        written
    };
    let events = read(bytes);
    let written = write(&events);
    let again = read(&written);
    assert_eq!(again.len(), events.len());
    // Empty bytes and none are the same in JSON.
    assert_eq!(write(&again), written);
    let mut timeline = Timeline::default();
    events.iter().for_each(|event| timeline.add(event));
    let (mut chrome, mut perfetto) = (Vec::new(), Vec::new());
    timeline.write_chrome(&mut chrome).expect("memory does not fail");
    timeline.write_perfetto(&mut perfetto).expect("memory does not fail");
    serde_json::from_slice::<serde::de::IgnoredAny>(&chrome).expect("a timeline in JSON");
}

pub(crate) fn trace_seeds() -> Vec<Vec<u8>> {
    let (topic, id) = (Some("blocks/<1>".to_owned()), Some(vec![7; 20]));
    let control = ControlMeta {
        ihave: vec![ControlIHaveMeta { topic: topic.clone(), message_ids: vec![vec![1; 20]] }],
        ..ControlMeta::default()
    };
    let meta = RpcMeta {
        messages: vec![MessageMeta { message_id: id.clone(), topic: topic.clone() }],
        subscription: vec![SubMeta { subscribe: Some(true), topic: topic.clone() }],
        control: Some(control),
    };
    let peer = |name: &str| Some(name.as_bytes().to_vec());
    let events = [
        ("a", 1, Body::Join(Join { topic: topic.clone() })),
        ("a", 2, Body::SendRpc(SendRpc { send_to: peer("b"), meta: Some(meta) })),
        ("b", 3, Body::DeliverMessage(DeliverMessage { message_id: id, topic, received_from: peer("a") })),
    ];
    [(0, Format::Protobuf), (1, Format::Json)]
        .into_iter()
        .map(|(number, format)| {
            let mut seed = vec![number];
            for (node, at, body) in &events {
                format.encode(&TraceEvent::new(node.as_bytes(), *at, body.clone()), &mut seed);
            }
            seed
        })
        .collect()
}

// ---- live status ----

/// A file that lasts for one input. Readers follow no link, so that it needs a name.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("samara-fuzz-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, path })
    }

    fn set(&self, bytes: &[u8]) {
        self.file.set_len(0).and_then(|()| (&self.file).rewind()).expect("an empty file");
        self.add(bytes);
    }

    fn add(&self, bytes: &[u8]) {
        (&self.file).write_all(bytes).expect("room for a small file");
    }
}

fn poll(reader: &mut LiveReader, bytes_max: usize, into: &mut Vec<Line>) {
    let take = |said: Said| match said {
        Said::Line(line) => into.push(line),
        Said::Replaced => panic!("nobody replaced the file"),
    };
    let mut take = take;
    while reader.poll(bytes_max, &mut take).expect("a readable file") {}
}

/// Follows a file that grows once: its first byte says where.
pub(crate) fn live(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    let file = Scratch::new().expect("a temporary file");
    let (first, second) = bytes.split_at(bytes.len() * usize::from(*cut) / 256);
    let (mut pieces, mut reader) = (Vec::new(), LiveReader::new(&file.path));
    file.set(first);
    poll(&mut reader, 100, &mut pieces);
    file.add(second);
    poll(&mut reader, 100, &mut pieces);
    let (whole, counts) = read_live(&file);
    assert_eq!((&pieces, reader.counts()), (&whole, counts));
    // Lines that were read are written as lines that are read.
    let lines = whole.iter().map(|line| serde_json::to_vec(line).expect("a line in JSON"));
    file.set(&lines.flat_map(|line| [line, b"\n".to_vec()].concat()).collect::<Vec<u8>>());
    let (again, counts) = read_live(&file);
    assert_eq!(again, whole);
    assert_eq!((counts.lines, counts.garbage), (whole.len() as u64, 0));
}

fn read_live(file: &Scratch) -> (Vec<Line>, ReadCounts) {
    let (mut lines, mut reader) = (Vec::new(), LiveReader::new(&file.path));
    poll(&mut reader, usize::MAX, &mut lines);
    (lines, reader.counts())
}

pub(crate) fn live_seeds() -> Vec<Vec<u8>> {
    let mut latencies = Latencies::default();
    latencies.add(1_000_000, 3);
    let started = Event::Started { role: "node".into(), clock: Clock::Wall, started_unix_ns: 7, run: None };
    let (state, cause) = (RoundState::Failed, Some("timeout".to_owned()));
    let events = [
        started,
        Event::Team { team: 0, members: vec!["a".to_owned(), "b".to_owned()] },
        Event::Round { round: 7, state, team: Some(0), slots: Some(8), cause },
        Event::Slots { round: 7, step: Step::Left, slots: 3 },
        Event::Latencies { round: 7, latencies },
        Event::Ping { team: None, members: vec!["a".to_owned()], loop_ns: Some(5) },
    ];
    let mut seed = vec![128];
    for (seq, event) in (0..).zip(events) {
        let line = Line { v: 1, seq, at_ns: 10 * seq, node: None, event };
        seed.extend(serde_json::to_vec(&line).expect("a line in JSON"));
        seed.push(b'\n');
    }
    seed.extend(b"{\"v\":2}\n{\"v\":1,\"seq\":9,\"at_ns\":0,\"event\":\"new\"}\n{\"v\":1,");
    vec![seed]
}

// ---- graphs and tables ----

/// Matrices grow with the square of their rows.
const TABLE_BYTES_MAX: usize = 4_096;
const FILE_NAME: &str = "file";

fn inputs(bytes: &[u8]) -> Inputs {
    Inputs::directory("no such directory").with(FILE_NAME, bytes)
}

/// Reads a graph in GraphML or as an edge list, and hosts and links from it.
pub(crate) fn graph(data: &[u8]) {
    let inputs = inputs(&data[..data.len().min(TABLE_BYTES_MAX)]);
    let Ok(graph) = GraphFile::read(FILE_NAME, &inputs) else { return };
    let names: BTreeSet<&String> = graph.names.all().iter().collect();
    assert_eq!(names.len(), graph.names.len(), "names are unique");
    let links: BTreeSet<(u32, u32)> = graph.edges.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
    assert_eq!(links.len(), graph.edges.len(), "between two nodes there is one link");
    assert!(!links.is_empty() && links.iter().all(|(a, b)| a != b && (*b as usize) < names.len()));
    let nodes = nodes_of(FILE_NAME, &inputs).expect("a graph has nodes");
    assert!(nodes as usize >= names.len());
    let topology = Topology::File { file: FILE_NAME.to_owned(), topic_peers_min: 0 };
    let network = Network { nodes, topology, ..Network::default() };
    let (read, _) = read_file(&network, &inputs).expect("the network has the nodes of the graph");
    assert_eq!((read.nodes, read.edges.len()), (nodes, graph.edges.len()));
    assert!(read.edges.iter().all(|(a, b)| a != b && *a.max(b) < nodes));
}

const GRAPHML: &str = r#"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
 <key id="n" for="node" attr.name="name"/> <key id="u" for="node" attr.name="uplink"/>
 <key id="l" for="edge" attr.name="latency_ms"><default>3</default></key>
 <graph edgedefault="undirected">
  <node id="0"><data key="n">a</data><data key="u">20 Mbit/s</data></node>
  <node id="1"><data key="n">b &amp; c</data></node>
  <edge source="0" target="1"><data key="l">12.5</data></edge> <edge source="1" target="1"/>
 </graph>
</graphml>
"#;

pub(crate) fn graph_seeds() -> Vec<Vec<u8>> {
    let lists = [
        GRAPHML,
        "dialer,listener\n0,1\n1,2\n",
        "# a comment\n0 1 {'weight': 3}\n1 0\n2 2\n",
        "Source;Target;Weight\na;b;1\n\"b;c\";a;2\n",
    ];
    lists.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads hosts, regions, and pairs of numbers.
pub(crate) fn tables(data: &[u8]) {
    let inputs = inputs(&data[..data.len().min(TABLE_BYTES_MAX)]);
    if let Ok(hosts) = HostTable::read(FILE_NAME, &inputs) {
        let count = hosts.count as usize;
        for len in [
            hosts.uplink.as_ref().map(Vec::len),
            hosts.downlink.as_ref().map(Vec::len),
            hosts.region.as_ref().map(Vec::len),
            hosts.validation.as_ref().map(Vec::len),
            hosts.names.as_ref().map(|names| names.len()),
        ] {
            assert!(len.is_none_or(|len| len == count));
        }
        let region = |region: &u16| usize::from(*region) < hosts.regions.len();
        assert!(hosts.region.iter().flatten().all(region));
        for host in 0..hosts.count {
            let name =
                hosts.names.as_ref().map_or(host.to_string(), |names| names.all()[host as usize].clone());
            assert_eq!(hosts.find(&name), Some(host));
        }
    }
    if let Ok(regions) = RegionWeights::read(FILE_NAME, &inputs) {
        assert_eq!(regions.names.len(), regions.weights.len());
        assert!(regions.weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite()));
    }
    // Any numbers are a pair.
    let _ = read_pairs(FILE_NAME, &inputs, &["dialer", "listener"], |_| Ok(()));
}

pub(crate) fn tables_seeds() -> Vec<Vec<u8>> {
    let tables = [
        "node,uplink,downlink_mbps,region,validation_time\n1,20 Mbit/s,5,eu,3 ms\n0,1 Gbit/s,7,us,0 s\n",
        "node;uplink_kbps\n\"a;b\";2.5\nc;1e3\n",
        "region,weight\neu,0.5\nus,2\n",
        "dialer,listener\n0,1\n2,3\n",
        GRAPHML,
    ];
    tables.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads latencies, with the options that the first byte selects.
pub(crate) fn latencies(data: &[u8]) {
    let Some((options, bytes)) = data.split_first() else { return };
    let inputs = inputs(&bytes[..bytes.len().min(TABLE_BYTES_MAX)]);
    let spec = LatencyFile {
        file: FILE_NAME.to_owned(),
        kind: if options & 1 == 0 { LatencyKind::OneWay } else { LatencyKind::RoundTrip },
        unit: (options & 2 == 0).then_some(LatencyUnit::Milliseconds),
        column: (options & 4 != 0).then(|| "mean".to_owned()),
        names: (options & 8 != 0).then(|| FILE_NAME.to_owned()),
        within: (options & 16 == 0).then_some(Span::from_millis(1)),
        others: (options & 32 == 0).then_some(Span::from_millis(100)),
        ..LatencyFile::default()
    };
    let Ok(table) = LatencyTable::read(&spec, &inputs) else { return };
    let size = table.size();
    assert!(table.names().is_none_or(|names| names.len() == size));
    let rows = table.rows_of_hosts(size as u32, None).expect("a row for each host");
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), size);
    if let Ok(nanos) = table.between_hosts(&rows, &spec) {
        assert_eq!(nanos.len(), size * size);
        let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
        assert!(pairs.filter(|(from, to)| from != to).all(|(from, to)| nanos[from * size + to] > 0));
    }
    if let Ok(spans) = table.between_regions(&rows, &spec) {
        assert!(spans.len() == size && spans.iter().all(|row| row.len() == size));
    }
}

pub(crate) fn latencies_seeds() -> Vec<Vec<u8>> {
    let tables = [
        (0, "0,10,20\n10,0,5.5\n20,-,0\n"),
        (1, ",a,b\nb,30 ms,1\na,2,40\n"),
        (0, "from to latency\na b 12\nb c 3 ms\nb c 5\n"),
        (7, "source,destination,min,mean_ms,max\n1,2,1,2,3\n2,1,1,nan,3\n"),
        (8, "id,name\n0,0\n"),
        (0, GRAPHML),
    ];
    tables.map(|(options, text): (u8, &str)| [&[options][..], text.as_bytes()].concat()).to_vec()
}

// ---- scenarios ----

pub(crate) fn scenario(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    samara_families::register();
    let load = |text: &str| {
        load_source("scenario.toml", text, Inputs::directory("no such directory"), &Overrides::default())
    };
    match load(text) {
        Ok(loaded) => {
            let again = load(&loaded.text).expect("a loaded scenario is written as one that loads");
            assert_eq!((again.text, again.points.len()), (loaded.text, loaded.points.len()));
        }
        Err(error) => {
            let lines = text.matches('\n').count() + 1;
            assert!(!error.problems.is_empty() && !error.to_string().is_empty());
            assert!(error.problems.iter().all(|problem| problem.line.is_none_or(|line| line <= lines)));
        }
    }
}

pub(crate) fn scenario_seeds() -> Vec<Vec<u8>> {
    let names = [
        "peerdas-small",
        "gossip-baselines",
        "cat-1000",
        "cat-adversary",
        "ring-members",
        "ring-federation",
        "ring-churn",
        "mix-batch",
    ];
    // Numbers beyond their range, which no computation may take for the size of something.
    let numbers = [
        "network.nodes = 4294967295\n[mix]\n",
        "network.nodes = 4294967295\n[columns]\ncustody_file = \"file\"\n",
        "[columns]\ncount = 4294967295\nrows = 4294967295\n",
        "[columns.pieces]\nparity = 4294967295\npayload = \"1000000 GB\"\n",
        "transport.kind = \"grpc\"\n[mix]\nteams = 4294967295\nrounds = 100000\n",
        "[network.topology]\nkind = \"full-mesh\"\ntopic_peers_min = 4294967295\n[columns]\nslots = 10000\n",
        "[[sweep.axis]]\nkey = \"network.nodes\"\nvalues = [2, 3, 4]\n[[sweep.axis]]\nkey = \"network.jitter\"\nvalues = [\"1 ms\", \"2 ms\"]\n[messages]\nrate = 1e308\nduration = \"87600 h\"\n",
    ];
    samara_families::register();
    let built_in = names.map(|name| builtin(name).expect("a built-in scenario").text);
    built_in.into_iter().chain(numbers).map(|text| text.as_bytes().to_vec()).collect()
}
