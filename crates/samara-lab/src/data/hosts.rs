//! Hosts and their properties from a table.

use std::sync::Arc;

use super::table::{Quantity, Row, Shape, scan};
use super::{Inputs, Names, graph};
use samara_engine::units::{Rate, Span};

/// Hosts of a table: as many as a simulation can have.
const HOSTS_MAX: usize = 1 << 20;
/// Regions: far more than there are cities in the published tables.
pub const REGIONS_MAX: usize = 1_000;

const SHAPE: Shape = Shape {
    needed: &["host"],
    allowed: &["uplink", "downlink", "region", "validation_time"],
    units: &[("uplink", Rate::UNITS), ("downlink", Rate::UNITS), ("validation_time", Span::UNITS)],
    rows_max: HOSTS_MAX,
};

/// The hosts of a network, by number. What a file does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostTable {
    /// What they are called, unless they are called by their numbers.
    pub names: Option<Arc<Names>>,
    /// How many there are.
    pub count: u32,
    /// Uplink rates.
    pub uplink: Option<Vec<Rate>>,
    /// Downlink rates.
    pub downlink: Option<Vec<Rate>>,
    /// Indices into `regions`.
    pub region: Option<Vec<u16>>,
    /// Times that a node takes to validate a message.
    pub validation: Option<Vec<Span>>,
    /// The names of the regions, in the order in which hosts have them.
    pub regions: Vec<String>,
}

impl HostTable {
    /// Reads a file with a row for each host, or the nodes of a graph (GraphML, GML). Hosts that are called 0, 1, 2, ... have these numbers whatever the order of the rows; all
    /// others get numbers in the order of their rows.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong; the message names file and line.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("hosts {file}"), || {
            let text = inputs.read(file)?;
            if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') || graph::is_gml(&text) {
                graph::hosts(file, inputs)
            } else {
                Self::parse(file, &text)
            }
        })
    }

    fn parse(file: &str, text: &str) -> Result<Self, String> {
        let (mut names, mut regions) = (Names::default(), Names::default());
        let mut rows: Vec<HostRow> = Vec::new();
        scan(file, text, &SHAPE, |row| {
            let host = row.text("host")?.unwrap_or_default();
            if names.number(host) as usize != rows.len() {
                return Err(row.wrong(format_args!("the host {host} is there twice")));
            }
            rows.push(HostRow {
                uplink: rate(&row, "uplink")?,
                downlink: rate(&row, "downlink")?,
                region: row.text("region")?.map(|region| regions.number(region) as u16),
                validation: row.quantity("validation_time")?,
            });
            if regions.len() > REGIONS_MAX {
                return Err(row.wrong(format_args!("more than {REGIONS_MAX} regions")));
            }
            Ok(())
        })?;
        Ok(Self::of(names, regions, rows))
    }

    /// Brings rows in the order of hosts.
    pub(super) fn of(names: Names, regions: Names, mut rows: Vec<HostRow>) -> Self {
        let count = rows.len() as u32;
        let numbers = names.as_numbers(count);
        if let Some(numbers) = &numbers {
            let mut sorted = rows.clone();
            for (row, number) in rows.into_iter().zip(numbers) {
                sorted[*number as usize] = row;
            }
            rows = sorted;
        }
        Self {
            names: numbers.is_none().then(|| Arc::new(names)),
            count,
            uplink: rows.iter().map(|row| row.uplink).collect(),
            downlink: rows.iter().map(|row| row.downlink).collect(),
            region: rows.iter().map(|row| row.region).collect(),
            validation: rows.iter().map(|row| row.validation).collect(),
            regions: regions.all().to_vec(),
        }
    }

    /// The number of the host that is called so.
    pub fn find(&self, name: &str) -> Option<u32> {
        match &self.names {
            Some(names) => names.find(name),
            None => name.parse().ok().filter(|number| *number < self.count),
        }
    }
}

/// What a table says of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostRow {
    pub(super) uplink: Option<Rate>,
    pub(super) downlink: Option<Rate>,
    pub(super) region: Option<u16>,
    pub(super) validation: Option<Span>,
}

fn rate(row: &Row<'_>, name: &str) -> Result<Option<Rate>, String> {
    let rate = row.quantity::<Rate>(name)?;
    if rate.is_some_and(|rate| rate.bps() == 0) {
        return Err(row.wrong(format_args!("{name} is 0 bit/s; a host needs a positive rate")));
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Arc<HostTable>, String> {
        HostTable::read("h.csv", &Inputs::default().with("h.csv", text))
    }

    #[test]
    fn numbered_hosts_are_sorted() {
        let table = table("host,uplink,region\n1,1 Mbit/s,b\n0,2 Mbit/s,a\n").expect("is right");
        assert_eq!(table.names, None);
        assert_eq!(table.uplink, Some(vec![Rate::from_bps(2_000_000), Rate::from_bps(1_000_000)]));
        assert_eq!((table.region.clone(), table.downlink.clone()), (Some(vec![1, 0]), None));
        assert_eq!(table.regions, ["b", "a"]);
        assert_eq!((table.find("1"), table.find("2"), table.find("b")), (Some(1), None, None));
    }

    #[test]
    fn named_hosts_get_numbers_by_their_rows() {
        let table = table("host,validation_time_ms\nparis,2\n1,3\n").expect("is right");
        assert_eq!((table.find("paris"), table.find("1"), table.find("0")), (Some(0), Some(1), None));
        assert_eq!(table.validation, Some(vec![Span::from_millis(2), Span::from_millis(3)]));
    }

    #[test]
    fn mistakes_have_their_lines() {
        let error = |text: &str| table(text).expect_err("something is wrong");
        assert_eq!(error("host\na\na\n"), "h.csv:3: the host a is there twice");
        assert_eq!(
            error("host,uplink_bps\na,0\n"),
            "h.csv:2: uplink is 0 bit/s; a host needs a positive rate"
        );
    }
}
