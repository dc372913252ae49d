//! Tests of tables: quantities, names, hosts and regions.

use std::sync::Arc;

use samara_document::table::{Quantity, Shape, scan};
use samara_document::{HostTable, Inputs, Names, RegionWeights};
use samara_engine::units::{Rate, Span};

const SHAPE: Shape = Shape {
    needed: &["node"],
    allowed: &["uplink", "delay"],
    units: &[("uplink", Rate::UNITS), ("delay", Span::UNITS)],
    rows_max: 3,
};

fn first(text: &str) -> Result<(Option<Rate>, Option<Span>), String> {
    let mut read = None;
    scan("t.csv", text, &SHAPE, |row| {
        let found = (row.quantity("uplink")?, row.quantity("delay")?);
        read.get_or_insert(found);
        Ok(())
    })?;
    read.ok_or_else(|| "no row".to_owned())
}

#[test]
fn reads_units_from_cells_or_header() {
    let expected = Ok((Some(Rate::from_bps(20_000_000)), Some(Span::from_nanos(1_500_000))));
    assert_eq!(first("node,uplink,delay\na,20 Mbit/s,1.5 ms\n"), expected);
    assert_eq!(first("# a comment\nnode;delay_us;uplink_mbps\r\na;1500;20\r\n"), expected);
    assert_eq!(first("\u{feff}node\tuplink_bps\tdelay_s\n\"a\tb\"\t2e7\t0.0015\n"), expected);
    assert_eq!(first("node\na\n"), Ok((None, None)));
}

#[test]
fn errors_name_the_line() {
    let error = |text: &str| first(text).expect_err("an error");
    assert_eq!(
        error("node,upink\na,1\n"),
        "t.csv:1: found the column \"upink\" (did you mean uplink?); expected a header with node, uplink (optional), delay (optional)"
    );
    assert_eq!(
        error("uplink,delay\n"),
        "t.csv:1: the column node is missing; expected a header with node, uplink (optional), delay (optional)"
    );
    assert_eq!(error("node,uplink,uplink_bps\n"), "t.csv:1: duplicate column `uplink`");
    assert_eq!(
        error("node,uplink\n\na,20\n"),
        "t.csv:3: uplink: \"20\" has no unit; expected a rate such as \"20 Mbit/s\", in bit/s, kbit/s, Mbit/s, Gbit/s, or plain \
         numbers in a column uplink_bps"
    );
    assert_eq!(
        error("node,uplink_bps\na,-1\n"),
        "t.csv:2: uplink is \"-1\"; expected a number, since its column has a unit"
    );
    assert_eq!(
        error("node,uplink_gbps\na,1e300\n"),
        "t.csv:2: uplink is 1e300 in the unit of its column; allowed is at most 1000000 Gbit/s"
    );
    assert!(error("node,delay_s\na,1e9\n").ends_with("allowed is at most 87600 h"));
    for name in ["a\nb", "a\u{1b}b", "a\u{202e}b"] {
        let found = error(&format!("node\n\"{name}\"\n"));
        assert!(
            found.starts_with("t.csv:2: the value `a") && found.contains("control character U+"),
            "{found}"
        );
    }
    assert_eq!(error("node,uplink\na,\n"), "t.csv:2: uplink is empty; expected a value");
    assert_eq!(
        error("node,uplink\na\n"),
        "t.csv:2: found 1 values, expected 2, one for each column of the header"
    );
    assert_eq!(
        error(""),
        "t.csv: is empty; expected a header with node, uplink (optional), delay (optional)"
    );
    assert_eq!(error("node\n"), "t.csv: has no rows below its header");
    assert_eq!(error("node\na\nb\nc\nd\n"), "t.csv:5: more than 3 rows");
}

fn table(text: &str) -> Result<Arc<HostTable>, String> {
    HostTable::read("h.csv", &Inputs::default().with("h.csv", text))
}

#[test]
fn numbered_hosts_are_sorted() {
    let table = table("node,uplink,region\n1,1 Mbit/s,b\n0,2 Mbit/s,a\n").expect("a valid table");
    assert_eq!(table.names, None);
    assert_eq!(table.uplink, Some(vec![Rate::from_bps(2_000_000), Rate::from_bps(1_000_000)]));
    assert_eq!((table.region.clone(), table.downlink.clone()), (Some(vec![1, 0]), None));
    assert_eq!(table.regions, ["b", "a"]);
    assert_eq!((table.find("1"), table.find("2"), table.find("b")), (Some(1), None, None));
}

#[test]
fn named_hosts_get_numbers_by_their_rows() {
    let table = table("node,validation_time_ms\nparis,2\n1,3\n").expect("a valid table");
    assert_eq!((table.find("paris"), table.find("1"), table.find("0")), (Some(0), Some(1), None));
    assert_eq!(table.validation, Some(vec![Span::from_millis(2), Span::from_millis(3)]));
}

#[test]
fn errors_in_hosts_name_the_line() {
    let error = |text: &str| table(text).expect_err("an error");
    assert_eq!(error("node\na\na\n"), "h.csv:3: duplicate node `a`");
    assert_eq!(error("node,uplink_bps\na,0\n"), "h.csv:2: uplink is 0 bit/s; a node needs a positive rate");
}

#[test]
fn regions_have_weights() {
    let read = |text: &str| RegionWeights::read("w.csv", &Inputs::default().with("w.csv", text));
    let weights = read("region,weight\neu,60\nus,39.5\n").expect("a valid table");
    assert_eq!((weights.names.len(), weights.weights.as_slice()), (2, [60.0, 39.5].as_slice()));
    assert_eq!(
        read("region,weight\neu,-1\n"),
        Err("w.csv:2: weight is \"-1\"; expected a positive number or 0".to_owned())
    );
    assert_eq!(read("region,weight\neu,1\neu,1\n"), Err("w.csv:3: duplicate region `eu`".to_owned()));
}

#[test]
fn names_get_numbers_in_their_order() {
    let mut names: Names = ["paris", "rome", "paris"].into_iter().collect();
    assert_eq!((names.len(), names.number("oslo"), names.number("rome")), (2, 2, 1));
    assert_eq!((names.find("oslo"), names.find("bonn")), (Some(2), None));
    assert_eq!(names.all(), ["paris", "rome", "oslo"]);
}

#[test]
fn only_plain_numbers_below_the_bound_are_numbers() {
    let numbers = |names: &[&str], hosts| names.iter().collect::<Names>().as_numbers(hosts);
    assert_eq!(numbers(&["2", "0", "1"], 3), Some(vec![2, 0, 1]));
    assert_eq!(numbers(&["1", "2", "3"], 3), None, "counted from 1");
    assert_eq!(numbers(&["0", "01"], 3), None);
    assert_eq!(numbers(&["0", "-1"], 3), None);
}
