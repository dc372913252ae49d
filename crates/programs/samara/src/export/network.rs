//! `samara export graph`, `hosts` and `latencies`: the network of a run.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use samara_document::Network;
use samara_document::keys::{GridAxis, parse_axis};
use samara_document::topology::Graph;
use samara_family_columns::Columns;
use samara_lab::network::{self, Hosts};
use samara_lab::results::write_named;
use samara_scenario::{Loaded, Point, Scenario};

use crate::args::ScenarioOptions;

/// The run of a scenario, and the output file.
#[derive(Debug, clap::Args)]
pub(crate) struct OneRun {
    #[command(flatten)]
    which: ScenarioOptions,
    /// The value of a sweep's key, if its values have different networks; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_axis)]
    grid: Vec<GridAxis>,
    /// Output file. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

struct Built {
    loaded: Loaded,
    hosts: Hosts,
}

impl Built {
    /// The first of the points that have this network.
    fn point(&self) -> &Point {
        &self.loaded.points[0]
    }

    fn name(&self, host: u32) -> String {
        let named = self.hosts.names.as_ref().and_then(|names| names.all().get(host as usize));
        named.map_or_else(|| host.to_string(), Clone::clone)
    }

    fn region(&self, host: u32) -> Option<&str> {
        let region = self.hosts.configs[host as usize].region;
        self.hosts.regions.get(usize::from(region)).map(String::as_str)
    }

    fn nodes(&self) -> u32 {
        self.point().scenario.network.nodes
    }

    fn graph(&self) -> Result<Graph, String> {
        let (point, inputs) = (self.point(), &self.loaded.inputs);
        let scenario = &point.scenario;
        let family = scenario.family();
        if !family.has_topology() {
            return Err(format!(
                "{}: its protocol makes the links between nodes, so it has no graph; nodes and latencies can be exported",
                self.loaded.source
            ));
        }
        let fail = |error| format!("{}: run {}: {error}", self.loaded.source, point.name());
        network::graph(scenario, inputs, point.seed).map(|(graph, _)| graph).map_err(fail)
    }
}

impl OneRun {
    fn build(&self) -> Result<Built, String> {
        let loaded = self.which.load_with(&self.grid)?;
        crate::session::print_notes(&loaded, false);
        let first = loaded.points.first().ok_or_else(|| format!("{}: has no runs", loaded.source))?;
        let is_same = |point: &Point| relevant_parts(&point.scenario) == relevant_parts(&first.scenario);
        let of_seed = loaded.points.iter().filter(|point| point.seed == first.seed);
        if let Some(other) = of_seed.into_iter().find(|point| !is_same(point)) {
            return Err(format!(
                "{}: {} and {} have different networks; choose with --only NAME or --grid KEY=VALUE",
                loaded.source,
                first.name(),
                other.name()
            ));
        }
        let nodes = first.scenario.network.nodes;
        let hosts = network::hosts(&first.scenario, &loaded.inputs, nodes, first.seed)
            .map_err(|error| format!("{}: {error}", loaded.source))?;
        Ok(Built { loaded, hosts })
    }

