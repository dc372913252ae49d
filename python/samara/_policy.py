"""Scheduling policies of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from samara._samara import PendingCopy
from samara._values import toml


@runtime_checkable
class SchedulingPolicy(Protocol):
    """Orders what a node owes."""

    def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy] | None:
        """Gives back the copies in the order in which they are to leave: all of them, each once. `None` stands for `pending` itself, which may
        have been sorted in its place. Asked whenever a copy is to leave, two or more are pending, and something has changed since."""
        ...


#: A class, of which every node gets an object of its own (made without arguments, or with a `random.Random` of the node, if it takes one), or one
#: object that all nodes share: then everything runs on one thread.
PolicyLike = type[SchedulingPolicy] | SchedulingPolicy


@dataclass(frozen=True)
class Policy:
    """A policy, and what else is different in the run that it gets."""

    #: The class or object.
    policy: PolicyLike
    #: The run of the scenario whose keys are taken over.
    base: str | None = None
    #: Whether it orders own messages.
    publish: bool = True
    #: Whether it orders those of others.
    forward: bool = True
    #: "node" for one order over all links, "per-link" for each link by itself, `None` for what the base says.
    dispatch: str | None = "node"
    #: More keys and their values.
    set: Mapping[str, Any] = field(default_factory=dict)
    #: What reports call it.
    label: str = ""
    #: What is different about it.
    description: str = ""

    def run(self, name: str, scenario: Mapping[str, Any]) -> dict[str, str]:
        """The run of a scenario that the policy gets."""
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
    """Whether a scenario has a schedule by this policy of its own."""
    if isinstance(scenario, Mapping):
        if scenario.get("kind") == "custom" and scenario.get("policy") == name:
            return True
        return any(names_policy(value, name) for value in scenario.values())
    return isinstance(scenario, list) and any(names_policy(value, name) for value in scenario)
