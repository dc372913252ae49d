"""Rows of tables of various types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Returns the rows of a table. Values of NumPy become plain ones.

    `table` is a data frame of pandas or polars, a table of pyarrow or Samara, any object with
    Arrow's stream interface, a mapping of columns, or a list of dictionaries.
    """
    if hasattr(table, "to_pylist"):  # pyarrow, samara.Table
        rows = table.to_pylist()
    elif hasattr(table, "iter_rows"):  # polars
        rows = list(table.iter_rows(named=True))
    elif hasattr(table, "to_dict") and hasattr(table, "iloc"):  # pandas
        rows = table.to_dict(orient="records")
    elif isinstance(table, Mapping):
        columns = {str(name): list(column) for name, column in table.items()}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a table have different lengths: {lengths}")
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    elif isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        rows = [dict(row) for row in table]
    elif hasattr(table, "__arrow_c_stream__"):
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError(f"reading a {type(table).__name__} needs pyarrow: pip install pyarrow") from error
        rows = pyarrow.table(table).to_pylist()
    else:
        raise TypeError(
            f"a {type(table).__name__} is not a table; expected a data frame, an Arrow table, a mapping of columns, or a list of dictionaries"
        )
    columns_of_first = set(rows[0]) if rows else set()
    for number, row in enumerate(rows):
        if set(row) != columns_of_first:
            raise ValueError(f"row {number} of a table has {sorted(row)}, but the first row has {sorted(columns_of_first)}")
    return [{key: value.item() if hasattr(value, "item") else value for key, value in row.items()} for row in rows]
