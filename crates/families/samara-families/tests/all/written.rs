//! Round trips of everything that the program writes and reads again: the text of a scenario, that of
//! a result, the defaults of the schema, and records.

use std::collections::BTreeMap;

use proptest::prelude::*;
use samara_document::Inputs;
use samara_document::keys::get;
use samara_engine::units::{Rate, Share, Size, Span};
use samara_family_columns::section::Columns;
use samara_lab::run::{RunOptions, run};
use samara_lab::sweep::PointRecord;
use samara_scenario::{Loaded, Overrides, Point, family};
use serde_json::{Value, json};

use crate::{builtins, load_source, loaded, refused, schema};

fn read(text: &str) -> Loaded {
    load_source("x.toml", text, Inputs::default(), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Reads the text of a scenario again, and compares all that counts.
fn again(loaded: &Loaded) -> Loaded {
    let again = read(&loaded.text);
    assert_eq!(again.points, loaded.points, "{}", loaded.text);
    assert_eq!(again.text, loaded.text);
    again
}

#[test]
fn shown_scenarios_are_the_scenarios() {
    for builtin in builtins() {
        let loaded = loaded(builtin.name, &[], &[], None);
        let again = again(&loaded);
        assert_eq!(again.scenario, loaded.scenario, "{}: with runs, sweeps and figures", builtin.name);
    }
}

/// The smallest scenario of each family with each of its protocols, and with the optional tables.
#[test]
fn all_defaults_are_written_as_they_are() {
    let mut texts = Vec::new();
    for family in family::all() {
        for protocol in family.protocols {
            texts.push(format!("[{}]\n[protocol]\nkind = \"{}\"\n", family.section, protocol.name));
        }
    }
    for table in ["cells", "pieces"] {
        texts.push(format!("[columns]\n[columns.{table}]\n[protocol.parts]\n[protocol.spread.pull]\n"));
    }
    let mut count = 0;
    for text in texts {
        // Some families need a key without a default; the others have a value for each key.
        let Ok(loaded) = load_source("x.toml", &text, Inputs::default(), &Overrides::default()) else {
            continue;
        };
        let again = again(&loaded);
        assert_eq!(again.scenario, loaded.scenario, "{text}");
        count += 1;
    }
    assert!(count >= 8, "{count} scenarios");
    let cells = read("[columns]\n[columns.cells]\n");
    assert!(cells.text.contains("hits = \"82 %\"\n") && cells.text.contains("private = \"80 %\"\n"));
}

/// Collects the texts of a document with the paths to them.
fn texts(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| texts(value, &format!("{path}.{key}"), found))
        }
        Value::Array(list) => list.iter().for_each(|value| texts(value, path, found)),
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        _ => {}
    }
}

