"""Which modules of a model are meant: by name, by pattern, or by the segment of a plan."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Final, NamedTuple

from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import CheckpointPlan, Segment

__all__ = ["Chosen", "bare", "choose", "find", "modules_by_name"]

COMPILED: Final = "_orig_mod"  # what torch.compile calls the module that it wraps
MOST_NEAR_NAMES: Final = 5
NEAR: Final = 0.4  # of difflib's likeness, where 1 is the same


class Chosen(NamedTuple):
    """A segment, and the module whose forward has to know of it."""

    segment: Segment
    module: Any


def bare(module: Any) -> Any:
    """The module inside torch.compile's and DistributedDataParallel's wrappers."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    if isinstance(module, DataParallel):
        raise UsageError(
            "DataParallel copies modules with every step, so their forward cannot be replaced: "
            "use DistributedDataParallel."
        )
    if isinstance(module, DistributedDataParallel):
        return bare(module.module)
    inside = module._modules.get(COMPILED)
    return module if inside is None else bare(inside)


def modules_by_name(model: Any) -> dict[str, Any]:
    """Every name, also the second one of a shared module, in the model's order. torch.compile's
    wrappers leave no trace in names, so a plan fits the compiled and the plain model."""
    found: dict[str, Any] = {}
    for name, module in bare(model).named_modules(remove_duplicate=False):
        plain = ".".join(part for part in name.split(".") if part != COMPILED)
        found.setdefault(plain, bare(module))
    return found


def choose(model: Any, patterns: Sequence[str], every: int, recompute: str) -> list[Chosen]:
    """Every n-th of the modules that any pattern matches, the first one included; each once."""
    if not patterns:
        raise UsageError("Say which modules: names such as 'blocks.0', or patterns ('blocks.*').")
    if type(every) is not int or every < 1:
        raise UsageError(f"every={every!r} is not possible: whole numbers from 1 on.")
    names = modules_by_name(model)
    wanted: set[str] = set()
    for pattern in patterns:
        matched = {name for name in names if _matches(name, pattern)}
        if not matched:
            raise UsageError(_nothing(pattern, names))
        wanted |= matched
    once: dict[int, Chosen] = {}
    for name, module in names.items():
        if name in wanted:
            once.setdefault(id(module), Chosen(Segment(name, recompute), module))
    picked = list(once.values())[::every]
    for chosen in picked:
        _refuse_what_is_never_called(chosen)
    return picked


def find(model: Any, plan: CheckpointPlan) -> list[Chosen]:
    """The modules of a plan's segments; an error names the first that does not fit the model."""
    names = modules_by_name(model)
    found = [_find(names, segment) for segment in plan.segments]
    _refuse_overlaps(found)
    return found


def _matches(name: str, pattern: str) -> bool:
    """Part by part: a star does not reach over a dot, or `blocks.*` would take all of a block's
    insides too; and the model itself, whose name is empty, only if nothing else is asked for."""
    if not name:
        return not pattern
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _nothing(pattern: str, names: dict[str, Any]) -> str:
    inside = [name for name in names if name]
    near = difflib.get_close_matches(pattern, inside, MOST_NEAR_NAMES, NEAR)
    listed = near or inside[:MOST_NEAR_NAMES]
    has = f" Near: {', '.join(listed)}." if listed else " The model has no modules inside it."
    return f"No module of the model is called {pattern!r}.{has}"


def _find(names: dict[str, Any], segment: Segment) -> Chosen:
    module = names.get(segment.module)
    if module is None:
        raise UsageError(_nothing(segment.module, names))
    chosen = Chosen(segment, module)
    if segment.first is None:
        _refuse_what_is_never_called(chosen)
    else:
        _check_run(segment, module)
    return chosen


def _check_run(segment: Segment, module: Any) -> None:
    from torch.nn import Sequential

    if not isinstance(module, Sequential) or type(module).forward is not Sequential.forward:
        raise UsageError(
            f"{segment.label}: only the children of a plain nn.Sequential can be recomputed as a "
            f"run, and {segment.module or 'the model'} is a {type(module).__name__}."
        )
    first, last = segment.first, segment.last
    if first is None or last is None or not 0 <= first <= last < len(module):
        raise UsageError(f"{segment.label}: the children are 0 to {len(module) - 1}.")


def _refuse_overlaps(found: list[Chosen]) -> None:
    by_module: dict[int, list[Segment]] = {}
    for segment, module in found:
        by_module.setdefault(id(module), []).append(segment)
    for segments in by_module.values():
        runs = sorted(segments, key=lambda segment: segment.first or 0)
        for one, other in pairwise(runs):
            if one.last is None or other.first is None or other.first <= one.last:
                raise UsageError(f"{one.label} and {other.label} overlap: they cannot both apply.")


def _refuse_what_is_never_called(chosen: Chosen) -> None:
    from torch import jit, nn

    name, module = chosen.segment.label, chosen.module
    if isinstance(module, jit.ScriptModule):
        raise UsageError(f"{name} is a ScriptModule: its forward cannot be replaced.")
    if type(module).forward is nn.Module.forward and "forward" not in module.__dict__:
        inside = ", ".join(f"{chosen.segment.module}.{at}" for at, _ in module.named_children())
        raise UsageError(
            f"{name} is a {type(module).__name__}, which is never called itself. "
            f"Inside it: {inside or 'nothing'}."
        )
