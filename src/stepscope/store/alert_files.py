"""What a run folder keeps of its alerts: the truth, of which the index is a copy.

alerts.jsonl: every notice, with the sinks that are to hear of it and the process that tells them.
deliveries.jsonl: what a sink took or refused for good.

Both only grow, a line at a time, and may be written by several processes. A line that a full disk
or a crash tore is passed over.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepscope.descriptor import open_own
from stepscope.errors import FormatError
from stepscope.model.alert import Alert
from stepscope.model.delivery import DeliveryState, json_line
from stepscope.model.plain import Text, UnixTime, from_plain, parse_json
from stepscope.store.files import open_file

__all__ = [
    "ALERTS_FILE",
    "DELIVERIES_FILE",
    "Notice",
    "Outcome",
    "append_line",
    "files_size",
    "notice_line",
    "outcome_line",
    "read_notices",
    "read_outcomes",
]

ALERTS_FILE: Final = "alerts.jsonl"
DELIVERIES_FILE: Final = "deliveries.jsonl"
_MAX_BYTES: Final = 256 << 20  # more than a run can have: what lies behind is not read
_MAX_LINE: Final = 1 << 20


class Notice(NamedTuple):
    """A line of alerts.jsonl. owner: store/owners.py; it delivers while it lives."""

    alert: Alert
    sinks: tuple[str, ...]
    owner: str


class Outcome(NamedTuple):
    """A line of deliveries.jsonl. id: model/delivery.py `delivery_id`."""

    id: Text
    state: DeliveryState
    at_unix: UnixTime
    error: Text = ""


def notice_line(notice: Notice) -> str:
    return json_line(notice.alert.to_dict() | {"sinks": list(notice.sinks), "owner": notice.owner})


def outcome_line(outcome: Outcome) -> str:
    return json_line(outcome._asdict())


def append_line(path: Path, line: str) -> None:
    """In one write, behind whatever is there. OSError: it is not there, or torn."""
    descriptor = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        content = line.encode("ascii") + b"\n"
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content  # behind a torn line
        if os.write(descriptor, content) != len(content):
            raise OSError(f"{path.name} was written in part: the disk is full.")
    finally:
        os.close(descriptor)


def read_notices(run: Path) -> list[Notice]:
    """All of them, in the order of telling. Empty: there are none, or none can be read."""
    return [notice for line in _lines(run / ALERTS_FILE) if (notice := _notice(line)) is not None]


def _notice(line: Mapping[str, Any]) -> Notice | None:
    try:
        addressed: _Addressed = from_plain(_Addressed, line, "notice")
        return Notice(Alert.from_dict(line), addressed.sinks, addressed.owner)
    except FormatError:
        return None


class _Addressed(NamedTuple):
    """What a line of alerts.jsonl says beside the alert."""

    sinks: tuple[Text, ...] = ()
    owner: Text = ""


def read_outcomes(run: Path) -> dict[str, Outcome]:
    """By id of the delivery, the last of each."""
    outcomes = {}
    for line in _lines(run / DELIVERIES_FILE):
        with contextlib.suppress(FormatError):
            outcome: Outcome = from_plain(Outcome, line, "outcome")
            outcomes[outcome.id] = outcome
    return outcomes


def files_size(run: Path) -> int:
    """Bytes of both: another number means that there is news."""
    size = 0
    for name in (ALERTS_FILE, DELIVERIES_FILE):
        with contextlib.suppress(OSError):
            size += (run / name).stat().st_size
    return size


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with os.fdopen(open_file(path), "rb") as file:
            left = _MAX_BYTES
            while left > 0 and (line := file.readline(_MAX_LINE)):
                left -= len(line)
                with contextlib.suppress(FormatError):
                    document = parse_json(line)
                    if isinstance(document, dict):
                        yield document
    except (FormatError, OSError):
        return
