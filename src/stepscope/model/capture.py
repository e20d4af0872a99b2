"""A closer look at some steps of a run that was taken while it went on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from stepscope.model.capture_request import CaptureRequest
from stepscope.model.details import LayerTime, OpTime, PhaseStacks
from stepscope.model.finding import Location
from stepscope.model.plain import Amount, Count, UnixTime
from stepscope.model.summary import Summary

__all__ = ["Capture", "CaptureDetails", "GrowingLine"]

_NOWHERE: Final = Location()


class GrowingLine(NamedTuple):
    """A line that allocates what stays. Bytes are those that it allocated since the capture began,
    and that were live at step ends."""

    location: Location  # the user's own line
    bytes_per_step: float
    first_bytes: int
    last_bytes: int
    blocks: int
    rank: int
    stack: tuple[Location, ...] = ()  # innermost first


@dataclass(frozen=True, slots=True)
class CaptureDetails:
    """Of the time of the capture alone. What was not asked for or not seen is empty.

    title: what it found, one sentence. steps: that were seen from end to end, of the rank that made
    most. location: where most of it lies. alert: id of the alert that it was taken for.
    """

    number: int
    run: str
    title: str
    began_unix: UnixTime
    seconds: Amount
    steps: Count
    request: CaptureRequest
    alert: str = ""
    location: Location = _NOWHERE
    ranks: tuple[int, ...] = ()  # that answered
    stacks: tuple[PhaseStacks, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    layer_steps: int = 0
    ops: tuple[OpTime, ...] = ()
    op_steps: int = 0
    memory: tuple[GrowingLine, ...] = ()
    notes: tuple[str, ...] = ()  # what falls short


@dataclass(frozen=True, slots=True)
class Capture:
    """`summary`: phases, findings and resources of that time, as those of a whole run."""

    details: CaptureDetails
    summary: Summary
