"""Reads `NetworkConfiguration.java` of SimBlock: the arrays that the program uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

#: Blanks, comments, texts, characters, names, numbers, and every other character.
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*|(?P<text>"(?:[^"\\\n]|\\.)*+")|'(?:[^'\\\n]|\\.)'"""
    r"""|(?P<name>[A-Za-z_]\w*+)|(?P<number>[0-9][\w.]*+)|(?P<other>.)""",
    re.DOTALL,
)
Value = Sequence[str]


class Java:
    """The values that a program in Java assigns to names."""

    def __init__(self, code: str) -> None:
        self.values: dict[str, Value] = {}
        self.repeated: list[str] = []
        tokens = list(_tokens(code))
        at = 0
        while at + 2 < len(tokens):
            name, sign, following = tokens[at : at + 3]
            if not (re.match(r"[A-Za-z_]", name) and sign == "=" and following != "="):
                at += 1
                continue
            end, depth = at + 2, 0
            while end < len(tokens) and (depth > 0 or tokens[end] != ";"):
                depth += (tokens[end] in "({") - (tokens[end] in ")}")
                end += 1
            if name in self.values:
                self.repeated.append(name)
            self.values[name] = tokens[at + 2 : end]
            at = end

    def in_use(self, name: str) -> tuple[str, Value]:
        """Returns the array or list that a name stands for, with the name that it was assigned to.

        A name that nothing is assigned to stands for the only one that begins with it.
        """
        if name not in self.values:
            others = [other for other in self.values if other.startswith(f"{name}_") and "{" in self.values[other]]
            if len(others) > 1:
                raise ValueError(f"has {', '.join(others[:8])}, but assigns none of them to {name}; add {name} = {others[-1]};")
            if not others:
                raise KeyError(name)
            name = others[0]
        seen = {name}
        while True:
            value = self.values[name]
            if "{" in value or any(token.startswith('"') for token in value):
                return name, value
            known = list(dict.fromkeys(token for token in value if token in self.values))
            if len(known) != 1 or known[0] in seen:
                raise ValueError(f"{name} = {' '.join(value[:12])}: expected an array such as {{{{32, 124}}, ...}}, or the name of one")
            name = known[0]
            seen.add(name)

    def rows(self, name: str) -> tuple[str, list[list[str]]]:
        """Returns the numbers of an array in use by rows; an array of numbers is one row."""
        name, value = self.in_use(name)
        rows: list[list[str]] = []
        cells: list[str] = []
        cell: list[str] = []
        start = value.index("{") if "{" in value else 0
        for token in value[start:]:
            if token in ",{}":
                if cell:
                    cells.append(self._number(name, cell))
                    cell = []
                if token in "{}" and cells:
                    rows.append(cells)
                    cells = []
            else:
                cell.append(token)
        return name, rows

    def _number(self, name: str, cell: list[str]) -> str:
        if len(cell) == 1 and cell[0] in self.values:
            cell = list(self.values[cell[0]])
        text = "".join(cell).replace("_", "")
        number = re.fullmatch(r"(-?[0-9]+(?:\.[0-9]*)?(?:[eE]-?[0-9]+)?)[lLdDfF]?", text)
        if not number:
            raise ValueError(f"{name} has {' '.join(cell)[:40]}, which is not a number")
        return number[1]

    def texts(self, name: str) -> list[str]:
        """Returns the texts of a list in use."""
        _, value = self.in_use(name)
        return [token[1:-1] for token in value if token.startswith('"')]


def _tokens(code: str) -> Iterator[str]:
    at = 0
    while at < len(code):
        match = _TOKEN.match(code, at)
        assert match, "the last alternative is any character"
        at = match.end()
        if match[0] == "/*":
            end = code.find("*/", at)
            at = len(code) if end < 0 else end + 2
        elif match["other"] == '"':
            raise ValueError(f"line {code.count(chr(10), 0, at) + 1}: a text has no closing quote")
        elif match.lastgroup:
            yield match[0]


def shares(counts: Mapping[str, float], nodes: int) -> list[str]:
    """Returns the region of each node: the first nodes are in the first region, and so on."""
    total, summed, regions = sum(counts.values()), 0.0, list[str]()
    for region, count in counts.items():
        summed += count
        regions += [region] * (round(summed / total * nodes) - len(regions))
    return regions
