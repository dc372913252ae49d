"""Tests of scheduling policies in Python."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterable

import pytest
from conftest import SMALL, small

import samara
from samara import PendingCopy


class InRounds:
    """Orders like `interleaved` on each link: by the rank of a copy, with a patience of 4 s."""

    def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
        return sorted(pending, key=lambda copy: (copy.owed_ms + 4000 * copy.rank, copy.rank, copy.batch, copy.index))


class RarestFirst:
    def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
        return sorted(pending, key=lambda copy: (copy.sent, copy.index))


class InPlace:
    def order(self, pending: list[PendingCopy]) -> None:
        pending.sort(key=lambda copy: (copy.sent, copy.index))


class Drawn:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
        return self.rng.sample(pending, len(pending))


def run(policies: dict[str, samara.Policy | samara.PolicyLike], **options: object) -> samara.Result:
    return samara.run("peerdas", only="batch", policies=policies, progress=False, **{**SMALL, **options})  # type: ignore[arg-type]


def test_policy_equivalent_to_a_schedule_gives_the_same_packets() -> None:
    """Every packet of every host is the same."""
    keys = {"protocol.withdraw": False}
    result = run({"mine": samara.Policy(InRounds, forward=False, dispatch=None, set=keys)})
    assert result.run("mine").digest == result.run("batch").digest


def test_policy_has_a_separate_run() -> None:
    result = run({"mine": RarestFirst})
    assert [run.name for run in result.runs] == ["batch", "mine"]
    batch, mine = (run.metrics["time_to_custody_ms"]["mean"] for run in result.runs)
    assert mine < batch, "one order over all links is faster"
    assert result.run("mine").metrics["delivery_ratio"] == 1.0


def test_classes_are_deterministic_on_any_number_of_threads() -> None:
    digests = {run({"mine": policy}, threads=threads).run("mine").digest for policy in (RarestFirst, InPlace) for threads in (1, 3)}
    assert len(digests) == 1
    drawn = [run({"mine": Drawn}, threads=threads).run("mine").digest for threads in (1, 3)]
    assert drawn[0] == drawn[1] not in digests


def test_each_node_has_its_own_object() -> None:
    made: list[object] = []

    class Counts(RarestFirst):
        def __init__(self) -> None:
            made.append(self)

    run({"mine": Counts}, threads=1)
    assert 30 <= len(made) <= 40


def test_shared_object_runs_on_one_thread() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.calls = 0

        def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
            self.calls += 1
            return pending if self.calls % 3 else reversed(pending)

    first, second = Remembers(), Remembers()
    digests = [run({"mine": policy}, threads=4).run("mine").digest for policy in (first, second)]
    assert first.calls == second.calls > 100 and digests[0] == digests[1]


def test_policy_receives_pending_copies() -> None:
    seen: dict[str, set[object]] = {}

    class Records:
        def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
            for copy in pending:
                for name in ("lane", "bytes", "rank", "sent", "noted", "index"):
                    seen.setdefault(name, set()).add(getattr(copy, name))
                assert copy.waiting_ms >= 0 and copy.owed_ms > 9_000 and copy.message >= 0 and copy.peer >= 0
            assert [copy.batch for copy in pending] == sorted(copy.batch for copy in pending), "in order of batches"
            assert repr(pending[0]).startswith("PendingCopy(message=")
            return pending

    run({"mine": Records})
    assert seen["lane"] == {"publish", "forward"}
    assert min(seen["bytes"]) > 16_000 and max(seen["rank"]) >= 3 and max(seen["sent"]) >= 3  # type: ignore[type-var, operator]
    assert seen["index"] == set(range(128)) and max(seen["noted"]) >= 1  # type: ignore[type-var, operator]


def test_scenario_can_name_a_policy() -> None:
    scenario = small(protocol={"schedule_publish": {"kind": "custom", "policy": "mine"}})
    result = samara.run(scenario, policies={"mine": RarestFirst}, progress=False)
    assert [run.name for run in result.runs] == ["small"], "no run is added"
    with pytest.raises(samara.ScenarioError, match=r'schedule_publish.policy: is "mine"; known policies: none; policies are code'):
        samara.run(scenario)
    with pytest.raises(samara.ScenarioError, match='is "mine"; known policies: other'):
        samara.run(scenario, policies={"other": RarestFirst})
    with pytest.raises(samara.ScenarioError, match="needs the name of a policy"):
        samara.run(small(protocol={"schedule_publish": {"kind": "custom"}}))
    with pytest.raises(samara.ScenarioError, match='belongs to kind = "custom"'):
        samara.run(small(protocol={"schedule_publish": {"kind": "sequential", "policy": "mine"}}))


def test_policy_inherits_the_keys_of_its_base_run() -> None:
    result = run({"mine": samara.Policy(RarestFirst, base="node-wide-warm", label="Mine", set={"network.jitter": "1 ms"})})
    assert "Mine" in result.toml and "initial_window" in result.toml
    with pytest.raises(ValueError, match="there is no run none; the runs are sequential, batch"):
        run({"mine": samara.Policy(RarestFirst, base="none")})


def test_errors_of_a_policy_are_raised_with_their_traceback() -> None:
    class Fails:
        def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
            return sorted(pending, key=lambda copy: 1 // copy.sent)

    with pytest.raises(ZeroDivisionError) as caught:
        run({"mine": Fails})
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__ and "1 // copy.sent" in (frames[-1].line or "")


def test_errors_in_the_constructor_are_raised() -> None:
    class Cannot:
        def __init__(self) -> None:
            raise LookupError("nothing to start with")

        def order(self, pending: list[PendingCopy]) -> None: ...

    with pytest.raises(LookupError, match="nothing to start with"):
        run({"mine": Cannot})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda pending: pending[1:], r"received (\d+) copies and returned \d+; it must return all of them, each once"),
        (lambda pending: [pending[0]] * len(pending), r"returned .*PendingCopy\(.* twice"),
        (lambda pending: [1, 2], "returned a int among them"),
        (lambda pending: 7, "and returned a int; it must"),
    ],
)
def test_invalid_orders_are_errors(answer: object, text: str) -> None:
    class Wrong:
        def order(self, pending: list[PendingCopy]) -> Iterable[PendingCopy]:
            return answer(pending)  # type: ignore[operator, no-any-return]

    with pytest.raises(samara.PolicyError, match="policy mine: order\\(\\) " + "(.*)" + text.removeprefix("received ")):
        run({"mine": Wrong})


def test_rejects_objects_without_the_method_order() -> None:
    with pytest.raises(TypeError, match=r'policies\["mine"\]: .* has no method order'):
        run({"mine": 5})  # type: ignore[dict-item]
