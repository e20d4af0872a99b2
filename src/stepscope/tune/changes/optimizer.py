"""All parameters updated at once: `fused` or `foreach` in the constructor of an optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from stepscope.collect.chain import hiding
from stepscope.tune.injection import Injection, users_site

__all__ = ["Optimizer"]

_WAYS: Final = ("fused", "foreach")  # only one of them can be chosen


class Optimizer(Injection):
    """settings: {"fused": true} or {"foreach": true}. Rounding may differ in the last bits.

    An optimizer that takes no such setting, or fails at its first step with it, goes on as the
    program made it.
    """

    name: ClassVar[str] = "optimizer"

    def install(self) -> None:
        import torch

        # Those that have not taken a step yet, with what the program asked for.
        self._new: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
        for made in {kind for kind in vars(torch.optim).values() if isinstance(kind, type)}:
            if not issubclass(made, torch.optim.Optimizer) or "__init__" not in vars(made):
                continue
            accepted = inspect.signature(vars(made)["__init__"])
            wanted = {way: on for way, on in self.settings.items() if way in accepted.parameters}
            if wanted:
                self.patches.replace(made, "__init__", partial(self._making, wanted, accepted))
                if "step" in vars(made):
                    self.patches.replace(made, "step", self._stepping)

    def _making(
        self, wanted: dict[str, Any], accepted: inspect.Signature, make: Callable[..., None]
    ) -> Callable[..., None]:
        words = ", ".join(f"{key}={value}" for key, value in wanted.items())

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            kind = type(optimizer)
            if not _steps_as_torch_does(kind):
                self.told.refused(f"{kind.__name__} has a step() of its own.", users_site())
                return make(optimizer, *args, **kwargs)
            try:
                given = accepted.bind(optimizer, *args, **kwargs)
            except TypeError:
                return make(optimizer, *args, **kwargs)  # which says what is wrong
            asked: dict[str, Any] = {
                way: given.arguments.pop(way) for way in _WAYS if way in given.arguments
            }
            again = _Groups(given.arguments)
            try:
                make(*given.args, **(given.kwargs | wanted))
            except (RuntimeError, TypeError, ValueError) as error:
                self.told.refused(f"{kind.__name__} takes no {words}: {error}", users_site())
                again.restore()
                return make(*given.args, **(given.kwargs | asked))
            self._new[optimizer] = asked
            return self.told.applied(f"{kind.__name__}({words})", users_site())

        return hiding(make, init)

    def _stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`step`, which for the first one of an optimizer falls back to what the program made."""

        def first(optimizer: Any, asked: dict[str, Any], closure: Any, more: Any) -> Any:
            evaluated = None if closure is None else _Once(closure)
            given = () if closure is None else (evaluated,)
            before, had_state = _versions(optimizer), bool(optimizer.state)
            try:
                return step(optimizer, *given, **more)
            except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                if _versions(optimizer) != before or (evaluated and not evaluated.has_ended):
                    raise  # some are updated already, or it is the closure's own
                self.told.refused(f"{type(optimizer).__name__} cannot step so: {error}")
                for group in optimizer.param_groups:
                    group.update({way: asked.get(way) for way in _WAYS if way in group})
                if not had_state:
                    optimizer.state.clear()
                return step(optimizer, *given, **more)

        def wrapper(optimizer: Any, closure: Any = None, **more: Any) -> Any:
            asked = self._new.pop(optimizer, None) if self._new else None
            if asked is not None:
                return first(optimizer, asked, closure, more)
            return step(optimizer, **more) if closure is None else step(optimizer, closure, **more)

        return hiding(step, wrapper)


class _Once:
    """A closure whose result is known after the first call."""

    def __init__(self, closure: Callable[[], Any]) -> None:
        self._closure, self._result, self.has_ended = closure, None, False

    def __call__(self) -> Any:
        if not self.has_ended:
            self._result = self._closure()
            self.has_ended = True
        return self._result


class _Groups:
    """The parameters given to a constructor, so that they can be given once more: torch uses up
    generators and fills in dictionaries."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        if hasattr(arguments.get("params"), "__next__"):
            arguments["params"] = list(arguments["params"])
        given = arguments.get("params")
        listed = given if isinstance(given, (list, tuple)) else ()
        self._dicts = [one for one in listed if isinstance(one, dict)]
        for one in self._dicts:
            if hasattr(one.get("params"), "__next__"):
                one["params"] = list(one["params"])
        self._before = [dict(one) for one in self._dicts]

    def restore(self) -> None:
        for one, before in zip(self._dicts, self._before, strict=True):
            one.clear()
            one.update(before)


def _steps_as_torch_does(kind: type) -> bool:
    """Whether the class updates with torch's own code, which knows the settings."""
    return str(getattr(getattr(kind, "step", None), "__module__", "")).startswith("torch.optim")


def _versions(optimizer: Any) -> list[int]:
    """They change with every update in place."""
    return [one._version for group in optimizer.param_groups for one in group["params"]]
