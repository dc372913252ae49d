"""Converts files of other tools into CSV files for scenarios.

The formats are GML, JSON, SimBlock, and p2psim with the King data set.

    >>> from samara import data
    >>> network = data.read("network.gml", nodes=1000)
    >>> samara.Scenario("mine", network=network, messages={"rate": 10})

`python -m samara.data network.gml -o converted` writes the files and prints the section `[network]`
that names them. See docs/guides/networks.md for a guide.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from samara import _gml
from samara._labelled import listed
from samara._network import EDGES, LATENCY, NODES, NODES_MAX, Network, _csv, numbered
from samara._simblock import Java, shares
from samara._text import message, printable, quoted
from samara._values import toml

#: The largest file, as for files that scenarios name.
_BYTES_MAX = 2**30
#: The longest number in JSON.
_DIGITS_MAX = 40
#: Keys of `network.latency_file`.
_LATENCY_KEYS = ("kind", "unit", "of", "within", "others", "paths")


def read(
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    nodes: int | None = None,
    **keys: Any,
) -> Network:
    """Reads a file. Returns the network of a scenario with the CSV files that it names.

    `format` is `gml`, `json`, `simblock` or `p2psim`; by default the content determines it. `kind`
    ("one-way" by default), `unit`, `of`, `within`, `others` and `paths` are keys of
    `network.latency_file`. All other keys belong to `[network]`. With `topology`, the edges of a
    graph are not links: only their latencies are used.

    `nodes` is the number of nodes at the places of a graph (GML) or in the regions of SimBlock.

    What the network does not use of the file is in its `notes`, and is a warning.
    """
    network = _read(path, format, nodes, keys)
    for note in network.notes:
        warnings.warn(note, stacklevel=2)
    return network


def _read(path: str | PathLike[str], format: str | None, nodes: int | None, keys: dict[str, Any]) -> Network:  # noqa: A002
    name = fspath(path)
    try:
        text = _content_of(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: byte {error.start} is not UTF-8 text") from None
    except MemoryError:
        raise ValueError(f"{name}: does not fit into the memory") from None
    kind = format or _format_of(text)
    read_format = _FORMATS.get(kind)
    if read_format is None:
        hint = "; scenarios read GraphML without a conversion" if text.lstrip().startswith("<") else ""
        raise ValueError(f"{name}: format is {kind or 'unknown'}; expected one of {', '.join(_FORMATS)}{hint}")
    if nodes is not None and not 1 <= nodes <= NODES_MAX:
        raise ValueError(f"{name}: nodes is {quoted(nodes)}; expected a number from 1 to {NODES_MAX}")
    if nodes is not None and kind not in ("gml", "simblock"):
        raise ValueError(f"{name}: nodes is {nodes}; expected a number of nodes at the places of a graph, or in regions of SimBlock")
    try:
        network = read_format(text) if nodes is None else _PLACES[kind](text, nodes)
    except ValueError as error:
        raise ValueError(f"{name}: {message(str(error))}") from None
    except RecursionError:
        raise ValueError(f"{name}: values are nested too deeply") from None
    latency_keys = {key: keys.pop(key) for key in _LATENCY_KEYS if keys.get(key) is not None}
    files = dict(network.files)
    if "topology" in keys:
        files.pop(EDGES, None)
    table = {**network.keys, **keys}
    if LATENCY in files:
        table["latency_file"] = {"file": LATENCY, "kind": "one-way", **network.keys.get("latency_file", {}), **latency_keys}
    elif latency_keys:
        what = ", ".join(latency_keys)
        raise ValueError(
            f"{name}: has no latencies, so {what} cannot apply; add the attribute latency to its edges, or omit {what} and set "
            "network.latency or network.latency_file in the scenario"
        )
    return Network(table, files, network.labels, [f"{name}: {note}" for note in network.notes])


def _content_of(path: str | PathLike[str]) -> bytes:
    """Returns the content of a regular file, which may be a link to one.

    The directory of somebody else may have a pipe or a device in its place, and a file of the kernel
    shows the environment.
    """
    name = fspath(path)
    # What the user has opened for this process may be a pipe.
    is_own = re.fullmatch(r"/dev/stdin|(/dev|/proc/self)/fd/[0-9]+", str(name)) is not None
    flags = os.O_RDONLY if is_own else os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda opened, _: os.open(opened, flags)) as file:
        if not is_own:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError(f"{name}: is a pipe, a device or a socket, not a file")
            real = os.path.realpath(path)
            if real.startswith(("/proc/", "/sys/")):
                raise ValueError(f"{name}: is a file of the kernel about processes or devices; expected a file with data")
            if status.st_size > _BYTES_MAX:
                raise ValueError(f"{name}: has more than {_BYTES_MAX >> 20} MiB, the maximum size of a file")
        content = file.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise ValueError(f"{name}: has more than {_BYTES_MAX >> 20} MiB, the maximum size of a file")
    return content


def _format_of(text: str) -> str:
    """Returns the format of a text, after comments and blank lines."""
    content = _content(text)
    if content.startswith(("{", "[")):
        return "json"
    if content.startswith("<"):
        return ""
    lines = [line for line in content.splitlines() if not line.lstrip().startswith(("#", "//"))]
    if re.search(r"(?i)(?:^|\s)graph\s*+\[", "\n".join(lines[:10_000])):
        return "gml"
    if lines and re.match(r"(topology|failure_model|node)\s+\S", lines[0].lstrip()):
        return "p2psim"
    return "simblock" if "REGION_LIST" in text else ""


def _content(text: str) -> str:
    """Returns a text without the comments at its beginning."""
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if text.startswith(("#", "//"), at):
            end = text.find("\n", at)
        elif text.startswith("/*", at):
            end = text.find("*/", at)
        else:
            return text[at:]
        if end < 0:
            return ""
        at = end + 2 if text.startswith("*/", end) else end + 1


def _json(text: str) -> Network:
    """Reads an object of objects by name, optionally under `data`, or an array of arrays."""
    table = json.loads(_content(text), object_pairs_hook=_once, parse_int=_whole)
    notes = []
    if isinstance(table, dict) and isinstance(table.get("data"), dict):
        if others := [key for key in table if key != "data"]:
            notes.append(f"keys beside data have no effect: {listed(others)}")
        table = table["data"]
    if isinstance(table, (dict, list)) and not table:
        raise ValueError("has no latencies; expected an object of objects, or a square array of arrays")
    if isinstance(table, dict) and all(isinstance(row, dict) for row in table.values()):
        names = list(table)
        unknown = [to for row in table.values() for to in row if to not in table]
        if unknown:
            raise ValueError(f"{quoted(unknown[0])} has a column but no row")
        return _matrix(names, ([row.get(to) for to in names] for row in table.values()), notes)
    if isinstance(table, list) and all(isinstance(row, list) and len(row) == len(table) for row in table):
        return _matrix(list(map(str, range(len(table)))), table, notes)
    raise ValueError("expected an object of objects such as {'us': {'us': 1, 'eu': 80}, 'eu': ...}, or a square array of arrays")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise ValueError(f"the number {quoted(digits[:_DIGITS_MAX])}… has {len(digits)} digits; expected at most {_DIGITS_MAX}")
    return int(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{quoted(twice)} is present twice")
    return table


def _simblock(text: str, nodes: int | None = None) -> Network:
    """Reads regions, their latencies, shares and rates of SimBlock's `NetworkConfiguration.java`."""
    java = Java(text)
    try:
        names = java.texts("REGION_LIST")
        matrix, rows = java.rows("LATENCY")
    except KeyError:
        names = []
    if not names:
        raise ValueError("expected a REGION_LIST with names in quotes and an array such as LATENCY_2019 = {{...}, ...}")
    if len(rows) != len(names) or any(len(row) != len(names) for row in rows):
        sizes = sorted({len(row) for row in rows})
        raise ValueError(f"{matrix} has {len(rows)} rows of {sizes} values; expected a row and a column for each of {len(names)} regions")
    notes, used = [], {"REGION_LIST", "LATENCY", matrix}
    lists: dict[str, list[str]] = {}
    for name in ("REGION_DISTRIBUTION", "UPLOAD_BANDWIDTH", "DOWNLOAD_BANDWIDTH"):
        try:
            array, values = java.rows(name)
        except KeyError:
            continue
        except ValueError as error:
            notes.append(f"{name} has no effect: {error}")
            continue
        used |= {name, array}
        row = values[0] if len(values) == 1 else []
        if name.endswith("BANDWIDTH") and len(row) == len(names) + 1:
            notes.append(f"the last value of {array}, {row.pop()} bit/s between regions, has no effect")
        if len(row) != len(names):
            raise ValueError(f"{array} has {len(row)} values; expected one for each of {len(names)} regions")
        lists[name] = row
    for name in sorted({name for name in java.repeated if name in used}):
        notes.append(f"{name} is assigned several times; its last value is used")
    families = ("REGION_LIST", "LATENCY", "REGION_DISTRIBUTION", "UPLOAD_BANDWIDTH", "DOWNLOAD_BANDWIDTH")
    others = [name for name, value in java.values.items() if "{" in value and name not in used and not name.startswith(families)]
    if others:
        notes.append(f"arrays without effect: {listed(others)}")
    network = _matrix(names, rows, notes, unit="ms", of="regions")
    weights = [float(weight) for weight in lists.get("REGION_DISTRIBUTION", [])]
    rates = {column: lists[name] for name, column in (("UPLOAD_BANDWIDTH", "uplink_bps"), ("DOWNLOAD_BANDWIDTH", "downlink_bps")) if name in lists}
    if nodes is not None:
        if not weights or sum(weights) <= 0:
            raise ValueError("has no REGION_DISTRIBUTION, which nodes requires")
        row_of = {name: [values[at] for values in rates.values()] for at, name in enumerate(names)}
        placed = shares(dict(zip(names, weights)), nodes)
        network.files[NODES] = _csv(["node", *rates, "region"], ([at, *row_of[region], region] for at, region in enumerate(placed)))
        network.keys["nodes_file"] = NODES
        return Network(network.keys, network.files, list(range(nodes)), notes)
    if rates:
        notes.append(f"{' and '.join(name for name in lists if name.endswith('BANDWIDTH'))} need nodes, the number of nodes, for an effect")
    if weights:
        network.keys["regions"] = {"weights": weights}
    return network


