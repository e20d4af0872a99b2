"""The alerts of a run, as they stand in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepscope.model.alert import Alert
from stepscope.store.alert_files import read_notices

__all__ = ["alerts_to_show"]

_MOST: Final = 100


def alerts_to_show(run: Path) -> tuple[Alert, ...]:
    """Each incident once, as it was told last: those that go on first, the worst of them at the
    top, then the newest of the others."""
    last = {notice.alert.id: notice.alert for notice in read_notices(run)}
    firing = [alert for alert in last.values() if alert.is_firing]
    over = [alert for alert in last.values() if not alert.is_firing]
    firing.sort(key=lambda alert: (-alert.severity, -alert.began_unix))
    over.sort(key=lambda alert: -alert.told_unix)
    return (*firing, *over)[:_MOST]
