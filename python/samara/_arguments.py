"""Checks of arguments. An error names the argument, the value and what is expected."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Set
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any, TypeVar

#: The largest number that a scenario can hold.
WHOLE_MAX = 2**63 - 1

T = TypeVar("T")


def wrong(argument: str, value: object, expected: str) -> TypeError:
    """Returns the error for a value of the wrong type."""
    return TypeError(f"{argument}: found {value!r}; expected {expected}")


def whole(argument: str, value: Any, expected: str, *, least: int = 0) -> int:
    """Returns a whole number, which may be one of NumPy."""
    if isinstance(value, bool):
        raise wrong(argument, value, expected)
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(argument, value, expected) from None
    if not least <= number <= WHOLE_MAX:
        raise ValueError(f"{argument}: found {number}; expected {expected}")
    return number


def seeds(value: Any) -> list[int]:
    """Returns a list of one seed or several; empty for the scenario's."""
    expected = f"a whole number from 0 to {WHOLE_MAX}, or a list of such numbers"
    return _several("seed", value, expected, lambda one: whole("seed", one, expected))


def names(argument: str, value: Any, of: str, *, can_be_empty: bool = False) -> list[str]:
    """Returns a list of one name or several; empty if the argument is absent."""
    if can_be_empty and isinstance(value, Iterable) and not isinstance(value, str):
        value = list(value) or None
    expected = f"the name of {of}, or a list of such names"

    def name(one: Any) -> str:
        if not isinstance(one, str):
            raise wrong(argument, one, expected)
        return one

    return _several(argument, value, expected, name)


def _several(argument: str, value: Any, expected: str, each: Callable[[Any], T]) -> list[T]:
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [each(value)]
    found = [each(one) for one in value]
    if not found:
        raise ValueError(f"{argument}: found no element; expected {expected}; omit the argument for the default")
    return found


def mapping(argument: str, value: Any, expected: str) -> Mapping[str, Any]:
    """Returns a mapping with texts as keys; empty if the argument is absent."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(argument, value, expected)
    for key in value:
        if not isinstance(key, str):
            raise wrong(argument, key, f"a text as key of {expected}")
    return value


def axes(value: Any) -> dict[str, list[Any]]:
    """Returns the keys of a sweep with their values."""
    expected = "a mapping of keys to lists of values, such as {'protocol.degree': [4, 6, 8]}"
    found = {}
    for key, values in mapping("over", value, expected).items():
        if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
            raise wrong(f"over[{key!r}]", values, "a list of values")
        found[key] = list(values)
        if not found[key]:
            raise ValueError(f"over[{key!r}]: found no value; expected a list of values, or no such key")
        if twice := [one for at, one in enumerate(found[key]) if one in found[key][:at]]:
            raise ValueError(f"over[{key!r}]: found {twice[0]!r} twice; each value is one point; use seeds to repeat it")
    return found


def path(argument: str, value: Any, expected: str) -> str:
    """Returns a path as text."""
    if not isinstance(value, (str, PathLike)):
        raise wrong(argument, value, expected)
    return str(fspath(value))


def keys(function: str, given: Mapping[str, Any], arguments: Iterable[str]) -> None:
    """Rejects keywords that are neither an argument of the function nor a key of a scenario."""
    for key in given:
        if "." in key:
            continue
        close = get_close_matches(key, list(arguments), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TypeError(
            f"{function}() has no argument {key}; expected one of {', '.join(arguments)}, or a key of the "
            f'scenario such as **{{"network.nodes": 250}}{hint}'
        )
