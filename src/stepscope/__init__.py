"""Tells why training is slow, where, what to change and what it will gain.

Public names are imported when they are first used: `import stepscope` costs next to nothing, which
matters because every profiled process does it.
"""

from __future__ import annotations

# Not from typing, which takes 10 ms to import; type checkers know this name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope.config import Level as ProfilingLevel
    from stepscope.errors import (
        FormatError,
        MissingExtraError,
        RunNotFoundError,
        StepscopeError,
        UsageError,
    )
    from stepscope.model.finding import Finding, Recommendation
    from stepscope.model.kinds import BottleneckType
    from stepscope.model.trace import Trace
    from stepscope.store.trace import open_trace

__all__ = [
    "BottleneckType",
    "Finding",
    "FormatError",
    "MissingExtraError",
    "ProfilingLevel",
    "Recommendation",
    "RunNotFoundError",
    "StepscopeError",
    "Trace",
    "UsageError",
    "__version__",
    "open_trace",
]

__version__ = "0.1.0"

_HOMES = {
    "BottleneckType": "stepscope.model.kinds:BottleneckType",
    "Finding": "stepscope.model.finding:Finding",
    "FormatError": "stepscope.errors:FormatError",
    "MissingExtraError": "stepscope.errors:MissingExtraError",
    "ProfilingLevel": "stepscope.config:Level",
    "Recommendation": "stepscope.model.finding:Recommendation",
    "RunNotFoundError": "stepscope.errors:RunNotFoundError",
    "StepscopeError": "stepscope.errors:StepscopeError",
    "Trace": "stepscope.model.trace:Trace",
    "UsageError": "stepscope.errors:UsageError",
    "open_trace": "stepscope.store.trace:open_trace",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = home.partition(":")
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return __all__
