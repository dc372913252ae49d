"""Networks and workloads from graphs, arrays and data frames."""

from __future__ import annotations

import csv
import io
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from samara._edges import Edge, least, one_way
from samara._labelled import Labelled, Single, listed, no_set, plain_of
from samara._rows import rows_of
from samara._text import control, quoted

#: The largest number of nodes of a network.
NODES_MAX = 2**20
#: Names of the files of a network.
NODES, EDGES, LATENCY, MESSAGES = "nodes.csv", "edges.csv", "latency.csv", "messages.csv"


@dataclass(frozen=True)
class Part:
    """A part of a scenario: its keys, and the files that they name."""

    keys: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Network(Part):
    """The network of a scenario. Nodes have the numbers of their labels in `labels`. `notes` name what
    the network does not use of its sources."""

    labels: list[Hashable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def network(
    graph: Any = None,
    *,
    nodes: int | None = None,
    latency: Any = None,
    uplink: Any = None,
    downlink: Any = None,
    bandwidth: Any = None,
    region: Any = None,
    regions: Sequence[str] | None = None,
    class_: Any = None,
    classes: Mapping[str, Mapping[str, Any]] | None = None,
    validation_time: Any = None,
    kind: str | None = None,
    within: str | None = None,
    others: str | None = None,
    paths: str | None = None,
    **keys: Any,
) -> Network:
    """Returns a network for a scenario.

    `graph` is a graph of NetworkX, another object with `nodes` and `edges`, or a list of pairs. Its
    nodes get the numbers 0, 1, 2, ... in the order of the graph. The first node of an edge dials. The
    node attributes `uplink`, `downlink`, `region`, `class` and `validation_time` (or with a unit, such
    as `uplink_mbps`) apply unless the argument of the same name is present. The edge attributes
    `latency` and `packet_loss` apply unless `latency` is present.

    `latency` is a time such as "50 ms", or a square array of one-way latencies in milliseconds,
    with a row for each node. If nodes have a `region`, it has a row for each region, in the order
    of `regions` or, by default, of their first occurrence among the nodes. `region` is a sequence,
    or the name of a node attribute.

    `uplink`, `downlink` and `bandwidth` (both directions) are rates such as "20 Mbit/s", numbers in
    bit/s, or sequences with one of these for each node. `validation_time` is a time such as "5 ms",
    a number in milliseconds, or a sequence of these. Mappings have the nodes as keys.

    `class_` is the class of each node, by which results are divided (`result.by_class`): a sequence, a
    mapping, or the name of a node attribute. `None` is a node without a class. `classes` has the keys
    of classes by their names, such as `{"hub": {"uplink": "1 Gbit/s"}}`: the values of nodes of the
    class in place of those of the network. Without `class_`, each has a `share` of the nodes.

    Data frames of pandas and polars and tables of Arrow are accepted wherever sequences and arrays
    are: a frame with two columns as `graph`, a square one as `latency`, one with a single column as
    `uplink`. Their labels are names of nodes or regions: rows and columns apply by name, in any
    order. So do a mapping and a series of rows, whose columns have the order of the rows, and a mapping
    of mappings. Names that do not fit are an error; `frame.to_numpy()` has none. Sets have no order,
    and are an error.

    `kind`, `within`, `others` and `paths` are keys of `network.latency_file`: `others` is the latency
    of pairs without one (NaN), and `within` that of nodes in one region. `keys` are further keys of
    `[network]`: `jitter`, `loss`, `topology`, `interface`, ...

    What the network does not use of its arguments is in its `notes`, and is a warning.
    """
    table: dict[str, Any] = {key: value for key, value in keys.items() if value is not None}
    files: dict[str, bytes] = {}
    by_attribute = {
        "region": region if isinstance(region, str) else "region",
        "class": class_ if isinstance(class_, str) else "class",
    }
    read = _Graph(graph, by_attribute)
    if bandwidth is not None:
        if uplink is not None or downlink is not None:
            raise ValueError("network(): bandwidth sets uplink and downlink; pass either bandwidth or those two")
        uplink = downlink = bandwidth
    for argument, value in (("region", region), ("class_", class_)):
        if isinstance(value, str) and value not in read.attributes:
            raise ValueError(f"network(): no node of the graph has the attribute {value!r}; {argument} is a sequence, or the name of one")
    region = None if isinstance(region, str) else region
    class_ = None if isinstance(class_, str) else class_
    no_set("regions", regions)
    if classes is not None:
        if not isinstance(classes, Mapping) or not all(isinstance(of_class, Mapping) for of_class in classes.values()):
            raise ValueError("network(): classes is a mapping of names to keys, such as {'hub': {'uplink': '1 Gbit/s'}}")
        table["class"] = [{"name": str(name), **of_class} for name, of_class in classes.items()]
    of_nodes = {"uplink": uplink, "downlink": downlink, "region": region, "class": class_, "validation_time": validation_time}
    given = {key: Labelled.of(key, value) for key, value in of_nodes.items()}
    for key, argument in (("region", "region"), ("class", "class_")):
        if isinstance(single := given[key], Single):
            raise ValueError(f"network(): {argument} is {single.value!r}; expected a value for each node, or the name of a node attribute")
    matrix = Labelled.of("latency", latency)
    in_regions = region is not None or by_attribute["region"] in read.attributes
    names = read.labels if graph is not None else _names(given, matrix, in_regions)
    count = _size(graph, read, nodes, given, matrix, in_regions)
    columns = _Columns(count, names)
    used = {
        columns.add("uplink", "uplink_bps", "bit/s", given["uplink"], read, table),
        columns.add("downlink", "downlink_bps", "bit/s", given["downlink"], read, table),
        columns.add("region", "region", None, given["region"], read, table),
        columns.add("class", "class", None, given["class"], read, table),
        columns.add("validation_time", "validation_time_ms", "ms", given["validation_time"], read, table),
    }
    if read.edges is not None:
        topology = dict(table.get("topology", {}))
        if "file" in topology or "kind" in topology:
            raise ValueError("network(): a graph excludes topology.kind and topology.file; keep only one of them")
        table["topology"] = {**topology, "kind": "file", "file": EDGES}
        files[EDGES] = _csv(["dialer", "listener"], read.edges)
        if not topology.get("topic_peers_min"):
            read.check_connected()
    spec = {"within": within, "others": others, "paths": paths, "kind": kind}
    spec = {key: value for key, value in spec.items() if value is not None}
    known = _latency(matrix, read, columns, regions, spec, table, files)
    if columns.given:
        files[NODES] = columns.csv()
        table["nodes_file"] = NODES
    elif columns.count is not None:
        table["nodes"] = columns.count
    made = Network(table, files, list(names), [*read.notes, *read.unused(used, known)])
    for note in made.notes:
        warnings.warn(note, stacklevel=2)
    return made


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


_Node = TypeVar("_Node")
#: Properties of nodes, with the units that their attributes may end in.
_PROPERTIES = {
    "uplink": ("_bps", "_kbps", "_mbps", "_gbps"),
    "downlink": ("_bps", "_kbps", "_mbps", "_gbps"),
    "validation_time": ("_ns", "_us", "_ms", "_s"),
}
#: Edge attributes for latencies and for the share of lost packets, in order of preference.
_LATENCIES = tuple(f"{name}{unit}" for name in ("latency", "delay", "rtt") for unit in ("", *_PROPERTIES["validation_time"]))
_LOSSES = ("packet_loss", "loss")


def merged(ends: Sequence[tuple[_Node, _Node]], is_directed: bool | None) -> tuple[list[tuple[_Node, _Node]], list[str]]:
    """Returns one link for each pair of different nodes, and notes on the edges that have none.

    `is_directed` is `None` if the edges of the graph may have directions or not.
    """
    links: dict[frozenset[_Node], tuple[_Node, _Node]] = {}
    directions: set[tuple[_Node, _Node]] = set()
    loops, parallel, reverse = [], [], []
    for pair in ends:
        if pair[0] == pair[1]:
            loops.append(pair)
        elif frozenset(pair) not in links:
            links[frozenset(pair)] = pair
        elif pair in directions or is_directed is False:
            parallel.append(pair)
        else:
            reverse.append(pair)
        directions.add(pair)
    said = (
        (parallel, "repeat another edge", "two nodes have one link, with the least latency of its edges"),
        (reverse, "are present in both directions", "each is one link, dialed by the first end"),
        (loops, "from a node to itself are no links", "they have no effect"),
    )
    notes = [f"{len(of)} edges {what} (the first from {of[0][0]} to {of[0][1]}); {then}" for of, what, then in said if of]
    return list(links.values()), notes


def numbered(names: Sequence[str]) -> list[Hashable]:
    """Returns the names of nodes by their numbers. The names 0, 1, 2, ... are numbers in any order."""
    numbers = {str(number) for number in range(len(names))}
    return [*map(str, range(len(names)))] if set(names) == numbers else list(names)


class _Graph:
    """The nodes and edges of a graph, with their attributes."""

    def __init__(self, graph: Any, by_attribute: Mapping[str, str]) -> None:
        self.labels: list[Hashable] = []
        self.edges: list[tuple[int, int]] | None = None
        #: The values of node attributes, by node number.
        self.attributes: dict[str, dict[int, Any]] = {}
        #: All edges as node numbers, with their attributes.
        self.pairs: list[tuple[int, int, Mapping[str, Any]]] = []
        self.is_directed: bool | None = None
        self.notes: list[str] = []
        #: The names of the attributes with regions and classes.
        self.by_attribute = by_attribute
        if graph is None:
            return
        if hasattr(graph, "nodes") and hasattr(graph, "edges"):
            pairs = self._of_object(graph)
        else:
            pairs = self._of_pairs(graph)
        number = {label: at for at, label in enumerate(self.labels)}
        for end in (end for pair in pairs for end in pair[:2] if end not in number):
            raise ValueError(f"network(): an edge leads to {quoted(repr(end))}, which is no node of the graph")
        self.pairs = [(number[a], number[b], data) for a, b, data in pairs]
        links, notes = merged([(a, b) for a, b, _ in pairs], self.is_directed)
        self.edges = [(number[a], number[b]) for a, b in links]
        self.notes += [f"network(): {note}" for note in notes]

    def _of_object(self, graph: Any) -> list[tuple[Any, Any, Mapping[str, Any]]]:
        self.labels = list(graph.nodes)
        if hasattr(graph, "is_directed"):
            self.is_directed = bool(graph.is_directed())
        data = graph.nodes(data=True) if callable(graph.nodes) else ()
        for at, (_, of_node) in enumerate(data):
            for key, value in of_node.items():
                self.attributes.setdefault(str(key), {})[at] = value
        if callable(graph.edges):
            return [(a, b, of_edge) for a, b, of_edge in graph.edges(data=True)]
        return [(pair[0], pair[1], {}) for pair in graph.edges]

    def _of_pairs(self, graph: Any) -> list[tuple[Any, Any, Mapping[str, Any]]]:
        frame = Labelled.of("graph", graph)
        if not isinstance(frame, Labelled) or isinstance(graph, Mapping):
            raise ValueError(f"network(): a graph is one of NetworkX, a list of pairs, or a frame with two columns; found {type(graph).__name__}")
        rows = [tuple(row) for row in frame.rows]
        columns = [str(column) for column in frame.columns or ()]
        ends = (0, 1)
        for pair in (("dialer", "listener"), ("source", "target"), ("from", "to"), ("src", "dst")):
            if all(end in columns for end in pair):
                ends = (columns.index(pair[0]), columns.index(pair[1]))
        if any(len(row) < 2 for row in rows):
            raise ValueError("network(): a graph is a list of pairs, or a frame with two columns")
        pairs: list[tuple[Any, Any, Mapping[str, Any]]] = []
        unnamed = 0
        for row in rows:
            further = {name: value for at, (name, value) in enumerate(zip(columns, row)) if at not in ends}
            if not columns and len(row) > 2:
                if isinstance(row[-1], Mapping):
                    further = dict(row[-1])
                else:
                    unnamed += 1
            pairs.append((plain_of(row[ends[0]]), plain_of(row[ends[1]]), further))
        if unnamed:
            self.notes.append(f"network(): values after the two nodes of an edge have no effect ({unnamed} edges)")
        found = dict.fromkeys(end for pair in pairs for end in pair[:2])
        if all(isinstance(end, int) for end in found):
            if least_number := min(0, *found) if found else 0:
                raise ValueError(f"network(): an edge leads to node {least_number}; numbers of nodes start at 0")
            if (last := max(found, default=0)) >= NODES_MAX:
                raise ValueError(f"network(): an edge leads to node {last}; a network has at most {NODES_MAX} nodes; name them by texts")
            self.labels = list(range(max(found, default=-1) + 1))
        else:
            self.labels = list(found)
        return pairs

    def check_connected(self) -> None:
        """Rejects a graph in parts, by the names of its nodes."""
        neighbours: dict[int, list[int]] = {at: [] for at in range(len(self.labels))}
        for a, b in self.edges or ():
            neighbours[a].append(b)
            neighbours[b].append(a)
        if alone := [self.labels[at] for at, others in neighbours.items() if not others]:
            what = f"node {alone[0]} has no edge" if len(alone) == 1 else f"nodes {listed(alone)} have no edge"
            raise ValueError(f"network(): {what}; add one, or remove what is not connected")
        parts: list[set[int]] = []
        seen: set[int] = set()
        for start in neighbours:
            if start in seen:
                continue
            part, stack = {start}, [start]
            while stack:
                reached = [other for other in neighbours[stack.pop()] if other not in part]
                part.update(reached)
                stack += reached
            seen |= part
            parts.append(part)
        if len(parts) > 1:
            others = sorted(seen - max(parts, key=len))
            raise ValueError(
                f"network(): the graph is not connected: no path leads from its largest part to {len(others)} of {len(seen)} nodes: "
                f"{listed([self.labels[at] for at in others])}"
            )

    def property(self, key: str) -> tuple[str, dict[int, Any]] | None:
        """Returns the attribute with a property of nodes, and its values."""
        name = self.by_attribute.get(key, key)
        known = [attribute for attribute in (name, *(name + unit for unit in _PROPERTIES.get(key, ()))) if attribute in self.attributes]
        return (known[0], self.attributes[known[0]]) if known else None

    def edge_attribute(self, names: Sequence[str]) -> str | None:
        known = {key for *_, data in self.pairs for key in data}
        return next((name for name in names if name in known), None)

    def unused(self, of_nodes: set[str | None], of_edges: set[str | None]) -> list[str]:
        """Returns notes on attributes without effect."""
        nodes = {name: len(values) for name, values in self.attributes.items() if name not in of_nodes}
        edges = Counter(key for *_, data in self.pairs for key, value in data.items() if key not in of_edges)
        said = (("nodes", nodes), ("edges", edges))
        return [
            f"network(): attributes of {what} have no effect: {listed([f'{name} ({count})' for name, count in sorted(counts.items())])}"
            for what, counts in said
            if counts
        ]


def _names(given: Mapping[str, Any], latency: Any, in_regions: bool) -> list[Hashable]:
    """Returns the names of nodes without a graph: the first labels that an argument has."""
    for value in (*(() if in_regions else (latency,)), *given.values()):
        if isinstance(value, Labelled):
            labelled = value.square() if value.argument == "latency" else value
            if labelled.index is not None and not labelled.is_default:
                return list(labelled.index)
    return []


def _size(
    graph: Any, read: _Graph, nodes: int | None, given: Mapping[str, Any], latency: Any, in_regions: bool
) -> int | None:
    """Returns the number of nodes, if any argument determines it."""
    known: dict[str, int] = {}
    if graph is not None:
        known["the graph"] = len(read.labels)
    if nodes is not None:
        known["nodes"] = int(nodes)
    for name, value in given.items():
        if isinstance(value, Labelled) and (graph is None or value.index is None or value.is_default):
            known[name] = len(value.rows)
    if isinstance(latency, Labelled) and not in_regions and (graph is None or latency.square().index is None):
        known["latency"] = len(latency.rows)
    if len(set(known.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in known.items())
        raise ValueError(f"network(): the numbers of nodes differ: {counts}")
    return next(iter(known.values()), None)


class _Columns:
    """The properties of nodes, as columns of a table."""

    def __init__(self, count: int | None, names: Sequence[Hashable]) -> None:
        self.count = count
        self.names = names
        self.given: dict[str, list[Any]] = {}

    def add(self, key: str, column: str, unit: str | None, value: Any, read: _Graph, table: dict[str, Any]) -> str | None:
        """Adds a single value as a key of the scenario, or a value for each node as a column.

        Returns the attribute of the graph that it uses.
        """
        attribute = read.property(key)
        if value is None and attribute is not None:
            name, of_nodes = attribute
            missing = [read.labels[at] for at in range(self.count or 0) if at not in of_nodes]
            if missing and key != "class":
                what = f"node {missing[0]} has no {name}" if len(missing) == 1 else f"nodes {listed(missing)} have no {name}"
                raise ValueError(f"network(): {len(missing)} nodes of the graph have no {name}, but others have one: {what}")
            values = [of_nodes.get(at) for at in range(self.count or 0)]
            if name != key and unit is not None:
                # Its name has the unit.
                self.given[name] = [_number(item, f"{name} of node {read.labels[at]}") for at, item in enumerate(values)]
            else:
                self._values(key, column, unit, values)
            return name
        if isinstance(value, Labelled):
            self._values(key, column, unit, [value.rows[at] for at in value.order(self.names, "nodes", is_exact=True)])
        elif value is not None:
            single = value.value
            table[key] = single if isinstance(single, str) or unit is None else f"{_number(single, key)} {unit}"
        return None

    def _values(self, key: str, column: str, unit: str | None, values: list[Any]) -> None:
        if key == "class":
            # Frames have NaN where they have no name.
            self.given[column] = ["" if item is None or item != item else item for item in values]
        elif unit is None:
            self.given[column] = values
        elif any(isinstance(item, str) for item in values):
            # Cells with units must be in a column without a unit.
            self.given[key] = [item if isinstance(item, str) else f"{_number(item, f'{key}[{at}]')} {unit}" for at, item in enumerate(values)]
        else:
            self.given[column] = [_number(item, f"{key}[{at}]") for at, item in enumerate(values)]

    def csv(self) -> bytes:
        return _csv(["node", *self.given], zip(range(self.count or 0), *self.given.values()))


def _latency(
    latency: Any,
    read: _Graph,
    columns: _Columns,
    regions: Sequence[str] | None,
    spec: dict[str, Any],
    table: dict[str, Any],
    files: dict[str, bytes],
) -> set[str | None]:
    """Adds latencies. Returns the attributes of edges that they use."""
    base = {"file": LATENCY, "kind": "one-way", "unit": "ms"}
    if latency is None:
        attribute, loss = read.edge_attribute(_LATENCIES), read.edge_attribute(_LOSSES)
        if attribute is None:
            if spec:
                raise ValueError(
                    f"network(): {', '.join(spec)} cannot apply without latencies of pairs; pass a square array as latency, or edges with "
                    "the attribute latency"
                )
            return set()
        reverse = attribute.replace(attribute.split("_")[0], f"{attribute.split('_')[0]}_reverse", 1)
        can_miss = "others" in spec or "paths" in spec
        rows, notes = _edge_latencies(read, attribute, reverse, loss, can_miss)
        read.notes += notes
        files[LATENCY] = _csv(["source", "destination", attribute, *([loss] if loss else [])], rows)
        if "others" not in spec:
            # Nodes without an edge between them have the latency of a path.
            spec = {"paths": "undirected", **spec}
        table["latency_file"] = {**base, **spec, "of": "nodes", "format": "pairs", **({"loss": loss} if loss else {})}
        return {attribute, reverse, loss}
    if not isinstance(latency, Labelled):
        single = latency.value
        if spec:
            raise ValueError(f"network(): {', '.join(spec)} cannot apply to one latency for all pairs; pass a square array as latency")
        table["latency"] = single if isinstance(single, str) else f"{_number(single, 'latency')} ms"
        return set()
    matrix = latency.square()
    rows_of = matrix.rows
    in_regions = columns.given.get("region")
    what = "nodes" if in_regions is None else "regions"
    if in_regions is not None:
        names: list[Any] = list(regions or dict.fromkeys(in_regions))
    else:
        names = list(columns.names) or list(range(len(rows_of)))
    is_square = all(len(row) == len(rows_of) for row in rows_of)
    has_labels = matrix.index is not None and not matrix.is_default
    if not is_square or (len(names) != len(rows_of) if not has_labels else len(names) > len(rows_of)):
        shape = f"{len(rows_of)} rows of {sorted({len(row) for row in rows_of})} values"
        raise ValueError(f"network(): latency is a square array with a row for each of {len(names)} {what}; found {shape}")
    place = matrix.order(names, what)
    head = names if in_regions is not None else list(range(len(names)))
    can_miss = "others" in spec or "paths" in spec

    def cell(row: int, column: int) -> str:
        value = rows_of[place[row]][place[column]]
        where = f"latency from {names[row]} to {names[column]}"
        if isinstance(value, str):
            return value
        if value is None or value != value:
            if can_miss or row == column:
                return ""
            raise ValueError(f'network(): the {where} is missing; set one with others="100 ms", or paths="undirected"')
        return _number(value, where)

    size = range(len(names))
    files[LATENCY] = _csv(["", *head], ([head[row], *(cell(row, column) for column in size)] for row in size))
    table["latency_file"] = {**base, **spec, "of": what, "format": "matrix"}
    return set()


def _edge_latencies(
    read: _Graph, attribute: str, reverse: str, loss: str | None, can_miss: bool
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Returns the latency of each pair, and of parallel edges the least one; and notes."""
    edges: list[Edge] = []
    for a, b, data in read.pairs:
        forward = data.get(attribute)
        back = data.get(reverse, None if read.is_directed or a == b else forward)
        lost = data.get(loss) if loss else None
        for pair, value in (((a, b), forward), ((b, a), back)):
            if value is None:
                continue
            if not isinstance(value, str) and value == value:
                value = _number(value, f"{attribute} from {read.labels[pair[0]]} to {read.labels[pair[1]]}")
            edges.append(Edge(pair, value, lost))
    labels = read.labels
    try:
        cells, notes = least(edges, attribute, loss, lambda end: labels[end])
    except ValueError as error:
        raise ValueError(f"network(): {error}") from None
    for (a, b), (text, *_) in cells.items() if not can_miss else ():
        if not text:
            raise ValueError(
                f"network(): the {attribute} from {quoted(labels[a])} to {quoted(labels[b])} is missing; "
                'set one with others="100 ms", or paths="undirected"'
            )
    return one_way(cells), [f"network(): {note}" for note in notes]


def _number(value: Any, where: str) -> str:
    """Formats a number for a table: `12.5`, `20000000`."""
    value = plain_of(value)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"network(): {where}: {value!r} is a {type(value).__name__}, not a number")
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"network(): {where} is {value}; expected a finite number")
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _csv(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (header, *rows):
        for cell in row:
            if isinstance(cell, str) and (found := control(cell)):
                raise ValueError(f"{quoted(repr(cell))} has the control character {found}; remove it")
        writer.writerow(row)
    return text.getvalue().encode()
