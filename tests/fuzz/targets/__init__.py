"""One module per kind of input; each lists its targets in `TARGETS`."""

from __future__ import annotations

import importlib
import pkgutil

from tests.fuzz.harness import Target


def all_targets() -> dict[str, Target]:
    """Every target of every module in this folder, by name."""
    modules = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {
        target.name: target
        for name in modules
        for target in importlib.import_module(f"{__name__}.{name}").TARGETS
    }
