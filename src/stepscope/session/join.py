"""How a Python process below `stepscope run` joins the run: it waits for torch.

This runs at the start of every Python process of the program, helpers and compilers included, so
it does next to nothing. What records is loaded when the process imports torch.
"""

from __future__ import annotations

import gc
import os
import time

from stepscope.collect.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["join"]


def join(began_ns: int) -> None:
    """Record this process from the moment it uses torch, if it belongs to a run.

    began_ns: when joining began, on the monotonic clock.
    """
    unix_ns = time.time_ns() - (time.monotonic_ns() - began_ns)
    run = os.environ.get("STEPSCOPE_RUN")
    if not run:
        return
    if os.environ.get("STEPSCOPE_SCRATCH"):  # a trial: before the program can write anything
        from stepscope.tune.guard.redirect import join_guard

        join_guard(os.environ)

    def start(_: ModuleType) -> None:
        resumed_ns = time.monotonic_ns()
        # What torch's import left makes a full collection due, of 70 ms: it is the program's own,
        # and not to fall into our imports.
        collects = gc.isenabled()
        gc.disable()
        try:
            from stepscope.session.header import Moment
            from stepscope.session.program import program_here

            spent_ns = joined_ns - began_ns + time.monotonic_ns() - resumed_ns
            program_here(run, Moment(began_ns, unix_ns), spent_ns).start()
        finally:
            if collects:
                gc.enable()

    when_imported("torch", start, _tell)
    joined_ns = time.monotonic_ns()


def _tell(where: str, error: BaseException) -> None:
    if os.environ.get("STEPSCOPE_DEBUG") == "1":
        from stepscope.printer import say

        say(f"{where}: {type(error).__name__}: {error}")
