"""Tables in Arrow's format."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from samara import _samara

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: Maximum number of rows that a notebook shows.
SHOWN_ROWS = 8


class Table:
    """A table in Arrow's format.

    pyarrow, polars, pandas (from version 3 on) and DuckDB read it directly and share its memory:
    `polars.DataFrame(table)`, `duckdb.sql("select ... from table")`.
    """

    def __init__(self, native: _samara.Table) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name of the table and, without `.parquet`, of its Parquet file."""
        return self._native.name

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    @property
    def nbytes(self) -> int:
        """The size of the columns in bytes."""
        return self._native.nbytes

    def __len__(self) -> int:
        return len(self._native)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def to_arrow(self) -> pyarrow.Table:
        """Returns a table of pyarrow that shares the memory."""
        table: pyarrow.Table = _import("pyarrow", "to_arrow()").table(self)
        return table

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Returns a data frame of pandas. `options` are those of pyarrow's `Table.to_pandas`."""
        _import("pandas", "to_pandas()")
        _import("pyarrow", "to_pandas()")
        frame: pandas.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Returns a data frame of polars that shares the memory."""
        frame: polars.DataFrame = _import("polars", "to_polars()").DataFrame(self)
        return frame

    def to_pydict(self, limit: int | None = None) -> dict[str, list[Any]]:
        """Returns columns as lists of Python values: for small tables, without other packages."""
        return self._native.to_pydict(limit)

    def to_pylist(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns rows as dictionaries: for small tables, without other packages."""
        columns = self.to_pydict(limit)
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def __repr__(self) -> str:
        return f"<samara.Table {self.name}: {len(self):,} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = self.to_pylist(SHOWN_ROWS)
        cells = ("".join(f"<td>{_shown(value)}</td>" for value in row.values()) for row in head)
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        titles = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        more = f"<p>{len(self):,} rows, {len(self.columns)} columns, {self.nbytes / 1e6:.1f} MB</p>"
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _shown(value: Any) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def _import(module: str, wanted_by: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{wanted_by} needs {module}: pip install {module}; to_pydict() and to_pylist() work without it"
        ) from error
