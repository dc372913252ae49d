"""NetworkX, SciPy and NumPy recompute Samara's figures from its tables alone."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import cache

import networkx as nx
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

import samara

NODES, DEGREE, COLUMNS, CUSTODY = 200, 20, 128, 16


@cache
def result() -> samara.Result:
    return samara.run(
        "peerdas",
        only=["batch", "node-wide"],
        progress=False,
        **{"network.nodes": NODES, "network.topology.degree": DEGREE},
    )


def graph_of(scenario: str, **keys: object) -> nx.Graph:
    prepared = samara.Scenario.open(scenario).load(**keys)
    edges = prepared.edges.to_pandas()
    first = edges[(edges["run"] == edges["run"].iloc[0]) & (edges["seed"] == edges["seed"].iloc[0])]
    return nx.from_pandas_edgelist(first, "dialer", "listener")


def test_graphs_of_the_study_equal_those_of_networkx() -> None:
    """The data files equal NetworkX's graphs with seed 42, edge by edge."""
    files = [(95, m, 95) for m in (2, 6, 12, 16)] + [(10_000, 6, 95), (10_000, 6, 1_000)]
    for hosts, m, nodes in files:
        file = f"builtin:graphs/barabasi_albert_{hosts}_m{m}_seed42.csv"
        keys = {"network.nodes": nodes, "network.topology.kind": "file", "network.topology.file": file}
        ours = graph_of("peerdas", only="batch", **{**keys, "network.topology.topic_peers_min": 0})
        theirs = nx.barabasi_albert_graph(nodes, m, seed=42)
        assert nx.utils.graphs_equal(nx.Graph(sorted(map(sorted, ours.edges))), nx.Graph(sorted(map(sorted, theirs.edges))))


def test_barabasi_albert_graphs_have_the_degrees_of_networkx() -> None:
    keys = {"network.topology.kind": "barabasi-albert", "network.topology.seed": 1, "network.topology.attachments": 6}
    ours = graph_of("peerdas", only="batch", **{**keys, "network.nodes": 2000, "network.topology.topic_peers_min": 0})
    theirs = nx.barabasi_albert_graph(2000, 6, seed=1)
    assert ours.number_of_edges() == theirs.number_of_edges()
    degrees = [[degree for _, degree in graph.degree] for graph in (ours, theirs)]
    assert stats.ks_2samp(*degrees).pvalue > 1e-3


def test_random_regular_graphs_are_regular_and_random() -> None:
    keys = {"network.nodes": 500, "network.topology.degree": 10, "network.topology.topic_peers_min": 0}
    graph = graph_of("peerdas", only="batch", **keys)
    assert nx.is_regular(graph) and nx.is_connected(graph) and graph.degree[0] == 10
    # Friedman's theorem: all eigenvalues of a random regular graph except the first are near 2
    # sqrt(d - 1).
    spectrum = np.sort(np.abs(np.linalg.eigvalsh(nx.to_numpy_array(graph))))
    assert spectrum[-1] == pytest.approx(10) and spectrum[-2] < 2 * math.sqrt(9) * 1.05
    # Distances are like those of NetworkX's random regular graphs.
    theirs = [nx.average_shortest_path_length(nx.random_regular_graph(10, 500, seed=seed)) for seed in range(3)]
    assert nx.average_shortest_path_length(graph) == pytest.approx(np.mean(theirs), rel=0.01)


def test_random_dials_have_the_degrees_of_their_model() -> None:
    """A host has its own dials and those of others, which are binomial.

    A test of goodness of fit does not reject that distribution.
    """
    nodes, dials = 2000, 10
    keys = {"network.topology.kind": "random-dials", "network.topology.dials": dials, "network.nodes": nodes}
    prepared = samara.Scenario.open("peerdas").load(only="batch", **{**keys, "network.topology.topic_peers_min": 0})
    edges = prepared.edges.to_pandas()
    # A pair that dialled each other has one link, so a few links are missing.
    degree = edges["dialer"].value_counts().add(edges["listener"].value_counts(), fill_value=0)
    mutual = nodes * dials - len(edges)
    assert mutual == pytest.approx(dials * dials / 2, abs=4 * math.sqrt(dials * dials / 2))
    expected = stats.binom(nodes - 1, dials / (nodes - 1))
    counts = (degree.astype(int) - dials).clip(4, 17).value_counts().sort_index()
    weights = np.diff([0.0, *expected.cdf(range(4, 17)), 1.0]) * nodes
    assert stats.chisquare(counts.reindex(range(4, 18), fill_value=0), weights).pvalue > 1e-4


