"""The one way in which collectors stand in front of a function of torch.

A wrapper never changes what the call does: arguments, result and exception pass through, with the
traceback that the exception would have without us, and an error of ours goes to `recorder.failed`.
`Patches` remembers what was replaced and puts it back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

from stepscope.collect.imports import when_imported
from stepscope.model.own_code import WRAPPER, hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = [
    "Patches", "Position", "hiding", "keep_from_compiling", "like", "never", "nothing",
    "placed", "spanned",
]  # fmt: skip

Function = Callable[..., Any]
_MISSING = object()
_NEVER_COMPILED = ("collect", "model", "profilers", "record", "session", "tune")


class Patches:
    """What a collector replaced, in order."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, attribute: str, make: Callable[[Function], Function]) -> None:
        """Put `make(original)` in the place of `owner.attribute`, unless there is none."""
        found = getattr(owner, attribute, None)
        if found is not None:
            self.put(owner, attribute, make(found))

    def put(self, owner: Any, attribute: str, replacement: Any) -> None:
        """Put `replacement` in the place of `owner.attribute`."""
        # Inherited attributes are put back by taking ours away; static methods as they stood.
        stored = vars(owner).get(attribute, _MISSING)
        if isinstance(stored, staticmethod):
            replacement = staticmethod(replacement)
        setattr(owner, attribute, replacement)
        self._done.append((owner, attribute, stored, replacement))

    def undo(self) -> None:
        """Put everything back, except where somebody has wrapped ours in the meantime."""
        for owner, attribute, stored, replacement in reversed(self._done):
            if vars(owner).get(attribute, _MISSING) is not replacement:
                continue
            if stored is _MISSING:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, stored)
        self._done.clear()


def keep_from_compiling(failed: Callable[[str, BaseException], None]) -> None:
    """What our wrappers call is run under the program's torch.compile: dynamo is to leave it be.
    Not so the room of checkpointing: what a CheckpointManager puts into a model is compiled."""

    def leave_be(rules: Any) -> None:
        for room in _NEVER_COMPILED:
            rules.add(f"stepscope.{room}")

    when_imported("torch._dynamo.trace_rules", leave_be, failed)


def never() -> bool:
    """Stands in for `torch.compiler.is_dynamo_compiling` where there is no torch."""
    return False


def nothing() -> None:
    """The first call needs no preparation."""


