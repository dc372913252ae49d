"""The results of a scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara import _samara
from samara._compare import Comparison, written
from samara._frame import html_frame
from samara._scenario import Prepared
from samara._table import Table


@dataclass(frozen=True)
class Run:
    """One run of a scenario."""

    #: The name in the scenario.
    name: str
    #: The seed of the run.
    seed: int
    #: The parameters that distinguish the run: its seed, the values of a sweep, and its size.
    parameters: dict[str, Any]
    #: The metrics, as docs/results.md defines them.
    metrics: dict[str, Any]
    #: Digest of all packets that all hosts received: equal digests mean equal runs.
    digest: str
    #: Number of steps of the simulation.
    steps: int

    def __repr__(self) -> str:
        return f"<samara.Run {self.name}, seed {self.seed}: digest {self.digest}>"


class Figure:
    """A figure of a report."""

    def __init__(self, name: str, svg: str) -> None:
        self.name = name
        self.svg = svg

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the figure as `.svg` or `.png`."""
        target = Path(fspath(path))
        if target.suffix == ".png":
            target.write_bytes(_samara.Outcome.png(self.svg))
        elif target.suffix == ".svg":
            target.write_text(self.svg, encoding="utf-8")
        else:
            raise ValueError(f"{target}: figures are written as .svg and .png")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<samara.Figure {self.name}>"


