"""Reads GML (Himsolt 1997) as written by NetworkX, igraph, yEd and Shadow."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samara._edges import Edge, least, one_way, time_of
from samara._labelled import listed
from samara._network import EDGES, LATENCY, NODES, Network, _csv, merged, numbered
from samara._text import quoted

#: Edge attributes for latencies, in order of preference. Their names may end in a unit.
LATENCIES = ("latency", "delay", "rtt")
#: Edge attributes for the share of lost packets, in order of preference.
LOSSES = ("packet_loss", "loss")
#: Names of host rates in other tools.
_RATES = {
    "host_bandwidth_up": "uplink",
    "bandwidth_up": "uplink",
    "host_bandwidth_down": "downlink",
    "bandwidth_down": "downlink",
}
#: Columns of a table of nodes, with their units.
_COLUMNS = re.compile(r"(uplink|downlink)(_[kmg]?bps)?|region|class|validation_time(_[num]?s)?")
#: Shadow's units of rates, in bit/s.
_UNITS = {
    **{"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
    **{"kilo": 10**3, "mega": 10**6, "giga": 10**9, "tera": 10**12},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40},
    **{"kibi": 2**10, "mebi": 2**20, "gibi": 2**30, "tebi": 2**40},
}
#: Attributes that say nothing about the network.
_PLAIN = frozenset(("id", "label", "source", "target", "key", "comment", "creator", "version", "directed", "multigraph"))

Attributes = Mapping[str, str]


@dataclass
class _Graph:
    of_graph: dict[str, str] = field(default_factory=dict)
    nodes: list[dict[str, str]] = field(default_factory=list)
    edges: list[dict[str, str]] = field(default_factory=list)
    #: Attributes that an owner has several times, with the numbers of owners.
    repeated: Counter[str] = field(default_factory=Counter)


def read(text: str, nodes: int | None = None) -> Network:
    """Returns the network of a graph.

    The nodes of the graph are nodes of the network. With `nodes`, they are places instead, with
    this number of nodes at them in turn.
    """
    graph = _parse(text)
    if not graph.nodes:
        raise ValueError("has no nodes; expected graph [ node [ id 0 ] ... ]")
    for node in graph.nodes:
        if "id" not in node:
            raise ValueError("a node has no id")
    labels = [node.get("label", "") for node in graph.nodes]
    is_named = "" not in labels and len(set(labels)) == len(labels)
    names = {node["id"]: label if is_named else node["id"] for node, label in zip(graph.nodes, labels)}
    if len(names) < len(graph.nodes):
        raise ValueError("two nodes have the same id")
    for end in (edge.get(end, "") for edge in graph.edges for end in ("source", "target")):
        if end not in names:
            raise ValueError(f"an edge leads to the node {quoted(repr(end))}, which is missing")
    notes: list[str] = []
    if graph.repeated:
        counts = listed([f"{key} ({count})" for key, count in sorted(graph.repeated.items())])
        notes.append(f"attributes are repeated, and the first value of each counts: {counts}")
    if any(labels) and not is_named:
        notes.append("labels are missing or the same for several nodes; the names of nodes are their ids")
    ends = [(names[edge["source"]], names[edge["target"]]) for edge in graph.edges]
    is_directed = graph.of_graph.get("directed", "0") == "1"
    links, remarks = merged([pair for pair in ends if pair[0] != pair[1]], is_directed)
    table: dict[str, Any] = {"nodes_file": NODES}
    columns, used = _columns([(names[node["id"]], node) for node in graph.nodes])
    files = {}
    if nodes is None:
        notes += remarks
        files[NODES] = _csv(["node", *columns], ([name, *row.values()] for name, row in used.items()))
        if links:
            files[EDGES] = _csv(["dialer", "listener"], links)
            table["topology"] = {"kind": "file", "file": EDGES}
        of = "nodes"
    else:
        if "region" in columns:
            raise ValueError("nodes have a region, so that they cannot be regions themselves; omit nodes")
        places = list(used)[:nodes]
        rows = ([at, *used[places[at % len(places)]].values(), places[at % len(places)]] for at in range(nodes))
        files[NODES] = _csv(["node", *columns, "region"], rows)
        few = f"the first {len(places)} of {len(used)}" if len(places) < len(used) else f"{len(used)}"
        notes.append(f"{nodes} nodes are at {few} places in turn: node 0 at {places[0]}, node 1 at {places[1 % len(places)]}, ...")
        of = "regions"
    known = {attribute for edge in graph.edges for attribute in edge}
    latency = next((key for name in LATENCIES for key in sorted(known) if re.fullmatch(name + r"(_[num]?s)?", key)), None)
    loss = next((key for key in LOSSES if any(not _is_zero(edge.get(key, "0")) for edge in graph.edges)), None)
    reverse = re.sub(r"^[a-z]+", r"\g<0>_reverse", latency or "")
    if latency:
        rows_of, missing = _latencies(graph.edges, ends, (latency, reverse, loss), is_directed)
        notes += missing
        files[LATENCY] = _csv(["source", "destination", latency, *([loss] if loss else [])], rows_of)
        table["latency_file"] = {"of": of, **({"loss": loss} if loss else {})}
        if any(key in node for node in graph.nodes for key in _RATES) or any("packet_loss" in edge for edge in graph.edges):
            # Shadow sends packets along the shortest paths of its graphs.
            table["latency_file"]["paths"] = "directed" if is_directed else "undirected"
    used_of_edges: set[str | None] = {latency, reverse, loss} if latency else set()
    notes += _unused("the graph", [graph.of_graph], set())
    notes += _unused("nodes", graph.nodes, {*_RATES, *columns})
    notes += _unused("edges", graph.edges, used_of_edges)
    return Network(table, files, numbered(list(names.values())) if nodes is None else list(range(nodes)), notes)


def _parse(text: str) -> _Graph:
    """Returns the attributes of the graph, its nodes and its edges. Lists are named by their keys,
    without contents."""
    graph = _Graph()
    found = {"node": graph.nodes, "edge": graph.edges}
    path: list[str] = []
    matches = re.finditer(r'#[^\n]*|"[^"]*"|[\[\]"]|[^\s\[\]"]+', text)
    tokens = (match for match in matches if not match[0].startswith("#"))
    graphs = 0
    for token in tokens:
        # Programs write some keys in capitals.
        key = token[0].lower()
        if key == "]" and path:
            path.pop()
            continue
        following = next(tokens, None)
        value = following[0] if following else "]"
        if key[0] in '[]"' or value in ("]", '"'):
            line = text.count("\n", 0, token.start()) + 1
            raise ValueError(f"line {line}: found {quoted(key)} and {quoted(value)}, expected a key and its value")
        if path == ["graph"] and value == "[" and key in found:
            found[key].append({})
        elif path == ["graph"]:
            graph.of_graph.setdefault(key, value)
        elif len(path) == 2 and path[0] == "graph" and path[1] in found:
            owner = found[path[1]][-1]
            if key in owner and value != "[":
                graph.repeated[key] += 1
            owner.setdefault(key, html.unescape(value.strip('"')).strip())
        elif not path and key == "graph" and value == "[":
            graphs += 1
            if graphs > 1:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"line {line}: found a second graph; expected one")
        if value == "[":
            path.append(key)
    if path:
        raise ValueError(f"the file ends inside of {quoted(path[-1])} [ ... ]")
    return graph


def _columns(nodes: Sequence[tuple[str, Attributes]]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Returns the columns of a table of nodes, and the values of each node."""
    rows: dict[str, dict[str, str]] = {}
    for name, node in nodes:
        row = rows.setdefault(name, {})
        for key, value in node.items():
            column = _RATES.get(key, key)
            if not _COLUMNS.fullmatch(column):
                continue
            if column in row:
                raise ValueError(f"the node {quoted(name)} has two attributes for its {column}; keep one of them")
            row[column] = _rate(key, value)
    columns = sorted({column for row in rows.values() for column in row})
    for name, row in rows.items():
        missing = [column for column in columns if column not in row and column != "class"]
        if missing:
            raise ValueError(f"the node {quoted(name)} has no {missing[0]}, but others have one; set it for all nodes or for none")
    # A node without the attribute `class` has no class.
    return columns, {name: {column: row.get(column, "") for column in columns} for name, row in rows.items()}


