"""live.json: a run as it is now, written by its launcher while somebody asks for it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.model.live import LiveView
from stepscope.model.summary import finding_to_dict
from stepscope.store.files import read_json, write_json
from stepscope.store.plain import from_plain, to_plain

__all__ = [
    "LIVE_SCHEMA",
    "live_from_dict",
    "live_to_dict",
    "read_live",
    "write_live",
]

LIVE_SCHEMA: Final = 1
_FILE: Final = "live.json"
_MOST: Final = 1_000  # alerts, ranks, phases, …: far more than are written
_LARGEST: Final = 1e18
_SHOWN: Final = 0.999e18


def write_live(run: Path, view: LiveView) -> None:
    """OSError: the old one stays."""
    write_json(run / _FILE, live_to_dict(view), indent=None)


def read_live(run: Path) -> LiveView | None:
    """None: nobody wrote it yet. FormatError: it is something else."""
    path = run / _FILE
    try:
        return live_from_dict(read_json(path))
    except FileNotFoundError:
        return None
    except FormatError as error:
        raise FormatError(f"{path} cannot be shown: {error}") from error


def live_to_dict(view: LiveView) -> dict[str, Any]:
    """Plain JSON. Alerts and the verdict stand in it as everywhere else."""
    plain: dict[str, Any] = to_plain(replace(view, alerts=(), verdict=None))
    return {
        "schema": LIVE_SCHEMA,
        **_finite(plain),
        "verdict": None if view.verdict is None else _finite(finding_to_dict(view.verdict)),
        "alerts": [_finite(alert.to_dict()) for alert in view.alerts],
    }


def live_from_dict(plain: dict[str, Any]) -> LiveView:
    """The view again. FormatError says what in it is no view's."""
    schema = plain.get("schema")
    if not isinstance(schema, int) or schema > LIVE_SCHEMA:
        raise FormatError(
            f"it was written by another stepscope (live schema {schema!r}, this one reads"
            f" {LIVE_SCHEMA}): use the same version for both."
        )
    try:
        _check_sizes(plain)
        view: LiveView = from_plain(LiveView, plain, "live")
    except RecursionError as error:
        raise FormatError("live is nested too deeply.") from error
    for finding in (view.verdict, *(alert.finding for alert in view.alerts)):
        if finding is not None:
            _check_finding(finding)
    return view


def _finite(value: Any) -> Any:
    """JSON has no NaN: a figure that is none is left out. One beyond all measure (a loss that runs
    away) is as large as can be shown."""
    if isinstance(value, dict):
        kept = {name: _finite(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None or value[name] is None}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        return min(_SHOWN, max(-_SHOWN, value)) if math.isfinite(value) else None
    return value


def _check_sizes(plain: dict[str, Any]) -> None:
    """What is shown is laid out, divided and rounded: nothing may be too long or too large."""
    waiting: list[Any] = [plain]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            if len(value) > _MOST:
                raise FormatError(f"something in it has more than {_MOST:,} parts.")
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int | float) and not -_LARGEST < value < _LARGEST:
            raise FormatError("a number in it is too large.")


def _check_finding(finding: Finding) -> None:
    if finding.kind not in KINDS:
        raise FormatError(f"it tells of an unknown kind, {finding.kind}: upgrade stepscope.")
    advice = finding.recommendation
    if advice is not None and len(advice.expected_speedup or (1.0, 1.0)) != 2:
        raise FormatError("an expected speed-up in it is not two numbers.")
