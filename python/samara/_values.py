"""Python values in the notation of scenarios."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from samara._samara import json_to_toml


def plain(value: Any, at: str = "") -> Any:
    """Converts a value to one of JSON.

    Numbers of NumPy become plain numbers, tuples and arrays become lists, and keys without a value
    are omitted. Errors name the place `at`.
    """
    if isinstance(value, Mapping):
        inner = f"{at}." if at else ""
        return {str(key): plain(item, f"{inner}{key}") for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(item, f"{at}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return plain(value.tolist(), at)
    found = f"{at}: found {value!r}" if at else f"found {value!r}"
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"{found}; expected a text, a number, True or False, a list or a mapping")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{found}; expected a number of at most 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{found}; expected a finite number")
    return value


def toml(table: Mapping[str, Any]) -> str:
    """Converts a table to TOML."""
    return json_to_toml(json.dumps(plain(table)))


def literal(key: str, value: Any) -> str:
    """Formats a value for `--set KEY=` on the command line."""
    if value is None:
        raise TypeError(f"{key}: None is not a value; omit the key")
    value = plain(value, key)
    if isinstance(value, str):
        # Text that is not TOML is read as a string anyway, and looks better in messages without
        # quotes.
        try:
            tomllib.loads(f"v = {value}")
        except tomllib.TOMLDecodeError:
            return value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_inline(item)}" for name, item in value.items()) + " }"
    return _inline(value)


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return literal("", value)
    return repr(value)
