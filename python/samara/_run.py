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

#: Rows beyond which a table is not kept in memory.
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

    `scenario` is the name of a built-in one (`samara.scenarios()`), the path of a file, or a [`samara.Scenario`][]. `keys` are keys of the scenario
    and their values: `**{"network.nodes": 250}`. `seed` is one or several, instead of the scenario's; `only` are the runs to do.

    `runs` are further variants, by name: the keys that they change. `policies` are scheduling policies in Python, by name: each gets a run of
    its own, unless the scenario names it in a schedule of the kind `custom`.

    `threads` are all processors, if not given; results do not depend on it. `progress` is shown in notebooks and terminals; `False` shows
    nothing, and a function is told names and shares of runs instead.

    `tables` are the names of those to keep in memory (all, if not given), unless they have more than `rows_max` rows. With `out`, everything is
    written into a results directory as `samara run` does it, tables as soon as their run is over; `force` overwrites a finished one.

    Raises a [`samara.ScenarioError`][] with everything that is wrong, whatever a policy raised, and `KeyboardInterrupt`.
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
    """The tables of a scenario, as far as they can be read: what is wrong is told when it is loaded."""
    if isinstance(scenario, Scenario):
        return scenario.to_dict()
    name = fspath(scenario)
    if name in scenarios():
        return tomllib.loads(_samara.load(name).toml)
    try:
        return tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