def test_custody_columns_are_uniform() -> None:
    custody = result().custody.to_pandas()
    custody = custody[(custody["run"] == "batch") & (custody["node"] != 0)]
    assert (custody.groupby("node")["column"].nunique() == CUSTODY).all()
    assert stats.chisquare(custody["column"].value_counts().reindex(range(COLUMNS), fill_value=0)).pvalue > 1e-4


@pytest.mark.parametrize("run", ["batch", "node-wide"])
def test_hops_equal_path_lengths_along_first_copies(run: str) -> None:
    """NetworkX walks the tree of each column from the publisher."""
    deliveries = result().table("deliveries", run=run).to_pandas()
    assert len(deliveries) == (NODES - 1) * CUSTODY
    for _, column in deliveries.groupby("segment"):
        tree = nx.DiGraph(column[["from", "node"]].astype(int).itertuples(index=False))
        assert nx.is_arborescence(tree), "every node except the publisher has one sender"
        depth = nx.shortest_path_length(tree, 0)
        assert column["hops"].tolist() == [depth[node] for node in column["node"]]


@pytest.mark.parametrize("run", ["batch", "node-wide"])
def test_hops_and_latencies_are_not_below_the_shortest_path(run: str) -> None:
    """Compares with SciPy's shortest paths over links between custodians of a column, and with the
    least latency of each link."""
    edges = result().edges.to_pandas()
    edges = edges[edges["run"] == run]
    custody = result().custody.to_pandas()
    custody = custody[custody["run"] == run]
    deliveries = result().table("deliveries", run=run).to_pandas()
    links = edges[["dialer", "listener"]].to_numpy()
    for column in range(0, COLUMNS, 8):
        keeps = np.zeros(NODES, dtype=bool)
        keeps[custody.loc[custody["column"] == column, "node"]] = True
        inside = links[keeps[links[:, 0]] & keeps[links[:, 1]]]
        matrix = csr_matrix((np.ones(len(inside)), (inside[:, 0], inside[:, 1])), shape=(NODES, NODES))
        fewest = shortest_path(matrix, directed=False, unweighted=True, indices=0)
        of = deliveries[deliveries["segment"] == column]
        assert (of["hops"].to_numpy() >= fewest[of["node"]]).all()
        assert (of["delivery_latency_ms"].to_numpy() >= 50.0 * of["hops"]).all()


@pytest.mark.parametrize("run", ["batch", "node-wide"])
def test_copies_match_deliveries_and_metrics(run: str) -> None:
    copies = result().table("copies", run=run).to_pandas()
    deliveries = result().table("deliveries", run=run).to_pandas().set_index(["node", "segment"])
    of_nodes = copies[copies["node"] != 0].groupby(["node", "segment"])
    first = copies[copies["first"] & (copies["node"] != 0)].set_index(["node", "segment"])
    assert (first["at_ms"].sort_index() == deliveries["delivery_latency_ms"].sort_index()).all()
    assert (of_nodes.size().sort_index() == deliveries["copies"].sort_index()).all()
    assert (of_nodes["at_ms"].max().sort_index() == deliveries["last_copy_ms"].sort_index()).all()
    metrics = result().run(run).metrics
    assert metrics["duplication_factor"] == pytest.approx(deliveries["copies"].mean())
    assert metrics["last_delivery_hop"] == deliveries["hops"].max()
    custody = deliveries.groupby("node")["delivery_latency_ms"].max()
    found = metrics["time_to_custody_ms"]
    assert found["mean"] == pytest.approx(custody.mean()) and found["max"] == pytest.approx(custody.max())


def test_traffic_adds_up() -> None:
    for run in ("batch", "node-wide"):
        traffic = result().table("traffic", run=run).to_pandas()
        lost, up, down = (int(part.sum().sum()) for part in (traffic.filter(like="dropped_"), traffic["packets_up"], traffic["packets_down"]))
        # The tolerance covers packets in transit at the beginning and the end.
        assert up - down == pytest.approx(lost, abs=0.001 * up)
        metrics = result().run(run).metrics
        others = traffic[traffic["node"] != 0]
        assert metrics["bytes_up_per_node"] == pytest.approx(others["bytes_up"].mean())
        assert metrics["publisher_bytes_up"] == traffic["bytes_up"].iloc[0]


#: Bytes of a copy of a column on the wire, as in docs/bounds.md: payload, topic, Yamux, Noise, and
#: packet headers.
WIRE_BYTES = 17_051