/// A default of the schema is a text that a scenario may contain, and the one that scenarios show.
#[test]
fn defaults_of_the_schema_are_values() {
    fn walk(value: &Value, name: &str, found: &mut Vec<(String, String)>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if key == "default" {
                        texts(value, name, found);
                    }
                    walk(value, key, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, name, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&schema(), "", &mut found);
    let mut count = 0;
    for (path, text) in &found {
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let read = [
            Rate::parse(text).map(|value| value.to_string()),
            Span::parse(text).map(|value| value.to_string()),
            Size::parse(text).map(|value| value.to_string()),
            Share::parse(text).map(|value| value.to_string()),
        ];
        // The text of a version has no unit.
        if let Some(again) = read.into_iter().find_map(Result::ok) {
            assert_eq!(again, *text, "{path}");
            count += 1;
        }
    }
    assert!(count > 60, "{count} quantities");
    let hits: Vec<&str> =
        found.iter().filter(|(path, _)| path.ends_with("hits")).map(|(_, text)| text.as_str()).collect();
    assert!(!hits.is_empty() && hits.iter().all(|text| *text == "82 %"), "{hits:?}");
}

/// Digests of all points.
fn digests(loaded: &Loaded) -> Vec<String> {
    let options = RunOptions::new(1, &loaded.inputs);
    let digest =
        |point| run(point, options, |_, _| {}).unwrap_or_else(|error| panic!("{error}")).outcome().run.digest;
    loaded.points.iter().map(digest).collect()
}

/// The scenario of a result runs as the result: with runs, overlays, sweeps, faults and classes. Without
/// 82 % of hits, nearly all nodes of the first stay incomplete.
#[test]
fn the_scenario_of_a_result_has_its_digests() {
    let fault = "[{ kind = \"slow\", at = \"10.33 s\", share = \"7 %\", factor = 0.3333333333333333 }]";
    let faulty = [("fault", fault), ("network.loss", "0.29 %"), ("network.latency", "33333333 ns")];
    let small = [("network.nodes", "40"), ("network.topology.degree", "12"), ("columns.blobs", "1")];
    let swept = [("sweep.axis", "[{ key = \"network.nodes\", values = [10, 30] }]"), ("columns.blobs", "1")];
    let pool = [("network.nodes", "16"), ("pool.duration", "1 s"), ("pool.block_interval", "500 ms")];
    for (name, set, only) in [
        ("peerdas-small", &[("columns.cells", "{}"), ("columns.count", "128")][..], &["batch"][..]),
        ("peerdas-small", &faulty, &["batch"]),
        ("peerdas", &[("network.topology", "{}"), swept[0], swept[1]], &["batch"]),
        ("peerdas-mixed", &small, &["batch"]),
        ("cat-mixed", &pool, &["flooding"]),
        ("ring-rounds", &[], &["direct"]),
    ] {
        let one = loaded(name, set, only, Some(1));
        let all = again(&loaded(name, set, &[], Some(1)));
        let points = all.points.iter().filter(|point| only.contains(&point.run.as_str())).cloned().collect();
        assert_eq!(digests(&one), digests(&Loaded { points, ..all }), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Names, texts and numbers of a scenario are the same after it is written.
    #[test]
    fn texts_and_numbers_survive(title in "\\PC*", label in any::<String>(), seed in 0..=i64::MAX, factor in 1e-9_f64..1.0, at in 1_u64..60_000_000_000) {
        let mut table: toml::Table = "[scenario]\nname = \"x\"\n[columns]\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\n".parse().unwrap();
        let about = table["scenario"].as_table_mut().unwrap();
        about.insert("title".to_owned(), title.clone().into());
        about.insert("description".to_owned(), label.clone().into());
        about.insert("seeds".to_owned(), toml::Value::Array(vec![seed.into()]));
        let runs = table["run"].as_array_mut().unwrap();
        runs[0].as_table_mut().unwrap().insert("label".to_owned(), label.clone().into());
        let fault = format!("kind = \"slow\"\nat = \"{}\"\nnodes = [3]\nfactor = {factor:?}", Span::from_nanos(at));
        table.insert("fault".to_owned(), toml::Value::Array(vec![fault.parse::<toml::Table>().unwrap().into()]));
        let loaded = read(&table.to_string());
        let scenario = again(&loaded).scenario;
        prop_assert_eq!(&scenario, &loaded.scenario);
        prop_assert_eq!(scenario.scenario.title, title);
        prop_assert_eq!(&scenario.scenario.description, &label);
        prop_assert_eq!(&scenario.runs[0].label, &label);
        prop_assert_eq!(scenario.scenario.seeds, vec![seed as u64]);
        prop_assert_eq!(scenario.faults[0].kind.factor(), Some(factor));
        prop_assert_eq!(scenario.faults[0].at.nanos(), at);
    }

    /// The record of a finished point, from which a resumed sweep takes its figures.
    #[test]
    fn records_of_points_survive(bits in prop::collection::vec(any::<u64>(), 4), seed in 0..=i64::MAX as u64, label in any::<String>()) {
        let metrics: Vec<f64> = bits.into_iter().map(f64::from_bits).filter(|value| value.is_finite()).collect();
        let record = PointRecord {
            name: label,
            parameters: json!({ "seed": seed, "network.loss": "7 %", "x": metrics }).as_object().unwrap().clone(),
            cpu_s: metrics.first().copied().unwrap_or(0.1),
            ..PointRecord::default()
        };
        let text = serde_json::to_string(&record).unwrap();
        prop_assert_eq!(serde_json::from_str::<PointRecord>(&text).unwrap(), record);
    }
}

/// A number of links that nobody has set follows the number of nodes, also after it is written.
#[test]
fn links_follow_the_number_of_nodes() {
    let degrees = |loaded: &Loaded| -> Vec<u32> {
        let links = |point: &Point| *point.scenario.network.topology.clone().links().unwrap().1;
        loaded.points.iter().map(links).collect()
    };
    let few = read("[network]\nnodes = 10\n[columns]\n");
    assert_eq!(few.notes, ["network.topology.degree is 9 in place of 70: there are 10 nodes"]);
    assert_eq!(degrees(&again(&few)), [9]);
    assert!(few.text.contains("\ndegree = 9\n"), "{}", few.text);
    let swept = "[network]\nnodes = 200\n[columns]\n[sweep]\naxis = [{ key = \"network.nodes\", values = [10, 300] }]\n";
    assert_eq!(degrees(&again(&read(swept))), [9, 70]);
    for (kind, key, most) in [("random-dials", "dials", 3), ("barabasi-albert", "attachments", 3)] {
        let text = format!("[network]\nnodes = 4\n[network.topology]\nkind = \"{kind}\"\n[columns]\n");
        let found = read(&text);
        assert_eq!(
            get(&again(&found).text.parse().unwrap(), &format!("network.topology.{key}")),
            Some(&most.into())
        );
    }
    // The values of the file stay, and are refused.
    let own = refused("peerdas", &[("network.nodes", "20")], &[]);
    assert!(own.contains("network.topology.degree: is 70, with 20 nodes"), "{own}");
}

#[test]
fn sizes_of_a_mesh_are_shown_where_they_follow_the_degree() {
    let text = "[columns]\n[protocol]\ndegree = 12\ndegree_low = 7\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nset = { \
                \"protocol.degree\" = 4, \"protocol.degree_low\" = 3 }\n";
    let found = again(&read(text));
    for line in ["degree_high = 18", "degree_lazy = 9", "degree_score = 6", "degree_out = 3"] {
        let scenario = found.text.split("[[run]]").next().unwrap();
        assert!(scenario.contains(&format!("# protocol.{line}\n")), "{line}: {}", found.text);
    }
    let four = "# Also in effect:\n# protocol.degree_high = 6\n# protocol.degree_lazy = 3\n# protocol.degree_out = 1\n# \
                protocol.degree_score = 2\n[[run]]\nname = \"b\"\n";
    assert!(found.text.contains(four), "{}", found.text);
    assert!(
        found.text.contains("\n\n[[run]]\nname = \"a\"\n"),
        "a run as the scenario has no comment: {}",
        found.text
    );
    assert_eq!(
        found.notes,
        [
            "protocol.degree = 12 moves the sizes that are not set, in the ratios of the preset: degree_high = 18, degree_lazy = 9, \
             degree_score = 6, degree_out = 3",
            "protocol.degree = 4 moves the sizes that are not set, in the ratios of the preset: degree_high = 6, degree_lazy = 3, \
             degree_score = 2, degree_out = 1",
        ]
    );
    for degree in ["1", "4", "12", "13", "40"] {
        again(&loaded("peerdas", &[("protocol.degree", degree)], &[], None));
    }
    assert!(loaded("payload", &[], &[], None).notes.is_empty(), "the scenario has all sizes");
}

/// Returns the keys and values of the comments before the sections of a scenario.
fn in_effect(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(" = "));
    lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Each value in effect is one that a file can set, and that then stays.
#[test]
fn values_in_effect_can_be_set_and_change_nothing() {
    let mut count = 0;
    for (section, kind, preset) in [
        ("columns", "gossipsub", "ethereum"),
        ("columns", "plumtree", ""),
        ("messages", "gossipsub", "go-libp2p-pubsub-0.2"),
        ("messages", "floodsub", ""),
        ("pool", "cat", "cat-2023"),
        ("pool", "cat", "cat"),
        ("group", "ring", ""),
    ] {
        let preset = if preset.is_empty() { String::new() } else { format!("preset = \"{preset}\"\n") };
        let text = format!("[{section}]\n[protocol]\nkind = \"{kind}\"\n{preset}");
        let plain = read(&text);
        // This key selects the peers that it counts.
        let values = in_effect(&plain.text).into_iter().filter(|(key, _)| key != "protocol.sticky_peers");
        for (key, value) in values {
            let set = load_source(
                "x.toml",
                &text,
                Inputs::default(),
                &Overrides { set: vec![(key.clone(), value.clone())], ..Overrides::default() },
            );
            let set = match set {
                Ok(set) => set,
                // Some keys exclude others, which the error says.
                Err(error) => {
                    assert!(
                        error.to_string().contains("has no effect"),
                        "{section} {key} = {value}: {error}"
                    );
                    continue;
                }
            };
            assert_eq!(get(&set.text.parse().unwrap(), &key).map(ToString::to_string), Some(value.clone()));
            let others = |loaded: &Loaded| {
                let mut others = in_effect(&loaded.text);
                others.remove(&key);
                others
            };
            assert_eq!(others(&set), others(&plain), "{section} {kind} {key} = {value}");
            let said = set.changes.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert!(said[0].ends_with("which is in effect anyway"), "{said:?}");
            count += 1;
        }
    }
    assert!(count > 100, "{count} values");
}

#[test]
fn values_of_a_preset_are_shown_with_those_in_which_runs_differ() {
    let text = "[messages]\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nset = { \"protocol.preset\" = \
                \"go-libp2p-pubsub-0.2\" }\n[[run]]\nname = \"c\"\nset = { \"protocol.kind\" = \"floodsub\" }\n";
    let found = again(&read(text)).text;
    let chunks: Vec<&str> = found.split("\n\n").collect();
    let of = |name: &str| *chunks.iter().find(|chunk| chunk.contains(&format!("name = \"{name}\""))).unwrap();
    let protocol = chunks.iter().find(|chunk| chunk.contains("[protocol]")).unwrap();
    for key in ["degree", "heartbeat", "gossip_factor", "idontwant", "history_length"] {
        assert!(protocol.contains(&format!("# protocol.{key} = ")), "{key}: {protocol}");
    }
    assert!(!of("a").contains('#'), "{}", of("a"));
    assert!(of("b").contains("# protocol.idontwant = false\n") && !of("b").contains("preset = \"spec\""));
    assert!(!of("c").contains("gossip_factor"), "{}", of("c"));
    // An axis changes the values, so none of them is that of the scenario.
    let swept = read("[messages]\n[sweep]\naxis = [{ key = \"protocol.degree\", values = [6, 12] }]\n");
    assert!(!swept.text.contains("protocol.degree_low") && swept.text.contains("# protocol.heartbeat"));
    let pool = read("[pool]\n[transport.connection]\n[protocol]\npreset = \"cat-2023\"\n").text;
    assert!(pool.contains("# transport.connection.flush = \"100 ms\"\n"), "{pool}");
    assert!(pool.contains("# protocol.timeout = \"200 ms\"\n"), "{pool}");
}

#[test]
fn problems_name_their_run_their_place_in_the_sweep_and_defaults() {
    let error = |text: &str| {
        let error = load_source("x.toml", text, Inputs::default(), &Overrides::default());
        error.expect_err("an error").to_string()
    };
    let runs =
        "[columns]\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nset = { \"protocol.degree_low\" = 9 }\n";
    assert_eq!(
        error(runs),
        "x.toml: protocol.degree_low: in run \"b\": found 9, expected at most degree = 8"
    );
    let axis = "[sweep]\naxis = [{ key = \"columns.count\", values = [8, 9, 64] }]\n";
    let swept = error(&format!("[columns]\n{axis}"));
    let expected = "columns.custody: in the sweep at columns.count = 8: is 16; allowed is 1 to 8; this is the default, since the \
                    scenario does not set the key";
    assert!(swept.contains(expected) && swept.contains("columns.count = 9: is 16"), "{swept}");
    let all = error("[columns]\ncustody = 200\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\n");
    assert_eq!(all, "x.toml:2: columns.custody: is 200; allowed is 1 to 128");
}

/// Latencies of regions replace `network.latency`, so that a scenario shows one of them.
#[test]
fn no_latency_is_shown_beside_regions() {
    for name in ["peerdas-mixed", "cat-ideas"] {
        let text = loaded(name, &[], &[], None).text;
        let table: toml::Table = text.parse().unwrap();
        assert!(
            table["network"].get("regions").is_some() && table["network"].get("latency").is_none(),
            "{text}"
        );
    }
    assert!(loaded("peerdas", &[], &[], None).text.contains("\nlatency = \""));
}

#[test]
fn a_new_axis_is_a_change_of_its_own() {
    let axes = vec![samara_document::keys::parse_axis("columns.blobs=1,2").unwrap()];
    let overrides = Overrides { axes, only: vec!["batch".to_owned()], ..Overrides::default() };
    let changes = |name: &str| -> Vec<String> {
        samara_scenario::load_with(name, &overrides)
            .unwrap()
            .changes
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(changes("peerdas-small"), ["sweep over columns.blobs: 1, 2"]);
    assert_eq!(changes("peerdas-bandwidth"), ["sweep over columns.blobs: 1, 2"]);
}

/// A rate that no host has is no parameter of a run.
#[test]
fn parameters_have_the_rate_of_hosts_without_a_class() {
    let parameters = |share: &str| -> BTreeMap<String, Value> {
        let class = format!(
            "[{{ name = \"home\", share = \"{share}\", uplink = \"5 Mbit/s\", downlink = \"5 Mbit/s\" }}]"
        );
        let set = [("network.class", class.as_str()), ("columns.blobs", "1")];
        let found = loaded("peerdas-small", &set, &["batch"], None);
        let outcome = run(&found.points[0], RunOptions::new(1, &found.inputs), |_, _| {}).unwrap().outcome();
        outcome.run.parameters.into_iter().collect()
    };
    assert!(parameters("50 %").contains_key("uplink_bps"));
    assert!(!parameters("100 %").contains_key("uplink_bps"));
}

#[test]
fn seeds_beyond_those_of_a_file_are_refused() {
    let overrides = Overrides { seeds: vec![u64::MAX], ..Overrides::default() };
    let error = samara_scenario::load_with("peerdas-small", &overrides).unwrap_err().to_string();
    assert!(error.contains("the seed 18446744073709551615 is above 9223372036854775807"), "{error}");
    let last = Overrides { seeds: vec![i64::MAX as u64], ..Overrides::default() };
    let loaded = samara_scenario::load_with("peerdas-small", &last).unwrap();
    assert_eq!(again(&loaded).points[0].seed, i64::MAX as u64);
    assert!(loaded.points[0].scenario.find::<Columns>().is_some());
}
