"""The transforms that a dataset holds → `input.transform` spans, and a mark for each of them.

The dataset is left as it is. What is called through a class (`Compose`, `RandomCrop`) is timed in
front of that class's `__call__`. A plain function has nothing to stand in front of: it is timed in
workers only, where the dataset is a copy that belongs to the worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from stepscope.collect.chain import Patches, like
from stepscope.collect.samples import SampleTimer
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["Transforms", "transforms_of"]

_HELD_AS = ("transforms", "transform", "target_transform")
_INNER = ("dataset", "subset", "datasets")
_DEPTH = 8
_MOST = 64  # transforms of one dataset
_REMEMBERED = 512
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial)
# A model may be of the same class: what stands in front of these would be in its way.
_NOT_OURS = ("torch.nn.", "torch.jit.", "builtins")
_OURS = "_stepscope_times"

Place = tuple[Any, Any]  # (holder, attribute or number in a list)


class Transforms:
    """Those of all datasets of this process. Only the outermost is timed where they nest."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self._recorder, self._patches = recorder, patches
        self._name = recorder.intern(names.TRANSFORM)
        self._known: dict[int, tuple[int, SampleTimer, Any]] = {}  # id → number, timer, itself
        self._count, self._pid = 0, os.getpid()

    def watch(self, dataset: Any, timer: SampleTimer, own_copy: bool) -> int:
        """Time the transforms of a dataset whenever `timer` times a sample; how many there are.

        own_copy: the dataset belongs to this process alone.
        """
        if self._pid != os.getpid():  # numbers are told in the files of each process
            self._pid, self._known = os.getpid(), {}
        watched = 0
        for transform, place in transforms_of(dataset):
            if isinstance(transform, _TimedFunction):
                watched += self._note(transform, timer)
            elif not isinstance(transform, _FUNCTIONS):
                watched += self._class(type(transform)) and self._note(transform, timer)
            elif own_copy:
                watched += self._function(transform, place, timer)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return watched

    def _note(self, transform: Any, timer: SampleTimer) -> bool:
        """It is called for this timer from now on."""
        entry = self._known.pop(id(transform), None)
        number = entry[0] if entry is not None else self._mark(transform)
        self._known[id(transform)] = (number, timer, transform)
        return True

    def _mark(self, transform: Any) -> int:
        self._count += 1
        text = "\t".join(map(str, _source(transform)))
        recorder = self._recorder
        recorder.mark(recorder.intern(names.TRANSFORM_NAME), self._count, recorder.intern(text))
        return self._count

    def _class(self, kind: type) -> bool:
        """Stand in front of the calls of this class; False: it is not ours to do."""
        called = getattr(kind, "__call__", None)  # noqa: B004 - what calling an instance runs
        if f"{kind.__module__}.".startswith(_NOT_OURS) or not isinstance(called, FunctionType):
            return False
        if getattr(called, _OURS, False):
            return True
        transforms = self

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                entry = transforms._known.get(id(self))
                if entry is None or not entry[1].weight:
                    return called(self, *args, **kwargs)
                return transforms._timed(entry[0], entry[1], partial(called, self), args, kwargs)
            except BaseException:
                hide_own_frames()
                raise

        wrapper = like(called, call)
        setattr(wrapper, _OURS, True)
        try:
            self._patches.put(kind, "__call__", wrapper)
        except TypeError:  # a class that cannot be changed
            return False
        return True

    def _function(self, function: Callable[..., Any], place: Place, timer: SampleTimer) -> bool:
        """Put one that tells in its place; False: it has none that could be changed."""
        wrapper = _TimedFunction(function, self)
        return _put(*place, wrapper) and self._note(wrapper, timer)

    def called(self, wrapper: _TimedFunction, args: Any, kwargs: Any) -> Any:
        entry = self._known.get(id(wrapper))
        if entry is None or not entry[1].weight:
            return wrapper.function(*args, **kwargs)
        return self._timed(entry[0], entry[1], wrapper.function, args, kwargs)

    def _timed(
        self, number: int, timer: SampleTimer, call: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        weight, timer.weight, token = timer.weight, 0.0, -1
        try:
            token = self._recorder.begin(self._name, number, weight)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(names.TRANSFORM, error)
        wrong = 1
        try:
            result = call(*args, **kwargs)
            wrong = 0
            return result
        finally:
            timer.weight = weight
            try:
                self._recorder.end(token, wrong)
            except Exception as error:  # noqa: BLE001
                self._recorder.failed(names.TRANSFORM, error)


class _TimedFunction:
    """Stands for a function in a worker's copy of a dataset; pickled, it is the function."""

    def __init__(self, function: Callable[..., Any], transforms: Transforms) -> None:
        update_wrapper(self, function)
        self.function, self._transforms = function, transforms

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._transforms.called(self, args, kwargs)
        except BaseException:
            hide_own_frames()
            raise

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any]]:
        return _itself, (self.function,)

    def __eq__(self, other: object) -> bool:
        return self.function == getattr(other, "function", other)

    def __hash__(self) -> int:
        return hash(self.function)


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def transforms_of(dataset: Any) -> list[tuple[Any, Place]]:
    """The callables that a dataset, or one it wraps, holds as its transforms, and where it does."""
    found: dict[int, tuple[Any, Place]] = {}
    for holder in _datasets(dataset, _DEPTH):
        for name in _HELD_AS:
            for transform, place in _leaves(_attribute(holder, name), (holder, name), _DEPTH):
                found.setdefault(id(transform), (transform, place))
    return list(found.values())[:_MOST]


def _datasets(dataset: Any, depth: int) -> Iterator[Any]:
    if dataset is None or not depth:
        return
    if isinstance(dataset, (list, tuple)):
        for one in dataset[:_DEPTH]:
            yield from _datasets(one, depth - 1)
        return
    yield dataset
    for name in _INNER:
        yield from _datasets(_attribute(dataset, name), depth - 1)


def _leaves(transform: Any, place: Place, depth: int) -> Iterator[tuple[Any, Place]]:
    """What is called in the end: a composition stands for its parts."""
    if transform is None or not depth:
        return
    if isinstance(transform, (list, tuple)):
        for number, part in enumerate(transform[:_MOST]):
            yield from _leaves(part, (transform, number), depth - 1)
        return
    if not callable(transform) or isinstance(transform, type):
        return
    parts = [
        leaf
        for name in _HELD_AS
        for leaf in _leaves(_attribute(transform, name), (transform, name), depth - 1)
    ]
    yield from parts or [(transform, place)]


def _attribute(holder: Any, name: str) -> Any:
    """Only what is stored there: a property is the user's code, and not ours to run."""
    return getattr(holder, "__dict__", {}).get(name)


def _put(holder: Any, place: Any, replacement: Any) -> bool:
    if isinstance(holder, list):
        holder[place] = replacement
    elif isinstance(place, str):
        vars(holder)[place] = replacement
    else:  # a tuple
        return False
    return True


def _source(transform: Any) -> tuple[str, str, int]:
    """Name, file and line; "" and 0 where there is no Python code."""
    function = getattr(transform, "__wrapped__", transform)
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if not isinstance(function, _FUNCTIONS):
        kind = type(transform)
        function = getattr(kind, "forward", None) or getattr(kind, "__call__", None)  # noqa: B004
        name = kind.__qualname__
    for _ in range(_DEPTH):
        function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    return (name, code.co_filename, code.co_firstlineno) if code is not None else (name, "", 0)
