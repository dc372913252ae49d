"""Converts files of other tools into CSV files for scenarios.

The formats are GML, JSON, SimBlock, and p2psim with the King data set.

    >>> from samara import data
    >>> network = data.read("network.gml", others="100 ms")
    >>> samara.Scenario("mine", network=network, messages={"rate": 10})

`python -m samara.data network.gml -o converted` writes the files and prints the section `[network]`
that names them. See docs/guides/networks.md for a guide.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara._network import EDGES, NODES, LATENCY, Network, _csv
from samara._values import toml

#: Keys of `network.latency_file`.
_LATENCY_KEYS = ("kind", "unit", "of", "within", "others")
#: Edge attributes for latencies, in order of preference. Their names may end in a unit.
_LATENCIES = ("latency", "delay", "rtt")
#: Names of host rates in other tools.
_RATES = {
    "host_bandwidth_up": "uplink",
    "bandwidth_up": "uplink",
    "host_bandwidth_down": "downlink",
    "bandwidth_down": "downlink",
}
#: Columns of a table of nodes, without units.
_COLUMNS = ("uplink", "downlink", "region", "validation_time")
#: Shadow's units of rates, in bit/s.
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}

Attributes = Mapping[str, str]


def read(path: str | PathLike[str], *, format: str | None = None, **keys: Any) -> Network:  # noqa: A002
    """Reads a file. Returns the network of a scenario with the CSV files that it names.

    `format` is `gml`, `json`, `simblock` or `p2psim`; by default the content determines it. `kind`
    ("one-way" by default), `unit`, `of`, `within` and `others` are keys of `network.latency_file`.
    All other keys belong to `[network]`. With `topology`, the edges of a graph are not links: only
    their latencies are used.
    """
    name, text = fspath(path), Path(path).read_text(encoding="utf-8-sig")
    read_format = _FORMATS.get(format or _format_of(text))
    if read_format is None:
        raise ValueError(f"{name}: format is {format or 'unknown'}; expected one of {', '.join(_FORMATS)}")
    try:
        network = read_format(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    latency_keys = {key: keys.pop(key) for key in _LATENCY_KEYS if keys.get(key) is not None}
    files = dict(network.files)
    if "topology" in keys:
        files.pop(EDGES, None)
    table = {**network.keys, **keys}
    if LATENCY in files:
        table["latency_file"] = {"file": LATENCY, "kind": "one-way", **network.keys.get("latency_file", {}), **latency_keys}
    elif latency_keys:
        raise ValueError(f"{name}: has no latencies, so {', '.join(latency_keys)} cannot apply")
    return Network(table, files, network.labels)


def _format_of(text: str) -> str:
    words = text.split(maxsplit=16)[:16]
    pairs = list(zip(words, words[1:]))
    if ("graph", "[") in pairs:
        return "gml"
    if ("topology", "E2EGraph") in pairs or re.search(r"^node\s+\S+$", text[:10_000], re.MULTILINE):
        return "p2psim"
    return "simblock" if "REGION_LIST" in text else "json" if text.lstrip()[:1] in ("{", "[") else ""


def _gml(text: str) -> Network:
    """Reads GML (Himsolt 1997) as written by NetworkX, igraph and Shadow."""
    nodes, edges = _items(text)
    for node in nodes:
        if "id" not in node:
            raise ValueError("a node has no id")
    labels = [node.get("label", "") for node in nodes]
    named = "" not in labels and len(set(labels)) == len(labels)
    names = {node["id"]: label if named else node["id"] for node, label in zip(nodes, labels)}
    if len(names) < len(nodes):
        raise ValueError("two nodes have the same id")
    for end in (edge.get(end, "") for edge in edges for end in ("source", "target")):
        if end not in names:
            raise ValueError(f"an edge leads to the node {end!r}, which is missing")
    ends = [(names[edge["source"]], names[edge["target"]]) for edge in edges]
    if len(set(ends)) < len(ends):
        twice = next(pair for at, pair in enumerate(ends) if pair in ends[:at])
        raise ValueError(f"duplicate edge from {twice[0]} to {twice[1]}; between two nodes there is one link")
    files = {NODES: _nodes([(names[node["id"]], node) for node in nodes])}
    table: dict[str, Any] = {"nodes_file": NODES}
    # Edges in both directions are one link; an edge from a node to itself is not a link.
    links = {frozenset(pair): pair for pair in reversed(ends) if pair[0] != pair[1]}
    if links:
        files[EDGES] = _csv(["dialer", "listener"], reversed(links.values()))
        table["topology"] = {"kind": "file", "file": EDGES}
    attributes = {key for edge in edges for key in edge}
    latency = next((key for name in _LATENCIES for key in sorted(attributes) if re.fullmatch(name + r"(_[num]?s)?", key)), None)
    if latency:
        reverse = re.sub(r"^[a-z]+", r"\g<0>_reverse", latency)
        rows = [(a, b, edge[latency]) for (a, b), edge in zip(ends, edges) if latency in edge]
        rows += [(b, a, edge[reverse]) for (a, b), edge in zip(ends, edges) if reverse in edge]
        files[LATENCY] = _csv(["source", "destination", latency], rows)
        table["latency_file"] = {"of": "nodes"}
    return Network(table, files, list(names.values()))


def _items(text: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Returns the attributes of nodes and edges, without lists."""
    found: dict[str, list[dict[str, str]]] = {"node": [], "edge": []}
    path: list[str] = []
    matches = re.finditer(r'#[^\n]*|"[^"]*"|[\[\]]|[^\s\[\]"]+', text)
    tokens = (match for match in matches if not match[0].startswith("#"))
    for token in tokens:
        key = token[0]
        if key == "]" and path:
            path.pop()
            continue
        following = next(tokens, None)
        value = following[0] if following else "]"
        if key[0] in '[]"' or value == "]":
            line = text.count("\n", 0, token.start()) + 1
            raise ValueError(f"line {line}: found {key} and {value}, expected a key and its value")
        if value == "[":
            if path == ["graph"] and key in found:
                found[key].append({})
            path.append(key)
        elif len(path) == 2 and path[0] == "graph" and path[1] in found:
            found[path[1]][-1].setdefault(key.lower(), html.unescape(value.strip('"')).strip())
    if path:
        raise ValueError(f"the file ends inside of {path[-1]} [ ... ]")
    return found["node"], found["edge"]