def postal_tree(count: int, send: float, latency: float) -> np.ndarray:
    """Returns the arrival times at the first nodes that descend from one copy of the publisher.

    That copy has left at 0. Each holder sends copies back to back, and each copy arrives one
    latency later (Bar-Noy and Kipnis 1992).
    """
    sent, arrivals = [(0.0, True)], []
    while len(arrivals) < count:
        at, by_publisher = heapq.heappop(sent)
        arrivals.append(at + latency)
        heapq.heappush(sent, (at + latency + send, False))
        if not by_publisher:
            heapq.heappush(sent, (at + send, False))
    return np.array(arrivals)


def last_position(kept: list[np.ndarray]) -> tuple[float, float]:
    """Returns the mean position of the last of a node's columns, with its standard deviation, over
    orders that are independent of custody."""
    rng = np.random.default_rng(5)
    table = np.array(kept)
    means = np.array([(rng.permutation(COLUMNS)[table] + 1).max(axis=1).mean() for _ in range(2000)])
    mean = CUSTODY * (COLUMNS + 1) / (CUSTODY + 1)
    assert means.mean() == pytest.approx(mean, abs=4 * means.std() / math.sqrt(len(means)))
    return mean, means.std()


def spread(keepers: np.ndarray, nodes: int, send: float, latency: float) -> float:
    """Returns the mean waiting time for a node's last column after the first copy of that column
    has left: section 2 of docs/bounds.md."""
    tree = postal_tree(int(keepers.max()), send, latency)
    places = np.arange(1, COLUMNS + 1)
    done = stats.hypergeom(COLUMNS, CUSTODY, places).pmf(CUSTODY)
    last = np.diff(done, prepend=0.0) * nodes / keepers.mean()
    counts, shares = np.unique(keepers, return_counts=True)

    def held(time: float, copies: np.ndarray) -> float:
        """Returns the total time for which nodes have had the column."""
        return float(np.maximum(time - (copies[:, None] + tree[None, :]), 0.0).sum())

    def reached(time: float, copies: np.ndarray) -> int:
        return int((copies[:, None] + tree[None, :] <= time).sum())

    def largest(holds: Callable[[float], bool]) -> float:
        upper = 2.0 * tree[-1]
        return upper if holds(upper) else float(optimize.bisect(lambda time: 0.5 - (not holds(time)), 0.0, upper))

    waits = 0.0
    for at in range(COLUMNS):
        if last[at] == 0.0:
            continue
        # Further copies before all first copies have left: their times, and their cost to nodes
        # that finish later.
        slots = np.arange(at, COLUMNS - 1)
        when, cost = (slots - at + 1) * send, send * nodes * (1.0 - done[slots])

        def affordable(time: float, at: int = at, when: np.ndarray = when, cost: np.ndarray = cost) -> bool:
            worth = last[at] * np.maximum(time - when[:, None] - tree[None, :], 0.0).sum(axis=1)
            return bool(((when >= time) | (worth <= cost)).all())

        horizon = largest(affordable)
        for count, share in zip(counts, shares / COLUMNS):
            free = np.array([0.0, *np.arange(COLUMNS - at, COLUMNS - at + 40) * send])
            until = min(horizon, largest(lambda time, free=free, count=count: reached(time, free) < count))
            waits += share * last[at] * (count * until - held(until, free))
    return waits / nodes


@pytest.mark.parametrize("uplink", [10e6, 20e6, 100e6])
def test_bound_matches_its_definition(uplink: float) -> None:
    """SciPy's distributions, roots and random orders give the bound from the custody alone.

    The tolerance is the spread over random orders.
    """
    run = samara.run(
        "peerdas",
        only="node-wide",
        progress=False,
        tables=["deliveries"],
        **{"network.nodes": NODES, "network.topology.degree": DEGREE, "network.bandwidth": f"{uplink:.0f} bit/s"},
    )
    custody = run.custody.to_pandas()
    custody = custody[custody["node"] != 0]
    kept = [frame["column"].to_numpy() for _, frame in custody.groupby("node")]
    keepers = np.bincount(custody["column"], minlength=COLUMNS)
    send = 8e3 * WIRE_BYTES / uplink
    mean, deviation = last_position(kept)
    bound = (mean - 4 * deviation) * send + spread(keepers, NODES - 1, send, 50.0)
    metrics = run.run("node-wide").metrics
    # Samara estimates the deviation from 64 orders, to within a tenth.
    assert metrics["lower_bound_ms"] == pytest.approx(bound, abs=4 * 0.3 * deviation * send)
    assert bound < metrics["time_to_custody_ms"]["mean"]
    assert metrics["share_of_bound"] == pytest.approx(metrics["lower_bound_ms"] / metrics["time_to_custody_ms"]["mean"])
