//! From a file to runs: what is set over it, sweeps, short forms, and that everything can be written out again.

use samara_lab::scenario::{
    Dispatch, FaultTime, Latency, Plan, PlannedRun, Publisher, Scenario, ScenarioFile, Schedule, SendBuffer,
    Topology, Workload, builtin, json_schema,
};
use samara_lab::units::{Rate, Size, Span};
use serde_json::json;

const BASE: &str = r#"[scenario]
name = "test"
[network]
nodes = 50
topology = "full-mesh"
[workload]
kind = "columns"
"#;

fn file(more: &str) -> ScenarioFile {
    ScenarioFile::parse("test.toml", &format!("{BASE}{more}"), None).unwrap()
}

fn plan(more: &str) -> Plan {
    file(more).plan().unwrap_or_else(|error| panic!("{error}"))
}

fn first(plan: &Plan) -> &PlannedRun {
    &plan.points[0].runs[0]
}

fn with_set(assignments: &[&str]) -> Scenario {
    let mut file = file("");
    assignments.iter().for_each(|assignment| file.set(assignment).unwrap());
    file.plan().unwrap_or_else(|error| panic!("{error}")).scenario
}

#[test]
fn without_runs_and_sweeps_there_is_one_run() {
    let plan = plan("");
    assert_eq!((plan.points.len(), plan.points[0].runs.len()), (1, 1));
    assert_eq!(first(&plan).run.name, "default");
    assert!(plan.points[0].coordinates.is_empty());
}

#[test]
fn short_forms_are_written_out() {
    let scenario =
        with_set(&["network.latency=20 ms", "gossipsub.publish=interleaved", "transport.send_buffer=64 KiB"]);
    assert_eq!(scenario.network.topology, Topology::FullMesh);
    assert_eq!(scenario.network.latency, Latency::Constant { value: Span::from_millis(20) });
    assert!(matches!(scenario.gossipsub.publish, Some(Schedule::Interleaved { .. })));
    assert_eq!(scenario.transport.send_buffer, Some(SendBuffer::Fixed { size: Size::from_kib(64) }));
    let auto = with_set(&["transport.send_buffer=auto"]);
    assert_eq!(auto.transport.send_buffer, Some(SendBuffer::Auto { per_packet: None, min: None }));
    let fault = plan("[[fault]]\nkind = \"crash\"\nnodes = [3]\nat = \"25 s\"\n");
    assert_eq!(fault.scenario.fault[0].at, FaultTime::Fixed { time: Span::from_secs(25) });
}

#[test]
fn values_are_toml_or_text() {
    let scenario = with_set(&[
        "network.bandwidth=50 Mbit/s",
        "workload.publisher=random",
        "workload.custody = 8",
        "scenario.seeds=[4,5]",
        "gossipsub.publish={ kind = \"staggered\", timeout = \"100 ms\" }",
        "network.\"uplink\"=\"10 Mbit/s\"",
    ]);
    assert_eq!(scenario.network.bandwidth, Rate::from_mbit_per_second(50));
    assert_eq!(scenario.network.uplink(), Rate::from_mbit_per_second(10));
    assert_eq!(scenario.network.downlink(), Rate::from_mbit_per_second(50));
    assert_eq!(scenario.scenario.seeds, [4, 5]);
    assert_eq!(scenario.gossipsub.publish, Some(Schedule::Staggered { timeout: Span::from_millis(100) }));
    let Workload::Columns(columns) = scenario.workload;
    assert_eq!((columns.publisher, columns.custody), (Publisher::Random, 8));
}

#[test]
fn tables_add_to_tables_unless_they_say_what_they_are() {
    let runs = r#"
[gossipsub]
preset = "ethereum"
forward = { kind = "feedback", cap = 3 }
[[run]]
name = "added"
set.gossipsub.dispatch = "node"
set.gossipsub.forward = { kind = "interleaved" }
[[run]]
name = "dotted"
set = { "gossipsub.forward.cap" = 5 }
"#;
    let plan = plan(runs);
    let added = &plan.points[0].runs[0].scenario.gossipsub;
    assert_eq!((added.dispatch, added.preset), (Some(Dispatch::Node), plan.scenario.gossipsub.preset));
    assert!(matches!(added.forward, Some(Schedule::Interleaved { .. })));
    assert!(matches!(
        plan.points[0].runs[1].scenario.gossipsub.forward,
        Some(Schedule::Feedback { cap: 5, .. })
    ));
    assert_eq!(plan.points[0].runs[1].scenario.gossipsub.dispatch, None);
}

