"""Whole pages in the output of a notebook."""

from __future__ import annotations

from html import escape


def html_frame(page: str, height: int = 640) -> str:
    """Returns a frame with a page, which isolates its style and scripts from the notebook."""
    return (
        f'<iframe srcdoc="{escape(page, quote=True)}" width="100%" height="{height}" '
        'style="border: 1px solid #8884; border-radius: 4px"></iframe>'
    )
