"""Runs made up for comparisons: a figure for each, everything else alike."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.model.comparison import RunFigures

__all__ = ["group", "noisy", "run"]


def run(name: str = "run", step_ms: float = 10.0, **more: Any) -> RunFigures:
    figures: Mapping[str, float] = {
        "fast": 0.9 * step_ms,
        "loop": 1.1 * step_ms,
        "step": step_ms,
        "throughput": 1000 / step_ms,
        "memory": 1e9,
    } | more.pop("figures", {})
    phases = {"forward": 0.4 * step_ms, "backward": 0.7 * step_ms}
    given: dict[str, Any] = {
        "path": f"runs/{name}",
        "steps": 100,
        "figures": figures,
        "phases": phases,
    }
    return RunFigures(name, **(given | more))


def group(steps_ms: Sequence[float], name: str = "base", **more: Any) -> list[RunFigures]:
    return [run(f"{name}-{place}", value, **more) for place, value in enumerate(steps_ms)]


def noisy(rng: random.Random, spread: float, times: float = 1.0, count: int = 5) -> list[float]:
    return [10.0 * times * rng.lognormvariate(0.0, spread) for _ in range(count)]
