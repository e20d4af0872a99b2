"""No step for far longer than usual."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final

from stepscope.model.watching import Condition, Reading, StepSeen, StepsPassed
from stepscope.monitor.judge import graded
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import Stall
from stepscope.monitor.words import duration
from stepscope.stats.quantiles import median

__all__ = ["StallRule"]

_RECENT: Final = 64  # ordinary steps that say what is usual
_REFRESH: Final = 16  # steps between two looks at what is usual
_OF_LONGEST: Final = 2.0  # an evaluation may take twice as long as the longest so far
_IDLE: Final = 0.5  # of its usual work: a program that does less waits for something
_WORK: Final = ("cpu_ratio", "gpu_busy_ratio")
_BLEND: Final = 0.05  # of a reading, in the mean of what is usual


class _Work:
    """How hard a program works, by one metric: usually, and since its last step."""

    def __init__(self) -> None:
        self.usual: float | None = None
        self.now: list[float] = []

    def update(self, value: float, *, between: bool) -> None:
        """between: a step has ended a short time ago, so this is usual work."""
        if not between:
            self.now = [*self.now[-4:], value]
            return
        self.now = []
        self.usual = value if self.usual is None else self.usual + _BLEND * (value - self.usual)

    @property
    def share(self) -> float | None:
        """Of the usual, since the last step; None: not known."""
        now = median(self.now)
        return now / self.usual if now is not None and self.usual else None


class _Rank:
    def __init__(self) -> None:
        self.ordinary_s: deque[float] = deque(maxlen=_RECENT)
        self.usual_s: float | None = None  # None: there was no ordinary step
        self.longest_special_s = 0.0
        self.steps = 0
        self.number = 0
        self.last_end_ns = 0
        self.work: defaultdict[tuple[str, str], _Work] = defaultdict(_Work)


class StallRule(Rule):
    """Severity: 0.75 when it is told, 1 at ten times that long. Confidence: a thrown coin when the
    limit is just reached and the program works as ever, or that is not known; more the longer it
    waits and the less it works."""

    needs_a_running_program = True

    def __init__(self, settings: Stall) -> None:
        self._settings = settings
        self._ranks: defaultdict[int, _Rank] = defaultdict(_Rank)

    def step(self, seen: StepSeen) -> None:
        rank = self._ranks[seen.rank]
        took_s = seen.duration_ns / 1e9
        if seen.is_special:
            rank.longest_special_s = max(rank.longest_special_s, took_s)
        else:
            rank.ordinary_s.append(took_s)
        rank.steps += 1
        if rank.steps % _REFRESH == 0 or rank.steps < _RECENT:
            rank.usual_s = median(rank.ordinary_s)
        self._note_end(rank, seen.end_ns, seen.number)

    def passed(self, steps: StepsPassed) -> None:
        if steps.rank in self._ranks:
            self._note_end(self._ranks[steps.rank], steps.end_ns, steps.number)

    def _note_end(self, rank: _Rank, end_ns: int, number: int) -> None:
        if end_ns >= rank.last_end_ns:
            rank.last_end_ns, rank.number = end_ns, number

    def reading(self, reading: Reading) -> None:
        rank = self._ranks.get(reading.rank)
        if rank is None or reading.metric not in _WORK:
            return
        work = rank.work[reading.metric, reading.label]
        waited_s = (reading.time_ns - rank.last_end_ns) / 1e9
        work.update(reading.value, between=waited_s < self._short_s(rank))

    def left(self, rank: int) -> None:
        """No step is to be expected of it."""
        self._ranks.pop(rank, None)

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        for number, rank in self._ranks.items():
            usual_s = rank.usual_s
            if usual_s is None or rank.steps < self._settings.steps:
                continue
            share = _share_of_work(rank)
            limit_s = self._limit_s(rank, usual_s, is_busy=share is not None and share > _IDLE)
            waited_s = (now_ns - rank.last_end_ns) / 1e9
            if waited_s >= limit_s:
                yield _condition(number, rank, usual_s, waited_s, limit_s, share)

    def _short_s(self, rank: _Rank) -> float:
        """So long after a step its program is taken to be at the next one."""
        return max(2.0 * (rank.usual_s or 0.0), 0.2 * self._settings.least_s)

    def _limit_s(self, rank: _Rank, usual_s: float, *, is_busy: bool) -> float:
        settings = self._settings
        least_s = settings.busy_s if is_busy else settings.least_s
        return max(settings.after * usual_s, least_s, _OF_LONGEST * rank.longest_special_s)


def _share_of_work(rank: _Rank) -> float | None:
    """Of the usual, by the metric that shows most of it: a GPU that computes is no stall."""
    return max(
        (share for work in rank.work.values() if (share := work.share) is not None), default=None
    )


def _condition(
    number: int,
    rank: _Rank,
    usual_s: float,
    waited_s: float,
    limit_s: float,
    share: float | None,
) -> Condition:
    last = f"The last step, {rank.number}, ended {duration(waited_s)} ago"
    evidence = [f"{last}; one usually takes {duration(usual_s)}."]
    if rank.longest_special_s:
        evidence.append(
            f"The longest with an evaluation or a save took {duration(rank.longest_special_s)}."
        )
    missing: tuple[str, ...] = ()
    if share is None:
        missing = ("Whether the program works meanwhile is not known.",)
    elif share > _IDLE:
        evidence.append("The program works as hard as it does in its steps.")
    else:
        evidence.append(f"The program works {share * 100:.0f} % as hard as it does in its steps.")
    return Condition(
        rule="stall",
        key=f"rank {number}",
        kind="stall",
        title=f"No step for {duration(waited_s)}",
        severity=graded(math.log10(waited_s / limit_s), ((0.0, 0.75), (1.0, 1.0))),
        confidence=1.0 - 0.5 * limit_s / waited_s * (1.0 if share is None else min(1.0, share)),
        began_ns=rank.last_end_ns,
        share=1.0,
        evidence=tuple(evidence),
        missing=missing,
        measures={"waited_s": waited_s, "usual_step_s": usual_s, "limit_s": limit_s},
        rank=number,
        step=rank.number + 1,  # in which it stands
        metric="step_seconds",
        value=waited_s,
        limit=limit_s,
        group="stall",
        asks="stall",
    )
