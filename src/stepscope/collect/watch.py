"""Where those who look closer at a sampled step get into the calls that are hooked anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

__all__ = ["UNWATCHED", "Call", "Watch"]

# (what runs the module, the module, its arguments) → what it returned
Call: TypeAlias = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


class Watch:
    """One for each process. All of it is None on a step that nobody looks at."""

    __slots__ = ("backward_done", "call", "seen")

    def __init__(self) -> None:
        self.call: Call | None = None  # makes every module call in the place of the hook
        self.seen: Callable[[Any], None] | None = None  # is shown the outermost modules
        self.backward_done: Callable[[], None] | None = None  # a run of the engine is over

    def __reduce__(self) -> tuple[type[Watch], tuple[()]]:
        """Hooks that are pickled by value bring it along: nobody watches in the other process."""
        return Watch, ()

    def after_backward(self, _: bool) -> None:
        if self.backward_done is not None:
            self.backward_done()


UNWATCHED: Final = Watch()  # where nobody ever looks