def like(original: Function, wrapper: Any, position: Position | None = None) -> Function:
    """`wrapper` with the name and signature of `original`, and its place in the source."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        value = getattr(original, name, None)
        if value is not None:
            setattr(wrapper, name, value)
    wrapper.__dict__.update(getattr(original, "__dict__", {}))
    wrapper.__wrapped__ = original
    return placed(wrapper, original, position)


def hiding(original: Function, wrapper: Any) -> Function:
    """As `like`, and exceptions that pass have no frames of ours in their tracebacks.

    It costs one call more than a wrapper that does so itself: for what is not called often.
    """
    placed(wrapper, original)

    def hides(*args: Any, **kwargs: Any) -> Any:
        try:
            return wrapper(*args, **kwargs)
        except BaseException:
            hide_own_frames()
            raise

    return like(original, hides)


class Position(NamedTuple):
    """A piece of source code, as `co_positions()` gives it."""

    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


def placed(function: Any, original: Any = None, position: Position | None = None) -> Function:
    """`function`, whose frames have the file, name and line of `original`, where that can be.

    Frames of wrappers are on the stack when the program prints one, so they should name a line that
    exists. `position` is the piece of source that all of its instructions claim to be at, by
    default the line of the `def`. Wrappers of one `def` around one original share their code, so
    that a stack with them in it is the same stack each time.
    """
    code = function.__code__
    place = _place(original, code.co_name)
    key = (code, place, position)
    if key not in _placed:
        file, name, line = place
        _placed[key] = code.replace(
            co_filename=file,
            co_name=name,
            co_qualname=WRAPPER,
            # cProfile adds up by file, first line and name: the original keeps its own entry.
            co_firstlineno=0,
            co_linetable=_line_table(len(code.co_code) // 2, 0, position or Position(line)),
        )
    function.__code__ = _placed[key]
    return function  # type: ignore[no-any-return]


_Place: TypeAlias = tuple[str, str, int]  # file, name of the function, its first line
_placed: dict[tuple[CodeType, _Place, Position | None], CodeType] = {}


def _place(original: Any, name: str) -> _Place:
    """Where a wrapper of `original` says it is, so that dynamo finds the same graphs without us.

    Dynamo decides by a frame's file. Frames of torch.nn it never compiles by themselves, but
    inlines where compiled code calls them, as it does with the original of `Module.__call__`. Our
    files, and torch.optim, it would compile. So wrappers of other functions of torch, and of those
    in C, are in a file of torch.nn too, on line 0: no source is shown for that.
    """
    code = getattr(original, "__code__", None)
    module: Any = sys.modules.get("torch.nn.modules.module")
    inlined = getattr(module, "__file__", None) or __file__  # no torch: no dynamo either
    torch_nn = os.path.dirname(os.path.dirname(inlined))  # noqa: PTH120
    if isinstance(code, CodeType) and (
        code.co_filename.startswith(torch_nn + os.sep)
        or not code.co_filename.startswith(os.path.dirname(torch_nn) + os.sep)  # noqa: PTH120
    ):
        return code.co_filename, code.co_name, code.co_firstlineno
    return inlined, getattr(original, "__name__", name), 0


def _line_table(units: int, first_line: int, position: Position) -> bytes:
    """The `co_linetable` of so many code units that are all at one position.

    CPython's Objects/locations.md: each entry covers up to eight units, begins with its kind and
    its length, and gives the line relative to the entry before it.
    """
    lines = (position.end_line or position.line) - position.line
    column, end_column = position.column, position.end_column
    columns = (
        *_varint(lines),
        *_varint(0 if column is None else column + 1),
        *_varint(0 if end_column is None else end_column + 1),
    )
    table = bytearray()
    delta = position.line - first_line
    while units > 0:
        covered = min(units, 8)
        signed = -delta << 1 | 1 if delta < 0 else delta << 1
        table += bytes((0x80 | 14 << 3 | covered - 1, *_varint(signed), *columns))
        units, delta = units - covered, 0
    return bytes(table)


def _varint(number: int) -> Iterator[int]:
    while number >= 64:
        yield 64 | number & 63
        number >>= 6
    yield number


def spanned(
    recorder: Recorder,
    name: str,
    original: Function,
    *,
    compiling: Callable[[], bool] = never,
    outermost: bool = False,
    arg: Callable[..., int | None] | None = None,
    outcome: Callable[..., int | None] | None = None,
    first: Callable[[], None] = nothing,
    done: Callable[[bool], object] | None = None,
) -> Function:
    """`original` within a span.

    outermost: not where one of this name is open already.
    `arg(*args)` gives its number, or None for a call that is not of interest;
    `outcome(result, args, kwargs)` one that is known only after the call (result: None when it
    raised). `first()` is called before the first of them, and `done(failed)` after each.
    """
    begin, end, is_open, failed = recorder.begin, recorder.end, recorder.is_open, recorder.failed
    number = recorder.intern(name)
    waking: Callable[[], None] | None = first

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal waking
        if compiling():
            return original(*args, **kwargs)
        try:
            token = -1
            try:
                if waking is not None:
                    wake, waking = waking, None
                    wake()
                if not (outermost and is_open(number)):
                    about = 0 if arg is None else arg(*args, **kwargs)
                    if about is not None:
                        token = begin(number, about)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                failed(name, error)
            wrong, result = 1, None
            try:
                result = original(*args, **kwargs)
                wrong = 0
                return result
            finally:
                told = None
                try:
                    if outcome is not None:
                        told = outcome(result, args, kwargs)
                except Exception as error:  # noqa: BLE001
                    failed(name, error)
                try:
                    end(token, wrong, told)
                    if done is not None and (token >= 0 or not outermost):
                        done(bool(wrong))
                except Exception as error:  # noqa: BLE001
                    failed(name, error)
        except BaseException:
            hide_own_frames()
            raise

    return like(original, wrapper)
