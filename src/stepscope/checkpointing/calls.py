"""The module calls of one step's forward, in the order in which they began.

Calls nest, so those within a call stand right behind it: call `n` and all inside it are the numbers
from `n` up to `calls[n].stop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Call", "CallWatch"]


class Call:
    """One call of a module."""

    __slots__ = ("key", "module", "number", "parent", "stop")

    def __init__(self, number: int, module: int, parent: Call | None, nth: int) -> None:
        self.number = number
        self.module = module  # its place among the model's modules
        self.parent = parent
        self.stop = number + 1
        self.key = (module, nth)  # the n-th call of this module: the same in every step


Seen = Callable[[Call, tuple[Any, ...]], None]


class CallWatch:
    """Stands on the modules for a step, and takes itself off. `enter` and `leave` are shown each
    call, with its arguments and its result. Calls without gradients (evaluation) are passed by.

    `error` is the first that happened in here: it does not reach the program, and whoever drives
    the planning raises it.
    """

    def __init__(self, modules: Iterable[Any], enter: Seen, leave: Seen) -> None:
        import torch

        self.calls: list[Call] = []
        self.error: Exception | None = None
        self._enter, self._leave = self._guarded(enter), self._guarded(leave)
        self._open: list[Call] = []
        self._counts: dict[int, int] = {}
        self._with_gradients = torch.is_grad_enabled
        self._handles: list[Any] = []
        for number, module in enumerate(modules):
            before, after = self._hooks(number)
            self._handles.append(
                module.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
            )
            self._handles.append(module.register_forward_hook(after, with_kwargs=True))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _guarded(self, tell: Seen) -> Seen:
        def guarded(call: Call, values: tuple[Any, ...]) -> None:
            if self.error is None:
                try:
                    tell(call, values)
                except Exception as error:  # noqa: BLE001 - the border with the user's program
                    self.error = error

        return guarded

    def _hooks(self, module: int) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._with_gradients():
                parent = self._open[-1] if self._open else None
                nth = self._counts[module] = self._counts.get(module, -1) + 1
                call = Call(len(self.calls), module, parent, nth)
                self.calls.append(call)
                self._open.append(call)
                self._enter(call, (*args, *kwargs.values()))

        def after(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if not self._with_gradients() or all(one.module != module for one in self._open):
                return
            while self._open:
                call = self._open.pop()  # an exception that the program caught left those above
                call.stop = len(self.calls)
                if call.module == module:
                    self._leave(call, (result,))
                    return

        return before, after
