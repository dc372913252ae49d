"""Values with the names of nodes or regions: frames, series, tables and mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samara._text import printable, quoted


@dataclass
class Labelled:
    """Rows or values, with the labels that they have."""

    argument: str
    rows: list[Any]
    index: list[Hashable] | None = None
    columns: list[Hashable] | None = None
    #: Whether the index is that of a frame without labels.
    is_default: bool = False

    @classmethod
    def of(cls, argument: str, value: Any) -> Labelled | Single | None:
        """Returns the content of a frame, a table, a mapping or an array; `None` for a single value."""
        if value is None or isinstance(value, (str, bytes)) or not hasattr(value, "__len__") and not hasattr(value, "__iter__"):
            return None if value is None else Single(value)
        no_set(argument, value)
        if hasattr(value, "columns") and hasattr(value, "to_numpy"):  # pandas, polars
            columns = [plain_of(column) for column in value.columns]
            index = getattr(value, "index", None)
            made = cls(argument, value.to_numpy().tolist(), None, columns)
            if index is not None and hasattr(index, "tolist"):
                made.index = index.tolist()
                made.is_default = type(index).__name__ == "RangeIndex"
        elif hasattr(value, "to_pylist"):  # pyarrow, samara.Table
            rows = value.to_pylist()
            named = bool(rows) and isinstance(rows[0], Mapping)
            made = cls(argument, [list(row.values()) if named else [row] for row in rows], None, list(rows[0]) if named else None)
        elif isinstance(value, Mapping):
            return cls(argument, list(value.values()), list(value))._matrix()
        elif hasattr(value, "index") and hasattr(value.index, "tolist"):  # a series of pandas
            return cls(argument, list(value), value.index.tolist(), None, type(value.index).__name__ == "RangeIndex")._matrix()
        else:
            return cls(argument, list(value))._matrix()
        return made if argument in ("latency", "graph") else made._column()

    def _matrix(self) -> Labelled:
        """Returns rows that are mappings or series as rows with columns."""
        if self.argument != "latency":
            return self

        def named(row: Any) -> Any:
            has_names = hasattr(row, "index") and hasattr(row.index, "tolist") and type(row.index).__name__ != "RangeIndex"
            return dict(zip(row.index.tolist(), row)) if has_names else row

        rows = [named(row) for row in self.rows]
        for name, row in zip(self.index or range(len(rows)), rows):
            no_set(f"{self.argument} of {name}", row)
            if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
                raise ValueError(f"network(): {self.argument} of {quoted(name)} is {quoted(repr(row))}; expected a row of values for each node or region")
        of_names = [isinstance(row, Mapping) for row in rows]
        if not any(of_names):
            return self
        names = self.index
        if names is None or self.is_default:
            names = list(rows[0]) if len(rows[0]) == len(rows) else []
        known = set(names)
        for name, row in zip(names, rows):
            if not isinstance(row, Mapping):
                raise ValueError(f"network(): the rows of {self.argument} are mappings in part; {quoted(name)} has none")
            if foreign := [column for column in row if column not in known]:
                raise ValueError(f"network(): {self.argument} of {quoted(name)} leads to {listed(foreign)}, but the rows are {listed(names)}")
        if not names:
            raise ValueError(f"network(): {self.argument} is a list of {len(rows)} mappings; expected a mapping of mappings by name")
        return Labelled(self.argument, [[row.get(column) for column in names] for row in rows], list(names), list(names))

    def _column(self) -> Labelled:
        """Returns the single column of a frame, or one beside a column of names."""
        width = {len(row) for row in self.rows}
        if width == {1}:
            return Labelled(self.argument, [row[0] for row in self.rows], self.index, None, self.is_default)
        if width == {2} and all(isinstance(row[0], str) for row in self.rows):
            return Labelled(self.argument, [row[1] for row in self.rows], [row[0] for row in self.rows])
        raise ValueError(f"network(): {self.argument} has the columns {listed(self.columns or [])}; expected one value for each node")

    def square(self) -> Labelled:
        """Returns the rows of a matrix in the order of its columns, with their names."""
        rows, index, columns = [list(row) for row in self.rows], self.index, self.columns
        is_default = self.is_default
        for at in range(len(rows) + 1) if columns is not None and len(columns) == len(rows) + 1 else ():
            others: list[Hashable] = [*(columns or ())[:at], *(columns or ())[at + 1 :]]
            if {str(row[at]) for row in rows} == set(map(str, others)):
                # This column has the names of the rows.
                index, columns, is_default = [plain_of(row[at]) for row in rows], others, False
                rows = [[*row[:at], *row[at + 1 :]] for row in rows]
                break
        if columns is None and index is not None and len(index) == len(rows):
            # Rows without names of columns have them in the order of the rows.
            return Labelled(self.argument, rows, index, None, is_default)
        if columns is None or len(columns) != len(rows) or len(set(columns)) < len(columns):
            return Labelled(self.argument, rows)
        if columns == list(range(len(columns))) and (index is None or is_default):
            return Labelled(self.argument, rows, columns, None, True)
        if index is not None and not is_default:
            place = _places(index, columns)
            if place is None or len(index) != len(columns):
                raise ValueError(f"network(): {self.argument} has the rows {listed(index)}, but the columns {listed(columns)}")
            rows = [rows[at] for at in place]
        is_unnamed = all(str(column) == f"column_{at}" for at, column in enumerate(columns))
        return Labelled(self.argument, rows, None if is_unnamed else list(columns))

    def order(self, names: Sequence[Hashable], what: str, *, is_exact: bool = False) -> list[int]:
        """Returns the place of each name among the rows: by label, or in order without labels. With
        `is_exact`, there may be no other row."""
        own = self.index
        in_order = list(range(len(self.rows)))
        if own is None or not names or [str(name) for name in own] == [str(name) for name in names]:
            return in_order
        place = _places(own, names)
        if self.is_default:
            if place is not None and place != in_order and len(own) == len(names):
                raise ValueError(
                    f"network(): {self.argument} has no labels but 0 to {len(own) - 1}, which are {what} in another order; set its index and "
                    f"columns to the {what}, or pass {self.argument}.to_numpy() for the order {listed(list(names))}"
                )
            return in_order
        if place is None:
            known = set(map(str, own))
            if len(known) < len(own):
                twice = next(name for name, count in Counter(map(str, own)).items() if count > 1)
                raise ValueError(f"network(): {self.argument} has {quoted(twice)} twice; names have to differ")
            missing = [name for name in names if str(name) not in known]
            raise ValueError(
                f"network(): {self.argument} has {listed(own)}, but {what} are {listed(list(names))} ({listed(missing)} missing); name them "
                f"alike, or pass values without names, in the order of {what}"
            )
        wanted = set(map(str, names))
        if is_exact and (extra := [name for name in own if str(name) not in wanted]):
            raise ValueError(f"network(): {self.argument} has {listed(extra)}, but {what} are {listed(list(names))}; remove what is none of them")
        return place


@dataclass
class Single:
    """One value for all nodes."""

    value: Any


def _places(own: Sequence[Hashable], names: Sequence[Hashable]) -> list[int] | None:
    """Returns the place of each name, compared as texts; `None` if one is missing or not unique."""
    place = {str(name): at for at, name in enumerate(own)}
    if len(place) < len(own) or any(str(name) not in place for name in names):
        return None
    return [place[str(name)] for name in names]


def listed(names: Sequence[Any]) -> str:
    """Returns a few names for a message."""
    some = ", ".join(printable(str(name)[:40]) for name in names[:8])
    return some + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def no_set(argument: str, value: Any) -> None:
    """Rejects a set as a list of values: its order may differ between two runs of a program."""
    if isinstance(value, (set, frozenset)):
        raise TypeError(f"network(): {argument} is a {type(value).__name__}, which has no order; pass a list, such as sorted({argument})")


def plain_of(value: Any) -> Any:
    """Returns a value of NumPy as one of Python."""
    return value.item() if hasattr(value, "item") else value
