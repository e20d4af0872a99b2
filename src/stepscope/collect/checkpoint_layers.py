"""What a checkpointed function is called: the module behind it, and the user's line that called."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from stepscope.model.own_code import is_ours

__all__ = ["MODEL", "Layer", "LayerNames", "Place", "is_managers"]

MODEL = "(model)"  # the name of a model itself, which has none in itself
MOST_FUNCTIONS = 4000  # names that we keep
_FRAMES = 200  # that are looked at for the model and the user's line


class Place(NamedTuple):
    """A line that calls."""

    file: str
    line: int
    function: str


class Layer(NamedTuple):
    """`place`: where it was checkpointed for the first time; None: not known."""

    name: str
    place: Place | None


def is_managers(function: Any, module: type) -> bool:
    """Whether our CheckpointManager made it, and gave it a name. A module's `layer_id` is the
    program's own."""
    return not isinstance(function, module) and hasattr(function, "layer_id")


class LayerNames:
    """Looked up once for each module or function."""

    def __init__(self, torch: Any) -> None:
        self._module: Any = torch.nn.Module
        self._torch_folder = f"{Path(torch.__file__).parent}{os.sep}"
        paths = sysconfig.get_paths()
        keys = ("stdlib", "platstdlib", "purelib", "platlib")
        self._folders = tuple(paths[key] + os.sep for key in keys)
        # Not a WeakKeyDictionary: its callbacks run wherever a module dies, and dynamo sees them.
        self._of_modules: dict[int, tuple[weakref.ref[Any], Layer]] = {}
        self._of_others: dict[Any, Layer] = {}

    def of(self, function: Any) -> Layer:
        """For what was given to torch's `checkpoint`, from within that call."""
        found = self._behind(function)
        if isinstance(found, self._module):
            return self._of_module(found)
        if isinstance(found, list):  # a run of a Sequential, by checkpoint_sequential
            key: Any = tuple(id(one) for one in found)
        else:
            key = getattr(found, "layer_id", None) or getattr(found, "__code__", type(found))
        layer = self._of_others.get(key)
        if layer is None:
            layer = Layer(self._name(found), self._place())
            if len(self._of_others) < MOST_FUNCTIONS:
                self._of_others[key] = layer
        return layer

    def _of_module(self, module: Any) -> Layer:
        known = self._of_modules.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        layer = Layer(self._name(module), self._place())
        if len(self._of_modules) >= MOST_FUNCTIONS:
            self._of_modules.clear()
        self._of_modules[id(module)] = (weakref.ref(module), layer)
        return layer

    def module_of(self, function: Any) -> Any:
        """The one module that it calls, or None."""
        found = self._behind(function)
        return found if isinstance(found, self._module) else None

    def _behind(self, function: Any) -> Any:
        """The module that is called; several of them; or the function itself."""
        if isinstance(function, self._module) or hasattr(function, "layer_id"):
            return function
        if isinstance(function, functools.partial):
            inner = self._behind(function.func)  # partials of partials are made one
            given = [one for one in function.args if isinstance(one, self._module)]
            return inner if isinstance(inner, self._module) or len(given) != 1 else given[0]
        owner = getattr(function, "__self__", None)
        if isinstance(owner, self._module):
            return owner
        return self._enclosed(function)

    def _enclosed(self, function: Any) -> Any:
        """What a lambda or an inner function calls: the one module that it holds, unless that is
        the `self` it was written in, of which there may be many such functions."""
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            return function
        held = dict(zip(code.co_freevars, _cells(function), strict=False))
        run = held.get("functions"), held.get("start"), held.get("end")
        if isinstance(run[0], list) and isinstance(run[1], int) and isinstance(run[2], int):
            return run[0][run[1] : run[2] + 1]
        held.pop("self", None)
        values = [*held.values(), *(function.__defaults__ or ())]
        modules = [value for value in values if isinstance(value, self._module)]
        return modules[0] if len(modules) == 1 else function

    def _name(self, found: Any) -> str:
        if isinstance(found, self._module):
            return self._name_of_module(found)
        if isinstance(found, list):
            return _run(*(self._name(one) for one in (found[0], found[-1]))) if found else "[]"
        given = getattr(found, "layer_id", None)
        if given is not None:
            return str(given)
        name = getattr(found, "__qualname__", type(found).__qualname__)
        code = getattr(found, "__code__", None)
        # Lambdas of a function share a name.
        return f"{name}:{code.co_firstlineno}" if name.endswith("<lambda>") and code else str(name)

    def _name_of_module(self, module: Any) -> str:
        """In the outermost module that is running and has it."""
        name = type(module).__name__
        seen: Any = None
        for frame in _frames():
            code = frame.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                running = frame.f_locals.get("self")
                if running is seen or not isinstance(running, self._module):
                    continue
                seen = running
                for path, one in running.named_modules():
                    if one is module:
                        name = path or MODEL
                        break
        return name

    def _place(self) -> Place | None:
        """The innermost line of the user's; of a library's where there is none."""
        other = None
        for frame in _frames():
            file = frame.f_code.co_filename
            if is_ours(file, frame.f_code.co_qualname):
                continue
            if file.startswith(self._folders):
                if other is None and not file.startswith(self._torch_folder):
                    other = _place_of(frame)
            else:
                return _place_of(frame)
        return other


def _place_of(frame: FrameType) -> Place:
    return Place(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname)


def _cells(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # empty as yet
            yield None


def _frames() -> Iterator[FrameType]:
    """From here outwards."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _run(first: str, last: str) -> str:
    """
    >>> _run("blocks.2", "blocks.5"), _run("2", "5"), _run("a.1", "b.2"), _run("2", "2")
    ('blocks[2..5]', '[2..5]', 'a.1..b.2', '2')
    """
    if first == last:
        return first
    inside, _, start = first.rpartition(".")
    also, _, end = last.rpartition(".")
    return f"{inside}[{start}..{end}]" if inside == also else f"{first}..{last}"
