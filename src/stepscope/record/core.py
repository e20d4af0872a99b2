"""Which core records: the native one, or its Python twin where it cannot be loaded.

STEPSCOPE_CORE=python asks for the twin.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepscope.record.protocol import Core

__all__ = ["core", "core_reason"]


def _choose() -> tuple[Any, str]:
    if os.environ.get("STEPSCOPE_CORE") == "python":
        from stepscope.record.twin import TwinCore

        return TwinCore(), "asked for with STEPSCOPE_CORE=python"
    try:
        from stepscope.record import _native

        if not hasattr(_native, "StackSampler"):  # a Python whose frames it does not know
            from stepscope.record.twin_sampler import TwinStackSampler

            _native.StackSampler = partial(TwinStackSampler, _native)
        if not hasattr(_native, "TensorHeap"):
            _native.TensorHeap = None
        return _native, "the compiled extension was loaded"
    except ImportError as error:
        from stepscope.record.twin import TwinCore

        return TwinCore(), f"the compiled extension could not be loaded: {error}"


core: Core
core, core_reason = _choose()
