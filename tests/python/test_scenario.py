"""Tests of scenarios in code: networks from graphs and arrays, workloads from tables."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from conftest import small

import samara

STREAM = {"warm_up": "5 s"}
PLAIN = {"nodes": 20, "latency": "20 ms", "topology": {"degree": 6}}


def run(scenario: samara.Scenario, **keys: object) -> samara.Result:
    return samara.run(scenario, progress=False, **keys)  # type: ignore[arg-type]


def test_scenario_in_code_equals_a_file(tmp_path: Path) -> None:
    scenario = small(runs={"slow": {"network.bandwidth": "5 Mbit/s"}}, seeds=[3])
    again = samara.Scenario.from_toml(scenario.to_toml())
    assert again.to_dict() == scenario.to_dict() and str(again) == scenario.to_toml()
    path = scenario.save(tmp_path / "small.toml")
    digests = {samara.run(source, progress=False).digest for source in (scenario, again, path, str(path))}
    assert len(digests) == 1
    assert samara.Scenario.open(path).to_dict() == scenario.to_dict()


def test_what_is_written_is_read_again() -> None:
    scenario = small(seeds=[2**63 - 1], description="a \"b\" '''c''' \\\n\t\r\n")
    scenario.set("columns.count", 128).set("columns.cells", {}).set("network.loss", "7 %")
    scenario["fault"] = [{"kind": "slow", "at": "10.33 s", "nodes": [3], "factor": 1 / 3}]
    for text in (scenario.to_toml(), scenario.load().toml):
        read = samara.Scenario.from_toml(text)
        assert read.load().toml == scenario.load().toml
        assert read["scenario.description"] == scenario["scenario.description"]
        assert read["fault"][0]["factor"] == 1 / 3
        assert read["scenario.seeds"] == [2**63 - 1]
    assert 'hits = "82 %"' in scenario.load().toml


def test_errors_and_notes_name_the_run() -> None:
    runs = {f"d{degree}": {"protocol.degree": degree, "protocol.degree_low": 5} for degree in (4, 6)}
    with pytest.raises(samara.ScenarioError, match='in run "d4": found 5, expected at most degree = 4'):
        small(runs=runs).load()
    loaded = small(runs={f"d{degree}": {"protocol.degree": degree} for degree in (4, 12, 13)}).load()
    assert len(loaded.notes) == 3 and "degree_low = 3, degree_high = 6" in "".join(loaded.notes)


def test_keys_can_be_changed() -> None:
    scenario = samara.Scenario.open("peerdas")
    scenario["network.nodes"] = np.int64(30)
    scenario.set("network.topology.degree", 8).set("columns", {"blobs": 1, "count": 16, "custody": 4})
    assert scenario["network.nodes"] == 30
    other = scenario.copy()
    other["network.nodes"] = 31
    assert scenario["network.nodes"] == 30
    points = scenario.load(only="batch").points
    assert points == [{"name": "batch", "seed": 1, "label": "Batch, as in the post"}]
    assert "nodes = 30" in scenario.load().toml


def test_errors_are_raised_before_a_run() -> None:
    with pytest.raises(samara.ScenarioError, match="did you mean"):
        samara.Scenario.open("perdas")
    with pytest.raises(samara.ScenarioError, match="^small: network.nodes: is 1"):
        small(network={"nodes": 1}).load()


MINE: dict[str, Any] = {"scenario": {"name": "mine", "title": "Mine"}, "network": {"nodes": 20}, "columns": {"blobs": 1}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"netwrk": {}}, "mine: netwrk: unknown key `netwrk`; expected one of"),
        ({"network": {"nods": 3}}, "mine: network.nods: unknown key `nods`"),
        ({"columns": {"blobs": "many"}}, 'mine: columns.blobs: found "many"; expected a whole number'),
        ({"run": [{"name": "a", "sett": {}}]}, "mine: run.0.sett: unknown key `sett`"),
    ],
)
def test_unknown_sections_and_keys_are_errors_at_once(change: dict[str, Any], text: str) -> None:
    assert samara.Scenario.from_dict(MINE).name == "mine"
    with pytest.raises(samara.ScenarioError) as caught:
        samara.Scenario.from_dict({**MINE, **change})
    # Lines would be those of a text that nobody has written.
    assert str(caught.value).startswith(text) and "\n" not in str(caught.value)


def test_errors_in_code_name_the_place(tmp_path: Path) -> None:
    for make in (lambda: small(netwrk={}), lambda: small().set("netwrk.nodes", 5)):
        with pytest.raises(samara.ScenarioError, match="^small: netwrk: unknown key `netwrk`; .* did you mean `network`"):
            make()
    with pytest.raises(samara.ScenarioError, match="^scenario:4: netwrk: unknown key"):
        samara.Scenario.from_toml('[scenario]\nname = "a"\ntitle = "b"\n[netwrk]\n')
    path = tmp_path / "a.toml"
    path.write_text('[scenario]\nname = "a"\ntitle = \n')
    with pytest.raises(samara.ScenarioError, match=f"^{path}:3: "):
        samara.Scenario.open(path)
    scenario = samara.Scenario.from_dict(MINE)
    with pytest.raises(TypeError, match="network.nodes.x: found 20 at network.nodes; expected a mapping there"):
        scenario.set("network.nodes.x", 5)
    with pytest.raises(TypeError, match=r"columns.blobs\[1\]: found <object"):
        scenario["columns.blobs"] = [1, object()]
    with pytest.raises(KeyError, match="network.foo: the scenario does not set this key"):
        scenario["network.foo"]
    with pytest.raises(TypeError, match=r"table: found \[1\]; expected the sections of a scenario"):
        samara.Scenario.from_dict([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"load\(\) has no argument sed; expected one of seed, only, .* did you mean seed"):
        scenario.load(sed=1)


def test_graph_of_networkx() -> None:
    graph = nx.random_regular_graph(6, 20, seed=4)
    graph = nx.relabel_nodes(graph, {node: f"n{node}" for node in graph})
    network = samara.network(graph, latency="20 ms")
    assert network.labels == list(graph.nodes) and network.keys["topology"]["kind"] == "file"
    result = run(small(network=network))
    edges = result.edges.to_pandas()
    ours = nx.Graph([(network.labels[a], network.labels[b]) for a, b in edges[["dialer", "listener"]].to_numpy()])
    assert nx.utils.graphs_equal(ours, nx.Graph(graph.edges))
    assert result.summary["nodes"] == 20


def test_list_of_pairs_and_other_graphs() -> None:
    pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)]
    for graph in (pairs, nx.Graph(pairs), nx.DiGraph([*pairs, (1, 0)]), nx.MultiGraph([*pairs, (1, 0)]), np.array(pairs)):
        assert samara.network(graph).files["edges.csv"].splitlines()[0] == b"dialer,listener"
        assert len(samara.network(graph).files["edges.csv"].splitlines()) == 1 + 5
    assert samara.network([("a", "b"), ("b", "c")]).labels == ["a", "b", "c"]
    with pytest.raises(ValueError, match="keep only one of them"):
        samara.network(pairs, topology={"kind": "ring"})


def test_rates_of_single_hosts() -> None:
    uplink = np.linspace(10e6, 29e6, 20)
    network = samara.network(nodes=20, uplink=uplink, downlink="50 Mbit/s", latency=20, topology={"degree": 6})
    traffic = run(small(network=network)).traffic.to_pandas()
    assert traffic["uplink_bps"].tolist() == [int(rate) for rate in uplink]
    assert set(traffic["downlink_bps"]) == {50_000_000}
    texts = samara.network(bandwidth=["10 Mbit/s", "20 Mbit/s"])
    assert texts.files["nodes.csv"] == b"node,uplink,downlink\n0,10 Mbit/s,10 Mbit/s\n1,20 Mbit/s,20 Mbit/s\n"
    mixed = samara.network(uplink=["10 Mbit/s", 5])
    assert mixed.files["nodes.csv"] == b"node,uplink\n0,10 Mbit/s\n1,5 bit/s\n"


def test_properties_of_the_nodes_of_a_graph() -> None:
    graph = nx.cycle_graph(8)
    nx.set_node_attributes(graph, {node: 1e7 * (node + 1) for node in graph}, "uplink")
    network = samara.network(graph, latency="10 ms", downlink="100 Mbit/s")
    traffic = run(small(network=network)).traffic.to_pandas()
    assert traffic["uplink_bps"].tolist() == [10_000_000 * (node + 1) for node in range(8)]
    del graph.nodes[3]["uplink"]
    with pytest.raises(ValueError, match="1 nodes of the graph have no uplink"):
        samara.network(graph)


def test_latencies_between_hosts() -> None:
    """A first copy over one hop takes at least its latency."""
    rng = np.random.default_rng(1)
    latency = rng.uniform(5, 60, (20, 20))
    latency = (latency + latency.T) / 2
    network = samara.network(latency=latency, uplink="1 Gbit/s", downlink="1 Gbit/s", topology={"degree": 6})
    # Few small columns take one flight of packets.
    columns = {"blobs": 1, "blob_size": "16 KiB", "count": 16, "custody": 4, "warm_up": "5 s", "deadline": "20 s"}
    copies = run(small(network=network, columns=columns)).copies.to_pandas()
    direct = copies[(copies["from"] == 0) & copies["first"]]
    assert len(direct) > 10
    least = direct.groupby("node")["at_ms"].min()
    for node, at in least.items():
        assert at >= latency[0, node] - 1e-6, (node, at)
        assert at < latency[0, node] + 5, (node, at, latency[0, node])


def test_data_frames_are_arrays() -> None:
    latency, pairs, uplink = [[0.0, 5.0], [7.0, 0.0]], [(0, 1), (1, 2)], [1e6, 2e6]
    columns = {"a": [0.0, 7.0], "b": [5.0, 0.0]}
    expected = samara.network(latency=latency, uplink=uplink)
    for table in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        found = samara.network(latency=table(columns), uplink=table({"rate": uplink}))
        assert (found.keys, found.files) == (expected.keys, expected.files), table
        edges = samara.network(table({"from": [0, 1], "to": [1, 2]}))
        assert edges.files == samara.network(pairs).files, table
    assert samara.network(uplink=pandas.Series(uplink)).files == samara.network(uplink=uplink).files


def test_latencies_between_regions() -> None:
    region = ["near", "far"] * 10
    network = samara.network(latency=[[5, 100], [100, 5]], region=region, regions=["near", "far"], topology={"degree": 6})
    copies = run(small(network=network)).copies.to_pandas()
    same = [region[a] == region[b] for a, b in copies[["from", "node"]].to_numpy()]
    first = copies[(copies["from"] == 0)]
    assert any(same) and not all(same)
    far = first[[region[node] == "far" for node in first["node"]]]["at_ms"].min()
    near = first[[region[node] == "near" for node in first["node"]]]["at_ms"].min()
    assert near < 100 <= far


CITIES = ["ams", "fra", "syd"]
PINGS = pandas.DataFrame([[1.0, 10, 200], [10, 2, 190], [200, 190, 3]], index=CITIES, columns=CITIES)
BY_NAME = b"0,3,200,190\n1,200,1,10\n2,190,10,2\n"


@pytest.mark.parametrize(
    "frame",
    [
        PINGS,
        PINGS.loc[["fra", "ams", "syd"], ["syd", "ams", "fra"]],
        PINGS.reset_index(),
        polars.DataFrame(PINGS.to_numpy(), schema=CITIES),
        polars.DataFrame(PINGS.reset_index()),
        pyarrow.table(PINGS),
    ],
    ids=["frame", "other order", "column of names", "polars", "polars with names", "pyarrow"],
)
def test_frames_apply_by_name(frame: object) -> None:
    graph = nx.cycle_graph(["syd", "ams", "fra"])
    assert samara.network(graph, latency=frame).files["latency.csv"] == b",0,1,2\n" + BY_NAME
    regions = samara.network(nx.cycle_graph(3), latency=frame, region=["syd", "ams", "fra"])
    named = BY_NAME.replace(b"0,", b"syd,", 1).replace(b"\n1,", b"\nams,", 1).replace(b"\n2,", b"\nfra,", 1)
    assert regions.files["latency.csv"] == b",syd,ams,fra\n" + named
    assert sorted(samara.network(latency=frame).labels) == CITIES


def test_series_and_mappings_apply_by_name() -> None:
    graph = nx.cycle_graph(["syd", "ams", "fra"])
    rates = {"ams": 1, "fra": 2, "syd": 3}
    for uplink in (rates, pandas.Series(rates), [3, 1, 2], np.array([3, 1, 2])):
        assert samara.network(graph, uplink=uplink).files["nodes.csv"] == b"node,uplink_bps\n0,3\n1,1\n2,2\n"


def test_rows_of_latencies_apply_by_name() -> None:
    """Mappings and series have names as frames do: their rows are in their own order."""
    graph = nx.cycle_graph(["syd", "ams", "fra"])
    rows = {"fra": [2, 10, 190], "ams": [10, 1, 200], "syd": [190, 200, 3]}
    by_name = {name: dict(zip(rows, row)) for name, row in rows.items()}
    series = {name: pandas.Series(row) for name, row in by_name.items()}
    for latency in (rows, by_name, series, pandas.Series(rows), pandas.Series(by_name), PINGS.to_dict()):
        assert samara.network(graph, latency=latency).files["latency.csv"] == b",0,1,2\n" + BY_NAME
        assert sorted(samara.network(latency=latency).labels) == CITIES
    plain = [pandas.Series(row) for row in ([3, 200, 190], [200, 1, 10], [190, 10, 2])]
    for latency in (plain, {name: row.tolist() for name, row in zip(graph, plain)}):
        assert samara.network(graph, latency=latency).files["latency.csv"] == b",0,1,2\n" + BY_NAME
    del by_name["fra"]["syd"]
    with pytest.raises(ValueError, match="the latency from fra to syd is missing"):
        samara.network(graph, latency=by_name)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"latency": {"ams": {"x": 1}, "fra": {}, "syd": {}}}, "latency of ams leads to x, but the rows are ams, fra, syd"),
        ({"latency": {"ams": 1, "fra": 2, "syd": 3}}, "latency of ams is 1; expected a row of values"),
        ({"latency": {"x": [1, 2, 3], "fra": [1, 2, 3], "syd": [1, 2, 3]}}, r"latency has x, fra, syd, .*ams missing"),
        ({"latency": {"ams": {}, "fra": [1], "syd": {}}}, "mappings in part; fra has none"),
        ({"uplink": {"ams": 1, "fra": 2, "syd": 3, "x": 4}}, "uplink has x, but nodes are syd, ams, fra"),
        ({"uplink": pandas.Series([1, 2, 3], ["ams", "ams", "syd"])}, "uplink has ams twice"),
        ({"uplink": {1, 2, 3}}, "uplink is a set, which has no order"),
        ({"region": ["a", "b", "a"], "regions": {"a", "b"}, "latency": [[1, 2], [2, 1]]}, "regions is a set"),
        ({"graph": [(0, -1), (-1, 2)]}, "leads to node -1; numbers of nodes start at 0"),
        ({"graph": [(0, 10**12)]}, "leads to node 1000000000000; a network has at most 1048576 nodes"),
    ],
)
def test_foreign_names_are_errors(keys: dict[str, object], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        samara.network(**{"graph": nx.cycle_graph(["syd", "ams", "fra"]), **keys})  # type: ignore[arg-type]


def parallel(latency: list[object], **keys: object) -> list[str]:
    """Returns the rows for parallel edges with these latencies."""
    graph = nx.MultiGraph([("x", "y", {"latency": one}) for one in latency])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return samara.network(graph, **keys).files["latency.csv"].decode().split("\n")[1:-1]  # type: ignore[arg-type]


def test_the_fastest_of_parallel_edges_counts() -> None:
    for latency in (["20ms", "1 s"], ["1 s", "20ms"], ["20ms", 30], ["20ms", "2 minutes"], ["20ms", "30000us"]):
        assert parallel(latency) == ["0,1,20ms"], latency
    # A missing value is none, and beats no other one.
    for missing in (-1, float("nan"), "-1 ms", "n/a", ""):
        assert parallel([missing, "1 s"]) == parallel(["1 s", missing]) == ["0,1,1 s"], missing
        with pytest.raises(ValueError, match="the latency from x to y is missing; set one with others"):
            parallel([missing])
        assert parallel([missing], others="9 ms") == ["0,1,"]


@pytest.mark.parametrize(("loss", "found"), [(float("nan"), "'nan'"), ("", "''"), ("much", "'much'"), (1.5, "1.5"), ("-2 %", "-2 %")])
def test_losses_are_shares(loss: object, found: str) -> None:
    graph = nx.Graph([("x", "y", {"latency": 5, "loss": loss})])
    with pytest.raises(ValueError, match=f"the loss from x to y is {found}; expected a number from 0 to below 1"):
        samara.network(graph)


def test_names_that_do_not_fit_are_errors() -> None:
    graph = nx.cycle_graph(["syd", "ams", "fra"])
    with pytest.raises(ValueError, match="latency has ams, fra, x, but nodes are syd, ams, fra .syd missing."):
        samara.network(graph, latency=PINGS.rename(index={"syd": "x"}, columns={"syd": "x"}))
    with pytest.raises(ValueError, match="latency has the rows ams, fra, syd, but the columns ams, fra, x"):
        samara.network(graph, latency=PINGS.rename(columns={"syd": "x"}))
    with pytest.raises(ValueError, match="latency has ams, fra, syd, but nodes are 0, 1, 2"):
        samara.network(nx.cycle_graph(3), latency=PINGS)
    with pytest.raises(ValueError, match="which are nodes in another order"):
        samara.network(nx.Graph([(2, 0), (0, 1)]), latency=pandas.DataFrame(np.ones((3, 3))))
    with pytest.raises(ValueError, match="uplink has ams, but nodes are syd"):
        samara.network(graph, uplink={"ams": 1})
    # A frame without names applies in the order of nodes, as an array does.
    assert samara.network(graph, latency=pandas.DataFrame(PINGS.to_numpy())).files == samara.network(graph, latency=PINGS.to_numpy()).files


def test_regions_of_a_graph_have_a_matrix() -> None:
    graph = nx.cycle_graph(4)
    nx.set_node_attributes(graph, {0: "eu", 1: "us", 2: "eu", 3: "us"}, "city")
    found = samara.network(graph, latency=[[1, 50], [50, 2]], region="city")
    assert found.files["latency.csv"] == b",eu,us\neu,1,50\nus,50,2\n" and found.notes == []
    nx.set_node_attributes(graph, {0: "eu", 1: "us", 2: "eu", 3: "us"}, "region")
    with pytest.warns(UserWarning, match=r"attributes of nodes have no effect: city \(4\)"):
        same = samara.network(graph, latency=[[1, 50], [50, 2]])
    assert same.files == found.files
    assert small(network=same).load().points
    with pytest.raises(ValueError, match="no node of the graph has the attribute 'town'"):
        samara.network(graph, region="town")


def test_edges_have_latencies_and_losses() -> None:
    graph = nx.MultiGraph()
    graph.add_edge("x", "y", latency=5, packet_loss=0.1, weight=2)
    graph.add_edge("x", "y", latency=3, packet_loss=0.2)
    graph.add_edge("y", "z", latency="4 ms")
    with pytest.warns(UserWarning):
        network = samara.network(graph)
    assert network.files["latency.csv"] == b"source,destination,latency,packet_loss\n0,1,3,0.2\n1,2,4 ms,0\n"
    spec = network.keys["latency_file"]
    assert (spec["loss"], spec["paths"]) == ("packet_loss", "undirected")
    assert network.notes == [
        "network(): 1 edges repeat another edge (the first from x to y); two nodes have one link, with the least latency of its edges",
        "network(): 1 edges have no packet_loss (the first from y to z); theirs counts as 0",
        "network(): attributes of edges have no effect: weight (1)",
    ]
    assert small(network=network, columns=None, messages={"rate": 1, "duration": "1 s"}).load().points
    with pytest.warns(UserWarning, match=r"attributes of edges have no effect: latency \(3\), packet_loss \(2\), weight \(1\)"):
        samara.network(graph, latency="5 ms")
    units = nx.Graph([(0, 1)])
    nx.set_node_attributes(units, {0: 10, 1: 20}, "uplink_mbps")
    assert samara.network(units).files["nodes.csv"] == b"node,uplink_mbps\n0,10\n1,20\n"


def test_graphs_in_parts_are_errors_by_name() -> None:
    graph = nx.disjoint_union(nx.cycle_graph(4), nx.empty_graph(1))
    with pytest.raises(ValueError, match=r"^network\(\): node 4 has no edge"):
        samara.network(graph, latency="10 ms")
    parts = nx.Graph([("a", "b"), ("b", "c"), ("d", "e")])
    with pytest.raises(ValueError, match="no path leads from its largest part to 2 of 5 nodes: d, e"):
        samara.network(parts)


def test_missing_latencies_name_the_pair_and_the_argument() -> None:
    missing = [[0, float("nan"), 1], [None, 0, 1], [1, 1, 0]]
    with pytest.raises(ValueError, match='the latency from 0 to 1 is missing; set one with others="100 ms"'):
        samara.network(latency=missing)
    network = samara.network(latency=missing, others="9 ms", topology={"kind": "full-mesh"})
    assert network.files["latency.csv"] == b",0,1,2\n0,0,,1\n1,,0,1\n2,1,1,0\n"
    assert small(network=network).load().points


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"latency": [[1, 2], [3]]}, "square array"),
        ({"latency": [[1, 2], [3, 4]], "nodes": 3}, "the numbers of nodes differ: nodes 3, latency 2"),
        ({"uplink": [1, 2], "graph": [(0, 1), (1, 2)]}, "the numbers of nodes differ: the graph 3, uplink 2"),
        ({"uplink": [1, float("nan")]}, r"uplink\[1\] is nan; expected a finite number"),
        ({"latency": "5 ms", "within": "1 ms"}, "within cannot apply to one latency for all pairs; pass a square array"),
        ({"graph": [(0, 1)], "others": "1 ms"}, "others cannot apply without latencies of pairs; pass a square array as latency"),
        ({"bandwidth": "1 Mbit/s", "uplink": "1 Mbit/s"}, "pass either bandwidth or those two"),
        ({"latency": [[1, 2], [3, 4]], "region": ["a", "b"], "regions": ["a", "b", "c"]}, "row for each of 3 regions"),
    ],
)
def test_rejects_inconsistent_arguments(keys: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        samara.network(**keys)  # type: ignore[arg-type]


def test_rejects_values_that_are_not_numbers() -> None:
    with pytest.raises(TypeError, match="is a object, not a number"):
        samara.network(uplink=[object(), object()])


ROWS = [{"at_ms": 10.5 * i, "publisher": i % 5, "size_bytes": 500 + i} for i in range(12)]


@pytest.mark.parametrize(
    "table",
    [
        ROWS,
        {name: [row[name] for row in ROWS] for name in ROWS[0]},
        pandas.DataFrame(ROWS),
        polars.DataFrame(ROWS),
        pyarrow.Table.from_pylist(ROWS),
    ],
    ids=["rows", "columns", "pandas", "polars", "pyarrow"],
)
def test_workload_from_a_table(table: object) -> None:
    scenario = small(network=PLAIN, columns=None, messages=samara.messages(table, **STREAM))
    frame = run(scenario).table("messages").to_pandas()
    assert frame["publisher"].tolist() == [row["publisher"] for row in ROWS]
    assert frame["published_ms"].tolist() == pytest.approx([row["at_ms"] for row in ROWS])
    assert (frame["delivered"] == 19).all()


def test_rejects_invalid_tables() -> None:
    with pytest.raises(ValueError, match="has no rows"):
        samara.messages([])
    with pytest.raises(ValueError, match="different lengths"):
        samara.messages({"at_ms": [1, 2], "publisher": [1]})
    with pytest.raises(ValueError, match="row 1 of a table has"):
        samara.messages([{"at_ms": 1}, {"at": 1}])
    with pytest.raises(TypeError, match="a int is not a table"):
        samara.messages(5)
    scenario = small(network=PLAIN, columns=None, messages=samara.messages([{"at_ms": 1, "publisher": 77}], **STREAM))
    with pytest.raises(samara.ScenarioError, match="messages.csv:2: unknown node 77"):
        run(scenario)


def test_nodes_have_classes_of_a_graph_or_an_argument() -> None:
    star = nx.star_graph(12)
    nx.set_node_attributes(star, {0: "hub", **dict.fromkeys(range(1, 12), "leaf")}, "class")
    star.add_edge(12, 11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = samara.network(star, classes={"hub": {"uplink": "1 Gbit/s"}}, uplink="20 Mbit/s")
    assert network.files["nodes.csv"].decode().splitlines()[:3] == ["node,class", "0,hub", "1,leaf"]
    assert network.files["nodes.csv"].decode().splitlines()[-1] == "12,", "a node without the attribute has no class"
    result = run(small(network=network))
    rows = {row["class"]: row["nodes"] for row in result.by_class.to_pylist()}
    assert rows == {"hub": 1, "leaf": 11, "others": 1}
    uplinks = {(row["class"], row["uplink_bps"]) for row in result.traffic.to_pylist()}
    assert uplinks == {("hub", 10**9), ("leaf", 20 * 10**6), (None, 20 * 10**6)}
    by_role = nx.relabel_nodes(star, {node: f"v{node}" for node in star})
    nx.set_node_attributes(by_role, "core", "role")
    for given, expected in (
        ("role", {"core": 13}),
        (["a"] * 6 + ["b"] * 7, {"a": 6, "b": 7}),
        (pandas.Series({f"v{node}": "a" if node else None for node in range(12, -1, -1)}), {"a": 12, "others": 1}),
    ):
        result = run(small(network=samara.network(by_role, class_=given)))
        assert {row["class"]: row["nodes"] for row in result.by_class.to_pylist()} == expected
    with pytest.raises(ValueError, match="no node of the graph has the attribute 'rolle'; class_ is a sequence"):
        samara.network(by_role, class_="rolle")
    with pytest.raises(ValueError, match="classes is a mapping of names to keys"):
        samara.network(by_role, classes=["hub"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="class_ is 5; expected a value for each node"):
        samara.network(by_role, class_=5)
    with pytest.raises(samara.ScenarioError, match="\"hubs\", which is no class of nodes.csv"):
        run(small(network=samara.network(star, classes={"hubs": {"uplink": "1 Gbit/s"}})))


def test_files_are_saved_beside_the_scenario(tmp_path: Path) -> None:
    scenario = small(network=samara.network(nx.cycle_graph(8), latency=np.full((8, 8), 12.0)))
    path = scenario.save(tmp_path / "mine.toml")
    assert {file.name for file in tmp_path.iterdir()} == {"mine.toml", "mine.edges.csv", "mine.latency.csv"}
    assert samara.run(path, progress=False).digest == run(scenario).digest
    # Its files keep their names if it is read and saved again.
    again = samara.Scenario.from_toml(path.read_text(), files={"mine.edges.csv": b"", "mine.latency.csv": b""})
    assert again.save(tmp_path / "mine.toml").read_text() == path.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"mine.toml", "mine.edges.csv", "mine.latency.csv"}


def test_scenarios_in_one_folder_keep_their_own_files(tmp_path: Path) -> None:
    ring = small(network=samara.network(nx.cycle_graph(8), latency=np.full((8, 8), 12.0)))
    mesh = small(network=samara.network(nx.complete_graph(8), latency=np.full((8, 8), 30.0)))
    mesh.add_run("as-file", set={"network.topology": {"kind": "file", "file": "edges.csv"}})
    mesh.add_run("key", set={"network.topology.file": "edges.csv"})
    digests = [run(one).digest for one in (ring, mesh)]
    paths = [ring.save(tmp_path / "ring.toml"), mesh.save(tmp_path / "mesh.toml")]
    assert [samara.run(path, progress=False).digest for path in paths] == digests


def test_files_of_a_folder_are_named_from_another_one(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "nodes.csv").write_text("node,uplink_mbps\n" + "".join(f"{node},9\n" for node in range(20)))
    network = {"nodes_file": "nodes.csv", "topology": {"degree": 6}}
    opened = samara.Scenario.open(small(network=network).save(tmp_path / "old" / "mine.toml"))
    moved = opened.save(tmp_path / "new" / "mine.toml")
    assert tomllib.loads(moved.read_text())["network"]["nodes_file"] == "../old/nodes.csv"
    assert samara.run(moved, progress=False).digest == run(opened).digest