def _nodes(nodes: Sequence[tuple[str, Attributes]]) -> bytes:
    """Returns a table of nodes. Rates, regions and validation times are columns."""
    rows = [(name, {_RATES.get(key, key): _rate(key, value) for key, value in node.items()}) for name, node in nodes]
    known = re.compile(rf"({'|'.join(_COLUMNS)})(_[a-z]+)?")
    columns = sorted({key for _, node in rows for key in node if known.fullmatch(key)})
    for name, node in rows:
        missing = [column for column in columns if column not in node]
        if missing:
            raise ValueError(f"the node {name} has no {missing[0]}, but others have one; set it for all nodes or for none")
    return _csv(["node", *columns], ([name, *(node[column] for column in columns)] for name, node in rows))


def _rate(key: str, value: str) -> str:
    """Converts a rate of Shadow ("10 Mbit", "1 Gibit") to bit/s. Other values are unchanged."""
    rate = re.fullmatch(r"([0-9.]+) ?([KMG]i?|k|)bit", value) if key in _RATES else None
    return f"{float(rate[1]) * _UNITS[rate[2]]:.0f} bit/s" if rate else value


def _json(text: str) -> Network:
    """Reads an object of objects by name, optionally under `data`, or an array of arrays."""
    table = json.loads(text)
    if isinstance(table, dict) and isinstance(table.get("data"), dict):
        table = table["data"]
    if isinstance(table, dict) and all(isinstance(row, dict) for row in table.values()):
        names = list(table)
        unknown = [to for row in table.values() for to in row if to not in table]
        if unknown:
            raise ValueError(f"{unknown[0]} has a column but no row")
        return _matrix(names, ([row.get(to) for to in names] for row in table.values()))
    if isinstance(table, list) and all(isinstance(row, list) and len(row) == len(table) for row in table):
        return _matrix(list(map(str, range(len(table)))), table)
    raise ValueError("expected an object of objects such as {'us': {'us': 1, 'eu': 80}, 'eu': ...}, or a square array of arrays")


