"""A flame tree → which lines of the user's program call the model."""

from __future__ import annotations

import re

from stepscope.analyze.user_code import is_users, named_function
from stepscope.model.details import FlameNode
from stepscope.model.finding import Location

__all__ = ["by_caller"]

# Where torch calls a module's forward: what is below it is the model's own, not who uses it.
_MODULE_CALL = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$")


def by_caller(flame: FlameNode) -> dict[Location, float]:
    """Milliseconds by the innermost line of the user's that lies above any call of a module. What
    calls no module counts for the innermost line of the user's as well."""
    found: dict[Location, float] = {}
    waiting: list[tuple[FlameNode, Location | None]] = [(flame, None)]
    while waiting:
        node, caller = waiting.pop()
        if _MODULE_CALL.search(node.file):
            _add(found, caller, node.ms)
            continue
        if is_users(node.file, node.name):
            caller = Location(node.file, node.line, named_function(node.name))
        _add(found, caller, node.ms - sum(child.ms for child in node.children))
        waiting += [(child, caller) for child in node.children]
    return found


def _add(found: dict[Location, float], caller: Location | None, ms: float) -> None:
    if caller is not None and ms > 0:
        found[caller] = found.get(caller, 0.0) + ms
