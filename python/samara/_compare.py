"""Two results side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from samara import _samara
from samara._frame import html_frame


class Comparison:
    """Two results side by side: every metric that both have, with confidence intervals over seeds and Welch's test of the difference."""

    def __init__(self, native: _samara.Compared, thresholds: Sequence[str] = ()) -> None:
        self._native = native
        self._thresholds = list(thresholds)
        self._json: dict[str, Any] = json.loads(native.json(self._thresholds))

    @property
    def identical(self) -> bool:
        """Whether the digests are equal: then the runs are the same."""
        return bool(self._json["identical"])

    @property
    def notes(self) -> list[str]:
        """What has to be known to read the rest."""
        return list(self._json["notes"])

    @property
    def changes(self) -> list[dict[str, Any]]:
        """A dictionary for each run and metric, the most telling metrics of a run first: `pandas.json_normalize(comparison.changes)` makes a
        data frame of it."""
        return list(self._json["changes"])

    def change(self, run: str, metric: str) -> dict[str, Any]:
        """The change of one metric of a run."""
        for change in self.changes:
            if (change["run"], change["metric"]) == (run, metric):
                return change
        raise KeyError(f"{run}: there is no metric {metric}")

    @property
    def crossed(self) -> list[dict[str, Any]]:
        """The thresholds that are crossed."""
        return list(self._json["crossed"])

    def check(self, *thresholds: str) -> Comparison:
        """The same with thresholds, as `samara compare --threshold` takes them: `"time_to_custody_ms.p95=5%"`."""
        return Comparison(self._native, thresholds)

    def markdown(self) -> str:
        """What has changed, as for a comment on a pull request."""
        return self._native.markdown(self._thresholds)

    def html(self) -> str:
        """A page with the table, the changes and the distributions of both."""
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


def compare(a: str | PathLike[str], b: str | PathLike[str]) -> Comparison:
    """Sets two results directories side by side, as `samara compare` does: of runs, testbeds or sweeps. Results in memory have
    [`Result.compare`][samara.Result.compare]."""
    return Comparison(_samara.open_results(fspath(a), fspath(b)))
