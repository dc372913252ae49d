"""The progress of runs: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any, Protocol, TextIO

#: The name of each run, and the share of it that is done, from 0 to 1.
Shares = list[tuple[str, float]]


class Display(Protocol):
    """A display of progress."""

    def __call__(self, runs: Shares) -> None: ...

    def close(self) -> None: ...


class Line:
    """A line in a terminal that updates in place."""

    WIDTH = 40

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._written = 0

    def __call__(self, runs: Shares) -> None:
        share = sum(share for _, share in runs) / max(len(runs), 1)
        full = int(share * self.WIDTH)
        bar = "=" * full + (">" if full < self.WIDTH else "") + " " * (self.WIDTH - full - 1)
        line = f"{time.monotonic() - self._start:4.0f} s [{bar[: self.WIDTH]}] {share * 100:3.0f} %  {_doing(runs)}"
        self._stream.write("\r" + line[:118].ljust(self._written))
        self._stream.flush()
        self._written = len(line[:118])

    def close(self) -> None:
        self._stream.write("\r" + " " * self._written + "\r")
        self._stream.flush()


class Notebook:
    """A bar in the output of a cell, without a widget."""

    def __init__(self) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        self._html: Callable[[str], Any] = HTML
        self._start = time.monotonic()
        self._handle = display(HTML(""), display_id=True)
        self._shown = -1.0

    def __call__(self, runs: Shares) -> None:
        share = sum(share for _, share in runs) / max(len(runs), 1)
        # Every update is a message to the browser.
        if share < 1.0 and time.monotonic() - self._shown < 0.4:
            return
        self._shown = time.monotonic()
        seconds = self._shown - self._start
        self._handle.update(
            self._html(
                f'<progress value="{share:.3f}" max="1" style="width: 24em"></progress> '
                f"{share * 100:.0f} %, {seconds:.0f} s, {escape(_doing(runs))}"
            )
        )

    def close(self) -> None:
        # The stored output must not depend on the speed of the machine.
        self._handle.update(self._html(""))


class Nothing:
    """Shows nothing."""

    def __call__(self, runs: Shares) -> None: ...

    def close(self) -> None: ...


class Callback:
    """Passes progress to a function of the caller."""

    def __init__(self, callback: Callable[[Shares], object]) -> None:
        self._callback = callback

    def __call__(self, runs: Shares) -> None:
        self._callback(runs)

    def close(self) -> None: ...


def display(wanted: bool | Callable[[Shares], object] | None) -> Display:
    """Returns a display of progress.

    `None` selects a suitable one, `False` none, and `True` at least a line. A function receives the
    shares.
    """
    if callable(wanted):
        return Callback(wanted)
    if wanted is False:
        return Nothing()
    if in_notebook():
        return Notebook()
    if wanted or sys.stderr.isatty():
        return Line(sys.stderr)
    return Nothing()


def in_notebook() -> bool:
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if get else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _doing(runs: Shares) -> str:
    doing = [name for name, share in runs if 0.0 < share < 1.0]
    done = sum(share >= 1.0 for _, share in runs)
    return f"{done} of {len(runs)} runs" + (f"; {', '.join(doing)}" if doing else "")
