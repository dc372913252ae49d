use samara_scenario::Loaded;
use serde_json::json;

use super::*;
use crate::expect::Expectation;
use crate::network;
use crate::report;
use crate::results::{Measured, Outcome, Run, tables};
use crate::toy::{Toy, loaded_text};

const CLASSES: &str = r#"
scenario = { name = "toy", title = "Runs that simulate nothing" }
expect = { "by_class.fast.value" = "== 2" }

[network]
nodes = 4
classes_from = 1
class = [
  { name = "fast", share = "67 %", uplink = "1 Gbit/s", downlink = "1 Gbit/s" },
  { name = "none", share = "0 %", uplink = "1 Gbit/s", downlink = "1 Gbit/s" },
]

[toy]
"#;

/// Nodes 1 and 2 are of the class "fast"; 0 and 3 have none.
fn figures(loaded: &Loaded) -> ByClass {
    let point = &loaded.points[0];
    let hosts = network::hosts(&point.scenario, &loaded.inputs, 5, 1).unwrap();
    ByClass::of(point, &hosts)
}

#[test]
fn figures_are_those_of_the_nodes_of_a_class() {
    let values = || [(0, 8.0), (1, 1.0), (2, 3.0), (1, 5.0), (4, 100.0)];
    let found = figures(&loaded_text(CLASSES))
        .mean("value", values())
        .max("most", values())
        .sum("count", [(1, 2), (2, 3)])
        .ratio("share", [(1, 1.0, 4.0), (2, 1.0, 0.0), (3, 0.0, 0.0)])
        .distribution("time", values())
        .into_value()
        .unwrap();
    let time = json!({ "mean": 3.0, "p50": 3.0, "p95": 4.8, "p99": 4.96, "max": 5.0 });
    assert_eq!(
        found["fast"],
        json!({ "nodes": 2, "value": 3.0, "most": 5.0, "count": 5, "share": 0.5, "time": time })
    );
    let others = &found["others"];
    assert_eq!([&others["nodes"], &others["value"], &others["count"]], [&json!(2), &json!(8.0), &json!(0)]);
    assert_eq!(others["share"], Value::Null, "no whole");
    assert_eq!(found.as_object().unwrap().len(), 2, "a class without nodes has no figures");
}

#[test]
fn nothing_without_classes() {
    let loaded = crate::toy::loaded(&["batch"]);
    let never = std::iter::from_fn(|| -> Option<(u32, f64)> { panic!("no value is read") });
    assert_eq!(figures(&loaded).mean("value", never).into_value(), None);
    let toy = Toy::new(&loaded.points[0]);
    let outcome = toy.outcome();
    assert!(
        tables(&toy, &outcome).iter().all(|table| table
            .make()
            .columns
            .iter()
            .all(|(name, _)| name != "class"))
    );
}

#[test]
fn expectations_name_classes() {
    let found = |metrics: Value| {
        let all = Expectation::all_of(&loaded_text(CLASSES)).unwrap();
        all[0].check("toy", &metrics).unwrap()
    };
    assert!(found(json!({ "value": 1.0, "by_class": { "fast": { "value": 2.0 } } })).holds);
    let missing = found(json!({ "value": 2.0 }));
    assert_eq!((missing.holds, missing.found), (false, None));
    for (key, expected) in [
        ("by_class.slow.value", "there is no class of nodes \"slow\"; the classes are fast, none, others"),
        ("by_class.fast", "names no metric; expected for example \"by_class.fast.value\""),
        ("by_class.fast.valu", "there is no metric \"by_class.fast.valu\"; did you mean \"value\"?"),
    ] {
        let error =
            Expectation::all_of(&loaded_text(&CLASSES.replace("by_class.fast.value", key))).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let text = CLASSES.replace("class = [", "# [").replace("  {", "#").replace("\n]", "");
    let error = Expectation::all_of(&loaded_text(&text)).unwrap_err();
    assert!(error.contains("no run has classes of nodes; add a [[network.class]]"), "{error}");
}

fn item(outcome: &Outcome) -> report::Item<'_> {
    let Run { name: run, parameters, metrics, digest, .. } = &outcome.run;
    report::Item { run, parameters, metrics, digest, outcome: Some(outcome) }
}

#[test]
fn pages_have_a_row_for_each_class() {
    let loaded = loaded_text(CLASSES);
    let point = &loaded.points[0];
    let of_classes = figures(&loaded).mean("value", [(1, 2.0), (0, 7.0)]);
    let outcome = Toy::new(point).outcome().by_class(of_classes);
    let grid = report::Grid::of(&loaded, [item(&outcome)].into_iter());
    let section = report::by_class(&grid, crate::family::of(&loaded.scenario)).unwrap();
    let samara_report::Part::Table(table) = &section.parts[0] else { panic!("{section:?}") };
    let text = table.terminal(160, "");
    let row = |class: &str| text.lines().find(|line| line.contains(class)).unwrap().to_owned();
    assert!(row("fast").contains('2') && row("others").contains('7'), "{text}");
    assert!(!section.text.contains('±'), "one seed has no interval");
}

#[test]
fn classes_of_several_seeds_have_intervals() {
    let loaded = loaded_text(CLASSES);
    let point = &loaded.points[0];
    let of_seed =
        |fast: f64| Toy::new(point).outcome().by_class(figures(&loaded).mean("value", [(1, fast), (0, 7.0)]));
    let seeds = [2.0, 4.0].map(of_seed);
    let grid = report::Grid::of(&loaded, seeds.iter().map(item));
    let section = report::by_class(&grid, crate::family::of(&loaded.scenario)).unwrap();
    let samara_report::Part::Table(table) = &section.parts[0] else { panic!("{section:?}") };
    let text = table.terminal(160, "");
    let row = |class: &str| text.lines().find(|line| line.contains(class)).unwrap().to_owned();
    // Student's quantile for one degree of freedom is 12.7; the standard error is 1.
    assert!(row("fast").contains("3 ± 12.7") && !row("others").contains('±'), "{text}");
    let samara_report::Part::Figures(figures) = &section.parts[1] else { panic!("{section:?}") };
    let svg = figures[0].svg();
    assert!(svg.contains("fast") && svg.contains("others"), "{svg}");
}
