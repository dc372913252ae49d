"""Runs scenarios."""

from __future__ import annotations

import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from samara import _arguments, _progress, _samara
from samara._policy import Policy, PolicyLike, names_policy
from samara._result import Curve, Result
from samara._scenario import Prepared, Scenario, prepare, scenarios, source_of
from samara._values import literal, toml

#: Default of `rows_max`: tables with more rows are not kept in memory.
ROWS_MAX = 50_000_000
#: The arguments of `run` beside keys.
ARGUMENTS = ("seed", "only", "runs", "policies", "threads", "progress", "tables", "rows_max", "out", "force")
#: The arguments of `sweep` beside keys.
SWEEP_ARGUMENTS = ("over", "seeds", "metric", *ARGUMENTS[1:7], *ARGUMENTS[8:])


def run(
    scenario: str | PathLike[str] | Scenario,
    seed: int | Sequence[int] | None = None,
    *,
    only: str | Sequence[str] | None = None,
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    policies: Mapping[str, Policy | PolicyLike] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[list[tuple[str, float]]], object] | None = None,
    tables: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    **keys: Any,
) -> Result:
    """Runs a scenario in the simulator.

    `scenario` is the name of a built-in scenario (`samara.scenarios()`), the path of a file, or a
    [`samara.Scenario`][]. `keys` are keys of the scenario and their values:
    `**{"network.nodes": 250}`. `seed` is one or several seeds instead of the scenario's. `only`
    selects runs.

    `runs` are further variants: their names, and the keys that they change. `policies` are
    scheduling policies in Python, by name. Each has a separate run, unless the scenario names the
    policy in a schedule of the kind `custom`.

    `threads` is the number of threads, by default that of all processors; results do not depend on
    it. Notebooks and terminals show `progress`; `False` disables it, and a function receives the
    names and shares of runs instead.

    `tables` names the tables to keep in memory, by default all, except those with more than
    `rows_max` rows. Deliveries are explained only if it names `paths`. `out` is a results directory
    like that of `samara run`; tables are written as soon as their run ends. `force` overwrites a
    finished result.

    Notes on the scenario, such as unused parts of its files, are warnings.

    Raises a [`samara.ScenarioError`][] with all problems of the scenario, the exception of a
    policy, or `KeyboardInterrupt`.
    """
    _arguments.keys("samara.run", keys, ARGUMENTS)
    loaded = _load(scenario, seed, {}, only, runs, policies, keys)
    return _execute(loaded, threads, progress, tables, rows_max, out, force)


def sweep(
    scenario: str | PathLike[str] | Scenario,
    over: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
    metric: str | None = None,
    *,
    only: str | Sequence[str] | None = None,
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    policies: Mapping[str, Policy | PolicyLike] | None = None,
    threads: int | None = None,
    progress: bool | Callable[[list[tuple[str, float]]], object] | None = None,
    tables: Sequence[str] | None = (),
    out: str | PathLike[str] | None = None,
    force: bool = False,
    **keys: Any,
) -> Curve:
    """Runs a scenario with several values of keys, and returns a metric over them with its intervals.

        >>> degrees = {"protocol.degree": [4, 6, 8]}
        >>> curve = samara.sweep("mine.toml", over=degrees, seeds=20, metric="delivery_latency_ms.mean")
        >>> curve.table.to_pandas()
        >>> curve.figure().save("degrees.png")

    `over` maps keys of the scenario to their values, like `--grid` of `samara sweep`: all combinations
    run, beside those of the scenario's own sweep. Without keys, the runs of the scenario are compared.
    `seeds` is a number (20 means 1 to 20) or a list; default: the scenario's. `metric` is a path such
    as `delivery_latency_ms.mean`; default: the first headline of the scenario.

    The other arguments are those of [`samara.run`][], but `tables` of single runs are kept only if it
    names them.
    """
    _arguments.keys("samara.sweep", keys, SWEEP_ARGUMENTS)
    axes = _arguments.axes(over)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = range(1, 1 + _arguments.whole("seeds", seeds, "a number of at least 1, or a list of seeds", least=1))
    if not (metric is None or isinstance(metric, str)):
        raise _arguments.wrong("metric", metric, "the path of a metric, such as 'delivery_latency_ms.mean'")
    loaded = _load(scenario, seeds, axes, only, runs, policies, keys)
    loaded.native.check_curve(metric)
    return _execute(loaded, threads, progress, tables, ROWS_MAX, out, force).curve(metric)


