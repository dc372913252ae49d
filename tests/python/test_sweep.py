"""Tests of sweeps: a metric over the values of keys, with intervals over seeds."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from conftest import SMALL

import samara

METRIC = "time_to_custody_ms.mean"
#: Quantile of Student's t for two sides of 95 % and two degrees of freedom.
T_95_OF_3 = 4.302652729911275


@pytest.fixture(scope="module")
def curve() -> samara.Curve:
    return samara.sweep(
        "peerdas",
        over={"columns.blobs": [1, 2], "network.uplink": ["20 Mbit/s", "40 Mbit/s"]},
        seeds=3,
        metric=METRIC,
        only="batch",
        progress=False,
        **SMALL,
    )


def test_each_point_has_the_interval_over_its_seeds(curve: samara.Curve) -> None:
    rows = curve.table.to_pylist()
    assert [(row["columns.blobs"], row["network.uplink_bps"]) for row in rows] == [(1, 2e7), (1, 4e7), (2, 2e7), (2, 4e7)]
    for row in rows:
        values = [
            run.metrics["time_to_custody_ms"]["mean"]
            for run in curve.result.runs
            if run.parameters["columns.blobs"] == row["columns.blobs"]
            and float(run.parameters["network.uplink"].split()[0]) * 1e6 == row["network.uplink_bps"]
        ]
        assert len(values) == row["seeds"] == 3 and row["run"] == "batch" and row["incomplete"] == 0
        assert (row["min"], row["max"]) == (min(values), max(values))
        assert row["mean"] == pytest.approx(mean(values))
        assert row["confidence_95"] == pytest.approx(T_95_OF_3 * stdev(values) / math.sqrt(3))


def test_figure_has_a_line_for_each_value_of_the_other_keys(curve: samara.Curve, tmp_path: Path) -> None:
    svg = curve.figure().svg
    assert svg.startswith("<svg") and svg.count("Batch, as in the post, blobs ") == 2
    assert curve.figure().name == f"sweep-{METRIC}"
    assert curve.figure().save(tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert svg in curve._repr_html_() and "4 points, 12 runs" in repr(curve)


def test_other_metrics_need_no_further_run(curve: samara.Curve) -> None:
    other = curve.result.curve("time_to_custody_ms.p95")
    means = [row["mean"] for row in other.table.to_pylist()]
    assert all(p95 > row["mean"] for p95, row in zip(means, curve.table.to_pylist()))
    assert curve.result.curve().metric == METRIC


def test_interval_of_one_seed_is_unknown() -> None:
    one = samara.sweep("peerdas", {"columns.blobs": [1, 2]}, seeds=[7], only="batch", progress=False, **SMALL)
    assert [row["confidence_95"] for row in one.table.to_pylist()] == [None, None]
    assert {run.seed for run in one.result.runs} == {7}


def test_runs_without_axes_are_compared_with_intervals() -> None:
    curve = samara.sweep("peerdas", seeds=3, metric=METRIC, only=["batch", "node-wide"], progress=False, **SMALL)
    rows = curve.table.to_pylist()
    assert [row["run"] for row in rows] == ["batch", "node-wide"]
    for row in rows:
        values = [run.metrics["time_to_custody_ms"]["mean"] for run in curve.result.runs if run.name == row["run"]]
        assert row["mean"] == pytest.approx(mean(values)) and row["seeds"] == 3
        assert row["confidence_95"] == pytest.approx(T_95_OF_3 * stdev(values) / math.sqrt(3))
    assert "Batch, as in the post" in curve.figure().svg
    other = curve.result.curve("time_to_custody_ms.p95")
    assert [row["run"] for row in other.table.to_pylist()] == ["batch", "node-wide"]


def test_curve_of_a_class_has_intervals() -> None:
    half = [{"name": "hub", "share": "50 %", "uplink": "1 Gbit/s"}]
    metric = "by_class.hub.time_to_custody_ms.mean"
    result = samara.run("peerdas", seed=[1, 2, 3], only=["batch", "node-wide"], progress=False, **SMALL, **{"network.class": half})
    rows = result.curve(metric).table.to_pylist()
    assert [row["run"] for row in rows] == ["batch", "node-wide"] and all(row["confidence_95"] > 0 for row in rows)
    with pytest.raises(ValueError, match='no class of nodes "hubs"'):
        result.curve("by_class.hubs.time_to_custody_ms.mean")
    assert "By class of nodes" in result.report().html and "by-class-" in " ".join(result.figures)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"metric": "by_class.hub.time_to_custody_ms.mean"}, ValueError, "no run has classes of nodes"),
        ({"over": {"columns.blobs": 3}}, TypeError, "over['columns.blobs']: found 3; expected a list of values"),
        ({"over": {"columns.blobs": "12"}}, TypeError, "over['columns.blobs']: found '12'; expected a list of values"),
        ({"over": {"columns.blobs": []}}, ValueError, "over['columns.blobs']: found no value"),
        ({"over": {"columns.blobs": [1, 2, 1]}}, ValueError, "over['columns.blobs']: found 1 twice"),
        ({"over": ["columns.blobs"]}, TypeError, "over: found ['columns.blobs']; expected a mapping of keys"),
        ({"over": {"columns.blubs": [1]}}, samara.ScenarioError, "did you mean `blobs`?"),
        ({"over": {"columns.blobs": [0]}}, samara.ScenarioError, "columns.blobs: is 0; allowed is 1 to"),
        ({"seeds": 0}, ValueError, "seeds: found 0; expected a number of at least 1, or a list of seeds"),
        ({"seed": 3}, TypeError, "samara.sweep() has no argument seed; expected one of over, seeds, metric"),
        ({"metric": 5}, TypeError, "metric: found 5; expected the path of a metric"),
        ({"metric": "time_to_custody_ms"}, ValueError, "expected one of time_to_custody_ms.mean"),
        ({"metric": "time_to_custdy_ms.mean"}, ValueError, 'did you mean "time_to_custody_ms.mean"?'),
        ({"metric": "delivered_txs"}, ValueError, "there is no metric"),
    ],
)
def test_invalid_arguments_are_errors_before_the_run(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    def progress(_: object) -> None:
        raise AssertionError("a run has begun")

    with pytest.raises(kind) as caught:
        samara.sweep("peerdas", **{"over": {"columns.blobs": [1, 2]}, "progress": progress, **arguments})
    assert text in str(caught.value)


def test_axes_without_effect_name_the_argument() -> None:
    with pytest.raises(samara.ScenarioError, match=r'over\["protocol.withdraw"\]: would have no effect'):
        samara.sweep("peerdas", {"protocol.withdraw": [True, False]}, only="batch", progress=False)
