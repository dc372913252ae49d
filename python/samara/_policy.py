"""Scheduling policies in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from samara._samara import PendingCopy
from samara._values import toml


@runtime_checkable
class SchedulingPolicy(Protocol):
    """Orders the pending copies of a node."""

    def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy] | None:
        """Returns all pending copies, each once, in the order in which they should leave.

        `None` stands for `pending` itself, which the method may sort in place. A node calls the
        method before a copy leaves, if two or more copies are pending and something has changed
        since the last call.
        """
        ...


#: A class or an object. A class has an object for each node, created without arguments or, if it
#: takes one, with a `random.Random` of the node. All nodes share an object, and everything then
#: runs on one thread.
PolicyLike = type[SchedulingPolicy] | SchedulingPolicy


@dataclass(frozen=True)
class Policy:
    """A policy and the settings of its run."""

    #: The class or object.
    policy: PolicyLike
    #: The run of the scenario whose keys are the base.
    base: str | None = None
    #: Whether the policy orders own messages.
    publish: bool = True
    #: Whether the policy orders messages of others.
    forward: bool = True
    #: "node" for one order over all links, "per-link" for one order for each link, `None` for the
    #: setting of the base.
    dispatch: str | None = "node"
    #: More keys and their values.
    set: Mapping[str, Any] = field(default_factory=dict)
    #: The label in reports.
    label: str = ""
    #: The description in reports.
    description: str = ""

    def run(self, name: str, scenario: Mapping[str, Any]) -> dict[str, str]:
        """Returns the policy's run, as a variant of a scenario."""
        keys: dict[str, Any] = dict(self._base(name, scenario))
        schedule = {"kind": "custom", "policy": name}
        if self.dispatch is not None:
            keys["protocol.dispatch"] = self.dispatch
        if self.publish:
            keys["protocol.schedule_publish"] = schedule
        if self.forward:
            keys["protocol.schedule_forward"] = schedule
        keys.update(self.set)
        return {"name": name, "label": self.label, "description": self.description, "set": toml(keys)}

    def _base(self, name: str, scenario: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.base is None:
            return {}
        runs = {run["name"]: run.get("set", {}) for run in scenario.get("run", [])}
        if self.base not in runs:
            raise ValueError(f"policies[{name!r}]: there is no run {self.base}; the runs are {', '.join(runs)}")
        return dict(runs[self.base])


def names_policy(scenario: Any, name: str) -> bool:
    """Returns true if a schedule of the scenario names this policy."""
    if isinstance(scenario, Mapping):
        if scenario.get("kind") == "custom" and scenario.get("policy") == name:
            return True
        return any(names_policy(value, name) for value in scenario.values())
    return isinstance(scenario, list) and any(names_policy(value, name) for value in scenario)
