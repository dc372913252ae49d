"""Scenarios from files and from code."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from os import PathLike, fspath
from os.path import relpath
from pathlib import Path
from typing import Any

from samara import _arguments, _samara
from samara._network import Part
from samara._table import Table
from samara._values import literal, plain, toml


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

    Parts from [`samara.network`][] and [`samara.messages`][] include their files. Unknown sections
    are errors at once, everything else in [`load`][samara.Scenario.load] or [`samara.run`][].
    `samara.schema()` describes every key.
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
        for run, keys in _arguments.mapping("runs", runs, "a mapping of names to changed keys").items():
            self.add_run(run, set=keys)

    @classmethod
    def from_toml(
        cls, text: str, *, files: Mapping[str, bytes] | None = None, directory: str | PathLike[str] | None = None
    ) -> Scenario:
        """Creates a scenario from the text of a scenario file.

        `files` are the files that it names, by name. Other files are read from `directory`.

        Raises a [`samara.ScenarioError`][] for unknown sections and keys, and for values of the
        wrong type.
        """
        _samara.check("scenario", text, in_code=False)
        return cls._of(tomllib.loads(text), files or {}, directory)

    @classmethod
    def from_dict(
        cls,
        table: Mapping[str, Any],
        *,
        files: Mapping[str, bytes] | None = None,
        directory: str | PathLike[str] | None = None,
    ) -> Scenario:
        """Creates a scenario from the tables of a scenario file, as dictionaries.

        Raises a [`samara.ScenarioError`][] for unknown sections and keys, and for values of the
        wrong type.
        """
        expected = "the sections of a scenario, such as {'scenario': {'name': 'mine', 'title': 'Mine'}, ...}"
        made = cls._of(_arguments.mapping("table", table, expected), files or {}, directory)
        _samara.check(made.name, made.to_toml(), in_code=True)
        return made

    @classmethod
    def open(cls, source: str | PathLike[str]) -> Scenario:
        """Opens a built-in scenario by its name, or a scenario file."""
        name = _arguments.path("source", source, "the name of a built-in scenario, or the path of a file")
        if name in scenarios():
            return cls.from_toml(_samara.load(name).toml)
        path = Path(name)
        if not path.exists():
            _samara.load(name)  # raises the same error as the command line
        text = path.read_text(encoding="utf-8")
        _samara.check(name, text, in_code=False)
        return cls._of(tomllib.loads(text), {}, path.parent)

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
        """Writes the scenario, and its files in memory next to it, so that `samara run` can run it.

        The files have the name of the scenario file before theirs: `mine.toml` comes with
        `mine.edges.csv`, so that several scenarios can share a folder. Files that the scenario reads
        from its `directory` stay there, and the written scenario names them from its own folder.
        """
        target = Path(fspath(path))
        own = {name: _beside(target, name) for name in self._files}

        def written_name(name: str) -> str:
            if name in own:
                return own[name]
            if self._directory is None or name.startswith(BUILTIN) or Path(name).is_absolute():
                return name
            return relpath(self._directory / name, target.parent)

        target.write_text(toml(_renamed(self._table, written_name)), encoding="utf-8")
        for name, content in self._files.items():
            (target.parent / own[name]).write_bytes(content)
        return target

    def set(self, key: str, value: Any) -> Scenario:
        """Sets a dotted key or a section. Returns the scenario itself."""
        if isinstance(value, Part):
            self._files.update(value.files)
            value = value.keys
        *parents, last = key.split(".")
        _check_section(self.name, key.split(".")[0])
        table: Any = self._table
        for at, parent in enumerate([*parents, None]):
            if not isinstance(table, dict):
                raise TypeError(f"{key}: found {table!r} at {'.'.join(parents[:at])}; expected a mapping there")
            if parent is not None:
                table = table.setdefault(parent, {})
        table[last] = None if value is None else plain(value, key)
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    def __getitem__(self, key: str) -> Any:
        value: Any = self._table
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise KeyError(f"{key}: the scenario does not set this key")
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
        _arguments.keys("load", {key: keys[key] for key in keys if key not in LOAD_ARGUMENTS}, LOAD_ARGUMENTS)
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


#: Prefix of the names of Samara's own files.
BUILTIN = "builtin:"


def _beside(scenario: Path, name: str) -> str:
    """Returns the name of a file in memory next to a scenario file."""
    prefix = f"{scenario.stem}."
    plain_name = name.strip("/").replace("/", "-")
    return plain_name if plain_name.startswith(prefix) else prefix + plain_name


def _renamed(value: Any, rename: Callable[[str], str], key: str = "") -> Any:
    """Returns tables with the names of files changed: the texts of `file`, `*_file` and
    `latency_file.names`, in sections, runs and axes of a sweep."""
    last = key.rpartition(".")[2]
    if isinstance(value, dict):
        axis = value.get("key")
        return {
            own: [_renamed(item, rename, axis) for item in below]
            if own == "values" and isinstance(axis, str)
            else _renamed(below, rename, own)
            for own, below in value.items()
        }
    if isinstance(value, list):
        return [_renamed(item, rename) for item in value]
    is_file = last in ("file", "names") or last.endswith("_file")
    return rename(value) if is_file and isinstance(value, str) else value


#: The arguments of `Scenario.load` beside keys.
LOAD_ARGUMENTS = ("seed", "only")


@cache
def _sections() -> frozenset[str]:
    return frozenset(schema()["properties"])


def _check_section(name: str, section: str) -> None:
    """Rejects a section that no scenario has."""
    if section not in _sections():
        about = {"name": name, "title": name}
        _samara.check(name, toml({"scenario": about, section: {}}), in_code=True)


def source_of(scenario: Any) -> str | Scenario:
    """Returns a scenario in code, or the name or path of one."""
    expected = "the name of a built-in scenario, the path of a file, or a samara.Scenario"
    if isinstance(scenario, Mapping):
        expected += "; samara.Scenario.from_dict makes one of a dictionary"
    return scenario if isinstance(scenario, Scenario) else _arguments.path("scenario", scenario, expected)


def prepare(
    scenario: str | Scenario,
    *,
    seed: Any = None,
    axes: list[tuple[str, list[str]]] | None = None,
    only: Any = None,
    runs: list[dict[str, str]] | None = None,
    policies: Mapping[str, object] | None = None,
    **keys: Any,
) -> Prepared:
    """Loads a scenario with its overrides."""
    settings = [(key, literal(key, value)) for key, value in keys.items()]
    native = _samara.load(
        scenario.name if isinstance(scenario, Scenario) else scenario,
        text=scenario.to_toml() if isinstance(scenario, Scenario) else None,
        files=scenario.files if isinstance(scenario, Scenario) else {},
        directory=scenario.directory if isinstance(scenario, Scenario) else None,
        set=settings,
        axes=axes or [],
        only=_arguments.names("only", only, "a run"),
        seeds=_arguments.seeds(seed),
        runs=runs or [],
        policies=list((policies or {}).items()),
    )
    return Prepared(native)
