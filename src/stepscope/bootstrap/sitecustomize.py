"""Joins this Python process to a stepscope run, then makes way for the user's own sitecustomize.

Python imports this module at its start because `stepscope run` put this folder first on
PYTHONPATH. It must work in any Python and never stop one, and it leaves things as if it had not
been there: this folder goes from sys.path, this module from sys.modules.
"""

import os
import sys


def _join():
    try:
        try:
            from stepscope.session.join import join
        except ImportError:
            join = _import_from(os.environ["STEPSCOPE_PACKAGE"])
        join()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
        if os.environ.get("STEPSCOPE_DEBUG") == "1":
            sys.stderr.write(f"stepscope: could not join: {error!r}\n")


def _import_from(folder):
    """stepscope from where the launcher has it, for Pythons in which it is not installed."""
    sys.path.append(folder)
    try:
        from stepscope.session.join import join
    finally:
        sys.path.remove(folder)
    return join


if "STEPSCOPE_RUN" in os.environ:
    _join()

_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs 5 ms
sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _here]  # noqa: PTH100
del sys.modules["sitecustomize"]
# The user's own, if there is one. Whatever it raises, the ImportError of there being none
# included, is what Python would have met without us.
import sitecustomize  # noqa: E402, F401
