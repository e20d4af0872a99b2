"""The public classes of the specifications: doors into a session, with nothing behind them.

Every public name of `stepscope` can be imported from here, and so can the base types and the second
names that only the specifications use. As in `stepscope`, the first use of a name imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope import *  # noqa: F403
    from stepscope.model.checkpoint_events import (
        MemoryThresholdExceeded,
        RecomputationThresholdExceeded,
    )
    from stepscope.model.memory_events import Event as Event
    from stepscope.model.memory_events import IMemoryProfiler as IMemoryProfiler

    MemoryThresholdEventArgs = MemoryThresholdExceeded
    RecomputationThresholdEventArgs = RecomputationThresholdExceeded

_HOMES = {
    "Event": "stepscope.model.memory_events:Event",
    "IMemoryProfiler": "stepscope.model.memory_events:IMemoryProfiler",
    "MemoryThresholdEventArgs": "stepscope.model.checkpoint_events:MemoryThresholdExceeded",
    "RecomputationThresholdEventArgs": (
        "stepscope.model.checkpoint_events:RecomputationThresholdExceeded"
    ),
}


def __getattr__(name: str) -> object:
    import stepscope

    if name in stepscope.__all__:
        return getattr(stepscope, name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)
