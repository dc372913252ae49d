//! `samara export graph`.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use clap::ValueEnum;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use samara_scenario::topology::Graph;

use super::network::{Built, OneRun, latency, millis};

/// Which graph, and how to write it.
#[derive(Debug, clap::Args)]
pub(crate) struct GraphOptions {
    #[command(flatten)]
    which: OneRun,
    /// How to write it.
    #[arg(long, value_enum, default_value_t = GraphFormat::Graphml)]
    format: GraphFormat,
}

/// How graphs are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GraphFormat {
    /// GraphML with everything that is known of hosts and links.
    Graphml,
    /// A line with two hosts for each link, as NetworkX reads it.
    Edges,
    /// The same as CSV with the columns dialer and listener.
    Csv,
}

/// Builds a graph and writes it.
pub(super) fn run(options: &GraphOptions) -> Result<ExitCode, String> {
    let built = options.which.build()?;
    let graph = built.graph()?;
    let text = match options.format {
        GraphFormat::Graphml => graphml(&built, &graph)?,
        GraphFormat::Edges => edges(&built, &graph)?,
        GraphFormat::Csv => csv(&built, &graph)?,
    };
    options.which.write(&text)
}

/// An attribute: its key, what has it, its name and its type.
type Attribute = (&'static str, &'static str, &'static str, &'static str);

const UPLINK: Attribute = ("u", "node", "uplink_bps", "long");
const DOWNLINK: Attribute = ("d", "node", "downlink_bps", "long");
const REGION: Attribute = ("r", "node", "region", "string");
const CLASS: Attribute = ("c", "node", "class", "string");
const VALIDATION: Attribute = ("v", "node", "validation_time_ms", "double");
const LATENCY: Attribute = ("l", "edge", "latency_ms", "double");
/// Where the way back takes another time.
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
        data(writer, LATENCY, &millis(there).to_string())?;
        if back == there { Ok(()) } else { data(writer, REVERSE, &millis(back).to_string()) }
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
                "the host \"{name}\" has a blank in its name, which edge lists cannot have; use --format graphml or csv"
            ));
        }
        let _ = writeln!(text, "{a} {b}");
    }
    Ok(text)
}

fn csv(built: &Built, graph: &Graph) -> Result<String, String> {
    let edges = graph.edges.iter().map(|(a, b)| vec![built.name(*a), built.name(*b)]);
    super::tables::csv(std::iter::once(vec!["dialer".to_owned(), "listener".to_owned()]).chain(edges))
}