def _p2psim(text: str) -> Network:
    """Reads a topology of p2psim (`E2EGraph`), such as the King data set, in microseconds."""
    nodes: dict[str, None] = {}
    pairs: list[list[str]] = []
    notes, unknown, extra = [], [], 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith(("#", "//")):
            continue
        ends = words[0].split(",")
        if words[0] == "node" and len(words) > 1:
            nodes[words[1]] = None
            extra += len(words) > 2
        elif len(ends) == 2 and all(ends) and len(words) > 1:
            pairs.append([*ends, words[1]])
            extra += len(words) > 2
        elif words[0] not in ("topology", "failure_model"):
            unknown.append(f"line {number}")
    if not pairs:
        raise ValueError("has no latencies; expected lines such as 1,2 72000")
    names = list(dict.fromkeys(end for pair in pairs for end in pair[:2]))
    if unknown:
        notes.append(f"lines without a node or a pair have no effect: {listed(unknown)}")
    if extra:
        notes.append(f"further values of nodes and pairs have no effect ({extra} lines)")
    if alone := [name for name in nodes if name not in set(names)]:
        notes.append(f"nodes without a latency are omitted: {listed(alone)}")
    files = {LATENCY: _csv(["source", "destination", "latency"], pairs)}
    return Network({"latency_file": {"unit": "us", "of": "nodes"}}, files, numbered(names), notes)


