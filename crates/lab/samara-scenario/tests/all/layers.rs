//! Tests of the keys that replace others in the layers below.

use samara_document::Topology;
use samara_document::keys::get;

use crate::{load, set};

const FILE: &str = "[network]\nnodes = 100\nlatency = \"5 ms\"\nbandwidth = \"10 Mbit/s\"\n[work]\nsize = 5\n\
    [network.topology]\nkind = \"random-dials\"\ndials = 7\n";

/// Returns the error of the command line with these keys.
fn refused(keys: &[(&str, &str)]) -> String {
    load(FILE, &set(keys)).expect_err("the keys are wrong").to_string()
}

#[test]
fn numbers_are_texts_where_a_key_has_a_text() {
    let loaded = load(FILE, &set(&[("work.title", "2026"), ("work.size", "6")])).unwrap();
    let table = loaded.scenario.to_toml().unwrap();
    assert_eq!(get(&table, "work.title"), Some(&"2026".into()));
    assert_eq!(get(&table, "work.size"), Some(&6.into()));
}

#[test]
fn order_of_the_command_line_does_not_matter() {
    let keys = [
        ("network.topology.kind", "ring"),
        ("network.uplink", "1 Mbit/s"),
        ("network.bandwidth", "2 Mbit/s"),
        ("network.topology", "{ kind = \"full-mesh\" }"),
    ];
    let mut reversed = keys;
    reversed.reverse();
    let [one, other] = [keys, reversed].map(|keys| load(FILE, &set(&keys)).unwrap().scenario);
    assert_eq!(one, other);
    assert!(matches!(one.network.topology, Topology::Ring { .. }));
    assert_eq!((one.network.uplink.bps(), one.network.downlink.bps()), (1_000_000, 2_000_000));
}

#[test]
fn another_kind_has_its_own_keys() {
    let ring = load(FILE, &set(&[("network.topology.kind", "ring")])).unwrap();
    assert!(matches!(ring.scenario.network.topology, Topology::Ring { .. }));
    let error = refused(&[("network.topology.kind", "ring"), ("network.topology.dials", "3")]);
    let expected = "s.toml: --set network.topology.dials=3: belongs to kind = \"random-dials\"";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn file_replaces_keys_of_layers_below_only() {
    let file = ("network.latency_file", "{ file = \"x.csv\", kind = \"one-way\" }");
    let error = refused(&[file]);
    assert!(error.contains("x.csv"), "{error}");
    for keys in [[file, ("network.latency", "1 ms")], [("network.latency", "1 ms"), file]] {
        let error = refused(&keys);
        let expected = "s.toml: --set network.latency=1 ms: is replaced by network.latency_file; keep one";
        assert!(error.starts_with(expected), "{error}");
    }
}
