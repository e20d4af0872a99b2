"""A run folder for programs that profile themselves."""

from __future__ import annotations

import atexit
import os

__all__ = ["temporary_run"]

_NOWHERE = "/nonexistent/stepscope"  # events are counted as lost; totals are known without them


def temporary_run() -> str:
    """A folder that goes with the process, unless its run is saved."""
    import shutil
    import tempfile

    try:
        folder = tempfile.mkdtemp(prefix="stepscope-")
    except OSError:
        return _NOWHERE
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)  # before the program's own: they run in reverse
    return folder
