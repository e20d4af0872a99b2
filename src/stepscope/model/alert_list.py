"""The alerts of a run, to be shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepscope.model.delivery import AlertRecord

__all__ = ["RunAlerts"]


class RunAlerts(NamedTuple):
    """ended_unix: when the run ended; None: it goes on, or was killed."""

    name: str
    path: str
    records: tuple[AlertRecord, ...]
    ended_unix: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "path": self.path,
            "ended_unix": self.ended_unix,
            "alerts": [
                {
                    **record.alert.to_dict(),
                    "deliveries": [one._asdict() for one in record.deliveries],
                }
                for record in self.records
            ],
        }
