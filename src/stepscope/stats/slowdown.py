"""Step durations, one after the other → whether steps have become slower than usual."""

from __future__ import annotations

import math
from collections import deque
from itertools import islice

from stepscope.stats.reference import Reference

__all__ = ["SlowdownDetector"]

SKIPPED = 3  # the first steps of a run compile, fill caches and say nothing
LAG = (
    24  # steps that wait before they count as usual: a change is found before it is taken for that
)
RECENT = 128  # steps that noise is measured with
REFRESH = 32  # steps between two looks at that noise
SHORT, LONG = 17, 31  # steps whose level is compared with the usual one
SETTLED = 64  # steps that a faster level has to last before it is the usual one
ALARM = 8.0  # the log of how much likelier the steps since the change are with it than without
ENOUGH = 0.6  # of the least slow-down, that the last steps have to show, old ones among them or not
NEARLY, ERRORS = 0.9, 1.5  # of it, less so many standard errors, that the steps since have to show
FEWEST = 9  # of those steps


class SlowdownDetector:
    """Whether the last ordinary steps are slower than is usual for this run, by `least` or more.

    Two things have to agree. A sum of evidence (CUSUM on logarithms, clipped so that a single step
    counts for little, in units of the noise that steps have over several of them) says that a
    change is there, and the level of the last steps says that it is as large as that: so a few odd
    steps, steps that are longer now and then, and noise that grows are no slow-down.

    The usual level comes from all of the run, thinned. It follows a run that becomes faster, and
    stands still while steps are slow, however long that lasts.

    >>> detector = SlowdownDetector()
    >>> for step in range(200):
    ...     detector.update(0.100 + 0.001 * (step % 3) + (0.02 if step >= 150 else 0.0))
    >>> detector.is_slow, round(detector.ratio, 2), detector.began
    (True, 1.2, 150)
    """

    def __init__(self, least: float = 0.05) -> None:
        self._delta = math.log1p(least)
        self._reference = Reference(self._delta)
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._waiting: deque[float] = deque()
        self._count = 0
        self._up = _Evidence()
        self._down = _Evidence()
        self._slower = self._faster = 0.0  # what is still to be added to them
        self.is_slow = False
        self.began = 0

    def update(self, value: float) -> None:
        """Take the duration of the next step, in any unit. What is no duration is passed by."""
        self._count += 1
        if not 0.0 < value < math.inf or self._count <= SKIPPED:
            return
        log = math.log(value)
        self._recent.append(log)
        if self._count % REFRESH == 0:
            self._reference.look_at_noise(list(islice(self._recent, max(0, self._fresh()))))
        if self._reference.is_ready:
            self._weigh(log)
        if not self.is_slow:
            self._learn(log)

    @property
    def usual(self) -> float | None:
        """Duration of an ordinary step; None: too few were seen."""
        return math.exp(self._reference.middle) if self._reference.is_ready else None

    @property
    def level(self) -> float | None:
        """Duration of a step now."""
        return self.usual and self.usual * self.ratio

    @property
    def ratio(self) -> float:
        """Duration of a step now, against the usual one; 1.0 before that is known."""
        return math.exp(self._shift(SHORT)) if self._reference.is_ready else 1.0

    @property
    def confidence(self) -> float:
        """How sure it is that steps are slower by more than half of the least slow-down: 0.5 where
        they are slower by just that, 1 where the noise cannot explain it."""
        if not self._reference.is_ready:
            return 0.0
        count = self._window(self._count - self.began)
        away = (self._shift(count) - self._delta / 2) / self._reference.error(count)
        return 0.5 * math.erfc(-away / math.sqrt(2.0))

    def _fresh(self) -> int:
        """Of the recent steps, how many are old enough to be free of a change not found yet."""
        return len(self._recent) - (0 if self.is_slow else LAG)

    def _weigh(self, log: float) -> None:
        slower, faster = self._reference.evidence(log)
        self._slower += slower
        self._faster += -slower if self.is_slow else faster
        if self._count % self._reference.period:
            return
        self._up.add(self._slower, self._count)
        self._down.add(self._faster, self._count)
        self._slower = self._faster = 0.0
        if self._up.is_enough or self._down.is_enough:
            self._judge()

    def _judge(self) -> None:
        if self.is_slow:
            if self._down.is_enough and self._shift(self._since(self._down)) < self._delta / 2:
                self._change(is_slow=False)
        elif self._up.is_enough and self._is_as_large():
            self.began = self._up.began
            self._change(is_slow=True)
        elif self._down.is_enough and self._shift(SETTLED) < -self._delta / 2:
            self._follow()

    def _is_as_large(self) -> bool:
        """As the least slow-down: most of the last steps are longer, which bursts do not achieve,
        and those since the change by no less than that, as far as noise lets it be told."""
        if self._shift(SHORT) < ENOUGH * self._delta:
            return False
        since = min(LONG, max(FEWEST, self._count - self._up.began))
        least = NEARLY * self._delta - ERRORS * self._reference.own_error(since)
        return self._shift(since) > least

    def _since(self, evidence: _Evidence) -> int:
        return self._window(self._count - evidence.began + 1)

    @staticmethod
    def _window(steps: int) -> int:
        return min(LONG, max(SHORT, steps))

    def _shift(self, steps: int) -> float:
        """Of the last steps against the usual ones, on logarithms."""
        start = max(0, len(self._recent) - steps)
        return self._reference.shift(list(islice(self._recent, start, None)))

    def _change(self, *, is_slow: bool) -> None:
        self.is_slow = is_slow
        self._up, self._down = _Evidence(), _Evidence()
        self._waiting.clear()
        self._keep_recent(SHORT)

    def _follow(self) -> None:
        """The run has become faster: what is usual is learnt again, from the steps since."""
        self._reference = Reference(self._delta)
        self._up, self._down = _Evidence(), _Evidence()
        self._waiting.clear()
        self._keep_recent(SETTLED // 2)
        for log in self._recent:
            self._learn(log)

    def _keep_recent(self, steps: int) -> None:
        while len(self._recent) > steps:
            self._recent.popleft()

    def _learn(self, log: float) -> None:
        self._waiting.append(log)
        if len(self._waiting) > LAG:
            self._reference.update(self._waiting.popleft())


class _Evidence:
    """A sum that falls to 0 again and again while nothing happens. began: when it last did."""

    def __init__(self) -> None:
        self.sum = 0.0
        self.began = 0

    def add(self, gain: float, now: int) -> None:
        if self.sum <= 0.0:
            if gain <= 0.0:
                return
            self.began = now - 1
        # More than twice the alarm is not remembered: it would have to be undone.
        self.sum = min(2.0 * ALARM, max(0.0, self.sum + gain))

    @property
    def is_enough(self) -> bool:
        return self.sum >= ALARM