class Report:
    """The report of a result: one HTML file, which a notebook shows in a frame."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the report as an HTML file."""
        target = Path(fspath(path))
        target.write_text(self.html, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return html_frame(self.html)

    def __repr__(self) -> str:
        return f"<samara.Report: {len(self.html) / 1e3:.0f} kB of HTML>"


class Result:
    """The results of all runs of a scenario, in memory or in a directory ([`samara.open`][])."""

    def __init__(self, native: _samara.Outcome | _samara.Opened, scenario: Prepared) -> None:
        self._native = native
        self._scenario = scenario
        self.summary: dict[str, Any] = json.loads(native.summary_json)
        """The document that `samara run --format json` prints."""

    @property
    def digest(self) -> str:
        """The digest of all runs: equal digests mean equal runs."""
        return str(self.summary["digest"])

    @property
    def runs(self) -> list[Run]:
        """All runs of the result."""
        return [
            Run(run["name"], run["parameters"]["seed"], run["parameters"], run["metrics"], run["digest"], run["steps"])
            for run in self.summary["runs"]
        ]

    def run(self, name: str, seed: int | None = None) -> Run:
        """Returns the first run with a name and, optionally, a seed."""
        for run in self.runs:
            if run.name == name and seed in (None, run.seed):
                return run
        known = ", ".join(f"{run.name} (seed {run.seed})" for run in self.runs)
        raise KeyError(f"there is no such run; the runs are {known}")

    @property
    def expectations(self) -> list[dict[str, Any]]:
        """The scenario's expectations, with measured values and whether they hold. Those of a built-in
        scenario do not count if keys were changed."""
        keys = ("run", "expected", "found", "holds", "counts")
        return [dict(zip(keys, outcome)) for outcome in self._native.expectations]

    @property
    def toml(self) -> str:
        """The scenario of these results, with all defaults filled in."""
        return self._native.toml

    @property
    def directory(self) -> Path | None:
        """The results directory; `None` without `out`."""
        return self._native.directory

    @property
    def origin(self) -> dict[str, Any]:
        """How, when and where the result was made: `command`, `commit`, `finished_unix_s`, `machine`."""
        return dict(self.summary.get("origin", {}))

    # ---- tables ----

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return self._native.table_names

    def table(self, name: str, run: str | None = None, seed: int | None = None) -> Table:
        """Returns a table over all runs, or only those with a name or seed.

        The first columns label the runs.
        """
        return Table(self._native.table(name, run, seed))

    @property
    def deliveries(self) -> Table:
        """A row for each delivery of an item at a node, with `delivery_latency_ms`.

        Items are columns, messages, transactions, broadcasts or rounds. A run with more than
        5,000,000 deliveries has no such table; columns have no limit.
        """
        return self.table("deliveries")

    @property
    def paths(self) -> Table:
        """A row for each explained delivery: where its time went. Runs with `tables=["paths"]` have it.

        `delivery_latency_ns` is the sum of the columns of causes, such as `same_batch_ns`. Those that
        begin with `hop_` have the parts since the sender had the item.
        """
        return self.table("paths")

    @property
    def copies(self) -> Table:
        """A row for each received copy, in order of arrival."""
        return self.table("copies")

    @property
    def traffic(self) -> Table:
        """A row for each node: its sent, received and lost bytes and packets."""
        return self.table("traffic")

    @property
    def metrics(self) -> Table:
        """A row for each run and a column for each metric."""
        return Table(self._native.metrics())

    @property
    def by_class(self) -> Table:
        """A row for each run and class of `[[network.class]]`, and a column for each metric."""
        return Table(self._native.by_class())

    @property
    def edges(self) -> Table:
        """The links of every run: `dialer` and `listener`."""
        return self._scenario.edges

    @property
    def custody(self) -> Table:
        """The custody columns of nodes in every run."""
        return self._scenario.custody

    # ---- figures and reports ----

    @property
    def figures(self) -> list[str]:
        """The names of the figures."""
        return self._native.figure_names

    def figure(self, name: str) -> Figure:
        """Returns a figure of the report, such as "custody"."""
        return Figure(name, self._native.figure(name))

    def report(self) -> Report:
        """Returns the report that `samara run` writes."""
        return Report(self._native.html())

    def curve(self, metric: str | None = None) -> Curve:
        """Returns a metric over the sweep of the scenario, with means and intervals over seeds.

        Without a sweep, it compares the runs of the scenario. `metric` is a path such as
        "delivery_latency_ms.mean" or "by_class.hub.delivery_latency_ms.mean", by default the first
        headline.
        """
        return Curve(self, *self._native.curve(metric))

    # ---- comparison and storage ----

    def compare(
        self,
        other: Result | str | PathLike[str],
        *,
        names: tuple[str, str] = ("this", "other"),
        pairs: Mapping[str, str] | None = None,
    ) -> Comparison:
        """Compares this with a result in memory or in a directory. `names` are their labels.

        `pairs` maps runs of this result to runs of the other one that they are compared with although
        their names differ.
        """
        second = other._native if isinstance(other, Result) else fspath(other)
        return Comparison(_samara.compare_results(self._native, second, names, written(pairs)))

    def write(self, path: str | PathLike[str], *, force: bool = False) -> Path:
        """Writes a results directory like `samara run`. `samara compare` can read it."""
        self._native.write(fspath(path), force)
        return Path(fspath(path))

    def __str__(self) -> str:
        return self._native.text

    def __repr__(self) -> str:
        return f"<samara.Result of {self.summary['scenario']}: {len(self.runs)} runs, digest {self.digest}>"

    def _repr_html_(self) -> str:
        return f"<pre style='line-height: 1.2'>{escape(self._native.text)}</pre><p>digest <code>{self.digest}</code></p>"


def open(directory: str | PathLike[str]) -> Result:  # noqa: A001
    """Opens a results directory that `samara run`, `samara sweep`, `out=` or `Result.write` has written.

    Metrics, tables, curves, comparisons, figures and the report are those of the result. Tables are read
    from their files at each access. `print(result)` has the finding and the headline metrics. All
    expectations count. A directory of `samara sweep` has no tables of single runs.

    Raises a [`samara.DirectoryError`][] if it is no result, or its scenario cannot be loaded.
    """
    native = _samara.open(fspath(directory))
    return Result(native, Prepared(native.loaded))


class Curve:
    """A metric over the values of a sweep, or of the runs of a scenario: means over seeds, with Student's
    95 % confidence intervals."""

    def __init__(self, result: Result, metric: str, table: _samara.Table, name: str, svg: str) -> None:
        #: The result with all runs. `result.curve(...)` has another metric of the same runs.
        self.result = result
        #: The path of the metric.
        self.metric = metric
        #: A row for each point: `run`, a column for each key, `mean`, `confidence_95` (half the width of
        #: the interval; null for one seed), `min`, `max` and `seeds`, the number of seeds that measured
        #: the metric. Means of `incomplete`, `lost` and `wrong` follow, if the scenario counts these.
        self.table = Table(table)
        self._figure = Figure(name, svg)

    def figure(self) -> Figure:
        """Returns the means over the last key with a band for the intervals: a line for each run and
        each combination of values of the other keys. Without keys, it has a bar for each run."""
        return self._figure

    def __repr__(self) -> str:
        return f"<samara.Curve of {self.metric}: {len(self.table)} points, {len(self.result.runs)} runs>"

    def _repr_html_(self) -> str:
        return f"{self._figure.svg}{self.table._repr_html_()}"
