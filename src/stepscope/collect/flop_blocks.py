"""Blocks whose FLOPs are counted: they nest, and end in any order."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

__all__ = ["Block"]


class Block:
    """One run of a block. What is charged to it is charged to the open blocks around it too."""

    __slots__ = (
        "_flops", "failure", "is_open", "key", "parent", "seat", "thread", "without_formula",
    )  # fmt: skip

    def __init__(self, key: Hashable, parent: Block | None) -> None:
        self.key = key
        self.parent = parent
        self.seat: Any = None  # the watched thread it holds (flop_mode.Seat); None: none
        self.is_open = True
        self.thread = threading.get_ident()
        self.failure = ""
        self.without_formula: set[str] = set()
        # By thread, each of which writes only its own: no lock that a fork could leave locked.
        self._flops: dict[int, int] = {}

    def still_open(self) -> Block | None:
        """This block or the nearest one around it that has not ended."""
        block: Block | None = self
        while block is not None and not block.is_open:
            block = block.parent
        return block

    def charge(self, flops: int) -> None:
        here = threading.get_ident()
        block: Block | None = self
        while block is not None:
            block._flops[here] = block._flops.get(here, 0) + flops
            block = block.parent

    def fail(self, why: str) -> None:
        """This block and those around it cannot be counted."""
        block: Block | None = self
        while block is not None:
            block.failure = block.failure or why
            block = block.parent

    def close(self) -> None:
        self.is_open = False
        if self.parent is not None:
            self.parent.without_formula |= self.without_formula

    @property
    def flops(self) -> int:
        return sum(self._flops.values())
