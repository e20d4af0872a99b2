"""Writes changes that are made once for the whole program: threads, denormals, gc."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import libcst as cst

from stepscope.model.change import Applied, Change
from stepscope.tune.patch.arguments import constantly, set_argument
from stepscope.tune.patch.calls import calls_at
from stepscope.tune.patch.names import only_assignment, qualified
from stepscope.tune.patch.source import Refuse, Source
from stepscope.tune.patch.torch_name import after_imports

__all__ = ["write_denormals", "write_gc", "write_threads"]

_NO_PLACE = "no place in the program is known to be right for it"
_THREADS = {"torch": "set_num_threads", "interop": "set_num_interop_threads"}
_EVERY_STEPS = 20


def write_threads(source: Source, change: Change, sites: Sequence[Applied]) -> str | None:
    """The text: what of it is left to be done by hand."""
    for key, function in _THREADS.items():
        if key in change.settings:
            lines = [site.line for site in sites]
            _once(source, function, change.settings[key], lines, most=True)
    if "workers" in change.settings:
        return "how many threads a worker has is for your worker_init_fn to say"
    return None


def write_denormals(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    _once(source, "set_flush_denormal", True, [site.line for site in sites])


def _once(
    source: Source, function: str, value: int, lines: Sequence[int | None], *, most: bool = False
) -> None:
    """The program's own call says it, or a new one behind its imports.

    lines: where the trial saw such calls. most: less is the program's choice.
    """
    calls = [call for call in source.all(cst.Call) if _names(source, call, f"torch.{function}")]
    calls = [call for call in calls if source.lines(call)[0] in lines] or calls
    if len(calls) > 1:
        raise Refuse(f"{source.path.name} calls torch.{function} at several places")
    for call in calls:
        if len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
            raise Refuse(f"{source.where(call)} calls torch.{function} with other arguments")
        said = call.args[0].value
        if most and isinstance(said, cst.Integer) and said.evaluated_value <= value:
            continue
        source.change(call, lambda one: set_argument(one, "", constantly(value), 0), function)
    if not calls:
        after_imports(source, f"torch.{function}({value})")


def _names(source: Source, call: cst.Call, name: str) -> bool:
    return qualified(source, call.func) == name


def write_gc(source: Source, change: Change, sites: Sequence[Applied]) -> str:
    """The program's own `gc.collect()` in a counted loop is called every so many steps.

    The text: what of the change is left to be done by hand.
    """
    own = [site for site in sites if site.what.startswith("gc.collect()")]
    if not own:
        raise Refuse(_NO_PLACE)
    for site in own:
        every = [int(word) for word in site.what.split() if word.isdigit()]
        fits = partial(_names, source, name="gc.collect")
        for call in calls_at(source, site, fits, "call of gc.collect()"):
            _guard(source, call, every[0] if every else _EVERY_STEPS)
    return f"your own gc.collect() comes more rarely now; for the rest {_NO_PLACE}"


def _guard(source: Source, call: cst.Call, every: int) -> None:
    statement = source.parent(source.parent(call) or call)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        raise Refuse(f"the gc.collect() at {source.where(call)} is part of something larger")
    loop = source.enclosing(call, cst.For)
    counter = None if loop is None else _counter(source, loop)
    if counter is None:
        raise Refuse(f"the loop around {source.where(call)} has no count of its steps (enumerate)")
    outer = source.enclosing(statement, cst.If)
    if outer is not None and source.code(outer.test).startswith(f"{counter} % "):
        return  # it is called now and then already
    source.change(statement, lambda one: _guarded(one, f"{counter} % {every} == 0"), "gc")


def _guarded(statement: cst.SimpleStatementLine, test: str) -> cst.If:
    return cst.If(
        cst.parse_expression(test),
        cst.IndentedBlock([statement.with_changes(leading_lines=[])]),
        leading_lines=statement.leading_lines,
    )


def _counter(source: Source, loop: cst.For) -> str | None:
    """`for step, batch in enumerate(…)` → "step"."""
    if not isinstance(loop.iter, cst.Call) or not isinstance(loop.target, cst.Tuple):
        return None
    first = loop.target.elements[0].value
    if qualified(source, loop.iter.func) != "builtins.enumerate" or not isinstance(first, cst.Name):
        return None
    return first.value if only_assignment(source, first) is not None else None
