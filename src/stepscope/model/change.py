"""A change to a program that needs no edit of it, and where it took hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscope.model.plain import Factor, from_plain

__all__ = ["Applied", "Change"]


@dataclass(frozen=True, slots=True)
class Change:
    """An entry of the catalogue (tune/changes) with its settings: tried, applied, written as one.

    expected_speedup: (low, high) factor on the whole loop, (1.5, 2.0): half to twice as fast again;
    None: not known. alters: "" where the results stay what they were up to rounding, else the word
    that `--allow` takes for it ("precision", "batch-size", "order", …).
    samples: how many times as many samples a step has with it.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    expected_speedup: tuple[Factor, Factor] | None = None
    alters: str = ""
    samples: Factor = 1.0

    @property
    def predicted(self) -> float | None:
        """The one figure that is held against what was measured: the middle of the range."""
        if self.expected_speedup is None:
            return None
        low, high = self.expected_speedup
        return float((low * high) ** 0.5)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "settings": dict(self.settings),
            "expected_speedup": None if self.expected_speedup is None else [*self.expected_speedup],
            "alters": self.alters,
            "samples": self.samples,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Change:
        """Raises FormatError. The title may be missing where a person wrote it."""
        made: Change = from_plain(cls, {"title": saved.get("name"), **saved}, "change")
        return made


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a change in a running program.

    what: what was done ("DataLoader(num_workers=2)"), or, where `refused`, why it was not. file and
    line: the call of the user's program that it was done to.
    """

    change: str
    what: str
    refused: bool = False
    file: str | None = None
    line: int | None = None
    function: str | None = None
