"""Comparisons of two results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara import _samara
from samara._frame import html_frame


class Comparison:
    """A comparison of two results: every common metric, with confidence intervals over seeds and
    Welch's test of the difference or, with equal seeds, a test of pairs."""

    def __init__(self, native: _samara.Compared, thresholds: Sequence[str] = ()) -> None:
        self._native = native
        self._thresholds = list(thresholds)
        self._json: dict[str, Any] = json.loads(native.json(self._thresholds))

    @property
    def identical(self) -> bool:
        """Whether the digests are equal, so that the runs are identical."""
        return bool(self._json["identical"])

    @property
    def notes(self) -> list[str]:
        """The context of the comparison, such as different scenarios or versions."""
        return list(self._json["notes"])

    @property
    def changes(self) -> list[dict[str, Any]]:
        """A dictionary for each run and metric, with the most important metrics of a run first.

        `pandas.json_normalize(comparison.changes)` converts it to a data frame.
        """
        return list(self._json["changes"])

    def change(self, run: str, metric: str) -> dict[str, Any]:
        """Returns the change of one metric of a run."""
        for change in self.changes:
            if (change["run"], change["metric"]) == (run, metric):
                return change
        raise KeyError(f"{run}: there is no metric {metric}")

    @property
    def crossed(self) -> list[dict[str, Any]]:
        """The exceeded thresholds."""
        return list(self._json["crossed"])

    def check(self, *thresholds: str) -> Comparison:
        """Returns the same comparison with thresholds, in the format of
        `samara compare --threshold`, such as `"time_to_custody_ms.p95=5%"`."""
        return Comparison(self._native, thresholds)

    def markdown(self) -> str:
        """Returns the changes as Markdown, for example for a comment on a pull request."""
        return self._native.markdown(self._thresholds)

    def html(self) -> str:
        """Returns a page with the table, the changes and the distributions of both results."""
        return self._native.html(self._thresholds)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the page."""
        target = Path(fspath(path))
        target.write_text(self.html(), encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self._native.text

    def __repr__(self) -> str:
        return f"<samara.Comparison: {'identical' if self.identical else f'{len(self.changes)} figures'}>"

    def _repr_html_(self) -> str:
        return html_frame(self.html())


def compare(
    a: str | PathLike[str], b: str | PathLike[str], *, pairs: Mapping[str, str] | None = None
) -> Comparison:
    """Compares two results directories of runs, testbeds or sweeps, as `samara compare` does.

    `pairs` maps runs of `a` to runs of `b` that they are compared with although their names differ.
    [`Result.compare`][samara.Result.compare] compares results in memory.
    """
    return Comparison(_samara.open_results(fspath(a), fspath(b), written(pairs)))


def written(pairs: Mapping[str, str] | None) -> list[str]:
    """Returns the pairs as the command line takes them."""
    return [f"{a}={b}" for a, b in (pairs or {}).items()]
