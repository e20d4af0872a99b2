"""Arguments that a segment changes in place, as one that begins with `ReLU(inplace=True)` does.

torch refuses, in backward, to compute such a segment again: its argument is not what it was. Here a
copy from before forward is kept for it. Which arguments are changed is learned in the segment's
first forward, during which all of them are copied; the copies of the others go right after it.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from stepscope.checkpointing.wrapping_buffers import copied, version_of

__all__ = ["ArgumentHabits", "ArgumentsBefore"]

CHANGED_LATER: Final = (
    "An argument of a checkpointed module was changed in place after the module had used it, so "
    "the module cannot be computed again for backward. Change a copy of it instead."
)


class ArgumentHabits:
    """What is known of a segment: which of its arguments, by position, forward changes."""

    def __init__(self) -> None:
        self._changing: frozenset[int] | None = None

    def before(self, args: tuple[Any, ...]) -> ArgumentsBefore | None:
        """To be called before a forward. None: there is nothing to put aside."""
        import torch

        if self._changing is not None and not self._changing:
            return None
        tensors = (at for at, one in enumerate(args) if isinstance(one, torch.Tensor))
        watched = [at for at in tensors if self._changing is None or at in self._changing]
        return ArgumentsBefore(args, watched)

    def learn(self, before: ArgumentsBefore) -> None:
        """To be called after it."""
        self._changing = (self._changing or frozenset()) | before.settle()


class ArgumentsBefore:
    """Some arguments of one forward as they were before it."""

    def __init__(self, args: tuple[Any, ...], watched: list[int]) -> None:
        self._given: tuple[Any, ...] = args
        self._versions = {at: version_of(args[at]) for at in watched}
        self._unchanged: list[tuple[weakref.ref[Any], int]] = []
        self._aside = {at: args[at].detach().clone() for at in watched}

    def for_torch(self) -> tuple[Any, ...]:
        """The arguments that torch keeps: the same memory, but not the same count of changes, so
        that it does not refuse."""
        args = list(self._given)
        for at in self._versions:
            args[at] = args[at].data.requires_grad_(args[at].requires_grad)
        return tuple(args)

    def for_forward(self) -> tuple[Any, ...]:
        """The program's own."""
        return self._given

    def settle(self) -> frozenset[int]:
        """Forward is over: which arguments it changed. The copies of others are let go."""
        versions = self._versions.items()
        changed = frozenset(at for at, before in versions if version_of(self._given[at]) != before)
        self._aside = {at: self._aside[at] for at in changed}
        # Weakly: inside another segment they are not to stay.
        self._unchanged = [
            (weakref.ref(self._given[at]), before) for at, before in versions if at not in changed
        ]
        self._given = ()
        return changed

    def for_recomputing(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """`args`, with copies of those that forward changed: it is going to change them again.
        Those that somebody changed after it are an error, as they are to torch."""
        for argument, version in self._unchanged:
            present = argument()
            if present is not None and version_of(present) != version:
                raise RuntimeError(CHANGED_LATER)
        before = list(args)
        for at, value in self._aside.items():
            # A leaf that needs a gradient could not be changed in place; a copy of one can.
            leaf = value.detach().requires_grad_(args[at].requires_grad)
            before[at] = copied(leaf)
        return tuple(before)
