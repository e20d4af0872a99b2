"""Analyses of checkpointing that are not ours: functions and entry points of other packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from stepscope.model.checkpoint_events import ProfilingSummary
from stepscope.session.extensions import Extensions

__all__ = ["GROUP", "Analyses", "Analysis"]

GROUP = "stepscope.checkpoint_analyses"  # of entry points

Analysis: TypeAlias = Callable[[ProfilingSummary], Any]


class Analyses:
    """By name. One that goes wrong gives a text that says so, and never stops the others."""

    def __init__(self) -> None:
        self._functions = Extensions(GROUP, "a ProfilingSummary")

    def add(self, name: str, function: Analysis) -> None:
        """Again under the same name: instead of the one before, or of an entry point."""
        self._functions.add(name, function)

    def run(self, summary: ProfilingSummary) -> dict[str, Any]:
        functions = self._functions.all()
        return {name: _result(function, summary) for name, function in functions.items()}


def _result(function: Analysis, summary: ProfilingSummary) -> Any:
    try:
        result = function(summary)
        json.dumps(result)
    except Exception as error:  # noqa: BLE001 - somebody else's code
        return f"failed: {type(error).__name__}: {error}"
    return result
