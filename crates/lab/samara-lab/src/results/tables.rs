//! The tables of a run. Columns have the names and units of the metrics.

use std::fmt;
use std::path::Path;

use samara_scenario::{Point, Scenario};
use samara_sim::HostStats;

use super::columns::{Column, Rows, column};
use super::{Measured, Outcome};
use crate::files::{At, FileError, NewFile};
use crate::network::Hosts;

pub type Columns = Vec<(&'static str, Column)>;

/// A table of a run, created on demand: all tables at once would take much memory.
pub struct Table<'a> {
    name: &'static str,
    rows: usize,
    make: Box<dyn Fn() -> Columns + 'a>,
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} rows", self.name, self.rows)
    }
}

impl<'a> Table<'a> {
    pub fn new(name: &'static str, rows: usize, make: impl Fn() -> Columns + 'a) -> Self {
        Self { name, rows, make: Box::new(make) }
    }

    /// Returns the name of the table and, without `.parquet`, of its file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn make(&self) -> Rows {
        Rows::new((self.make)())
    }

    pub fn write(&self, directory: &Path) -> Result<(), FileError> {
        write(directory, self.name, &self.make())
    }
}

pub fn write(directory: &Path, name: &str, rows: &Rows) -> Result<(), FileError> {
    let path = directory.join(format!("{name}.parquet"));
    let mut new = NewFile::create(&path)?;
    rows.write(&mut new.file).at(&path)?;
    new.finish()
}

pub fn distribution<'a>(table: &'static str, name: &'static str, points: &'a [(f64, f64)]) -> Table<'a> {
    Table::new(table, points.len(), move || {
        let (values, shares) = (points.iter().map(|point| point.0), points.iter().map(|point| point.1));
        vec![(name, column(values)), ("share", column(shares))]
    })
}

/// Returns the tables of a run, and one with the names of hosts and regions if there are any.
///
/// # Panics
/// Panics if the outcome does not belong to the measurements.
pub fn tables<'a>(measured: &'a dyn Measured, outcome: &'a Outcome) -> Vec<Table<'a>> {
    let mut tables = measured.tables(outcome);
    tables.extend(hosts(measured));
    let (point, hosts) = measured.setting();
    if point.scenario.network.classes.is_empty() {
        return tables;
    }
    tables.into_iter().map(|table| with_class(table, point, hosts)).collect()
}

/// Adds the class of the nodes of a table that has nodes and no classes.
fn with_class<'a>(table: Table<'a>, point: &'a Point, hosts: &'a Hosts) -> Table<'a> {
    let (name, rows, make) = (table.name, table.rows, table.make);
    Table::new(name, rows, move || {
        let mut columns = make();
        let at = columns.iter().position(|(name, _)| *name == NODE);
        let nodes = at.and_then(|at| columns[at].1.cells::<u32>());
        let nodes = nodes.filter(|_| !columns.iter().any(|(name, _)| *name == CLASS));
        let class = |node: Option<&u32>| {
            let class = (*hosts.class.get(*node? as usize)?)?;
            Some(point.scenario.network.classes[class].name.as_str())
        };
        let class = nodes.map(|nodes| column(nodes.map(class)));
        columns.extend(class.map(|class| (CLASS, class)));
        columns
    })
}

/// The columns of nodes and of their classes.
const NODE: &str = "node";
pub(crate) const CLASS: &str = "class";

fn hosts(measured: &dyn Measured) -> Option<Table<'_>> {
    let (point, hosts) = measured.setting();
    let nodes = point.scenario.network.nodes;
    let name = |host: u32| hosts.names.as_ref().and_then(|names| names.all().get(host as usize).cloned());
    let region = |host: u32| hosts.regions.get(usize::from(hosts.configs[host as usize].region)).cloned();
    (hosts.names.is_some() || !hosts.regions.is_empty()).then(|| {
        Table::new("nodes", nodes as usize, move || {
            vec![
                ("node", column(0..nodes)),
                ("name", column((0..nodes).map(name))),
                ("region", column((0..nodes).map(region))),
            ]
        })
    })
}

type Counter = fn(&HostStats) -> u64;

/// Returns the traffic of every host from the first publication on.
pub fn traffic(stats: &[HostStats], hosts: &Hosts, scenario: &Scenario) -> Columns {
    let classes = &scenario.network.classes;
    let class = hosts.class.iter().map(|class| class.map(|class| classes[class].name.as_str()));
    let counters: [(_, Counter); 19] = [
        ("bytes_up", |stats| stats.sent.bytes),
        ("bytes_down", |stats| stats.received.bytes),
        ("packets_up", |stats| stats.sent.packets),
        ("packets_down", |stats| stats.received.packets),
        ("payload_bytes_up", |stats| stats.frames_sent.payload_bytes),
        ("payload_bytes_down", |stats| stats.frames_received.payload_bytes),
        ("control_bytes_up", |stats| stats.frames_sent.control_bytes),
        ("control_bytes_down", |stats| stats.frames_received.control_bytes),
        ("retransmissions", |stats| stats.retransmitted.packets),
        ("timeouts", |stats| stats.timeouts),
        ("dropped_downlink_full", |stats| stats.drops.downlink_full.packets),
        ("dropped_downlink_codel", |stats| stats.drops.downlink_codel.packets),
        ("dropped_uplink_codel", |stats| stats.drops.uplink_codel.packets),
        ("dropped_uplink_full", |stats| stats.drops.uplink_full.packets),
        ("dropped_random", |stats| stats.drops.random.packets),
        ("dropped_partition", |stats| stats.drops.partition.packets),
        ("dropped_stale", |stats| stats.drops.stale.packets),
        ("frames_lost", |stats| stats.frames_lost),
        ("uplink_busy_ns", |stats| stats.uplink_busy_nanos),
    ];
    let mut columns: Columns = vec![
        ("node", column(0..stats.len() as u32)),
        (CLASS, column(class)),
        ("uplink_bps", column(hosts.configs.iter().map(|host| host.uplink_bps))),
        ("downlink_bps", column(hosts.configs.iter().map(|host| host.downlink_bps))),
    ];
    columns.extend(counters.map(|(name, count)| (name, column(stats.iter().map(count)))));
    columns
}

pub fn configuration(rows: &[(String, String)]) -> Table<'_> {
    Table::new("configuration", rows.len(), || {
        vec![
            ("key", column(rows.iter().map(|(key, _)| key.as_str()))),
            ("value", column(rows.iter().map(|(_, value)| value.as_str()))),
        ]
    })
}
