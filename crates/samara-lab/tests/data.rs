//! The data sets that come along.

use std::collections::BTreeMap;

use samara_lab::data::{self, ArrivalsError, arrivals};
use samara_lab::scenario::{ScenarioFile, builtin};
use samara_lab::topology::{read_custody, read_edges, read_region_table};

/// Mean over nodes of the time at which the last of a node's columns arrived, by round.
fn time_to_custody(name: &str) -> Vec<f64> {
    let mut last = BTreeMap::<(u32, u32), f64>::new();
    for arrival in arrivals(name).unwrap().iter().filter(|arrival| arrival.node != 0) {
        let entry = last.entry((arrival.round, arrival.node)).or_default();
        *entry = entry.max(arrival.arrival_ms);
    }
    let rounds = last.keys().map(|(round, _)| round + 1).max().unwrap_or(0);
    let mean = |round| {
        let times: Vec<f64> = last.iter().filter(|((r, _), _)| *r == round).map(|(_, time)| *time).collect();
        assert_eq!(times.len(), 99);
        times.iter().sum::<f64>() / times.len() as f64
    };
    (0..rounds).map(mean).collect()
}

#[test]
fn all_data_sets_are_whole() {
    for name in data::names() {
        assert!(data::read(name).is_some_and(|text| text.lines().count() > 8), "{name}");
        assert_eq!(data::read(&format!("{name}.zst")), data::read(name));
    }
    assert_eq!(data::read("reference/nothing.csv"), None);
    assert_eq!(
        arrivals("reference/nothing.csv"),
        Err(ArrivalsError::Unknown("reference/nothing.csv".to_owned()))
    );
    assert!(matches!(arrivals("reference/edges_n100.csv"), Err(ArrivalsError::Line { line: 1, .. })));
}

#[test]
fn measured_times_to_custody() {
    let expected = [
        ("seq_s1", vec![5005.0]),
        ("seq_s2", vec![4871.0]),
        ("seq_s3", vec![5181.0]),
        ("batch_s1", vec![2045.0]),
        ("batch_s2", vec![2276.0]),
        ("batch_s3", vec![2527.0]),
        ("seq_rr", vec![4280.0, 3806.0]),
        ("batch_rr", vec![1789.0, 1781.0]),
    ];
    for (name, means) in expected {
        let found = time_to_custody(&format!("builtin:reference/arrivals_n100_bw20_{name}.csv"));
        let rounded: Vec<f64> = found.iter().map(|mean| mean.round()).collect();
        assert_eq!(rounded, means, "{name}");
    }
}

#[test]
fn the_reference_network() {
    let graph = read_edges(&data::read("reference/edges_n100.csv").unwrap()).unwrap();
    assert_eq!((graph.nodes, graph.edges.len()), (100, 3500));
    let custody = read_custody(&data::read("reference/custody_n100.csv").unwrap(), 100, 128).unwrap();
    assert_eq!(custody[0].len(), 128);
    assert!(custody[1..].iter().all(|own| own.len() == 16));
    let plan = ScenarioFile::builtin("peerdas-reference").unwrap().plan().unwrap();
    let built = plan.points[0].runs[0].blueprint(1).unwrap();
    assert_eq!((built.nodes(), built.graph.edges()), (100, graph.edges.as_slice()));
    assert_eq!((built.custody, built.notes), (custody, Vec::<String>::new()));
    for name in plan.points[0].runs.iter().flat_map(|run| &run.run.reference) {
        assert!(arrivals(name).is_ok_and(|rows| !rows.is_empty()), "{name}");
    }
}

#[test]
fn the_region_table() {
    let table = read_region_table(&data::read("regions/interop8.csv").unwrap()).unwrap();
    let index = |name: &str| table.names.iter().position(|other| other == name).unwrap();
    assert_eq!(
        (table.names.len(), table.weights[index("europe")], table.weights[index("na_east")]),
        (8, 5599, 2894)
    );
    let ms = |from: &str, to: &str| table.latency[index(from)][index(to)].millis_f64();
    assert_eq!(
        (ms("europe", "na_east"), ms("australia", "europe"), ms("europe", "europe")),
        (70.0, 165.0, 2.0)
    );
}

#[test]
fn networks_of_the_scenarios_can_be_built() {
    for name in builtin::names() {
        let plan = ScenarioFile::builtin(name).unwrap().plan().unwrap();
        let mut custody = None;
        for run in &plan.points[0].runs {
            let built =
                run.blueprint(plan.scenario.scenario.seeds[0]).unwrap_or_else(|error| panic!("{error}"));
            assert!(built.graph.is_connected());
            // Runs are compared on the same network: but for the publisher and an observer all keep the same columns.
            let skip = |node: u32| node == built.publisher || Some(node) == built.observer;
            let kept: Vec<_> = (0..built.nodes())
                .filter(|node| !skip(*node))
                .map(|node| built.custody[node as usize].clone())
                .collect();
            if built.observer.is_none() {
                assert!(custody.is_none() || custody.as_ref() == Some(&kept), "{name} {}", run.run.name);
                custody = Some(kept);
            }
        }
    }
}

#[test]
fn classes_and_regions_have_their_shares() {
    let plan = ScenarioFile::builtin("peerdas-mixed").unwrap().plan().unwrap();
    let built = plan.points[0].runs[0].blueprint(1).unwrap();
    let of_class = |class: u16| built.hosts.iter().filter(|host| host.class == class).count();
    let classes: Vec<_> = built
        .classes
        .iter()
        .enumerate()
        .map(|(class, name)| (name.as_str(), of_class(class as u16)))
        .collect();
    assert_eq!(
        classes,
        [("default", 0), ("home-10", 200), ("home-25", 300), ("home-50", 200), ("server", 300)]
    );
    assert_eq!(built.classes[usize::from(built.hosts[built.publisher as usize].class)], "home-25");
    let europe = built.regions.iter().position(|name| name == "europe").unwrap();
    let there = built.hosts.iter().filter(|host| usize::from(host.region) == europe).count();
    // 5,599 of 11,326.
    assert_eq!(there, 494);
    let server = built.hosts.iter().find(|host| host.class == 4).unwrap();
    assert_eq!((server.uplink.to_string(), server.validation_time.as_millis()), ("1 Gbit/s".to_owned(), 2));
    assert_eq!(built.latency.min().as_millis(), 2);
}