def _rate(key: str, value: str) -> str:
    """Converts a rate of Shadow ("10 Mbit", "1 Gibit") to bit/s. Other values are unchanged."""
    rate = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?) ?([A-Za-z]*)bits?", value) if key in _RATES else None
    if not rate or rate[2] not in _UNITS:
        return value
    return f"{float(rate[1]) * _UNITS[rate[2]]:.0f} bit/s"


def _latencies(
    edges: Sequence[Attributes], ends: Sequence[tuple[str, str]], keys: tuple[str, str, str | None], is_directed: bool
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Returns the latency, and the loss if there is one, of each pair of nodes; and notes."""
    latency, reverse, loss = keys
    stated: list[Edge] = []
    for (a, b), edge in zip(ends, edges):
        forward = edge.get(latency)
        back = edge.get(reverse, None if is_directed or a == b else forward)
        lost = edge.get(loss) if loss else None
        stated += [Edge(pair, value, lost) for pair, value in (((a, b), forward), ((b, a), back)) if value is not None]
    cells, notes = least(stated, latency, loss)
    return [(*pair, *values) for pair, values in cells.items()] if is_directed else one_way(cells), notes


def _is_zero(value: str) -> bool:
    return time_of(value.rstrip("%"))[0] == 0


def _unused(owner: str, items: Sequence[Attributes], used: set[str | None]) -> list[str]:
    """Notes the attributes without effect. A jitter or a loss of 0 has none anyway."""
    silent = {*_PLAIN, *used}
    counts = Counter(
        key for item in items for key, value in item.items() if key not in silent and not (key in ("jitter", *LOSSES) and _is_zero(value))
    )
    names = listed([f"{key} ({count})" for key, count in sorted(counts.items())])
    return [f"attributes of {owner} have no effect: {names}"] if counts else []
