"""live.json: a run as it is now, written by its launcher while somebody asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError
from stepscope.model.live import LiveView
from stepscope.model.plain import from_plain, to_plain
from stepscope.model.strict_json import strict_json
from stepscope.model.summary import finding_to_dict
from stepscope.store.files import read_json, write_json

__all__ = [
    "LIVE_SCHEMA",
    "live_from_dict",
    "live_to_dict",
    "read_live",
    "write_live",
]

LIVE_SCHEMA: Final = 1
_FILE: Final = "live.json"
_MAX_PARTS: Final = 1_000  # alerts, ranks, phases, …: far more than are written
_LARGEST: Final = 1e18  # what is shown is divided and rounded


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
        **strict_json(plain, _LARGEST),
        "verdict": None
        if view.verdict is None
        else strict_json(finding_to_dict(view.verdict), _LARGEST),
        "alerts": [strict_json(alert.to_dict(), _LARGEST) for alert in view.alerts],
    }


def live_from_dict(plain: dict[str, Any]) -> LiveView:
    """The view again. FormatError says what in it is no view's."""
    schema = plain.get("schema")
    if not isinstance(schema, int) or schema > LIVE_SCHEMA:
        raise FormatError(
            f"it was written by another stepscope (live schema {schema!r}, this one reads"
            f" {LIVE_SCHEMA}): use the same version for both."
        )
    _check_lengths(plain)
    view: LiveView = from_plain(LiveView, plain, "live")
    return view


def _check_lengths(plain: dict[str, Any]) -> None:
    """What is shown is laid out: nothing may be too long."""
    waiting: list[Any] = [plain]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            if len(value) > _MAX_PARTS:
                raise FormatError(f"something in it has more than {_MAX_PARTS:,} parts.")
            waiting += value.values() if isinstance(value, dict) else value
