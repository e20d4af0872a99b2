"""An alert on its way to those who asked for it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepscope.model.alert import Alert
from stepscope.model.plain import LARGEST
from stepscope.model.strict_json import strict_json

__all__ = [
    "AlertRecord",
    "Delivery",
    "DeliveryState",
    "DeliveryStatus",
    "OutboxCounts",
    "delivery_id",
    "json_line",
    "notice_key",
]


class DeliveryState(enum.StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    REFUSED = "refused"  # the sink will never take it


class Delivery(NamedTuple):
    """A notice that a sink has not taken yet. attempts: how often it was offered."""

    id: str
    alert: Alert
    attempts: int = 0


class DeliveryStatus(NamedTuple):
    """How it stands with one sink. at_unix: of the last attempt; None: there was none.

    error: what went wrong last, without secrets. notices: of the incident's, so many stand so.
    """

    sink: str
    state: DeliveryState
    attempts: int = 0
    at_unix: float | None = None
    error: str = ""
    notices: int = 1


class AlertRecord(NamedTuple):
    """An incident as it is known last, and who was told of it: where one of its notices waits, that
    counts."""

    alert: Alert
    deliveries: tuple[DeliveryStatus, ...] = ()


class OutboxCounts(NamedTuple):
    """pending, delivered, refused: deliveries. unsaved: notices and deliveries that are not on disk
    as they are in memory. lost: those that could not be kept at all, for want of disk and room.
    """

    pending: int = 0
    delivered: int = 0
    refused: int = 0
    unsaved: int = 0
    lost: int = 0


def notice_key(alert: Alert) -> str:
    """Names this notice: the same one sent twice has the same key."""
    return f"{alert.id}:{alert.state.value}"


def delivery_id(alert: Alert, sink: str) -> str:
    """Names the way of a notice to a sink, over all runs."""
    return f"{notice_key(alert)}:{sink}"


def json_line(document: Mapping[str, Any]) -> str:
    """JSON that every reader takes, in ASCII and without line breaks. A loss that is not a number
    is null."""
    return json.dumps(strict_json(document, LARGEST), separators=(",", ":"), allow_nan=False)
