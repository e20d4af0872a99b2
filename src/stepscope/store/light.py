"""Imports pyarrow without what only its users in Python need.

pyarrow loads numpy (and its BLAS threads) and cloudpickle where they are installed: 100 ms of CPU
and 15 MB that the launcher has no use for. pyarrow takes their absence well and then only lacks the
conversions from and to numpy. That lasts for the process, so this is for the command line: whoever
opens a Trace in a notebook imports pyarrow as a whole.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["import_pyarrow_lightly"]

_NOT_NEEDED = ("numpy", "cloudpickle", "pandas")


def import_pyarrow_lightly() -> None:
    """After this, `import pyarrow` is free. A pyarrow that insists on numpy gets it."""
    if "pyarrow" in sys.modules:
        return
    try:
        with _absent(_NOT_NEEDED):
            import pyarrow.ipc
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
            del sys.modules[name]
        import pyarrow.ipc  # noqa: F401


@contextlib.contextmanager
def _absent(names: tuple[str, ...]) -> Iterator[None]:
    """Imports of these modules fail inside, unless they are loaded already."""
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how the import system spells "absent"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
