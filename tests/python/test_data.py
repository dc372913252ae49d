"""Tests of converting files of other tools to the CSV files of a network."""

from __future__ import annotations

import subprocess
import sys
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
KING = "topology E2EGraph\nfailure_model NullFailureModel\n\nnode 1\nnode 2\n1,2 72000\n"


def read(tmp_path: Path, text: str, **keys: object) -> samara.Network:
    (tmp_path / "file").write_text(text)
    return data.read(tmp_path / "file", **keys)  # type: ignore[arg-type]


def test_gml_of_shadow_has_hosts_links_and_latencies(tmp_path: Path) -> None:
    network = read(tmp_path, SHADOW, others="9 ms")
    assert network.labels == ["first", "second"]
    assert network.files["nodes.csv"] == (
        b"node,downlink,uplink\nfirst,100000000 bit/s,50000000 bit/s\nsecond,1000000000 bit/s,1073741824 bit/s\n"
    )
    assert network.files["edges.csv"] == b"dialer,listener\nsecond,first\n"
    assert network.files["latency.csv"] == b"source,destination,latency\nfirst,first,1 ms\nsecond,first,30 ms\n"
    assert network.keys["latency_file"] == {"file": "latency.csv", "kind": "one-way", "of": "nodes", "others": "9 ms"}
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
        ("graph [ node [ label 1 ] ]", "a node has no id"),
        ("graph [ node [ id 0 ] node [ id 0 ] ]", "two nodes have the same id"),
        (SHADOW.replace("target 0 latency \"30", "target 1 ]\n edge [ source 1 target 1 latency \"30"), "duplicate edge from second to second"),
        (SHADOW.replace('host_bandwidth_up "1 Gibit"', ""), "the node second has no uplink"),
        ('{"a": {"b": 1}}', "b has a column but no row"),
        ("[[1, 2], [3]]", "square array"),
        ("{1", "Expecting"),
        ('REGION_LIST = "a", "b";\nLATENCY = {{1}};', "has 1 rows; expected a row and a column for each of 2 regions"),
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
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 1 and "File exists" in again.stderr
