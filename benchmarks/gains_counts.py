"""What the runs of the benchmark of gains add up to: plain arithmetic, no runs.

A speed-up of 2 is half the time. The share of a twin's gain is counted in time: a twin that is
twice as fast saves half of the time, and tuning that saves 45 of those 50 % has reached 0.9 of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gains_cases import Kind
from harness import Target, at_least, at_most, paired_ratios

__all__ = [
    "ORIGINAL",
    "TUNED",
    "TWIN",
    "Gain",
    "Saving",
    "loss_error",
    "rounds_for",
    "share_of_saving",
    "targets_of",
]

ORIGINAL, TWIN, TUNED = "original", "twin", "tuned"
ENOUGH_S = 12.0  # of the original's loop, over all rounds
SLOWER = 0.97  # below this speed-up, what was kept makes the program slower
LEAST_GAINS = {Kind.LOADING: 0.60, Kind.PREPROCESSING: 0.80, Kind.TRAINING: 0.30}
LEAST_MEMORY_SAVED = 0.40
LEAST_HEALTHY = 8
MOST_CLAIMED = 2 / 40


def share_of_saving(twin: float, tuned: float) -> float | None:
    """0.9: of the time that the twin saves, tuning saved nine tenths. None: it saves none."""
    if twin <= 1.0:
        return None
    return (1 - 1 / tuned) / (1 - 1 / twin)


def rounds_for(original_s: float, least: int) -> int:
    """How many rounds a script gets: short ones more, up to twice as many; they scatter more."""
    return min(max(least, math.ceil(ENOUGH_S / original_s)), 2 * least)


def loss_error(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest distance of two losses of a step, as a share; infinite: not the same steps."""
    if len(ours) != len(theirs) or not ours:
        return math.inf
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs)


@dataclass(frozen=True)
class Gain:
    """A script that was tuned for speed.

    walls_s: seconds of the loop of each arm, a round each; "tuned" is not there where nothing was
    kept. predictions: as of gains_programs.Tuned.
    """

    name: str
    kind: Kind
    walls_s: Mapping[str, Sequence[float]]
    kept: Sequence[str] = ()
    predictions: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    def speedup(self, arm: str) -> float:
        """The median over the rounds; 1 where nothing was kept: the program is what it was."""
        if arm not in self.walls_s:
            return 1.0
        return statistics.median(paired_ratios(self.walls_s[ORIGINAL], self.walls_s[arm]))

    @property
    def share(self) -> float | None:
        return share_of_saving(self.speedup(TWIN), self.speedup(TUNED))

    @property
    def is_slower(self) -> bool:
        return self.speedup(TUNED) < SLOWER

    @property
    def prediction_errors(self) -> list[float]:
        """0.1: the speed-up came out a tenth above or below what was predicted."""
        return [abs(one["predicted"] / one["measured"] - 1) for one in self.predictions]


@dataclass(frozen=True)
class Saving:
    """A script that was tuned for memory. Peaks are those of its tensors."""

    name: str
    peak_bytes: Mapping[str, int]
    walls_s: Mapping[str, float]
    kept: Sequence[str] = ()

    def saved(self, arm: str) -> float:
        """0.4: two fifths of the peak are gone."""
        return 1 - self.peak_bytes.get(arm, self.peak_bytes[ORIGINAL]) / self.peak_bytes[ORIGINAL]

    def slowdown(self, arm: str) -> float:
        return self.walls_s.get(arm, self.walls_s[ORIGINAL]) / self.walls_s[ORIGINAL]


def targets_of(
    gains: Sequence[Gain],
    savings: Sequence[Saving],
    healthy_kept: Mapping[str, Sequence[str]],
    claims: Sequence[bool],
) -> list[Target]:
    """What was not measured is not there: an `--only` asks for a part of the targets.

    healthy_kept: what was kept on each healthy script. claims: for each comparison of a script with
    itself, whether a gain was claimed.
    """
    targets = [*_of_gains(gains), *_of_kinds(gains)]
    if savings:
        middle = statistics.median(saving.saved(TUNED) for saving in savings)
        targets.append(at_least("memory saved, median script", middle, LEAST_MEMORY_SAVED))
    if healthy_kept:
        kept = sum(len(names) for names in healthy_kept.values())
        targets.append(at_least("healthy scripts tuned", len(healthy_kept), LEAST_HEALTHY))
        targets.append(at_most("changes kept on healthy scripts", kept, 0))
    if claims:
        share = sum(claims) / len(claims)
        targets.append(at_most("gains claimed where nothing was changed", share, MOST_CLAIMED))
    return targets


def _of_gains(gains: Sequence[Gain]) -> list[Target]:
    if not gains:
        return []
    shares = [share for gain in gains if (share := gain.share) is not None]
    errors = [error for gain in gains for error in gain.prediction_errors]
    slower = sum(gain.is_slower for gain in gains)
    return [
        at_least("of the twin's saving, median script", _median(shares), 0.90),
        at_least("of the twin's saving, worst script", min(shares, default=None), 0.70),
        at_most("twins that are no faster: no share", len(gains) - len(shares), 0),
        at_most("scripts that tuning made slower", slower, 0),
        at_most("prediction error, median", _median(errors), 0.15),
    ]


def _of_kinds(gains: Sequence[Gain]) -> list[Target]:
    found = {kind: [gain for gain in gains if gain.kind is kind] for kind in LEAST_GAINS}
    return [
        at_least(
            f"gain of {kind}, median script",
            _median(gain.speedup(TUNED) - 1 for gain in of_kind),
            LEAST_GAINS[kind],
        )
        for kind, of_kind in found.items()
        if of_kind
    ]


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return statistics.median(listed) if listed else None
