"""Ending a thread for good."""

from __future__ import annotations

import os
import threading
import time

__all__ = ["join_fully"]

_TRIES, _TRY_S = 200, 0.0001


def join_fully(thread: threading.Thread) -> None:
    """`join`, and wait until the kernel has let go of it too: a moment that Python (before 3.13)
    does not wait for, and in which a fork would be warned of as one with threads."""
    thread.join()
    task = f"/proc/self/task/{thread.native_id}"
    for _ in range(_TRIES):
        if not os.path.exists(task):  # noqa: PTH110 - pathlib is not worth importing for this
            return
        time.sleep(_TRY_S)