    /// Writes the text to the output file or to standard output.
    fn write(&self, text: &str) -> Result<ExitCode, String> {
        match &self.output {
            None => crate::print(text),
            Some(path) => {
                write_named(path, text)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// The settings that determine the exported network.
///
/// Leaves out the queues, jitter and loss, and the workload unless the links depend on it.
fn relevant_parts(scenario: &Scenario) -> (Network, Option<Columns>) {
    let plain = Network::default();
    let network = Network {
        interface: plain.interface,
        uplink_queue: plain.uplink_queue,
        downlink_queue: plain.downlink_queue,
        jitter: plain.jitter,
        loss: plain.loss,
        ..scenario.network.clone()
    };
    // Subscribers of columns dial peers of their topics, so links depend on the columns.
    let kept = |workload: &Columns| Columns {
        count: workload.count,
        custody: workload.custody,
        custody_file: workload.custody_file.clone(),
        publisher: workload.publisher,
        publisher_class: workload.publisher_class.clone(),
        publisher_subscribes_all: workload.publisher_subscribes_all,
        ..Columns::default()
    };
    let has_own_links = network.topology.topic_peers_min() > 0;
    (network, scenario.find().filter(|_| has_own_links).map(kept))
}

/// One-way milliseconds, exact to the nanosecond.
fn millis(latency: std::time::Duration) -> f64 {
    latency.as_nanos() as f64 / 1e6
}

/// One-way milliseconds between two hosts, as the simulator has them.
fn latency(hosts: &Hosts, from: u32, to: u32) -> f64 {
    // The random draw is 0: no latency of a scenario depends on it.
    hosts.latency.nanos(0, &hosts.configs, from, to) as f64 / 1e6
}

/// Options of `samara export graph`.
#[derive(Debug, clap::Args)]
pub(crate) struct GraphOptions {
    #[command(flatten)]
    which: OneRun,
    /// Output format.
    #[arg(long, value_enum, default_value_t = GraphFormat::Graphml)]
    format: GraphFormat,
}

/// Formats of graphs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GraphFormat {
    /// GraphML with all attributes of hosts and links.
    Graphml,
    /// A line with two hosts for each link, for NetworkX.
    Edges,
    /// CSV with the columns dialer and listener.
    Csv,
}

pub(super) fn graph(options: &GraphOptions) -> Result<ExitCode, String> {
    let built = options.which.build()?;
    let graph = built.graph()?;
    let text = match options.format {
        GraphFormat::Graphml => graphml(&built, &graph)?,
        GraphFormat::Edges => edges(&built, &graph)?,
        GraphFormat::Csv => csv_edges(&built, &graph)?,
    };
    options.which.write(&text)
}

/// A GraphML attribute: its key, its element, its name and its type.
type Attribute = (&'static str, &'static str, &'static str, &'static str);

const UPLINK: Attribute = ("u", "node", "uplink_bps", "long");
const DOWNLINK: Attribute = ("d", "node", "downlink_bps", "long");
const REGION: Attribute = ("r", "node", "region", "string");
const CLASS: Attribute = ("c", "node", "class", "string");
const VALIDATION: Attribute = ("v", "node", "validation_time_ms", "double");
const LATENCY: Attribute = ("l", "edge", "latency_ms", "double");
/// Latency in the reverse direction, if it differs.
const REVERSE: Attribute = ("b", "edge", "latency_reverse_ms", "double");

fn graphml(built: &Built, graph: &Graph) -> Result<String, String> {
    let mut bytes = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec();
    let mut writer = Writer::new_with_indent(&mut bytes, b' ', 1);
    let root =
        writer.create_element("graphml").with_attribute(("xmlns", "http://graphml.graphdrawing.org/xmlns"));
    let written = root.write_inner_content(|writer| {
        for (id, of, name, kind) in [UPLINK, DOWNLINK, REGION, CLASS, VALIDATION, LATENCY, REVERSE] {
            let attributes = [("id", id), ("for", of), ("attr.name", name), ("attr.type", kind)];
            writer.create_element("key").with_attributes(attributes).write_empty()?;
        }
        let attributes =
            [("id", built.point().scenario.scenario.name.as_str()), ("edgedefault", "undirected")];
        writer.create_element("graph").with_attributes(attributes).write_inner_content(|writer| {
            (0..graph.nodes).try_for_each(|host| node(writer, built, host))?;
            graph.edges.iter().try_for_each(|ends| edge(writer, built, *ends))
        })?;
        Ok(())
    });
    written.map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

type Out<'a> = Writer<&'a mut Vec<u8>>;

fn node(writer: &mut Out<'_>, built: &Built, host: u32) -> io::Result<()> {
    let (hosts, place) = (&built.hosts, host as usize);
    let classes = &built.point().scenario.network.classes;
    let name = built.name(host);
    let element = writer.create_element("node").with_attribute(("id", name.as_str()));
    element.write_inner_content(|writer| {
        data(writer, UPLINK, &hosts.configs[place].uplink_bps.to_string())?;
        data(writer, DOWNLINK, &hosts.configs[place].downlink_bps.to_string())?;
        if let Some(region) = built.region(host) {
            data(writer, REGION, region)?;
        }
        if let Some(class) = hosts.class[place] {
            data(writer, CLASS, &classes[class].name)?;
        }
        data(writer, VALIDATION, &millis(hosts.validation[place]).to_string())
    })?;
    Ok(())
}

fn edge(writer: &mut Out<'_>, built: &Built, (dialler, listener): (u32, u32)) -> io::Result<()> {
    let (source, target) = (built.name(dialler), built.name(listener));
    let ends = [("source", source.as_str()), ("target", target.as_str())];
    let there = latency(&built.hosts, dialler, listener);
    let back = latency(&built.hosts, listener, dialler);
    writer.create_element("edge").with_attributes(ends).write_inner_content(|writer| {
        data(writer, LATENCY, &there.to_string())?;
        if back == there { Ok(()) } else { data(writer, REVERSE, &back.to_string()) }
    })?;
    Ok(())
}

fn data(writer: &mut Out<'_>, (key, ..): Attribute, text: &str) -> io::Result<()> {
    writer.create_element("data").with_attribute(("key", key)).write_text_content(BytesText::new(text))?;
    Ok(())
}

fn edges(built: &Built, graph: &Graph) -> Result<String, String> {
    let mut text = String::new();
    for (dialler, listener) in &graph.edges {
        let (a, b) = (built.name(*dialler), built.name(*listener));
        if let Some(name) = [&a, &b].into_iter().find(|name| name.contains(char::is_whitespace)) {
            return Err(format!(
                "node \"{name}\" has a blank in its name, which edge lists do not support; use --format graphml or csv"
            ));
        }
        let _ = writeln!(text, "{a} {b}");
    }
    Ok(text)
}

fn csv_edges(built: &Built, graph: &Graph) -> Result<String, String> {
    let edges = graph.edges.iter().map(|(a, b)| vec![built.name(*a), built.name(*b)]);
    csv(std::iter::once(vec!["dialer".to_owned(), "listener".to_owned()]).chain(edges))
}

/// Maximum number of hosts in an exported matrix, which then has 100 million values.
const HOSTS_MAX: u32 = 10_000;

pub(super) fn nodes(options: &OneRun) -> Result<ExitCode, String> {
    let built = options.build()?;
    let hosts = &built.hosts;
    let classes = &built.point().scenario.network.classes;
    let mut head = ["node", "uplink_bps", "downlink_bps", "validation_time_ms"].map(str::to_owned).to_vec();
    head.extend((!hosts.regions.is_empty()).then(|| "region".to_owned()));
    head.extend((!classes.is_empty()).then(|| "class".to_owned()));
    let rows = (0..built.nodes()).map(|host| {
        let config = &hosts.configs[host as usize];
        let mut row = vec![
            built.name(host),
            config.uplink_bps.to_string(),
            config.downlink_bps.to_string(),
            millis(hosts.validation[host as usize]).to_string(),
        ];
        row.extend(built.region(host).map(str::to_owned));
        let class = hosts.class[host as usize].map_or_else(String::new, |class| classes[class].name.clone());
        row.extend((!classes.is_empty()).then_some(class));
        row
    });
    options.write(&csv(std::iter::once(head).chain(rows))?)
}

pub(super) fn latencies(options: &OneRun) -> Result<ExitCode, String> {
    let built = options.build()?;
    let hosts = &built.hosts;
    let is_regional = matches!(hosts.latency, samara_sim::Latency::Regions(_));
    if !is_regional && built.nodes() > HOSTS_MAX {
        return Err(format!(
            "{}: {} nodes; expected at most {HOSTS_MAX}, since the matrix has a value for each pair",
            built.loaded.source,
            built.nodes()
        ));
    }
    let names: Vec<String> = match is_regional {
        true => hosts.regions.clone(),
        false => (0..built.nodes()).map(|host| built.name(host)).collect(),
    };
    let between = |from: usize, to: usize| match &hosts.latency {
        samara_sim::Latency::Regions(matrix) => millis(matrix[from][to]),
        _ if from == to => 0.0,
        _ => latency(hosts, from as u32, to as u32),
    };
    let head = std::iter::once(String::new()).chain(names.iter().cloned()).collect();
    let rows = names.iter().enumerate().map(|(from, name)| {
        let values = (0..names.len()).map(|to| between(from, to).to_string());
        std::iter::once(name.clone()).chain(values).collect()
    });
    options.write(&csv(std::iter::once(head).chain(rows))?)
}

fn csv(rows: impl Iterator<Item = Vec<String>>) -> Result<String, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).map_err(|error| error.to_string())?;
    }
    let bytes = writer.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}
