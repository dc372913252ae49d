"""Scenarios from files and from code."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara import _samara
from samara._network import Part
from samara._table import Table
from samara._values import literal, names, plain, toml



def scenarios() -> dict[str, str]:
    """Returns the names and titles of the built-in scenarios."""
    return dict(_samara.scenarios())


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of scenarios: every key, with its description."""
    import json

    return dict(json.loads(_samara.schema()))


class Scenario:
    """A scenario in code: the sections of a scenario file as keywords, each a mapping of its keys.

        samara.Scenario(
            "mine",
            network=samara.network(graph, uplink="20 Mbit/s"),
            columns={"blobs": 8, "count": 128, "custody": 16},
            runs={"batch": {"protocol.schedule_publish": {"kind": "interleaved"}}},
        )

    Parts from [`samara.network`][] and [`samara.messages`][] include their files. Nothing is
    checked before [`load`][samara.Scenario.load] or [`samara.run`][]. `samara.schema()` describes
    every key.
    """

    def __init__(
        self,
        name: str,
        *,
        title: str = "",
        description: str = "",
        seeds: list[int] | None = None,
        runs: Mapping[str, Mapping[str, Any]] | None = None,
        **sections: Any,
    ) -> None:
        about = {"name": name, "title": title or name, "description": description, "seeds": seeds}
        self._table: dict[str, Any] = {"scenario": plain(about)}
        self._files: dict[str, bytes] = {}
        self._directory: Path | None = None
        for section, value in sections.items():
            self.set(section, value)
        for run, keys in (runs or {}).items():
            self.add_run(run, set=keys)

    @classmethod
    def from_toml(
        cls, text: str, *, files: Mapping[str, bytes] | None = None, directory: str | PathLike[str] | None = None
    ) -> Scenario:
        """Creates a scenario from the text of a scenario file.

        `files` are the files that it names, by name. Other files are read from `directory`.
        """
        return cls._of(tomllib.loads(text), files or {}, directory)

    @classmethod
    def from_dict(
        cls,
        table: Mapping[str, Any],
        *,
        files: Mapping[str, bytes] | None = None,
        directory: str | PathLike[str] | None = None,
    ) -> Scenario:
        """Creates a scenario from the tables of a scenario file, as dictionaries."""
        return cls._of(table, files or {}, directory)

    @classmethod
    def open(cls, source: str | PathLike[str]) -> Scenario:
        """Opens a built-in scenario by its name, or a scenario file."""
        name = fspath(source)
        if name in scenarios():
            return cls.from_toml(_samara.load(name).toml)
        path = Path(name)
        if not path.exists():
            _samara.load(name)  # raises the same error as the command line
        return cls.from_toml(path.read_text(encoding="utf-8"), directory=path.parent)

    @classmethod
    def _of(cls, table: Mapping[str, Any], files: Mapping[str, bytes], directory: str | PathLike[str] | None) -> Scenario:
        made = cls("scenario")
        made._table = plain(table)
        made._files = dict(files)
        made._directory = None if directory is None else Path(directory)
        return made

    @property
    def name(self) -> str:
        """The name in results."""
        return str(self._table.get("scenario", {}).get("name", "scenario"))

    @property
    def files(self) -> dict[str, bytes]:
        """The files in memory that the scenario names."""
        return dict(self._files)

    @property
    def directory(self) -> Path | None:
        """The directory of other files that the scenario names."""
        return self._directory

    def to_toml(self) -> str:
        """Returns the text of a scenario file, without defaults."""
        return toml(self._table)

    def to_dict(self) -> dict[str, Any]:
        """Returns the tables as dictionaries."""
        return copy.deepcopy(self._table)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the scenario, and its files in memory next to it, so that `samara run` can run
        it."""
        target = Path(fspath(path))
        target.write_text(self.to_toml(), encoding="utf-8")
        for name, content in self._files.items():
            (target.parent / name).write_bytes(content)
        return target

    def set(self, key: str, value: Any) -> Scenario:
        """Sets a dotted key or a section. Returns the scenario itself."""
        if isinstance(value, Part):
            self._files.update(value.files)
            value = value.keys
        *parents, last = key.split(".")
        table = self._table
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = plain(value)
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __getitem__(self, key: str) -> Any:
        value: Any = self._table
        for part in key.split("."):
            value = value[part]
        return value

    def add_run(self, name: str, *, set: Mapping[str, Any] | None = None, **about: str) -> Scenario:  # noqa: A002
        """Adds a variant with the dotted keys in `set`.

        `about` is its `label`, `description` and `series`.
        """
        self._table.setdefault("run", []).append({"name": name, **about, "set": plain(set or {})})
        return self

    def copy(self) -> Scenario:
        """Returns a deep copy."""
        return copy.deepcopy(self)

    def load(self, **keys: Any) -> Prepared:
        """Checks the scenario, with overrides as in `samara.run`, without running it."""
        return prepare(self, **keys)

    def __repr__(self) -> str:
        return f"<samara.Scenario {self.name}: {', '.join(self._table)}>"

    def __str__(self) -> str:
        return self.to_toml()


class Prepared:
    """A checked scenario that can be run."""

    def __init__(self, native: _samara.Loaded) -> None:
        self._native = native

    @property
    def native(self) -> _samara.Loaded:
        """The native object of the loaded scenario."""
        return self._native

    @property
    def toml(self) -> str:
        """The scenario with all defaults filled in, as `samara show` prints it."""
        return self._native.toml

    @property
    def notes(self) -> list[str]:
        """Notes on unused parts of its files, and on overrides without effect on some runs."""
        return self._native.notes

    @property
    def points(self) -> list[dict[str, Any]]:
        """Name (with the values of a sweep), seed and label of each run."""
        return [{"name": name, "seed": seed, "label": label} for name, seed, label in self._native.points]

    @property
    def edges(self) -> Table:
        """The links of every run: `dialer` and `listener`."""
        return Table(self._native.edges())

    @property
    def custody(self) -> Table:
        """The custody columns of nodes in every run."""
        return Table(self._native.custody())


def prepare(
    scenario: str | PathLike[str] | Scenario,
    *,
    seed: int | list[int] | None = None,
    only: str | list[str] | None = None,
    runs: list[dict[str, str]] | None = None,
    policies: Mapping[str, object] | None = None,
    **keys: Any,
) -> Prepared:
    """Loads a scenario with its overrides."""
    seeds = [] if seed is None else [seed] if isinstance(seed, int) else list(seed)
    settings = [(key, literal(key, value)) for key, value in keys.items()]
    native = _samara.load(
        scenario.name if isinstance(scenario, Scenario) else fspath(scenario),
        text=scenario.to_toml() if isinstance(scenario, Scenario) else None,
        files=scenario.files if isinstance(scenario, Scenario) else {},
        directory=scenario.directory if isinstance(scenario, Scenario) else None,
        set=settings,
        only=names(only),
        seeds=seeds,
        runs=runs or [],
        policies=list((policies or {}).items()),
    )
    return Prepared(native)
