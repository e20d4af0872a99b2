"""What a closer look at a running program is asked with, and where the request lies.

In the status folder of a run: `control` holds the number of the newest request (8 bytes, in the
byte order of the machine), `capture-<number>.json` each request. The training process reads both,
so this module stays light.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

__all__ = ["CONTROL", "CONTROL_BYTES", "MOST_REQUEST_BYTES", "CaptureRequest", "request_name"]

CONTROL: Final = "control"
CONTROL_BYTES: Final = 4096  # one page of memory
MOST_REQUEST_BYTES: Final = 4096  # a longer file is none of ours

_STEPS: Final = (1, 10_000)
_SECONDS: Final = (0.05, 600.0)
_INTERVAL_S: Final = (0.0005, 1.0)
_ALERT_LENGTH: Final = 200


class CaptureRequest(NamedTuple):
    """It ends with whatever comes first: the steps are made, or the seconds are over.

    alert: id of the alert that it is taken for; "": somebody asked. expires_ns: on the monotonic
    clock; who has not begun by then need not begin.
    """

    steps: int = 20
    seconds: float = 10.0
    interval_s: float = 0.001  # between two looks at the stacks, a mean
    layers: bool = True
    operators: bool = False  # torch.profiler, over a few of the steps
    memory: bool = False  # whose live bytes grow
    alert: str = ""
    expires_ns: int = 0  # 0: never

    def to_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str | bytes) -> CaptureRequest:
        """Within bounds, whatever it says. ValueError: it is no request."""
        try:
            plain = json.loads(text)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(plain, dict):
            raise ValueError("not an object")
        default = cls()
        return cls(
            steps=round(_within(plain.get("steps", default.steps), _STEPS)),
            seconds=_within(plain.get("seconds", default.seconds), _SECONDS),
            interval_s=_within(plain.get("interval_s", default.interval_s), _INTERVAL_S),
            layers=plain.get("layers", default.layers) is True,
            operators=plain.get("operators") is True,
            memory=plain.get("memory") is True,
            alert=str(plain.get("alert", ""))[:_ALERT_LENGTH],
            expires_ns=round(_within(plain.get("expires_ns", 0), (0, 1 << 62))),
        )


def request_name(number: int) -> str:
    """Of the file."""
    return f"capture-{number}.json"


def _within(value: Any, bounds: tuple[float, float]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN
        raise ValueError(f"{value!r:.40} is no number")
    return min(max(value, bounds[0]), bounds[1])
