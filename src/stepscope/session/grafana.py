"""The dashboard of Grafana, written where the user wants it."""

from __future__ import annotations

import json
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.notify.grafana import dashboard
from stepscope.printer import show

__all__ = ["write_dashboard"]


def write_dashboard(path: Path | None) -> None:
    """None: to standard output."""
    text = json.dumps(dashboard(), indent=2) + "\n"
    if path is None:
        show(text, end="")
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}): name another file with -o."
        ) from error
