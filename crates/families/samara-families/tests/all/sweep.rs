//! Tests of the ids of points, and of tables against records.

use samara_document::keys::parse_axis;
use samara_lab::results::{Column, Outcome, Rows, Values, relate};
use samara_lab::run::{RunOptions, run};
use samara_lab::sweep::{
    PointRecord, Rendered, SweepSummary, check_metrics, plan, point_id, points_table, relate_points, render,
};
use samara_report::{Drawing, Figure, Lines, Page, Part, Table};
use samara_scenario::{Loaded, Overrides};
use serde_json::{Value, json};

use crate::load_overridden;

fn loaded(grid: &[&str], set: &[(&str, &str)], only: &[&str], seeds: &[u64]) -> Loaded {
    let overrides = Overrides {
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        only: only.iter().map(|run| (*run).to_owned()).collect(),
        seeds: seeds.to_vec(),
        axes: grid.iter().map(|axis| parse_axis(axis).unwrap()).collect(),
        ..Overrides::default()
    };
    load_overridden("peerdas-small", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a cell as JSON, so that its type is visible.
fn cell(rows: &Rows, name: &str, row: usize) -> Option<Value> {
    let (_, column) = rows.columns.iter().find(|(known, _)| known == name)?;
    let json = |column: &Column| match &column.values {
        Values::U64(_) => column.cells::<u64>()?.nth(row)?.map(|value| json!(value)),
        Values::I64(_) => column.cells::<i64>()?.nth(row)?.map(|value| json!(value)),
        Values::F64(_) => column.cells::<f64>()?.nth(row)?.map(|value| json!(value)),
        Values::Bool(_) => column.cells::<bool>()?.nth(row)?.map(|value| json!(value)),
        _ => column.cells::<String>()?.nth(row)?.map(|value| json!(value)),
    };
    Some(json(column).unwrap_or(Value::Null))
}

fn record(id: &str, parameters: Value, metrics: Value) -> PointRecord {
    PointRecord {
        id: id.to_owned(),
        version: "1".to_owned(),
        name: "batch".to_owned(),
        parameters: parameters.as_object().unwrap().clone(),
        digest: "d".to_owned(),
        steps: 7,
        wall_s: 0.5,
        cpu_s: 0.25,
        peak_rss_bytes: 1000,
        metrics,
        late_faults: Vec::new(),
    }
}

#[test]
fn tables_have_every_metric_of_a_run_exactly() {
    let loaded = loaded(&["network.uplink=10 Mbit/s,20 Mbit/s"], &[], &["batch"], &[1]);
    let options = RunOptions::new(1, &loaded.inputs);
    let records: Vec<PointRecord> = plan(&loaded)
        .unwrap()
        .into_iter()
        .map(|planned| {
            PointRecord::of(planned.id, &run(&planned.point, options, |_, _| {}).unwrap().outcome().run)
        })
        .collect();
    let table = points_table(&records).unwrap();
    assert_eq!(table.count, 2);
    for (row, record) in records.iter().enumerate() {
        let figures = record.figures();
        assert!(figures.len() > 40, "{}", figures.len());
        for (path, value) in figures {
            assert_eq!(cell(&table, &path, row).as_ref(), Some(value), "{path}");
        }
        // Writing and reading a record preserves every bit.
        let text = serde_json::to_string(record).unwrap();
        assert_eq!(serde_json::from_str::<PointRecord>(&text).unwrap(), *record);
    }
    assert_eq!(cell(&table, "network.uplink_bps", 0), Some(json!(10e6)));
    assert_eq!(cell(&table, "network.uplink_bps", 1), Some(json!(20e6)));
    assert_eq!(cell(&table, "point", 1), Some(json!(records[1].id)));
}

#[test]
fn columns_have_the_types_of_their_values_and_nulls_for_missing_ones() {
    let records = [
        record(
            "a",
            json!({"seed": 1, "protocol.degree": 6, "network.latency": "5 ms", "lost": 3, "kind": "x"}),
            json!({"count": 1, "mixed": 1, "signed": -1, "flag": true, "lost": 0, "text": "t", "list": [{"x": 1.5}], "maybe": null}),
        ),
        record(
            "b",
            json!({"seed": 2, "protocol.degree": 8, "network.latency": "1 s", "lost": 3, "kind": "y"}),
            json!({"count": 2, "mixed": 0.5, "signed": 1, "flag": false, "lost": 0, "text": "u", "list": [], "maybe": 2.5}),
        ),
    ];
    let table = points_table(&records).unwrap();
    for (name, first, second) in [
        ("count", json!(1), json!(2)),
        ("mixed", json!(1.0), json!(0.5)),
        ("signed", json!(-1), json!(1)),
        ("flag", json!(true), json!(false)),
        ("text", json!("t"), json!("u")),
        ("list.0.x", json!(1.5), Value::Null),
        ("maybe", Value::Null, json!(2.5)),
        ("protocol.degree", json!(6), json!(8)),
        ("network.latency_ms", json!(5.0), json!(1000.0)),
        ("kind", json!("x"), json!("y")),
        ("lost", json!(0), json!(0)),
        ("parameter_lost", json!(3), json!(3)),
        ("seed", json!(1), json!(2)),
        ("peak_rss_bytes", json!(1000), json!(1000)),
    ] {
        assert_eq!(cell(&table, name, 0), Some(first), "{name}");
        assert_eq!(cell(&table, name, 1), Some(second), "{name}");
    }
}

#[test]
fn ids_depend_only_on_inputs_of_results() {
    let id = |loaded: &Loaded| point_id(&loaded.points[0], &loaded.inputs).unwrap();
    let first = id(&loaded(&[], &[], &["batch"], &[1]));
    assert_eq!(first, id(&loaded(&[], &[], &["batch"], &[1, 2, 3])), "other seeds belong to other points");
    assert_eq!(first, id(&loaded(&[], &[("scenario.title", "x")], &["batch"], &[1])));
    for other in [
        loaded(&[], &[], &["batch"], &[2]),
        loaded(&[], &[], &["node-wide"], &[1]),
        loaded(&[], &[("network.nodes", "21")], &["batch"], &[1]),
        loaded(&["network.nodes=20,21"], &[], &["batch"], &[1]),
    ] {
        assert_ne!(first, id(&other));
    }
    let ids: std::collections::BTreeSet<String> = plan(&loaded(&["network.nodes=20,21"], &[], &[], &[1, 2]))
        .unwrap()
        .into_iter()
        .map(|planned| planned.id)
        .collect();
    assert_eq!(ids.len(), 2 * 3 * 2);
}

#[test]
fn arguments_select_the_point() {
    let whole = loaded(
        &[
            "network.uplink=10 Mbit/s,20 Mbit/s",
            "network.downlink_queue={ kind = \"drop-tail\", size = \"64 KiB\" }",
        ],
        &[],
        &[],
        &[4, 7],
    );
    let path = std::env::temp_dir().join(format!("samara-arguments-{}.toml", std::process::id()));
    std::fs::write(&path, &whole.text).unwrap();
    for planned in plan(&whole).unwrap() {
        let arguments = planned.arguments();
        let mut overrides = Overrides::default();
        for pair in arguments.chunks(2) {
            match (pair[0].as_str(), pair[1].as_str()) {
                ("--only", run) => overrides.only.push(run.to_owned()),
                ("--seed", seed) => overrides.seeds.push(seed.parse().unwrap()),
                ("--grid", axis) => overrides.axes.push(parse_axis(axis).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        let one = load_overridden(path.to_str().unwrap(), &overrides).unwrap();
        assert_eq!(one.points.len(), 1);
        assert_eq!(point_id(&one.points[0], &one.inputs).unwrap(), planned.id);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn axes_are_read_with_quotes_and_brackets() {
    let values = |text: &str| {
        parse_axis(text).map(|(_, values)| values.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(values("a.b=1,2.5,x").unwrap(), ["1", "2.5", "\"x\""]);
    assert_eq!(values("a.b=10 Mbit/s, 20 Mbit/s").unwrap(), ["\"10 Mbit/s\"", "\"20 Mbit/s\""]);
    assert_eq!(values("a.b=[1, 2],[3]").unwrap(), ["[1, 2]", "[3]"]);
    assert_eq!(values("a.b=\"x,y\",z").unwrap(), ["\"x,y\"", "\"z\""]);
    for wrong in ["a.b", "a.b=", "a.b=1,,2", "a.b=1,1", "=1", "a b=1"] {
        assert!(parse_axis(wrong).is_err(), "{wrong}");
    }
}

/// Separate points are related to their bases in the same way as whole results.
#[test]
fn points_are_related_in_the_same_way_as_results() {
    for (name, set) in [
        ("ring", vec![("group.messages", "100")]),
        ("cat", vec![("network.nodes", "16"), ("pool.duration", "2 s"), ("pool.block_interval", "1 s")]),
    ] {
        let overrides = Overrides {
            set: set.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            seeds: vec![1],
            ..Overrides::default()
        };
        let mut loaded = load_overridden(name, &overrides).unwrap();
        loaded.points.truncate(3);
        let options = RunOptions::new(1, &loaded.inputs);
        let mut results: Vec<Outcome> =
            loaded.points.iter().map(|point| run(point, options, |_, _| {}).unwrap().outcome()).collect();
        let mut records: Vec<PointRecord> =
            results.iter().map(|result| PointRecord::of(String::new(), &result.run)).collect();
        relate(&loaded, &mut results);
        relate_points(&loaded.scenario.runs[0].name, &mut records);
        for (record, result) in records.iter().zip(&results) {
            assert_eq!(record.metrics, result.run.metrics, "{name} {}", record.name);
        }
        let related =
            ["gain", "bytes_saved_factor"].iter().any(|metric| records[1].metrics[metric].is_number());
        assert!(related, "{name}");
    }
}

/// Runs all points, and returns the page of the sweep.
fn page_of(loaded: &Loaded) -> Page {
    rendered(loaded, &[]).page
}

fn rendered(loaded: &Loaded, metrics: &[&str]) -> Rendered {
    let options = RunOptions::new(1, &loaded.inputs);
    let record = |point| {
        let outcome = run(point, options, |_, _| {}).unwrap_or_else(|error| panic!("{error}")).outcome();
        PointRecord::of(String::new(), &outcome.run)
    };
    let records = loaded.points.iter().map(record).collect();
    let metrics: Vec<String> = metrics.iter().map(|metric| (*metric).to_owned()).collect();
    render(loaded, &SweepSummary::new(loaded, records, Vec::new(), 0.0), &[], &metrics)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn figures(page: &Page) -> Vec<&Figure> {
    let parts = page.sections.iter().flat_map(|section| &section.parts);
    let figures = parts.filter_map(|part| match part {
        Part::Figures(figures) => Some(figures),
        _ => None,
    });
    page.figure.iter().chain(figures.flatten()).collect()
}

fn lines_of(figure: &Figure) -> &Lines {
    match &figure.drawing {
        Drawing::Lines(lines) => lines,
        other => panic!("{other:?}"),
    }
}

fn means(page: &Page) -> &Table {
    let section = page.sections.iter().find(|section| section.heading == "Means").expect("means");
    let Part::Table(table) = &section.parts[0] else { panic!("no table") };
    table
}

/// The key of an axis has its section in tables, and none in a figure, which has little room.
#[test]
fn figures_over_several_axes_have_short_labels() {
    let grid = ["network.uplink=10 Mbit/s,20 Mbit/s", "columns.blobs=2,3", "columns.deadline=28 s,29 s"];
    let page = page_of(&loaded(&grid, &[], &["batch"], &[1]));
    let labels: Vec<&str> =
        lines_of(figures(&page)[0]).lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels.len(), 4, "{labels:?}");
    assert!(labels[1].ends_with(", uplink 10 Mbit/s, blobs 3"), "{labels:?}");
    assert_eq!(means(&page).headings[1..4], ["network.uplink", "columns.blobs", "columns.deadline"]);
}

#[test]
fn sweeps_with_a_deadline_go_by_the_share_in_time() {
    let page = page_of(&loaded(&["columns.blobs=2,3"], &[("columns.deadline", "900 ms")], &[], &[1]));
    let first = &page.findings[0];
    assert!(first.starts_with("Best share by deadline: 100 % with "), "{first}");
    assert!(first.ends_with("worst: 0 % with \"Sequential\" (no difference over columns.blobs)."), "{first}");
    let none = page.findings.iter().find(|text| text.starts_with("None of the nodes was in time"));
    assert!(none.is_some_and(|text| text.contains("columns.blobs 2; ")), "{:?}", page.findings);
    assert!(page.findings.iter().any(|text| text.starts_with("Where all nodes were in time: Best time to")));
    let figures = figures(&page);
    assert_eq!(figures[0].name, "sweep-share_by_deadline");
    let lines = lines_of(figures[0]);
    let points: usize = lines.lines.iter().map(|line| line.points.len()).sum();
    assert_eq!((points, lines.rings.len()), (6, 0), "incomplete points take part");
    let times = figures.iter().find(|figure| figure.name == "sweep-time_to_custody_ms.mean").unwrap();
    let lines = lines_of(times);
    assert_eq!((lines.rings.len(), lines.ring.as_str()), (1, "only what arrived in time"));
    assert!(
        times.caption.contains("No value, as no nodes were in time: \"Sequential\""),
        "{}",
        times.caption
    );
    let table = means(&page);
    let share = table.headings.iter().position(|heading| heading == "share_by_deadline").unwrap();
    for row in &table.rows {
        let marked = row.cells.iter().filter(|cell| cell.ends_with(" *")).count();
        let is_late = row.cells[share - 1] != "100 %";
        assert_eq!(marked > 2, is_late, "{row:?}");
    }
}

#[test]
fn sweeps_without_late_nodes_have_no_marks() {
    let page = page_of(&loaded(&["columns.blobs=2,3"], &[], &[], &[1]));
    assert!(page.findings[0].starts_with("Best time to custody, mean: "), "{:?}", page.findings);
    assert!(!page.findings.iter().any(|text| text.contains(" *")), "{:?}", page.findings);
    assert!(figures(&page).iter().all(|figure| figure.name != "sweep-share_by_deadline"));
}

#[test]
fn costs_have_figures_and_tables_are_files() {
    let loaded = loaded(&["columns.blobs=2,3"], &[], &[], &[1, 2]);
    let Rendered { page, tables } = rendered(&loaded, &[]);
    let names: Vec<&str> = figures(&page).iter().map(|figure| figure.name.as_str()).collect();
    assert!(
        names.contains(&"sweep-bytes_up_per_node") && names.contains(&"sweep-duplication_factor"),
        "{names:?}"
    );
    let [(_, csv), (_, markdown)] = tables;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + means(&page).rows.len(), "{csv}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let of = |heading: &str| rows[0].iter().position(|cell| *cell == heading).unwrap();
    assert_eq!((of("run"), of("columns.blobs"), of("seeds"), rows[1][2]), (0, 1, 2, "2"));
    let half = of("time_to_custody_ms.mean.confidence_95");
    assert!(rows[1][half].parse::<f64>().is_ok_and(|half| half > 0.0), "{csv}");
    assert!(
        markdown.starts_with("| run | columns.blobs | seeds |") && markdown.contains(" ± "),
        "{markdown}"
    );

    let wanted = ["queue_drops", "bytes_down_per_node"];
    let Rendered { page, tables } = rendered(&loaded, &wanted);
    let names: Vec<&str> = figures(&page).iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["sweep-bytes_down_per_node"], "queue_drops is zero everywhere");
    assert_eq!(means(&page).headings[2..], ["seeds", "incomplete", "queue_drops", "bytes_down_per_node"]);
    assert!(!tables[0].1.contains("time_to_custody"), "{}", tables[0].1);
    let error = check_metrics(&loaded, &["bytes_up".to_owned()]).unwrap_err();
    assert!(
        error.contains("there is no metric \"bytes_up\"; did you mean \"bytes_up_per_node\"?"),
        "{error}"
    );
    assert!(check_metrics(&loaded, &["time_to_custody_ms".to_owned()]).is_err(), "names no value");
}

#[test]
fn keys_without_effect_are_named() {
    // All nodes have their columns long before.
    let loaded = loaded(&["columns.deadline=28 s,29 s"], &[], &[], &[1, 2]);
    let page = page_of(&loaded);
    let all = page.findings.join("\n");
    assert!(all.contains("has equal results at all values of columns.deadline."), "{all}");
    let best = page.findings.iter().find(|text| text.starts_with("Best ")).unwrap();
    assert!(best.contains(" (no difference over columns.deadline)"), "{best}");
    assert!(page.summary.sentences[0].contains("equal results"), "{:?}", page.summary.sentences);
}

#[test]
fn tables_have_all_headline_metrics_of_a_pool() {
    let set = [("network.nodes", "16"), ("pool.duration", "2 s"), ("pool.block_interval", "1 s")];
    let overrides = Overrides {
        set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        seeds: vec![1],
        ..Overrides::default()
    };
    let mut loaded = load_overridden("cat", &overrides).unwrap();
    loaded.points.truncate(2);
    let page = page_of(&loaded);
    for table in [means(&page), &page.summary.table] {
        for metric in ["duplication_factor", "connection_bytes", "bytes_down_per_node", "seen_tx", "p99"] {
            assert!(table.headings.iter().any(|heading| heading == metric), "{metric}: {:?}", table.headings);
        }
    }
}
