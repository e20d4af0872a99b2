"""`stepscope.metric`: a number that only the program knows, into the trace.

Called in training loops, and in programs that nobody profiles: then it looks for the recorder and
returns.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.model import names

if TYPE_CHECKING:
    from stepscope.session.program import Program

__all__ = ["metric"]

MOST_NAMES: Final = 200  # different ones; names are never forgotten
LONGEST_NAME: Final = 100
# Reading a tensor of another device waits for all work that was given to that device.
DEVICE_INTERVAL_NS: Final = 5_000_000_000

_PROGRAM: Final = "stepscope.session.program"
_NO_STEP: Final = -1
_LARGEST_STEP: Final = (1 << 63) - 1


class _Names:
    """The numbers that one recorder has for names. A forked child keeps them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.metric = program.recorder.intern(names.METRIC)
        self.texts: dict[str, int] = {}
        self.read_ns: dict[int, int] = {}  # when a tensor of a device was read, by its name

    def add(self, name: Any) -> int:
        """0: there are too many."""
        text = "".join(each if each.isprintable() else " " for each in str(name)[:LONGEST_NAME])
        text = text.encode("utf-8", "replace").decode()
        if text not in self.texts and len(self.texts) >= MOST_NAMES:
            return 0
        number = self.texts[text] = self.program.recorder.intern(text)
        return number


_names: _Names | None = None


def metric(name: str, value: Any, step: int | None = None) -> None:
    """Record a value of the training, a loss or a learning rate, under a name of your own.

    Rules of `stepscope run --watch` can refer to it, and exports carry it. Without `stepscope run`
    and without a profiler in the code, and before torch is imported, nothing happens. `value` is a
    number, or a tensor or array with one element; NaN and infinity are values too. `step` is your
    own count, where it differs from that of optimizer steps.

    A tensor on a GPU is read at most every 5 s for each name, because reading it waits for the GPU:
    pass a number (`loss.item()`) where you want every value. Of more than 200 different names the
    later ones are passed over. Never raises.
    """
    module = sys.modules.get(_PROGRAM)
    if module is None:
        return
    program = module._here
    if program is None:
        return
    try:
        _record(program, name, value, step)
    except Exception as error:  # noqa: BLE001 - the border with the user's program
        program.recorder.failed("metric", error)


def _record(program: Program, name: Any, value: Any, step: Any) -> None:
    global _names
    known = _names
    if known is None or known.program is not program:
        known = _names = _Names(program)
    if not program.awake:
        program.wake()  # whoever tells values is a loop
    number = (known.texts.get(name) if type(name) is str else None) or known.add(name)
    if not number:
        return
    if type(value) is not float:
        if not getattr(value, "is_cpu", True) and not _is_due(known, number):
            return
        item = getattr(value, "item", None)
        value = float(value if item is None else item())
    at = _NO_STEP if step is None else min(max(int(step), _NO_STEP), _LARGEST_STEP)
    program.recorder.sample(known.metric, value, at, 0, number)


def _is_due(known: _Names, number: int) -> bool:
    now_ns = time.monotonic_ns()
    if now_ns - known.read_ns.get(number, -DEVICE_INTERVAL_NS) < DEVICE_INTERVAL_NS:
        return False
    known.read_ns[number] = now_ns
    return True
