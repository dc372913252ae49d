"""Python values as a scenario writes them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from samara._samara import json_to_toml


def plain(value: Any) -> Any:
    """A value of JSON: numbers of NumPy become numbers, tuples and arrays lists; keys without a value are left out."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(item) for item in value]
    raise TypeError(f"{value!r} is a {type(value).__name__}, which a scenario cannot hold")


def toml(table: Mapping[str, Any]) -> str:
    """A table as TOML."""
    return json_to_toml(json.dumps(plain(table)))


def literal(key: str, value: Any) -> str:
    """A value as one would write it behind `--set KEY=` on the command line."""
    value = plain(value)
    if value is None:
        raise TypeError(f"{key}: None is no value; leave the key out")
    if isinstance(value, str):
        # What does not read as TOML is taken as a text anyway, and looks better in messages.
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


def names(value: str | list[str] | tuple[str, ...] | None) -> list[str]:
    """One name, or several."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
