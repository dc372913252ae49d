"""Latencies and losses of the edges of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from samara._labelled import listed, plain_of
from samara._text import quoted

#: Units of times in Shadow and in scenarios, in milliseconds.
_TIMES = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "μs", "µs", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 6e4),
    **dict.fromkeys(("h", "hour", "hours"), 3.6e6),
}
#: Units that scenarios read as they are.
_USUAL = ("", "ns", "us", "µs", "ms", "s")
#: Marks of missing values in published tables, as scenarios know them.
_MISSING = ("", "-", "--", "na", "n/a", "nan", "null", "none", "inf")


@dataclass(frozen=True)
class Edge:
    """An edge in one direction, with the cells that it states. An absent attribute is `None`."""

    ends: tuple[Hashable, Hashable]
    latency: Any
    loss: Any = None


def time_of(value: Any, unit: str = "ms") -> tuple[float, str]:
    """Returns a time in milliseconds for comparisons, and the notation of scenarios.

    `unit` is that of a plain number. A mark of a missing value and a negative number are infinite.
    """
    text = str(plain_of(value)).strip()
    if text.lower() in _MISSING:
        return float("inf"), ""
    found = re.fullmatch(r"([0-9.eE+-]+)\s*([^\s0-9]*)", text)
    number = _number(found[1]) if found else None
    if found is None or number is None or found[2] not in ("", *_TIMES):
        # A scenario names the line and what it expects.
        return _number(text) or float("inf"), text
    if number < 0:
        return float("inf"), ""
    length = number * _TIMES[found[2] or unit]
    return length, text if found[2] in _USUAL else f"{length / 1e3!r} s"


def share_of(value: Any, where: str) -> float:
    """Returns the share of lost packets that a cell states. An empty one states none, which is an
    error as for latencies."""
    text = str(plain_of(value)).strip()
    number = _number(text.removesuffix("%").rstrip())
    if text.lower() in _MISSING or number is None or number != number:
        raise ValueError(f"the {where} is {quoted(repr(text))}; expected a number from 0 to below 1, or a share such as '2 %'")
    share = number / 100 if text.endswith("%") else number
    if not 0 <= share < 1:
        raise ValueError(f"the {where} is {quoted(text)}; expected a number from 0 to below 1, or a share such as '2 %'")
    return share


def least(
    edges: Iterable[Edge], latency: str, loss: str | None, name: Callable[[Any], Hashable] = lambda end: end
) -> tuple[dict[tuple[Any, Any], tuple[Any, ...]], list[str]]:
    """Returns the latency of each pair, and its loss if `loss` names one; and notes.

    `name` returns the name of an end.

    Of parallel edges, the one with the least latency counts, and of these the one with the least
    loss. One without a latency counts only if no other has one: its cell is empty.
    """
    unit = re.search(r"_([num]?s)$", latency)
    cells: dict[tuple[Any, Any], tuple[float, float, tuple[Any, ...]]] = {}
    without: dict[frozenset[Any], tuple[Any, Any]] = {}
    for edge in edges:
        length, text = time_of(edge.latency, unit[1] if unit else "ms")
        lost, share = "0", 0.0
        if loss and text:
            if edge.loss is None:
                without.setdefault(frozenset(edge.ends), edge.ends)
            else:
                where = f"{loss} from {quoted(name(edge.ends[0]))} to {quoted(name(edge.ends[1]))}"
                share = share_of(edge.loss, where)
                lost = str(plain_of(edge.loss)).strip()
        found = (length, share, (text, *([lost] if loss else [])))
        known = cells.get(edge.ends)
        # A text that is no time stays for the error of the scenario.
        is_less = known is None or found[:2] < known[:2] or (not known[2][0] and text != "")
        if is_less:
            cells[edge.ends] = found
    notes = []
    if without:
        first = next(iter(without.values()))
        notes.append(f"{len(without)} edges have no {loss} (the first from {listed([name(first[0])])} to {listed([name(first[1])])}); theirs counts as 0")
    return {ends: values for ends, (*_, values) in cells.items()}, notes


def one_way(cells: Mapping[tuple[Any, Any], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Returns the rows of a table of pairs.

    The way back has no row if it has the same values, since a pair in one direction stands for both.
    """
    rows: dict[tuple[Any, Any], tuple[Any, ...]] = {}
    for (a, b), values in cells.items():
        if rows.get((b, a)) != values or a == b:
            rows[a, b] = values
    return [(a, b, *values) for (a, b), values in rows.items()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
