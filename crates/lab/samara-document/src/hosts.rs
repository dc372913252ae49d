//! Tables of hosts with their properties, and of regions with their weights.

use std::collections::BTreeSet;
use std::sync::Arc;

use csv::StringRecord;
use samara_engine::units::{Rate, Span};

use crate::graph::GraphFile;
use crate::table::{Names, Quantity, Row, Rows, Shape, scan};
use crate::{Inputs, LatencyOf, LatencyTable, Network, topology};

/// Maximum number of rows in a table, the same as hosts in a simulation.
const HOSTS_MAX: usize = 1 << 20;
/// Maximum number of regions, far above the number of cities in published tables.
const REGIONS_MAX: usize = 1_000;
/// Maximum number of classes of hosts in a table: results have all metrics of each.
const CLASSES_MAX: usize = 100;

const SHAPE: Shape = Shape {
    needed: &["node"],
    allowed: &["uplink", "downlink", "region", "class", "validation_time"],
    units: &[("uplink", Rate::UNITS), ("downlink", Rate::UNITS), ("validation_time", Span::UNITS)],
    rows_max: HOSTS_MAX,
};

const WEIGHTS: Shape =
    Shape { needed: &["region", "weight"], allowed: &[], units: &[], rows_max: REGIONS_MAX };

/// Returns true if an attribute of a node in a graph is a column of the table of hosts.
pub(crate) fn is_column(name: &str) -> bool {
    name != "node" && SHAPE.has(name)
}

/// The hosts of a network, by number. Values that the file does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostTable {
    /// The names of the hosts, unless their names are their numbers.
    pub names: Option<Arc<Names>>,
    pub count: u32,
    pub uplink: Option<Vec<Rate>>,
    pub downlink: Option<Vec<Rate>>,
    /// Indices into `regions`, by host.
    pub region: Option<Vec<u16>>,
    /// Indices into `classes`, by host; `None` for a host without a class.
    pub class: Option<Vec<Option<u16>>>,
    /// Time that a node takes to validate a message, by host.
    pub validation: Option<Vec<Span>>,
    /// The names of the regions, in the order of their appearance.
    pub regions: Vec<String>,
    /// The names of the classes, in the order of their appearance.
    pub classes: Vec<String>,
}

impl HostTable {
    /// Reads a file with a row for each host, or the nodes of a graph (GraphML).
    ///
    /// Hosts with the names 0, 1, 2, ... have these numbers in any order of the rows. All others
    /// get numbers in the order of their rows.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("hosts {file}"), || {
            let (text, mut hosts) = (inputs.table(file)?, Builder::default());
            if text.trim_start().starts_with('<') {
                hosts.nodes(file, &*GraphFile::read(file, inputs)?)?;
            } else {
                scan(file, &text, &SHAPE, |row| hosts.add(&row))?;
            }
            Ok(hosts.finish())
        })
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        match &self.names {
            Some(names) => names.find(name),
            None => name.parse().ok().filter(|number| *number < self.count),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct HostRow {
    uplink: Option<Rate>,
    downlink: Option<Rate>,
    region: Option<u16>,
    /// The class, if the table has classes and the host has one.
    class: Option<Option<u16>>,
    validation: Option<Span>,
}

/// Builds a table from rows in the order of a file.
#[derive(Default)]
struct Builder {
    names: Names,
    regions: Names,
    classes: Names,
    rows: Vec<HostRow>,
}

impl Builder {
    fn add(&mut self, row: &Row<'_>) -> Result<(), String> {
        let node = row.text("node")?.unwrap_or_default();
        if self.names.number(node) as usize != self.rows.len() {
            return Err(row.wrong(format_args!("duplicate node `{node}`")));
        }
        self.rows.push(HostRow {
            uplink: rate(row, "uplink")?,
            downlink: rate(row, "downlink")?,
            region: row.text("region")?.map(|region| self.regions.number(region) as u16),
            // An empty cell is that of a host without a class, as other hosts of a graph have no attribute.
            class: row.any_text("class").map(|name| match name {
                "" => None,
                name => Some(self.classes.number(name) as u16),
            }),
            validation: row.quantity("validation_time")?,
        });
        if self.regions.len() > REGIONS_MAX {
            return Err(row.wrong(format_args!("more than {REGIONS_MAX} regions")));
        }
        if self.classes.len() > CLASSES_MAX {
            return Err(row.wrong(format_args!(
                "more than {CLASSES_MAX} classes, each of which has all metrics; expected the kind of a node, not its name"
            )));
        }
        Ok(())
    }

    /// Adds the nodes of a graph, whose attributes are the columns.
    fn nodes(&mut self, file: &str, graph: &GraphFile) -> Result<(), String> {
        let columns: BTreeSet<&str> =
            graph.nodes.iter().flat_map(|node| node.values.keys().map(String::as_str)).collect();
        if columns.is_empty() {
            return Err(format!(
                "{file}: no node has a known attribute; expected uplink, downlink, region, class or validation_time"
            ));
        }
        let header: StringRecord = std::iter::once("node").chain(columns.iter().copied()).collect();
        let mut rows = Rows::begin(file, 1, &header, &SHAPE)?;
        for (name, node) in graph.names.all().iter().zip(&graph.nodes) {
            let cell = |column: &&str| node.values.get(*column).map_or("", String::as_str);
            let record = std::iter::once(name.as_str()).chain(columns.iter().map(cell)).collect();
            self.add(&rows.next(u64::from(node.line), &record)?)?;
        }
        Ok(())
    }

    fn finish(self) -> HostTable {
        let Self { names, regions, classes, mut rows } = self;
        let count = rows.len() as u32;
        let numbers = names.as_numbers(count);
        if let Some(numbers) = &numbers {
            let mut sorted = rows.clone();
            for (row, number) in rows.into_iter().zip(numbers) {
                sorted[*number as usize] = row;
            }
            rows = sorted;
        }
        HostTable {
            names: numbers.is_none().then(|| Arc::new(names)),
            count,
            uplink: rows.iter().map(|row| row.uplink).collect(),
            downlink: rows.iter().map(|row| row.downlink).collect(),
            region: rows.iter().map(|row| row.region).collect(),
            class: rows.iter().map(|row| row.class).collect(),
            validation: rows.iter().map(|row| row.validation).collect(),
            regions: regions.all().to_vec(),
            classes: classes.all().to_vec(),
        }
    }
}

fn rate(row: &Row<'_>, name: &str) -> Result<Option<Rate>, String> {
    let rate = row.quantity::<Rate>(name)?;
    if rate.is_some_and(|rate| rate.bps() == 0) {
        return Err(row.wrong(format_args!("{name} is 0 bit/s; a node needs a positive rate")));
    }
    Ok(rate)
}

/// Regions in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionWeights {
    pub names: Vec<String>,
    /// The relative number of hosts in each region.
    pub weights: Vec<f64>,
}

