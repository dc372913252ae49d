"""Runs scenarios."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara import _progress, _samara
from samara._policy import Policy, PolicyLike, names_policy
from samara._result import Result
from samara._scenario import Scenario, prepare, scenarios
from samara._values import names, toml

#: Default of `rows_max`: tables with more rows are not kept in memory.
ROWS_MAX = 50_000_000


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
    `rows_max` rows. `out` is a results directory like that of `samara run`; tables are written as
    soon as their run ends. `force` overwrites a finished result.

    Raises a [`samara.ScenarioError`][] with all problems of the scenario, the exception of a
    policy, or `KeyboardInterrupt`.
    """
    chosen = names(list(only) if only is not None and not isinstance(only, str) else only)
    variants = [{"name": name, "set": toml(changes)} for name, changes in (runs or {}).items()]
    objects: dict[str, object] = {}
    if policies:
        table = _table_of(scenario)
        for name, given in policies.items():
            policy = given if isinstance(given, Policy) else Policy(given)
            objects[name] = policy.policy
            if not names_policy(table, name):
                variants.append(policy.run(name, table))
    added = [variant["name"] for variant in variants]
    if chosen:
        chosen += [name for name in added if name not in chosen]
    loaded = prepare(
        scenario,
        seed=seed if seed is None or isinstance(seed, int) else [int(one) for one in seed],
        only=chosen,
        runs=variants,
        policies=objects,
        **keys,
    )
    display = _progress.display(progress)
    try:
        native = loaded.native.run(
            threads=threads,
            progress=None if isinstance(display, _progress.Nothing) else display,
            tables=None if tables is None else list(tables),
            rows_max=rows_max,
            out=None if out is None else fspath(out),
            force=force,
        )
    finally:
        display.close()
    return Result(native, loaded)


def _table_of(scenario: str | PathLike[str] | Scenario) -> Mapping[str, Any]:
    """Returns the tables of a scenario. It is empty on errors, which loading reports."""
    if isinstance(scenario, Scenario):
        return scenario.to_dict()
    name = fspath(scenario)
    if name in scenarios():
        return tomllib.loads(_samara.load(name).toml)
    try:
        return tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
