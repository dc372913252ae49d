"""Samara measures how well one piece of data gets from one machine to all others.

    >>> import samara
    >>> result = samara.run("peerdas", only=["batch", "node-wide"], **{"network.nodes": 250})
    >>> result.deliveries.to_pandas()
    >>> result.figure("custody")

See docs/guides/python.md for a guide.
"""

from samara._compare import Comparison, compare
from samara._network import Network, messages, network
from samara._policy import Policy, PolicyLike, SchedulingPolicy
from samara._result import Curve, Figure, Report, Result, Run, open  # noqa: A004
from samara._run import run, sweep
from samara._samara import (
    DirectoryError,
    Error,
    FigureError,
    PendingCopy,
    PolicyError,
    RunError,
    ScenarioError,
    TableError,
    __version__,
)
from samara._scenario import Prepared, Scenario, scenarios, schema
from samara._table import Table

__all__ = [
    "Comparison",
    "Curve",
    "DirectoryError",
    "Error",
    "Figure",
    "FigureError",
    "Network",
    "PendingCopy",
    "Policy",
    "PolicyError",
    "PolicyLike",
    "Prepared",
    "Report",
    "Result",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "SchedulingPolicy",
    "Table",
    "TableError",
    "__version__",
    "compare",
    "messages",
    "network",
    "open",
    "run",
    "scenarios",
    "schema",
    "sweep",
]