impl RegionWeights {
    /// Reads a file with a row for each region.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("weights {file}"), || {
            let (mut names, mut weights) = (Names::default(), Vec::new());
            scan(file, &inputs.table(file)?, &WEIGHTS, |row| {
                let name = row.text("region")?.unwrap_or_default();
                if names.number(name) as usize != weights.len() {
                    return Err(row.wrong(format_args!("duplicate region `{name}`")));
                }
                let weight = row.text("weight")?.unwrap_or_default();
                match weight.parse::<f64>() {
                    Ok(weight) if weight.is_finite() && weight >= 0.0 => weights.push(weight),
                    _ => {
                        let what = format_args!("weight is \"{weight}\"; expected a positive number or 0");
                        return Err(row.wrong(what));
                    }
                }
                Ok(())
            })?;
            Ok(Self { names: names.all().to_vec(), weights })
        })
    }
}

/// The names of hosts in the files of a network. The file of hosts takes precedence over that of
/// the graph, and the graph over that of latencies between hosts.
pub fn host_names(network: &Network, inputs: &Inputs) -> Result<Option<Arc<Names>>, String> {
    if let Some(file) = &network.nodes_file {
        return Ok(HostTable::read(file, inputs)?.names.clone());
    }
    if network.topology.file().is_some()
        && let Some(names) = topology::file_names(network, inputs)?
    {
        return Ok(Some(names));
    }
    let Some(spec) = network.latencies_of(LatencyOf::Nodes) else { return Ok(None) };
    let table = LatencyTable::read(spec, inputs)?;
    let all = table.names().filter(|names| names.len() == network.nodes as usize);
    Ok(all.filter(|names| names.as_numbers(network.nodes).is_none()).cloned())
}

/// The regions of hosts in the file of hosts. Hosts that it does not list (observers) are in the
/// region of the first host.
pub fn listed_regions(
    network: &Network,
    table: &HostTable,
    placed: &[u16],
    count: u32,
) -> Result<Vec<u16>, String> {
    let numbers: Vec<u16> = match &network.regions {
        None => (0..table.regions.len() as u16).collect(),
        Some(regions) => table
            .regions
            .iter()
            .map(|name| {
                let number = regions.names.iter().position(|own| own == name);
                number.map(|number| number as u16).ok_or_else(|| {
                    let file = network.nodes_file.as_deref().unwrap_or_default();
                    format!(
                        "{file}: nodes are in the region {name}; network.regions has {}",
                        regions.names.join(", ")
                    )
                })
            })
            .collect::<Result<_, _>>()?,
    };
    let mut all: Vec<u16> = placed.iter().map(|region| numbers[usize::from(*region)]).collect();
    let first = all.first().copied().unwrap_or(0);
    all.resize(count as usize, first);
    Ok(all)
}
