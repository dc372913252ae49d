//! What only shows when the network is built: files, and who can be reached.

use std::path::Path;

use samara_lab::scenario::ScenarioFile;

fn folder(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn build(text: &str, folder: &Path) -> Result<samara_lab::topology::Blueprint, String> {
    let file = ScenarioFile::parse("test.toml", text, Some(folder)).map_err(|error| error.to_string())?;
    let plan = file.plan().map_err(|error| error.to_string())?;
    plan.points[0].runs[0].blueprint(1).map_err(|error| error.to_string())
}

fn scenario(network: &str, workload: &str) -> String {
    format!(
        "[scenario]\nname = \"test\"\n[network]\n{network}\n[workload]\nkind = \"columns\"\ncolumns = 4\n{workload}\n"
    )
}

const FROM_FILE: &str = "topology = { kind = \"file\", file = \"edges.csv\" }";
const LINE: &str = "dialer,listener\n0,1\n1,2\n3,2\n";

#[test]
fn graphs_and_custody_come_from_files_beside_the_scenario() {
    let custody = "node,column\n0,0\n1,0\n1,1\n2,0\n2,1\n3,1\n";
    let folder = folder("good", &[("edges.csv", LINE), ("custody.csv", custody)]);
    let workload = "custody_file = \"custody.csv\"";
    let built = build(&scenario(FROM_FILE, workload), &folder).unwrap();
    assert_eq!((built.nodes(), built.graph.edges()), (4, [(0, 1), (1, 2), (3, 2)].as_slice()));
    assert_eq!(built.custody, [vec![0, 1, 2, 3], vec![0, 1], vec![0, 1], vec![1]]);
    let graphml =
        "<graphml><graph><node id=\"a\"/><node id=\"b\"/><edge source=\"b\" target=\"a\"/></graph></graphml>";
    std::fs::write(folder.join("g.graphml"), graphml).unwrap();
    let xml = FROM_FILE.replace("edges.csv", "g.graphml");
    let built = build(&scenario(&xml, "custody = 2"), &folder).unwrap();
    assert_eq!((built.nodes(), built.graph.edges()), (2, [(1, 0)].as_slice()));
    let compressed = zstd::encode_all(LINE.as_bytes(), 1).unwrap();
    std::fs::write(folder.join("edges.csv.zst"), compressed).unwrap();
    let zst = FROM_FILE.replace("edges.csv", "edges.csv.zst");
    assert_eq!(build(&scenario(&zst, "custody = 4"), &folder).unwrap().nodes(), 4);
}

#[test]
fn files_that_are_not_there() {
    let folder = folder("missing", &[]);
    let error = build(&scenario(FROM_FILE, "custody = 2"), &folder).unwrap_err();
    assert!(
        error.starts_with("error: network.topology.file: ") && error.contains("edges.csv cannot be read"),
        "{error}"
    );
    assert!(error.contains("--> test.toml:4:36"), "{error}");
    let error =
        build(&scenario(&FROM_FILE.replace("edges.csv", "builtin:x"), "custody = 2"), &folder).unwrap_err();
    assert!(
        error.contains("no data set \"x\" comes along") && error.contains("reference/edges_n100.csv"),
        "{error}"
    );
}

#[test]
fn files_that_do_not_fit() {
    let folder = folder(
        "unfit",
        &[("edges.csv", LINE), ("bad.csv", "dialer,listener\n1,1\n"), ("c.csv", "node,column\n9,0\n")],
    );
    let error = build(&scenario(&FROM_FILE.replace("edges", "bad"), "custody = 2"), &folder).unwrap_err();
    assert!(
        error.contains("\"bad.csv\" is no graph: line 2 is \"1,1\": a node is not linked to itself"),
        "{error}"
    );
    let error = build(&scenario(&format!("nodes = 3\n{FROM_FILE}"), "custody = 2"), &folder).unwrap_err();
    assert!(error.contains("network.nodes: 3 is too few: \"edges.csv\" has nodes up to 3"), "{error}");
    let error = build(&scenario(FROM_FILE, "custody_file = \"c.csv\""), &folder).unwrap_err();
    assert!(error.contains("\"c.csv\": line 2 is \"9,0\": there is no node 9, nodes are 0 to 3"), "{error}");
    let error = build(&scenario(FROM_FILE, "custody = 2\npublisher = 4"), &folder).unwrap_err();
    assert!(
        error.contains("workload.publisher: there is no node 4") && error.contains("allowed: 0 to 3"),
        "{error}"
    );
}

#[test]
fn nodes_that_cannot_be_reached() {
    let apart = "dialer,listener\n0,1\n2,3\n";
    let gap = "node,column\n0,0\n1,1\n2,0\n3,1\n";
    let folder = folder("apart", &[("edges.csv", apart), ("line.csv", LINE), ("gap.csv", gap)]);
    let error = build(&scenario(FROM_FILE, "custody = 2"), &folder).unwrap_err();
    assert!(
        error.contains("network.topology: no path leads from the publisher (node 0) to nodes 2, 3"),
        "{error}"
    );
    let line = FROM_FILE.replace("edges", "line");
    let error = build(&scenario(&line, "custody_file = \"gap.csv\""), &folder).unwrap_err();
    assert!(
        error.contains("column 0 cannot reach node 2: no path of its subscribers leads there"),
        "{error}"
    );
    assert!(error.contains("error: workload.custody_file: ") && error.contains("test.toml:8:"), "{error}");
    let idle = gap.replace("2,0\n", "");
    std::fs::write(folder.join("idle.csv"), idle).unwrap();
    let error = build(&scenario(&line, "custody_file = \"idle.csv\""), &folder).unwrap_err();
    assert!(error.contains("node 2 subscribe"), "{error}");
    let ring = "nodes = 200\ntopology = \"ring\"";
    let error = build(
        &scenario(ring, "custody = 2\npublisher_subscribes_all = false\n")
            .replace("columns = 4", "columns = 50"),
        &folder,
    );
    // On a ring whole arcs must share a column: drawing again finds that, or says that it is impossible.
    if let Err(error) = error {
        assert!(
            error.contains("workload.custody: column") && error.contains("more columns for each node"),
            "{error}"
        );
    }
}
