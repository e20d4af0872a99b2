"""Tells stepscope's own code from the program's, by the file and function of a frame.

Users must not see our frames in tracebacks, stacks, flame graphs or tables of lines.
"""

from __future__ import annotations

import os
import sys

__all__ = ["OWN_FILE", "WRAPPER", "hide_own_frames", "is_ours"]

# The qualified name of wrappers. Their code has the file, name and line of what they wrap
# (collect/chain.py), so that nothing else tells them apart.
WRAPPER = "<stepscope wrapper>"
# What a recorded frame of ours has as its file, on whatever machine it was recorded.
OWN_FILE = "<stepscope>"

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120


def is_ours(file: str, function: str = "") -> bool:
    """Whether a frame is stepscope's. `function` is the qualified name of its code."""
    return function == WRAPPER or file == OWN_FILE or file.startswith(_PACKAGE)


def hide_own_frames() -> None:
    """Take our frames off the traceback of the exception that is being handled.

    Call it in `except BaseException:`, before a bare `raise`. The frame of the caller leads the
    traceback there, and a bare `raise` does not add it again. Frames of ours that it called come
    next, up to the first of the program.
    """
    error = sys.exception()
    if error is None:
        return
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_ours(code.co_filename, code.co_qualname):
            break
        trace = trace.tb_next
    # Not by the attribute: a class of exceptions may refuse that (a frozen dataclass does).
    BaseException.with_traceback(error, trace)