#[test]
fn sweeps_combine_all_values_and_runs_go_before_them() {
    let plan = plan(
        r#"
[[run]]
name = "swept"
[[run]]
name = "own"
set = { "network.uplink" = "7 Mbit/s" }
[[sweep]]
label = "Line"
keys = ["network.uplink", "network.downlink"]
values = [["1 Mbit/s", "10 Mbit/s"], ["2 Mbit/s", "20 Mbit/s"]]
[[sweep]]
key = "workload.blobs"
values = [1, 2, 3]
"#,
    );
    assert_eq!(plan.points.len(), 6);
    let names: Vec<String> = plan.points.iter().map(|point| point.coordinates[1].text()).collect();
    assert_eq!(names, ["1", "2", "3", "1", "2", "3"]);
    let last = &plan.points[5];
    assert_eq!(
        (last.coordinates[0].label.as_str(), last.coordinates[0].text().as_str()),
        ("Line", "2 Mbit/s, 20 Mbit/s")
    );
    assert_eq!(last.coordinates[1].label, "workload.blobs");
    assert_eq!(last.coordinates[1].set["workload.blobs"], json!(3));
    let rates = |run: &PlannedRun| {
        (run.scenario.network.uplink().to_string(), run.scenario.network.downlink().to_string())
    };
    assert_eq!(rates(&last.runs[0]), ("2 Mbit/s".to_owned(), "20 Mbit/s".to_owned()));
    assert_eq!(rates(&last.runs[1]), ("7 Mbit/s".to_owned(), "20 Mbit/s".to_owned()));
}

#[test]
fn lists_are_set_by_number() {
    let mut file = file("[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\n");
    file.set("run.1.name=c").unwrap();
    file.set("run.1.set.\"gossipsub.dispatch\"=node").unwrap();
    let plan = file.plan().unwrap();
    let run = &plan.points[0].runs[1];
    assert_eq!((run.run.name.as_str(), run.scenario.gossipsub.dispatch), ("c", Some(Dispatch::Node)));
    let error = file.set("run.2.name=x").unwrap_err().to_string();
    assert!(error.contains("\"2\" is not in the list; 0 to 1 are allowed"), "{error}");
}

#[test]
fn resolved_scenarios_read_back() {
    for name in builtin::names() {
        let plan = ScenarioFile::builtin(name).unwrap().plan().unwrap();
        for run in plan.points.iter().flat_map(|point| &point.runs) {
            let written = toml::to_string(&run.scenario).unwrap();
            let read = ScenarioFile::parse("again", &written, None).unwrap().plan();
            let read = read.unwrap_or_else(|error| panic!("{name} {}\n{error}", run.run.name));
            assert_eq!(read.scenario, run.scenario, "{name} {}", run.run.name);
        }
    }
}

#[test]
fn columns_have_their_size_and_their_times() {
    let Workload::Columns(mut columns) = plan("").scenario.workload;
    assert_eq!(columns.column_bytes(), 16_384);
    columns.blobs = 3;
    assert_eq!(columns.column_bytes(), 6144);
    columns.columns = 7;
    assert_eq!(columns.column_bytes(), (3 * 2 * 131_072_u64).div_ceil(7));
    (columns.warm_up_slots, columns.slots) = (1, 2);
    let times: Vec<String> = columns.publications().map(|time| time.to_string()).collect();
    assert_eq!(times, ["20 s", "32 s", "44 s"]);
}

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.schema.json");
    let current = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    if std::env::var_os("SAMARA_UPDATE").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(published == current, "run the tests with SAMARA_UPDATE=1 to publish the schema anew");
}

#[test]
fn every_key_of_the_schema_is_described() {
    fn walk(schema: &serde_json::Value, path: &str, missing: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if name != "kind" && property.get("description").is_none() {
                missing.push(path.clone());
            }
            walk(property, &path, missing);
        }
        for alternative in schema["oneOf"].as_array().into_iter().flatten() {
            walk(alternative, path, missing);
        }
    }
    let schema = json_schema();
    let mut missing = Vec::new();
    walk(&schema, "", &mut missing);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        walk(definition, name, &mut missing);
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn rules_know_the_presets_of_the_engine() {
    let presets = [
        ("spec", samara_gossipsub::Config::spec()),
        ("ethereum", samara_gossipsub::Config::ethereum()),
        ("go-libp2p-pubsub", samara_gossipsub::Config::go_libp2p_pubsub()),
    ];
    for (name, config) in presets {
        let problem = |key: &str, value: usize| {
            let mut file = file(&format!("[gossipsub]\npreset = \"{name}\"\n"));
            file.set(&format!("gossipsub.{key}={value}")).unwrap();
            file.plan().err().map(|error| error.problems[0].message.clone())
        };
        let d = config.mesh.d;
        assert_eq!(problem("degree_low", d), None);
        assert_eq!(problem("degree_low", d + 1), Some(format!("{} is more than degree = {d}", d + 1)));
        let length = config.history_length;
        assert_eq!(problem("history_gossip", length), None);
        let message = format!("{} is more than history_length = {length}", length + 1);
        assert_eq!(problem("history_gossip", length + 1), Some(message));
        // D_out is checked against D_low, which must be the preset's.
        let allowed = config.mesh.d_low.min(d.div_ceil(2)) - 1;
        assert_eq!(problem("degree_out", allowed), None);
        assert!(problem("degree_out", allowed + 1).is_some());
    }
}