def _simblock(text: str) -> Network:
    """Reads regions and the first latency matrix of SimBlock's `NetworkConfiguration.java`, in
    ms."""
    regions = re.search(r"REGION_LIST[^;]*;", text)
    names = re.findall(r'"([^"]*)"', regions[0]) if regions else []
    matrix = re.search(r"LATENCY\w*\s*=\s*(\{[^;]*\})\s*;", text)
    if not names or not matrix:
        raise ValueError("expected a REGION_LIST with names in quotes and an array such as LATENCY_2019 = {{...}, ...}")
    rows = [[cell.strip() for cell in row.split(",") if cell.strip()] for row in re.findall(r"\{([^{}]*)\}", matrix[1])]
    if len(rows) != len(names) or any(len(row) != len(names) for row in rows):
        raise ValueError(f"the matrix of latencies has {len(rows)} rows; expected a row and a column for each of {len(names)} regions")
    return _matrix(names, rows, unit="ms", of="regions")


def _p2psim(text: str) -> Network:
    """Reads a topology of p2psim (`E2EGraph`), such as the King data set, in microseconds."""
    nodes = re.findall(r"^\s*node\s+(\S+)", text, re.MULTILINE)
    pairs = re.findall(r"^\s*([^\s,]+),([^\s,]+)\s+(\S+)", text, re.MULTILINE)
    if not pairs:
        raise ValueError("has no latencies; expected lines such as 1,2 72000")
    names = list(dict.fromkeys([*nodes, *(end for pair in pairs for end in pair[:2])]))
    latency_file = {"unit": "us", "of": "nodes"}
    return Network({"latency_file": latency_file}, {LATENCY: _csv(["source", "destination", "latency"], pairs)}, list(names))


def _matrix(names: Sequence[str], rows: Iterable[Sequence[Any]], **latency_file: str) -> Network:
    text = _csv(["", *names], ([name, *row] for name, row in zip(names, rows)))
    return Network({"latency_file": latency_file}, {LATENCY: text}, list(names))


_FORMATS: dict[str, Callable[[str], Network]] = {"gml": _gml, "json": _json, "simblock": _simblock, "p2psim": _p2psim}


def main(arguments: Sequence[str] | None = None) -> None:
    """Converts a file from the command line."""
    parser = argparse.ArgumentParser(prog="python -m samara.data", description="Converts a file into CSV files for scenarios.")
    parser.add_argument("file", help="a GML or JSON file, or a file of SimBlock or p2psim")
    parser.add_argument("-o", "--output", default=".", help="the directory for the CSV files")
    parser.add_argument("--format", choices=_FORMATS, help="the format; by default the content determines it")
    for key in _LATENCY_KEYS:
        parser.add_argument(f"--{key}", help=f"the key {key} of network.latency_file")
    options = vars(parser.parse_args(arguments))
    output = Path(options.pop("output"))
    try:
        network = read(options.pop("file"), **options)
        output.mkdir(parents=True, exist_ok=True)
        for name, content in network.files.items():
            with open(output / name, "xb") as file:
                file.write(content)
    except (OSError, ValueError) as error:
        sys.exit(f"samara.data: {error}")
    print(toml({"network": network.keys}), end="")


if __name__ == "__main__":
    main()
