"""Tests of figures, reports, comparisons, and output in notebooks and terminals."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL

import samara
from samara import _progress


def test_figures_are_svg(peerdas: samara.Result, tmp_path: Path) -> None:
    assert "custody" in peerdas.figures
    figure = peerdas.figure("custody")
    assert ElementTree.fromstring(figure._repr_svg_()).tag.endswith("svg")
    assert figure.save(tmp_path / "custody.svg").read_text() == figure.svg
    assert figure.save(tmp_path / "custody.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="written as .svg and .png"):
        figure.save(tmp_path / "custody.jpeg")
    with pytest.raises(samara.FigureError, match="none: there is no such figure; the figures are .*custody"):
        peerdas.figure("none")


def test_every_figure_can_be_drawn(peerdas: samara.Result) -> None:
    for name in peerdas.figures:
        assert ElementTree.fromstring(peerdas.figure(name).svg).tag.endswith("svg"), name


def test_report_equals_that_of_the_command_line(peerdas: samara.Result, tmp_path: Path) -> None:
    report = peerdas.report()
    directory = peerdas.write(tmp_path / "out")
    assert (directory / "report.html").read_text() == report.html
    assert report.save(tmp_path / "report.html").read_text() == report.html
    assert report._repr_html_().startswith("<iframe srcdoc=\"&lt;!doctype html&gt;")


def test_result_equals_itself(peerdas: samara.Result) -> None:
    same = peerdas.compare(peerdas)
    assert same.identical and "the digests are equal: the runs are identical" in same.notes
    assert {change["verdict"] for change in same.changes} == {"same"}
    assert "identical" in repr(same)


def test_comparison_of_two_results(two_seeds: samara.Result, tmp_path: Path) -> None:
    faster = samara.run(
        "peerdas", seed=[1, 2, 3], only="batch", progress=False, **{**SMALL, "protocol.idontwant": False}
    )
    compared = two_seeds.compare(faster, names=("with", "without"))
    change = compared.change("batch", "duplication_factor")
    assert not compared.identical and change["a"]["seeds"] == 3
    assert change["verdict"] in {"better", "worse", "changed", "undecided", "within noise", "same"}
    assert change["b"]["mean"] == pytest.approx(
        sum(run.metrics["duplication_factor"] for run in faster.runs) / 3
    )
    assert "with" in str(compared) and "without" in str(compared)
    page = compared.html()
    assert "time to custody" in page and "delivery latency" in page, "the distributions are drawn from memory"
    assert compared.save(tmp_path / "compared.html").read_text() == page
    assert compared.markdown().startswith("`with` and `without`")
    assert compared._repr_html_().startswith("<iframe")
    with pytest.raises(KeyError, match="there is no metric none"):
        compared.change("batch", "none")


def test_memory_and_directories_compare_alike(two_seeds: samara.Result, tmp_path: Path) -> None:
    directory = two_seeds.write(tmp_path / "out")
    mixed, files = two_seeds.compare(directory), samara.compare(directory, directory)
    assert mixed.identical and files.identical
    assert mixed.changes == files.changes
    with pytest.raises(samara.DirectoryError, match="expected a results directory"):
        two_seeds.compare(tmp_path)


def test_pairs_of_runs_with_different_names(peerdas: samara.Result, tmp_path: Path) -> None:
    a, b = "sequential", "batch"
    compared = peerdas.compare(peerdas, pairs={a: b})
    directory = peerdas.write(tmp_path / "out")
    assert not compared.identical
    assert {change["run"] for change in compared.changes} == {a}
    assert peerdas.compare(directory, pairs={a: b}).changes == compared.changes
    assert samara.compare(directory, directory, pairs={a: b}).changes == compared.changes
    with pytest.raises(samara.Error, match="has no run nonsense"):
        peerdas.compare(peerdas, pairs={"nonsense": b})


def test_thresholds(two_seeds: samara.Result) -> None:
    same = two_seeds.compare(two_seeds)
    assert same.check("time_to_custody_ms.p95=0%").crossed == []
    slower = samara.run("peerdas", seed=[1, 2, 3], only="batch", progress=False, **{**SMALL, "network.latency": "200 ms"})
    worse = two_seeds.compare(slower)
    assert worse.check("time_to_custody_ms.mean=1000%").crossed == []
    crossed = worse.check("time_to_custody_ms.mean=5%", "incomplete=0").crossed
    assert [(one["run"], one["metric"]) for one in crossed] == [("batch", "time_to_custody_ms.mean")]
    with pytest.raises(samara.Error, match="is not METRIC=LIMIT"):
        same.check("nonsense")


def test_results_without_common_runs(peerdas: samara.Result, streams: samara.Result) -> None:
    with pytest.raises(samara.Error, match="have no run in common"):
        peerdas.compare(streams)


def test_line_shows_progress() -> None:
    stream = io.StringIO()
    line = _progress.Line(stream)
    line([("a", 0.5), ("b", 0.0)])
    line([("a", 1.0), ("b", 1.0)])
    line.close()
    first, second, last = stream.getvalue().split("\r")[1:4]
    assert " 25 %  0 of 2 runs; a" in first and "100 %  2 of 2 runs" in second
    assert len(second) >= len(first.rstrip()) and last.strip() == ""


def test_notebook_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython.display

    shown: list[str] = []

    class Handle:
        def update(self, html: Any) -> None:
            shown.append(html.data)

    monkeypatch.setattr(IPython.display, "display", lambda html, display_id: Handle())
    bar = _progress.Notebook()
    bar([("a", 0.25)])
    bar([("a", 0.5)])
    bar([("a", 1.0)])
    bar.close()
    assert len(shown) == 3, "not every update goes to the browser"
    assert 'value="0.250"' in shown[0] and 'value="1.000"' in shown[1] and shown[2] == ""


def test_progress_is_hidden_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    samara.run("peerdas", only="batch", **SMALL)
    assert capfd.readouterr() == ("", "")
    samara.run("peerdas", only="batch", progress=True, **SMALL)
    assert "100 %" in capfd.readouterr().err


def test_directory_is_opened_as_a_result(tmp_path: Path) -> None:
    half = [{"name": "hub", "share": "50 %", "uplink": "1 Gbit/s"}]
    made = samara.run("peerdas", seed=[1, 2], only=["batch", "node-wide"], progress=False, out=tmp_path / "out", **SMALL, **{"network.class": half})
    opened = samara.open(tmp_path / "out")
    assert opened.summary == made.summary and opened.digest == made.digest and opened.directory == tmp_path / "out"
    assert [run.metrics for run in opened.runs] == [run.metrics for run in made.runs]
    assert set(opened.tables) == set(made.tables)
    for name in ("deliveries", "traffic", "copies"):
        assert opened.table(name).to_pydict() == made.table(name).to_pydict(), name
    assert opened.table("traffic", "batch", 2).to_pydict() == made.table("traffic", "batch", 2).to_pydict()
    assert opened.metrics.to_pydict() == made.metrics.to_pydict()
    assert opened.by_class.to_pydict() == made.by_class.to_pydict()
    assert set(opened.figures) == set(made.figures)
    assert opened.figure("custody").svg == made.figure("custody").svg
    assert opened.report().html == made.report().html
    assert opened.curve().table.to_pydict() == made.curve().table.to_pydict()
    assert opened.edges.to_pydict() == made.edges.to_pydict()
    assert len(opened.expectations) == len(made.expectations)
    assert opened.compare(made).identical and made.compare(opened).identical and opened.compare(tmp_path / "out").identical
    assert "node-wide" in str(opened) and str(opened.digest) in repr(opened)
    with pytest.raises(samara.TableError, match="none: the result has no such table; it has .*traffic"):
        opened.table("none")
    with pytest.raises(samara.TableError, match="traffic: there is no such run; the runs are batch, seed 1"):
        opened.table("traffic", "none")
    with pytest.raises(samara.FigureError, match="none: there is no such figure; the figures are .*custody"):
        opened.figure("none")
    with pytest.raises(samara.DirectoryError, match="the result is in .*copy this directory"):
        opened.write(tmp_path / "other")
    with pytest.raises(samara.DirectoryError, match="expected a results directory of samara run, testbed or sweep"):
        samara.open(tmp_path)


def test_results_name_their_origin(peerdas: samara.Result) -> None:
    origin = peerdas.origin
    assert origin["command"].startswith("python") and origin["machine"] and origin["finished_unix_s"] > 1_700_000_000
    html = peerdas.report().html
    assert origin["command"].split()[0] in html and "Machine" in html and "`samara run scenario.toml" not in origin["command"]
