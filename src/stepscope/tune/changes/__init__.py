"""The catalogue: one file a change, each made behind the program's `import torch`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from stepscope.errors import UsageError
from stepscope.tune.injection import Injection

__all__ = ["NAMES", "injection_class"]

# name of the change → the module that makes it; each has one class, `Change` in camel case.
_MODULES: Final = {
    "autocast": "Autocast",
    "batch": "Batch",
    "batch-seeds": "BatchSeeds",
    "batched": "Batched",
    "cache": "Cache",
    "compile": "Compile",
    "denormals": "Denormals",
    "fetch-threads": "FetchThreads",
    "float32": "Float32",
    "gc": "Gc",
    "layout": "Layout",
    "loader": "Loader",
    "logging": "Logging",
    "non-blocking": "NonBlocking",
    "nothing": "Nothing",
    "optimizer": "Optimizer",
    "packing": "Packing",
    "plan": "Plan",
    "recompute": "Recompute",
    "saving": "Saving",
    "threads": "Threads",
    "vectorise": "Vectorise",
    "zero-grad": "ZeroGrad",
}
# Those that make a program faster. The other one makes two runs comparable.
NAMES: Final = tuple(name for name in _MODULES if name != "batch-seeds")


def injection_class(name: str) -> type[Injection]:
    """UsageError: the catalogue has no such change."""
    if name not in _MODULES:
        known = ", ".join(NAMES)
        raise UsageError(f"There is no change {name!r} in the catalogue. It knows: {known}.")
    module = import_module(f"stepscope.tune.changes.{name.replace('-', '_')}")
    found: type[Injection] = getattr(module, _MODULES[name])
    return found
