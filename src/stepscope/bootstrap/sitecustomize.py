"""Joins this Python process to a stepscope run, then makes way for the user's own sitecustomize.

Python imports this module at its start because `stepscope run` put this folder first on
PYTHONPATH. It must work in any Python and never stop one, and it leaves things as if it had not
been there: this folder goes from sys.path, this module from sys.modules.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _join() -> None:
    try:
        began_ns = time.monotonic_ns()
        _import_join()(began_ns)
    except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
        if os.environ.get("STEPSCOPE_DEBUG") == "1":
            sys.stderr.write(f"stepscope: could not join: {error!r}\n")


def _import_join() -> "Callable[[int], None]":
    """Where this Python lacks stepscope, it is taken from where the launcher has it."""
    folder = os.environ.get("STEPSCOPE_PACKAGE", "")
    lent = [folder] if folder and folder not in sys.path else []
    sys.path += lent
    try:
        from stepscope.session.join import join
    finally:
        for entry in lent:
            sys.path.remove(entry)
    return join


if "STEPSCOPE_RUN" in os.environ:
    _join()

_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 5 ms
sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _here]  # noqa: PTH100
del sys.modules["sitecustomize"]
# The user's own, if there is one. Whatever it raises, the ImportError of there being none
# included, is what Python would have met without us.
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
