"""Networks and workloads from graphs, arrays and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samara._rows import rows_of

#: Names of the files of a network.
NODES, EDGES, LATENCY, MESSAGES = "nodes.csv", "edges.csv", "latency.csv", "messages.csv"


@dataclass(frozen=True)
class Part:
    """A part of a scenario: its keys, and the files that they name."""

    keys: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Network(Part):
    """The network of a scenario. Nodes have the numbers of their labels in `labels`."""

    labels: list[Hashable] = field(default_factory=list)


def network(
    graph: Any = None,
    *,
    nodes: int | None = None,
    latency: Any = None,
    uplink: Any = None,
    downlink: Any = None,
    bandwidth: Any = None,
    region: Sequence[str] | None = None,
    regions: Sequence[str] | None = None,
    validation_time: Any = None,
    **keys: Any,
) -> Network:
    """Returns a network for a scenario.

    `graph` is a graph of NetworkX, another object with `nodes` and `edges`, or a list of pairs. Its
    nodes get the numbers 0, 1, 2, ... in the order of the graph. The first node of an edge dials. The
    node attributes `uplink`, `downlink`, `region` and `validation_time` apply unless the argument
    of the same name is present.

    `latency` is a time such as "50 ms", or a square array of one-way latencies in milliseconds,
    with a row for each node. If nodes have a `region`, it has a row for each region, in the order
    of `regions` or, by default, of their first occurrence among the nodes.

    `uplink`, `downlink` and `bandwidth` (both directions) are rates such as "20 Mbit/s", numbers in
    bit/s, or sequences with one of these for each node. `validation_time` is a time such as "5 ms",
    a number in milliseconds, or a sequence of these.

    Data frames of pandas and polars and tables of Arrow are accepted wherever sequences and arrays
    are: a frame with two columns as `graph`, a square one as `latency`, one with a single column as
    `uplink`. Their column names and index are ignored.

    `keys` are further keys of `[network]`: `jitter`, `loss`, `topology`, `interface`, ...
    """
    graph, latency, uplink, downlink = map(_array, (graph, latency, uplink, downlink))
    bandwidth, region, validation_time = map(_array, (bandwidth, region, validation_time))
    labels, edges, attributes = _graph(graph)
    table: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    files: dict[str, bytes] = {}
    if bandwidth is not None:
        if uplink is not None or downlink is not None:
            raise ValueError("network(): bandwidth sets uplink and downlink; pass either bandwidth or those two")
        uplink = downlink = bandwidth
    columns = _Columns(_size(graph, labels, nodes, [uplink, downlink, region, validation_time], latency, region))
    columns.add("uplink", "uplink_bps", "bit/s", uplink, attributes, table)
    columns.add("downlink", "downlink_bps", "bit/s", downlink, attributes, table)
    columns.add("validation_time", "validation_time_ms", "ms", validation_time, attributes, table)
    columns.add("region", "region", None, region, attributes, table)
    if edges is not None:
        topology = dict(table.get("topology", {}))
        if "file" in topology or "kind" in topology:
            raise ValueError("network(): a graph excludes topology.kind and topology.file; keep only one of them")
        table["topology"] = {**topology, "kind": "file", "file": EDGES}
        files[EDGES] = _csv(["dialer", "listener"], edges)
    _latency(latency, columns, regions, table, files)
    if columns.given:
        files[NODES] = columns.csv()
        table["nodes_file"] = NODES
    elif columns.count is not None:
        table["nodes"] = columns.count
    return Network(table, files, labels)


def messages(table: Any, **keys: Any) -> Part:
    """Returns a workload from a table with a row for each message.

    The column `at_ms` (or `at`, with times such as "1.5 s") counts from the end of the warm-up. The
    columns `publisher` and `size_bytes` (or `size`) are optional; without them, publishers are
    drawn at random and sizes come from the scenario.

    `table` is a data frame of pandas or polars, a table of pyarrow, any object with Arrow's stream
    interface, a mapping of columns, or a list of dictionaries. `keys` are further keys of
    `[messages]`.
    """
    rows = rows_of(table)
    if not rows:
        raise ValueError("messages(): the table has no rows")
    columns = list(rows[0])
    text = _csv(columns, ([row[column] for column in columns] for row in rows))
    return Part({"file": MESSAGES, **{k: v for k, v in keys.items() if v is not None}}, {MESSAGES: text})


def _graph(graph: Any) -> tuple[list[Hashable], list[tuple[int, int]] | None, dict[str, dict[int, Any]]]:
    """Returns the nodes of a graph, edges as node numbers, and node attributes by name and
    number."""
    if graph is None:
        return [], None, {}
    attributes: dict[str, dict[int, Any]] = {}
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        labels = list(graph.nodes)
        pairs: Iterable[Any] = graph.edges
        number = {label: at for at, label in enumerate(labels)}
        data = graph.nodes(data=True) if callable(graph.nodes) else ()
        for label, of_node in data:
            for key in ("uplink", "downlink", "region", "validation_time"):
                if key in of_node:
                    attributes.setdefault(key, {})[number[label]] = of_node[key]
    else:
        pairs = [tuple(pair) for pair in graph]
        ends = dict.fromkeys(end for pair in pairs for end in pair[:2])
        if all(isinstance(end, int) or hasattr(end, "__index__") for end in ends):
            labels = list(range(max((int(end) for end in ends), default=-1) + 1))
        else:
            labels = list(ends)
        number = {label: at for at, label in enumerate(labels)}
    seen: set[tuple[int, int]] = set()
    edges: list[tuple[int, int]] = []
    for pair in pairs:
        a, b = number[pair[0]], number[pair[1]]
        # Directed graphs and graphs with parallel edges give one link for each pair.
        if a != b and (min(a, b), max(a, b)) not in seen:
            seen.add((min(a, b), max(a, b)))
            edges.append((a, b))
    return labels, edges, attributes


def _size(
    graph: Any, labels: list[Hashable], nodes: int | None, sequences: list[Any], latency: Any, region: Any
) -> int | None:
    """Returns the number of nodes, if any argument determines it."""
    known: dict[str, int] = {}
    if graph is not None:
        known["the graph"] = len(labels)
    if nodes is not None:
        known["nodes"] = int(nodes)
    for name, value in zip(("uplink", "downlink", "region", "validation_time"), sequences):
        if _is_sequence(value):
            known[name] = len(value)
    if _is_sequence(latency) and region is None:
        known["latency"] = len(latency)
    if len(set(known.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in known.items())
        raise ValueError(f"network(): the numbers of nodes differ: {counts}")
    return next(iter(known.values()), None)


class _Columns:
    """The properties of nodes, as columns of a table."""

    def __init__(self, count: int | None) -> None:
        self.count = count
        self.given: dict[str, list[Any]] = {}

    def add(
        self, key: str, column: str, unit: str | None, value: Any, attributes: Mapping[str, Mapping[int, Any]], table: dict[str, Any]
    ) -> None:
        """Adds a single value as a key of the scenario, or a value for each node as a column."""
        of_nodes = attributes.get(key)
        if value is None and of_nodes is not None:
            missing = [at for at in range(self.count or 0) if at not in of_nodes]
            if missing:
                raise ValueError(f"network(): {len(missing)} nodes of the graph have no {key}, but others have one")
            value = [of_nodes[at] for at in range(self.count or 0)]
        if value is None:
            return
        if _is_sequence(value):
            if unit is None:
                self.given[column] = list(value)
            elif any(isinstance(item, str) for item in value):
                # Cells with units must be in a column without a unit.
                self.given[key] = [item if isinstance(item, str) else f"{_number(item)} {unit}" for item in value]
            else:
                self.given[column] = [_number(item) for item in value]
        else:
            table[key] = value if isinstance(value, str) or unit is None else f"{_number(value)} {unit}"

    def csv(self) -> bytes:
        return _csv(["node", *self.given], zip(range(self.count or 0), *self.given.values()))


def _latency(
    latency: Any, columns: _Columns, regions: Sequence[str] | None, table: dict[str, Any], files: dict[str, bytes]
) -> None:
    if latency is None:
        return
    if not _is_sequence(latency):
        table["latency"] = latency if isinstance(latency, str) else f"{_number(latency)} ms"
        return
    rows = [list(row) for row in latency]
    in_regions = columns.given.get("region")
    names = list(range(len(rows))) if in_regions is None else list(regions or dict.fromkeys(in_regions))
    if any(len(row) != len(rows) for row in rows) or len(names) != len(rows):
        what = f"{len(names)} {'nodes' if in_regions is None else 'regions'}"
        shape = f"{len(rows)} rows of {sorted({len(row) for row in rows})} values"
        raise ValueError(f"network(): latency is a square array with a row for each of {what}; found {shape}")
    header = ["", *names]
    files[LATENCY] = _csv(header, ([name, *map(_number, row)] for name, row in zip(names, rows)))
    of = "nodes" if in_regions is None else "regions"
    table["latency_file"] = {"file": LATENCY, "kind": "one-way", "unit": "ms", "of": of, "format": "matrix"}


def _array(value: Any) -> Any:
    """Returns the rows of a data frame or table as lists, those of a single column as a list of its
    values, and every other value unchanged."""
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):  # pandas, polars
        rows = value.to_numpy().tolist()
    elif hasattr(value, "to_pylist"):  # pyarrow, samara.Table
        rows = [list(row.values()) if isinstance(row, Mapping) else [row] for row in value.to_pylist()]
    else:
        return value
    return [row[0] for row in rows] if all(len(row) == 1 for row in rows) else rows


def _is_sequence(value: Any) -> bool:
    return value is not None and not isinstance(value, (str, bytes)) and hasattr(value, "__len__")


def _number(value: Any) -> str:
    """Formats a number for a table: `12.5`, `20000000`."""
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"network(): {value!r} is a {type(value).__name__}, not a number")
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"network(): {value} is not a quantity")
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _csv(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()
