"""Tests of converting files of other tools to the CSV files of a network."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import networkx as nx
import pytest
from conftest import small

import samara
from samara import data

SHADOW = """Creator "by hand"
graph [
  # a comment with a ]
  directed 0
  node [ id 0 label "first" host_bandwidth_down "100 Mbit" host_bandwidth_up "50 Mbit" ]
  node [ id 1 label "second" host_bandwidth_down "1 Gbit" host_bandwidth_up "1 Gibit" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
  edge [ source 1 target 0 latency "30 ms" ]
]"""
SIMBLOCK = """List<String> REGION_LIST = new ArrayList<>(Arrays.asList("eu", "us"));
// LATENCY[i][j] is average latency from REGION_LIST[i] to REGION_LIST[j]
private static final long[][] LATENCY_2019 = {
  {1, 20.5},
  {30, 0}};"""
TWO = """List<String> REGION_LIST = new ArrayList<>(Arrays.asList("A", "B"));
/* long[][] LATENCY = {{5, 6}, {7, 8}}; "no text */
// LATENCY = {{0}};
long[][] LATENCY_OLD = {{1, 2}, {3, 4}};
long[][] LATENCY_NEW = {{10, 20L}, {3_0, 40.5}};
long[][] LATENCY = LATENCY_NEW;
long[] UPLOAD_BANDWIDTH = {19, 20, 99};
double[] REGION_DISTRIBUTION = {0.25, 0.75};
int[] DEGREE_DISTRIBUTION = {1, 2};
"""
#: Two places with a lossy edge, and a third one that is reached over the second.
LOSSY = """graph [
  directed 0
  node [ id 0 host_bandwidth_up "100 Mbit" host_bandwidth_down "1 gigabit" country_code "NO" ]
  node [ id 1 host_bandwidth_up "100 Mbit" host_bandwidth_down "1 Gbit" country_code "DE" ]
  node [ id 2 host_bandwidth_up "100 Mbit" host_bandwidth_down "1 Gbit" country_code "DE" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
  edge [ source 1 target 1 latency "2 ms" jitter "0 ms" packet_loss 0.0 ]
  edge [ source 2 target 2 latency "3 milliseconds" packet_loss 0.0 ]
  edge [ source 0 target 1 latency "20 ms" jitter "15 ms" packet_loss 0.5 ]
  edge [ source 1 target 2 latency "20 ms" packet_loss 0.0 ]
]"""
KING = "topology E2EGraph\nfailure_model NullFailureModel\n\nnode 1\nnode 2\n1,2 72000\n"


def read(tmp_path: Path, text: str, **keys: object) -> samara.Network:
    (tmp_path / "file").write_text(text, encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = data.read(tmp_path / "file", **keys)  # type: ignore[arg-type]
    assert [str(warning.message) for warning in caught] == network.notes
    prefix = f"{tmp_path / 'file'}: "
    assert all(note.startswith(prefix) for note in network.notes)
    network.notes[:] = [note.removeprefix(prefix) for note in network.notes]
    return network


def test_gml_of_shadow_has_hosts_links_and_latencies(tmp_path: Path) -> None:
    network = read(tmp_path, SHADOW, others="9 ms")
    assert network.labels == ["first", "second"]
    assert network.files["nodes.csv"] == (
        b"node,downlink,uplink\nfirst,100000000 bit/s,50000000 bit/s\nsecond,1000000000 bit/s,1073741824 bit/s\n"
    )
    assert network.files["edges.csv"] == b"dialer,listener\nsecond,first\n"
    assert network.files["latency.csv"] == b"source,destination,latency\nfirst,first,1 ms\nsecond,first,30 ms\n"
    assert network.keys["latency_file"] == {"file": "latency.csv", "kind": "one-way", "of": "nodes", "others": "9 ms", "paths": "undirected"}
    assert network.notes == []
    places = read(tmp_path, SHADOW, topology={"kind": "full-mesh"})
    assert places.keys["topology"] == {"kind": "full-mesh"} and "edges.csv" not in places.files


def test_gml_of_networkx_gives_the_same_network(tmp_path: Path) -> None:
    graph = nx.random_regular_graph(6, 20, seed=4)
    graph = nx.relabel_nodes(graph, {node: f"é{node}" for node in graph})
    nx.set_edge_attributes(graph, {edge: 5.0 + at for at, edge in enumerate(graph.edges)}, "latency_ms")
    nx.write_gml(graph, tmp_path / "graph.gml")
    network = data.read(tmp_path / "graph.gml", others="100 ms")
    assert network.labels == list(graph)
    assert {frozenset(line.split(",")) for line in network.files["edges.csv"].decode().split()[1:]} == set(map(frozenset, graph.edges))
    edges = small(network=network).load().edges.to_pandas()
    assert len(edges) == 60 and set(edges["dialer"]) | set(edges["listener"]) == set(range(20))


def test_simblock_gives_regions_and_p2psim_gives_hosts(tmp_path: Path) -> None:
    network = read(tmp_path, SIMBLOCK, regions={"weights": [3, 1]})
    assert network.files == {"latency.csv": b",eu,us\neu,1,20.5\nus,30,0\n"}
    assert network.keys["latency_file"] == {"file": "latency.csv", "kind": "one-way", "unit": "ms", "of": "regions"}
    network = read(tmp_path, KING)
    assert network.files == {"latency.csv": b"source,destination,latency\n1,2,72000\n"}
    assert network.keys["latency_file"]["unit"] == "us" and network.labels == ["1", "2"]
    network = read(tmp_path, KING, topology={"kind": "full-mesh"}, kind="round-trip")
    assert len(small(network=network).load().edges.to_pandas()) == 1


def test_simblock_gives_the_arrays_in_use(tmp_path: Path) -> None:
    network = read(tmp_path, TWO)
    assert network.files == {"latency.csv": b",A,B\nA,10,20\nB,30,40.5\n"}
    assert network.keys["regions"] == {"weights": [0.25, 0.75]}
    assert network.notes == [
        "the last value of UPLOAD_BANDWIDTH, 99 bit/s between regions, has no effect",
        "arrays without effect: DEGREE_DISTRIBUTION",
        "UPLOAD_BANDWIDTH need nodes, the number of nodes, for an effect",
    ]
    placed = read(tmp_path, TWO, nodes=8)
    assert "regions" not in placed.keys and placed.labels == list(range(8))
    rows = [f"{node},19,A" for node in range(2)] + [f"{node},20,B" for node in range(2, 8)]
    assert placed.files["nodes.csv"].decode().split() == ["node,uplink_bps,region", *rows]
    assert small(network=read(tmp_path, TWO, nodes=8, topology={"kind": "full-mesh"})).load().points
    again = read(tmp_path, TWO + "LATENCY = LATENCY_OLD.clone();")
    assert again.files["latency.csv"] == b",A,B\nA,1,2\nB,3,4\n"
    assert "LATENCY is assigned several times; its last value is used" in again.notes


def test_graphs_of_shadow_have_losses_and_paths(tmp_path: Path) -> None:
    network = read(tmp_path, LOSSY)
    assert network.files["latency.csv"].decode().split("\n") == [
        "source,destination,latency,packet_loss",
        "0,0,1 ms,0.0",
        "1,1,2 ms,0.0",
        "2,2,0.003 s,0.0",
        "0,1,20 ms,0.5",
        "1,2,20 ms,0.0",
        "",
    ]
    spec = {"file": "latency.csv", "kind": "one-way", "of": "nodes", "loss": "packet_loss", "paths": "undirected"}
    assert network.keys["latency_file"] == spec
    assert network.notes == [
        "attributes of nodes have no effect: country_code (3)",
        "attributes of edges have no effect: jitter (1)",
    ]
    messages = {"rate": 20, "duration": "3 s", "warm_up": "2 s"}
    figures = [
        samara.run(samara.Scenario("m", network=read(tmp_path, text), messages=messages), progress=False).runs[0].metrics["dissemination_ms"]["p50"]
        for text in (LOSSY, LOSSY.replace("0.5", "0.0"))
    ]
    assert figures[0] > figures[1], "half of the packets are sent again"
    directed = read(tmp_path, LOSSY.replace("directed 0", "directed 1"))
    assert directed.keys["latency_file"]["paths"] == "directed"
    assert read(tmp_path, LOSSY, paths="none").keys["latency_file"]["paths"] == "none"


def test_places_are_regions_of_more_nodes(tmp_path: Path) -> None:
    network = read(tmp_path, LOSSY, nodes=7, topology={"kind": "full-mesh"})
    assert network.files["nodes.csv"].decode().split("\n")[:3] == [
        "node,downlink,uplink,region",
        "0,1000000000 bit/s,100000000 bit/s,0",
        "1,1000000000 bit/s,100000000 bit/s,1",
    ]
    assert network.labels == list(range(7)) and network.keys["latency_file"]["of"] == "regions"
    assert network.notes[0] == "7 nodes are at 3 places in turn: node 0 at 0, node 1 at 1, ..."
    assert len(small(network=network).load().edges.to_pandas()) == 21
    few = read(tmp_path, LOSSY, nodes=2)
    assert few.notes[0] == "2 nodes are at the first 2 of 3 places in turn: node 0 at 0, node 1 at 1, ..."
    with pytest.raises(ValueError, match="expected a number of nodes at the places"):
        read(tmp_path, KING, nodes=3)


def test_formats_are_recognised_after_comments(tmp_path: Path) -> None:
    many = "\ufeff\n" + "# words of a comment, more than sixteen of them in all\n" * 9
    graph = 'Creator "x"\ngraph\n[ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]'
    for text, key in ((graph, "edges.csv"), ("graph[ node[ id 0 ] node[ id 1 ] edge[ source 0 target 1 ] ]", "edges.csv")):
        assert key in read(tmp_path, many + text).files
    assert read(tmp_path, many + KING).labels == ["1", "2"]
    assert read(tmp_path, "// one\n/* two\n*/\n" + many[1:] + "[[1, 2], [3, 4]]").labels == ["0", "1"]
    assert read(tmp_path, "// a\n" * 20 + TWO).labels == ["A", "B"]


def test_parallel_edges_are_one_link_with_the_least_latency(tmp_path: Path) -> None:
    def edge(source: int, target: int, latency: str) -> str:
        return f'edge [ source {source} target {target} latency "{latency}" ] '

    edges = edge(0, 1, "3000 us") + edge(0, 1, "2 ms") + edge(1, 0, "1 ms")
    for directed, rows in ((0, ["0,1,1 ms"]), (1, ["0,1,2 ms", "1,0,1 ms"])):
        network = read(tmp_path, f"graph [ directed {directed} node [ id 0 ] node [ id 1 ] {edges} ]")
        assert network.files["edges.csv"] == b"dialer,listener\n0,1\n"
        assert network.files["latency.csv"].decode().split("\n")[1:-1] == rows
        assert f"{2 - directed} edges repeat another edge (the first from 0 to 1)" in network.notes[0]
        assert len(network.notes) == 1 + directed


def test_missing_values_of_edges(tmp_path: Path) -> None:
    """They beat no other value. A loss that is absent is 0, and one that is empty is an error."""

    def edges(*attributes: str) -> str:
        of = "".join(f"edge [ source 0 target 1 {text} ] " for text in attributes)
        return f"graph [ node [ id 0 ] node [ id 1 ] {of} ]"

    for missing in ("-1", "nan", '"-1 ms"', '""'):
        for both in ((missing, '"20ms"'), ('"20ms"', missing)):
            network = read(tmp_path, edges(*(f"latency {one}" for one in both)))
            assert network.files["latency.csv"].decode().split("\n")[1] == "0,1,20ms", both
    assert read(tmp_path, edges('latency "1 s"', 'latency "20ms"')).files["latency.csv"].endswith(b"0,1,20ms\n")
    lossy = read(tmp_path, edges("latency_ms 9 loss 0.5", "latency_ms 8"))
    assert lossy.files["latency.csv"].endswith(b"0,1,8,0\n")
    assert "1 edges have no loss (the first from 0 to 1); theirs counts as 0" in lossy.notes
    for loss in ("nan", '""', '"much"', "1"):
        with pytest.raises(ValueError, match="the loss from 0 to 1 is .*; expected a number from 0 to below 1"):
            read(tmp_path, edges(f"latency_ms 9 loss {loss}"))


def test_files_of_strangers_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kernel").symlink_to("/proc/self/environ")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)
    for name, text in (("pipe", "not a file"), ("zero", "not a file"), ("kernel", "a file of the kernel"), ("large", "has more than 1024 MiB")):
        with pytest.raises(ValueError, match=text):
            data.read(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        data.read(tmp_path)
    for nodes in (10**9, 0, 10**5000):
        with pytest.raises(ValueError, match="expected a number from 1 to 1048576"):
            read(tmp_path, LOSSY, nodes=nodes)


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        f'{{"{LONG}": {{"{LONG}": 1}}, "{LONG}": 1}}',
        f'{{"a": {{"{LONG}": 1}}}}',
        f"graph [ node [ id {LONG} ] edge [ source {LONG} target y{LONG} ] ]",
        f"graph [ {LONG} ]",
        f'graph [ {LONG} [ "',
        f'graph [ node [ id 0 label "{LONG}" uplink 1 ] node [ id 1 label "b" downlink 1 ] ]',
        'REGION_LIST = "a", "b";\n' + f"LATENCY = {LONG};",
        'REGION_LIST = "a", "b";\n' + f"LATENCY_{LONG} = {{{{1}}}}; LATENCY_B = {{{{1}}}};",
        '[["a\\u001b[2J", 1], ' + "9" * 5_000 + "]",
        '{"a\\u001b[2J": {"b\\u001b[2J": 1}}',
        '{"\x1b": 1}',
        '{"a\\u001b[2J": {"a\\u001b[2J": 1}}',
        '{"a\\nb": {"a\\nb": 1}}',
    ],
)
def test_errors_are_short_and_without_control_characters(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    found = str(error.value).removeprefix(str(tmp_path))
    assert len(found) < 1_000 and "x" * 210 not in found and found.isprintable(), found
    assert "sys.set_int_max_str_digits" not in found


def test_values_without_effect_are_named(tmp_path: Path) -> None:
    labels = SHADOW.replace('"second"', '"first"').replace('latency "30 ms"', 'latency "30 ms" LinkSpeed 10 delay 3')
    labels = labels.replace("directed 0", 'directed 0 Network "Zoo" ')
    assert read(tmp_path, labels).notes == [
        "labels are missing or the same for several nodes; the names of nodes are their ids",
        "attributes of the graph have no effect: network (1)",
        "attributes of edges have no effect: delay (1), linkspeed (1)",
    ]
    assert read(tmp_path, KING + "node 3\nnode 4 5\n2,1 9 x\nwhat\n").notes == [
        "lines without a node or a pair have no effect: line 10",
        "further values of nodes and pairs have no effect (2 lines)",
        "nodes without a latency are omitted: 3, 4",
    ]
    capitals = "Graph [ Node [ id 0 latency 4 Latency 5 ] Node [ Id 1 ] Edge [ Source 0 target 1 Latency_ms 5 latency_ms 6 ] ]"
    assert read(tmp_path, capitals).notes == [
        "attributes are repeated, and the first value of each counts: latency (1), latency_ms (1)",
        "attributes of nodes have no effect: latency (1)",
    ]
    assert read(tmp_path, capitals).files["latency.csv"].endswith(b"0,1,5\n")
    assert read(tmp_path, '{"at": 1, "data": {"a": {"a": 1}}}').notes == ["keys beside data have no effect: at"]
    # Nodes with the numbers 0, 1, ... have these numbers in any order.
    assert read(tmp_path, "topology E2EGraph\n1,0 72000\n").labels == ["0", "1"]
    assert read(tmp_path, "topology E2EGraph\nnode 5\nnode 4\n4,5 72000\n").labels == ["4", "5"]


def test_long_files_take_linear_time(tmp_path: Path) -> None:
    """Quadratic readers would take hours for these."""
    size = 1_000_000
    for text in (
        "REGION_LIST " * size,
        'REGION_LIST = "a"; ' + "LATENCY={" * size,
        'REGION_LIST = "' + '\\"' * size,
        "x /*" * size + "REGION_LIST",
        "graph [ " + '"' * size + '"',
        " " * size + "topology E2EGraph\n" + " " * size,
        ("graph" + " " * 1000) * (size // 1000),
        "[" * size,
    ):
        with pytest.raises(ValueError):
            read(tmp_path, text)


def test_json_is_a_matrix(tmp_path: Path) -> None:
    for text in (
        '{"eu": {"eu": 1, "us": 20.5}, "us": {"eu": "30 ms", "us": null}}',
        '{"unit": 1, "data": {"eu": {"eu": 1, "us": 20.5}, "us": {"eu": "30 ms"}}}',
    ):
        network = read(tmp_path, text, unit="ms", kind="round-trip")
        assert network.files == {"latency.csv": b",eu,us\neu,1,20.5\nus,30 ms,\n"}
        assert network.keys["latency_file"] == {"file": "latency.csv", "kind": "round-trip", "unit": "ms"}
    assert read(tmp_path, "[[1, 2], [3, 4]]").files == {"latency.csv": b",0,1\n0,1,2\n1,3,4\n"}


def test_the_rust_reader_names_the_converter(tmp_path: Path) -> None:
    (tmp_path / "network.gml").write_text(SHADOW)
    scenario = small(network={"topology": {"kind": "file", "file": str(tmp_path / "network.gml")}})
    with pytest.raises(samara.ScenarioError, match="python -m samara.data"):
        scenario.load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph [\nnode [ id 0 ]\nedge [ source 0 target 1 ]\n]", "leads to the node '1', which is missing"),
        ("graph [\nnode [ id 0 ]\n", "ends inside of graph"),
        ("graph [\nnode [ id ]\n]", "line 2: found id and ], expected a key and its value"),
        ("graph [ ] ]", "line 1: found ]"),
        ("graph [ ]", "has no nodes"),
        ("graph [ node [ id 0 ] ]\ngraph [ node [ id 1 ] ]", "line 2: found a second graph; expected one"),
        ("{}", "has no latencies"),
        ("[]", "has no latencies"),
        ("graph [ node [ label 1 ] ]", "a node has no id"),
        ("graph [ node [ id 0 ] node [ id 0 ] ]", "two nodes have the same id"),
        (SHADOW.replace('host_bandwidth_up "1 Gibit"', ""), "the node second has no uplink"),
        ('{"a": {"b": 1}}', "b has a column but no row"),
        ("[[1, 2], [3]]", "square array"),
        ("{1", "Expecting"),
        ('REGION_LIST = "a", "b";\nLATENCY = {{1}};', "LATENCY has 1 rows of [1] values; expected a row and a column for each of 2 regions"),
        (TWO.replace("LATENCY = LATENCY_NEW;", ""), "has LATENCY_OLD, LATENCY_NEW, but assigns none of them to LATENCY"),
        (TWO.replace("LATENCY = LATENCY_NEW;", "LATENCY = measure();"), "LATENCY = measure ( ): expected an array"),
        (TWO.replace("10,", "ten,"), "LATENCY_NEW has ten, which is not a number"),
        (TWO.replace('"B"', '"B'), "line 1: a text has no closing quote"),
        ('{"a": {"a": 1}, "a": {"a": 2}}', "a is present twice"),
        ("[" * 100_000, "values are nested too deeply"),
        ("<graphml/>", "format is unknown; expected one of gml, json, simblock, p2psim; scenarios read GraphML"),
        ("topology E2EGraph\nnode 1\n", "has no latencies"),
        ("a,b\n", "format is unknown; expected one of gml, json, simblock, p2psim"),
    ],
)
def test_errors_describe_the_mistake(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    assert message in str(error.value) and str(error.value).startswith(str(tmp_path / "file"))


def test_command_line_writes_files_and_prints_the_section(tmp_path: Path) -> None:
    (tmp_path / "network.gml").write_text(SHADOW)
    command = [sys.executable, "-m", "samara.data", "network.gml", "-o", "out", "--others", "9 ms"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "" and {file.name for file in (tmp_path / "out").iterdir()} == {"nodes.csv", "edges.csv", "latency.csv"}
    head = '[scenario]\nname = "gml"\ntitle = ""\n[messages]\nrate = 10\nsize = "1 kB"\n'
    loaded = samara.Scenario.from_toml(head + done.stdout, directory=tmp_path / "out").load()
    assert len(loaded.edges.to_pandas()) == 1
    many = subprocess.run([*command, "--nodes", "9" * 100_000], cwd=tmp_path, capture_output=True, text=True)
    assert many.returncode == 2 and "expected a number from 1 to 1048576" in many.stderr and len(many.stderr) < 2_000
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 1 and "File exists" in again.stderr