def _matrix(names: Sequence[str], rows: Iterable[Sequence[Any]], notes: list[str], **latency_file: str) -> Network:
    text = _csv(["", *names], ([name, *row] for name, row in zip(names, rows)))
    return Network({"latency_file": latency_file}, {LATENCY: text}, numbered(names), notes)


_FORMATS: dict[str, Callable[[str], Network]] = {"gml": _gml.read, "json": _json, "simblock": _simblock, "p2psim": _p2psim}
#: Readers that put a number of nodes at places.
_PLACES: dict[str, Callable[[str, int], Network]] = {"gml": _gml.read, "simblock": _simblock}


class _Parser(argparse.ArgumentParser):
    def error(self, text: str) -> NoReturn:
        super().error(message(text))


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"found {quoted(text)}; expected a number from 1 to {NODES_MAX}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Converts a file from the command line."""
    parser = _Parser(prog="python -m samara.data", description="Converts a file into CSV files for scenarios.")
    parser.add_argument("file", help="a GML or JSON file, or a file of SimBlock or p2psim")
    parser.add_argument("-o", "--output", default=".", help="the directory for the CSV files")
    parser.add_argument("--format", choices=_FORMATS, help="the format; by default the content determines it")
    parser.add_argument("--nodes", type=_count, help="number of nodes at the places of a graph, or in the regions of SimBlock")
    for key in _LATENCY_KEYS:
        parser.add_argument(f"--{key}", help=f"the key {key} of network.latency_file")
    options = vars(parser.parse_args(arguments))
    output, path, kind, nodes = (Path(options.pop("output")), options.pop("file"), options.pop("format"), options.pop("nodes"))
    try:
        network = _read(path, kind, nodes, {key: value for key, value in options.items() if value is not None})
        output.mkdir(parents=True, exist_ok=True)
        for name, content in network.files.items():
            with open(output / name, "xb") as file:
                file.write(content)
    except (OSError, ValueError) as error:
        sys.exit(printable(f"samara.data: {error}"))
    for note in network.notes:
        print(f"note: {message(note)}", file=sys.stderr)
    print(toml({"network": network.keys}), end="")


if __name__ == "__main__":
    main()
