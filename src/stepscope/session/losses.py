"""What was recorded and did not reach the disk, as the processes themselves count it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepscope.store.status import StatusPage

__all__ = ["Lost", "count_lost"]


class Lost(NamedTuple):
    """Of all processes of the run together."""

    dropped_events: int = 0  # found their ring full
    lost_events: int = 0  # could not be written
    reason: str = ""  # why not

    def lines(self) -> list[str]:
        """What the user should know, one sentence each; empty: nothing was lost."""
        lines = []
        if self.lost_events:
            why = f" ({self.reason})" if self.reason else ""
            lines.append(
                f"{self.lost_events:,} events could not be written{why}: the report lacks them."
            )
        if self.dropped_events:
            lines.append(
                f"{self.dropped_events:,} events came faster than they could be written: the time"
                " around them is unexplained."
            )
        return lines

    def why(self) -> list[str]:
        """A note for the report, which has the figures."""
        return [f"Writing failed with: {self.reason}."] if self.reason else []

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def count_lost(pages: Sequence[StatusPage], lost_by_launcher: int) -> Lost:
    lost = sum(page.lost for page in pages)
    reasons = {page.last_errno for page in pages if page.lost and page.last_errno}
    return Lost(
        dropped_events=sum(page.dropped for page in pages),
        lost_events=lost + lost_by_launcher,
        reason=", ".join(os.strerror(number) for number in sorted(reasons)),
    )
