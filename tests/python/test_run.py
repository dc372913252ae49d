"""Tests of runs: results, interrupts and errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import SMALL, small

import samara


def test_scenarios_and_schema_exist() -> None:
    assert samara.scenarios()["peerdas"].startswith("Time for a block's columns")
    assert "network" in samara.schema()["properties"]


def test_result_has_a_summary_and_runs(peerdas: samara.Result) -> None:
    assert [run.name for run in peerdas.runs] == ["sequential", "batch", "node-wide"]
    assert peerdas.summary["nodes"] == 40 and peerdas.summary["seed"] == 1
    run = peerdas.run("batch")
    assert run.seed == 1 and run.metrics["delivery_ratio"] == 1.0
    assert run.metrics["time_to_custody_ms"]["mean"] > run.metrics["lower_bound_ms"]
    assert len(run.digest) == 16 and run.steps > 0
    with pytest.raises(KeyError, match="the runs are sequential"):
        peerdas.run("none")


def test_result_prints_as_on_the_command_line(peerdas: samara.Result) -> None:
    assert "batch" in str(peerdas) and "mean" in str(peerdas)
    assert peerdas.digest in repr(peerdas) and peerdas.digest in peerdas._repr_html_()
    assert 'name = "peerdas"' in peerdas.toml


def test_digest_is_independent_of_threads() -> None:
    def once(threads: int) -> str:
        return samara.run("peerdas", only="node-wide", threads=threads, progress=False, **SMALL).digest

    assert once(1) == once(2) == once(5)


def test_one_or_several_seeds(two_seeds: samara.Result) -> None:
    assert [run.seed for run in two_seeds.runs] == [1, 2, 3]
    assert len({run.digest for run in two_seeds.runs}) == 3
    one = samara.run("peerdas", 2, only="batch", progress=False, **SMALL)
    assert one.run("batch").digest == two_seeds.run("batch", seed=2).digest


def test_variants_are_added_by_name() -> None:
    result = samara.run(
        "peerdas",
        only="batch",
        runs={"fast": {"network.bandwidth": "100 Mbit/s"}},
        progress=False,
        **SMALL,
    )
    batch, fast = result.runs
    assert (batch.name, fast.name) == ("batch", "fast")
    assert fast.metrics["time_to_custody_ms"]["mean"] < batch.metrics["time_to_custody_ms"]["mean"]


def test_scenario_without_runs_keeps_its_own_run_beside_added_ones() -> None:
    result = samara.run(small(), runs={"slow": {"network.bandwidth": "1 Mbit/s"}}, progress=False)
    assert [run.name for run in result.runs] == ["small", "slow"]


def test_expectations_are_reported() -> None:
    result = samara.run(small(expect={"delivery_ratio": "== 1", "incomplete": "> 3"}), progress=False)
    assert [(one["expected"], one["holds"]) for one in result.expectations] == [
        ("delivery_ratio == 1", True),
        ("incomplete > 3", False),
    ]
    assert all(one["counts"] for one in result.expectations)
    keys = {"network.nodes": 60, "network.topology.degree": 20}
    changed = samara.run("peerdas", only="batch", progress=False, **keys)
    assert changed.expectations and not any(one["counts"] for one in changed.expectations)


def test_progress_is_reported() -> None:
    reports: list[list[tuple[str, float]]] = []
    samara.run("peerdas", only=["batch", "sequential"], progress=reports.append, **SMALL)
    assert reports and [name for name, _ in reports[-1]] == ["sequential", "batch"]
    assert all(0.0 <= share <= 1.0 for runs in reports for _, share in runs)
    assert all(share == 1.0 for _, share in reports[-1])


def test_error_in_the_progress_callback_ends_the_run() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        samara.run("peerdas", progress=fail, **SMALL)


def test_interpreter_lock_is_released_during_a_run() -> None:
    """Other threads continue during a run, and a run can be in any thread."""
    results: list[samara.Result] = []
    thread = threading.Thread(
        target=lambda: results.append(samara.run("peerdas", only="batch", progress=False, **SMALL))
    )
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert turns > 3 and results[0].run("batch").metrics["incomplete"] == 0


def test_interrupt_ends_the_run(tmp_path: Path) -> None:
    code = (
        "import samara\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    samara.run('peerdas', progress=False, out='out', **{'network.nodes': 3000})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    while not (tmp_path / "out" / "scenario.toml").exists():
        time.sleep(0.05)
    with pytest.raises(samara.DirectoryError, match="another process is writing a result there"):
        samara.run("peerdas-small", progress=False, out=tmp_path / "out", force=True)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert out == "interrupted\n" and process.returncode == 0
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert "unfinished" in left and not left & {"complete", "lock"}, "an unfinished result is marked"


def test_errors_name_key_and_line_of_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[scenario]\nname = "wrong"\ntitle = "t"\n[network]\nnodes = 1\nloss = "100 %"\n[columns]\n')
    with pytest.raises(samara.ScenarioError) as caught:
        samara.run(file)
    assert f"{file}:5: network.nodes: is 1" in str(caught.value)
    assert caught.value.source == str(file)
    assert ("network.nodes", 5) in [problem[:2] for problem in caught.value.problems]
    assert isinstance(caught.value, samara.Error)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"network.nodes": "many"}, 'peerdas: network.nodes=many: found "many"; expected a whole number'),
        ({"network.nodes": 1}, "network.nodes=1: is 1; allowed is 2 to"),
        ({"network.nods": 5}, "did you mean `nodes`?"),
        ({"network.uplink": "20 Mbit"}, 'unknown unit "Mbit"'),
        ({"network.uplink": "20"}, '"20" has no unit'),
    ],
)
def test_invalid_keys_are_errors_that_name_the_key(keys: dict[str, object], text: str) -> None:
    with pytest.raises(samara.ScenarioError, match="^peerdas:") as caught:
        samara.run("peerdas", **keys)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_unknown_names_and_values_are_errors() -> None:
    with pytest.raises(samara.ScenarioError, match='did you mean the built-in scenario "peerdas"?'):
        samara.run("perdas")
    with pytest.raises(samara.ScenarioError, match="the scenario has a run with this name"):
        samara.run("peerdas", runs={"batch": {}})


SEEDS = "expected a whole number from 0 to 9223372036854775807, or a list of such numbers"


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"seed": -1}, ValueError, f"seed: found -1; {SEEDS}"),
        ({"seed": [1, 2**63]}, ValueError, f"seed: found 9223372036854775808; {SEEDS}"),
        ({"seed": "a"}, TypeError, f"seed: found 'a'; {SEEDS}"),
        ({"seed": 1.5}, TypeError, f"seed: found 1.5; {SEEDS}"),
        ({"seed": [1, "2"]}, TypeError, f"seed: found '2'; {SEEDS}"),
        ({"seed": []}, ValueError, "seed: found no element; expected a whole number"),
        ({"only": "bach"}, samara.ScenarioError, 'peerdas: only="bach": there is no such run; the runs are sequential,'),
        ({"only": "bach"}, samara.ScenarioError, "did you mean batch?"),
        ({"only": 3}, TypeError, "only: found 3; expected the name of a run, or a list of such names"),
        ({"only": ["batch", 3]}, TypeError, "only: found 3; expected the name of a run"),
        ({"only": []}, ValueError, "only: found no element; expected the name of a run"),
        ({"ony": "batch"}, TypeError, "samara.run() has no argument ony; expected one of seed, only,"),
        ({"ony": "batch"}, TypeError, 'or a key of the scenario such as **{"network.nodes": 250}; did you mean only?'),
        ({"nodes": 5}, TypeError, "samara.run() has no argument nodes; expected one of"),
        ({"threads": 0}, ValueError, "threads: found 0; expected a number of at least 1"),
        ({"threads": "2"}, TypeError, "threads: found '2'; expected a number of at least 1"),
        ({"rows_max": -1}, ValueError, "rows_max: found -1; expected a number of rows"),
        ({"tables": 5}, TypeError, "tables: found 5; expected the name of a table"),
        ({"progress": "x"}, TypeError, "progress: found 'x'; expected True, False or a function"),
        ({"out": 5}, TypeError, "out: found 5; expected the path of a directory"),
        ({"runs": ["fast"]}, TypeError, "runs: found ['fast']; expected a mapping of names to changed keys"),
        ({"runs": {"fast": 5}}, TypeError, "runs['fast']: found 5; expected a mapping of keys to values"),
        ({"policies": ["mine"]}, TypeError, "policies: found ['mine']; expected a mapping of names to policies"),
        ({"network.nodes": None}, TypeError, "network.nodes: None is not a value; omit the key"),
        ({"network.nodes": 2**64}, ValueError, "network.nodes: found 18446744073709551616; expected a number of at most"),
        ({"network.loss": float("nan")}, ValueError, "network.loss: found nan; expected a finite number"),
        ({"network.topology": {"degree": {1, None}}}, TypeError, "found None; expected a text, a number"),
    ],
)
def test_invalid_arguments_are_errors_that_name_them(arguments: dict[str, object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        samara.run("peerdas", **arguments)  # type: ignore[arg-type]
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (5, "scenario: found 5; expected the name of a built-in scenario, the path of a file, or a samara.Scenario"),
        ({"network": {}}, "samara.Scenario.from_dict makes one of a dictionary"),
    ],
)
def test_other_sources_of_scenarios_are_errors(source: object, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        samara.run(source)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_networks_in_several_parts_are_errors() -> None:
    with pytest.raises(ValueError, match="no path leads from its largest part to 2 of 4 nodes: 2, 3"):
        samara.network([(0, 1), (2, 3)])


def test_results_are_written_as_by_the_command_line(tmp_path: Path) -> None:
    result = samara.run("peerdas", only="batch", progress=False, out=tmp_path / "out", **SMALL)
    assert result.directory == tmp_path / "out"
    later = result.write(tmp_path / "later")
    for directory in (tmp_path / "out", later):
        names = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
        assert {"complete", "report.html", "scenario.toml", "summary.json"} <= names
        summary = json.loads((directory / "summary.json").read_text())
        assert summary["passes"] and summary["finding"] and f"figures/{summary['figure']}.svg" in names
        assert "figures/custody.svg" in names and "figures/custody.png" in names
        run = "runs/batch-seed1"
        assert {f"{run}/{table}.parquet" for table in ("deliveries", "copies", "traffic", "configuration")} <= names
    assert samara.compare(tmp_path / "out", later).identical
    for table in ("deliveries", "copies", "traffic", "configuration"):
        of = [(path / "runs/batch-seed1" / f"{table}.parquet").read_bytes() for path in (tmp_path / "out", later)]
        assert of[0] == of[1], table
    with pytest.raises(samara.DirectoryError, match="holds a finished result"):
        result.write(later)
    result.write(later, force=True)
    with pytest.raises(samara.DirectoryError, match="holds a finished result"):
        samara.run("peerdas", only="batch", progress=False, out=later, **SMALL)
