"""Shows the report of a run again."""

from __future__ import annotations

__all__ = ["show_report"]


def show_report(wanted: str, *, json: bool) -> None:
    raise NotImplementedError
