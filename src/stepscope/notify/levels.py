"""How loud an alert is, in the words of logs."""

from __future__ import annotations

import enum
from typing import Final

from stepscope.model.alert import Alert

__all__ = ["Level", "level_of"]

# As the live view words them: from there on it is "moderate", and "high".
_MODERATE: Final = 0.4
_HIGH: Final = 0.7


class Level(enum.StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def level_of(alert: Alert) -> Level:
    """That of its severity; what is over is information."""
    if not alert.is_firing or alert.severity < _MODERATE:
        return Level.INFO
    return Level.ERROR if alert.severity >= _HIGH else Level.WARNING
