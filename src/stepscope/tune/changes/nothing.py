"""No change at all: what the tuner says of it tells how often it takes luck for a gain."""

from __future__ import annotations

from typing import ClassVar

from stepscope.tune.injection import Injection

__all__ = ["Nothing"]


class Nothing(Injection):
    name: ClassVar[str] = "nothing"

    def install(self) -> None:
        self.told.applied("nothing")