def _load(
    scenario: str | PathLike[str] | Scenario,
    seed: int | Sequence[int] | None,
    axes: Mapping[str, list[Any]],
    only: str | Sequence[str] | None,
    runs: Mapping[str, Mapping[str, Any]] | None,
    policies: Mapping[str, Policy | PolicyLike] | None,
    keys: Mapping[str, Any],
) -> Prepared:
    """Loads a scenario with the arguments of `run` and `sweep`. Its notes are warnings."""
    source = source_of(scenario)
    chosen = _arguments.names("only", only, "a run")
    changes = "a mapping of names to changed keys, such as {'fast': {'network.bandwidth': '1 Gbit/s'}}"
    variants = [
        {"name": name, "set": toml(_arguments.mapping(f"runs[{name!r}]", keys_of_run, "a mapping of keys to values"))}
        for name, keys_of_run in _arguments.mapping("runs", runs, changes).items()
    ]
    objects: dict[str, object] = {}
    if policies:
        table = _table_of(source)
        for name, given in _arguments.mapping("policies", policies, "a mapping of names to policies").items():
            policy = given if isinstance(given, Policy) else Policy(given)
            objects[name] = policy.policy
            if not names_policy(table, name):
                variants.append(policy.run(name, table))
    added = [variant["name"] for variant in variants]
    if chosen:
        chosen += [name for name in added if name not in chosen]
    loaded = prepare(
        source,
        seed=seed,
        axes=[(key, [literal(key, value) for value in values]) for key, values in axes.items()],
        only=chosen or None,
        runs=variants,
        policies=objects,
        **keys,
    )
    for note in loaded.notes:
        warnings.warn(note, stacklevel=3)
    return loaded


def _execute(
    loaded: Prepared,
    threads: int | None,
    progress: bool | Callable[[list[tuple[str, float]]], object] | None,
    tables: Sequence[str] | None,
    rows_max: int,
    out: str | PathLike[str] | None,
    force: bool,
) -> Result:
    """Runs a loaded scenario."""
    kept = None if tables is None else _arguments.names("tables", tables, "a table", can_be_empty=True)
    workers = None if threads is None else _arguments.whole("threads", threads, "a number of at least 1", least=1)
    rows = _arguments.whole("rows_max", rows_max, "a number of rows")
    directory = None if out is None else _arguments.path("out", out, "the path of a directory")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise _arguments.wrong("progress", progress, "True, False or a function")
    display = _progress.display(progress)
    try:
        native = loaded.native.run(
            command=_command(),
            threads=workers,
            progress=None if isinstance(display, _progress.Nothing) else display,
            tables=kept,
            rows_max=rows,
            out=directory,
            force=force,
        )
    finally:
        display.close()
    return Result(native, loaded)


def _command() -> str:
    """Returns the command of this process, for the origin of results."""
    program, *arguments = sys.argv or [""]
    if Path(program).is_file() and not program.endswith("ipykernel_launcher.py"):
        return shlex.join(["python", Path(program).name, *arguments])
    return "python, in a notebook" if _progress.in_notebook() else "python, interactively"


def _table_of(scenario: str | Scenario) -> Mapping[str, Any]:
    """Returns the tables of a scenario. It is empty on errors, which loading reports."""
    if isinstance(scenario, Scenario):
        return scenario.to_dict()
    if scenario in scenarios():
        return tomllib.loads(_samara.load(scenario).toml)
    try:
        return tomllib.loads(Path(scenario).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
