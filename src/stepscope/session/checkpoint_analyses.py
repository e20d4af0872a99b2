"""Analyses of checkpointing that are not ours: functions and entry points of other packages."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib import metadata
from typing import Any, TypeAlias

from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import ProfilingSummary

__all__ = ["GROUP", "Analyses", "Analysis"]

GROUP = "stepscope.checkpoint_analyses"  # of entry points

Analysis: TypeAlias = Callable[[ProfilingSummary], Any]


class Analyses:
    """By name. One that goes wrong gives a text that says so, and never stops the others."""

    def __init__(self) -> None:
        self._functions: dict[str, Analysis] = {}

    def add(self, name: str, function: Analysis) -> None:
        """Again under the same name: instead of the one before, or of an entry point."""
        if not name:
            raise UsageError("name='' is not possible: the result would have no name.")
        if not callable(function):
            raise UsageError(
                f"function={function!r} is not possible: pass one that takes a ProfilingSummary."
            )
        self._functions[name] = function

    def run(self, summary: ProfilingSummary) -> dict[str, Any]:
        functions = {**_installed(), **self._functions}
        return {name: _result(function, summary) for name, function in functions.items()}


@functools.cache
def _installed() -> dict[str, Analysis]:
    """What installed packages offer; loaded when it is run, where an error can be told."""
    found = metadata.entry_points(group=GROUP)
    return {one.name: functools.partial(_load_and_run, one) for one in found}


def _load_and_run(entry: metadata.EntryPoint, summary: ProfilingSummary) -> Any:
    return entry.load()(summary)


def _result(function: Analysis, summary: ProfilingSummary) -> Any:
    try:
        result = function(summary)
        json.dumps(result)
    except Exception as error:  # noqa: BLE001 - somebody else's code
        return f"failed: {type(error).__name__}: {error}"
    return result
