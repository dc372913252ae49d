"""Whole pages inside a notebook."""

from __future__ import annotations

from html import escape


def html_frame(page: str, height: int = 640) -> str:
    """A page in a frame of its own, so that neither its style nor its scripts meet those of the notebook."""
    return (
        f'<iframe srcdoc="{escape(page, quote=True)}" width="100%" height="{height}" '
        'style="border: 1px solid #8884; border-radius: 4px"></iframe>'
    )
