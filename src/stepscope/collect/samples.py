"""The items of a batch, one by one → `input.sample` spans, as many as are affordable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["Pace", "SampleTimer", "TimedIndices", "looking_costs"]

BUDGET = 0.005  # of the time that samples take, for looking at them
RATE_NS = 1_000_000  # one span each this long is enough to know their distribution
BATCH_NS = 50_000  # what timing a batch costs at most, asking the kernel included
BATCH_BUDGET = 0.01  # of the time that batches take
SLOW = 4.0  # times the mean: always recorded
_SLOW_KEPT = 8  # of one batch
_FIRST_KEPT = 32  # of the first batch, when nothing is known yet
_ROUNDS = 64
_COLD = 2.5  # between two samples the program's own work fills the caches: so much dearer, seen
_NEWEST = 0.2  # weight of the newest batch in the mean
_INT64 = 1 << 63


class TimedIndices(list[Any]):
    """The indices of a batch. The time between one and the next is that of a sample.

    Only the fetcher of torch iterates it; the dataset gets the indices one by one.
    """

    __slots__ = ("timer",)
    timer: SampleTimer

    def __iter__(self) -> Iterator[Any]:
        return self.timer.walk(list(super().__iter__()))


class Pace:
    """How many of the samples are recorded, from what they take and what looking costs."""

    def __init__(self, look_ns: float, span_ns: float) -> None:
        self._look_ns, self._span_ns = look_ns, span_ns
        self.mean_ns = 0.0  # of a sample; 0: not known
        self.every = 1  # so many samples are one span
        self.batches = 1  # one batch in so many is looked into
        self.untold = 0  # samples since the last one that was recorded: it will stand for these
        self.batch = 0  # the number of the one under way
        self.timed = 1  # one batch in so many is timed at all
        self.untimed = 0  # batches since the last one that was

    def update(self, lasted_ns: int, samples: int, spans_each: int) -> None:
        """A batch of so many samples took this long; one sample may be several spans."""
        if not samples:
            return
        mean_ns = lasted_ns / samples
        old_ns = self.mean_ns or mean_ns
        self.mean_ns = mean_ns = max(1.0, old_ns + _NEWEST * (mean_ns - old_ns))
        # Rounded up, so that the budget holds.
        dearest_ns = max(RATE_NS, spans_each * self._span_ns / BUDGET)
        self.every = -int(-dearest_ns // mean_ns)
        self.batches = max(1, -int(-self._look_ns / BUDGET // mean_ns))

    @property
    def looked_into(self) -> int:
        """One of the timed batches in so many is looked into."""
        return max(1, -(-self.batches // self.timed))

    def next_is_timed(self) -> bool:
        """Whether the batch that begins is timed; it stands for `timed` of them."""
        self.untimed += 1
        if self.untimed < self.timed:
            return False
        self.untimed = 0
        return True

    def batch_took(self, lasted_ns: int) -> None:
        """Timing a batch costs the same whatever it takes: of short ones, few are timed."""
        self.timed = max(1, -int(-BATCH_NS / BATCH_BUDGET // max(lasted_ns, 1)))


class SampleTimer:
    """Times the samples of one fetcher. `weight`: how many samples the one under way stands for;
    0: it is not recorded, and nothing in it need be."""

    def __init__(self, recorder: Recorder, pace: Pace) -> None:
        self._recorder, self.pace = recorder, pace
        self._name = recorder.intern(names.SAMPLE)
        self.weight = 0.0
        self._token = -1

    def indices(self, indices: Sequence[Any]) -> Sequence[Any]:
        """The indices of the next batch: those that tell, or the same where it is not its turn."""
        pace = self.pace
        pace.batch += 1
        if pace.batch % pace.looked_into:
            pace.untold += len(indices)
            return indices
        timed = TimedIndices(indices)
        timed.timer = self
        return timed

    def one(self, index: Any) -> None:
        """The next item is fetched by itself; `end` is called when it is there."""
        self.pace.untold += 1
        if self.pace.untold >= self.pace.every:
            self._begin(_number(index), float(self.pace.untold))
            self.pace.untold = 0

    def reset(self) -> None:
        """A batch begins. What the last one left open, an error did, and it is closed by now."""
        self.weight, self._token = 0.0, -1

    def end(self, failed: int = 0) -> None:
        """The sample under way is over, if there is one."""
        self.weight = 0.0
        token, self._token = self._token, -1
        if token >= 0:
            try:
                self._recorder.end(token, failed)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self._recorder.failed(names.SAMPLE, error)

    def _begin(self, number: int, weight: float = 1.0) -> None:
        try:
            self._token = self._recorder.begin(self._name, number, weight)
            self.weight = weight
        except Exception as error:  # noqa: BLE001
            self._recorder.failed(names.SAMPLE, error)

    def walk(self, indices: list[Any]) -> Iterator[Any]:
        if self.pace.mean_ns and self.pace.every == 1:
            return self._each(indices)
        return self._some(indices)

    def _each(self, indices: list[Any]) -> Iterator[Any]:
        self.pace.untold = 0
        for index in indices:
            self._begin(_number(index))
            yield index
            self.end()

    def _some(self, indices: list[Any]) -> Iterator[Any]:
        """Looks at each, records one of `every` and those that are slow."""
        pace, now_ns = self.pace, self._recorder.now_ns
        alike = pace.timed * pace.looked_into  # batches that this one stands for
        every, untold, slow_left = pace.every, pace.untold, _SLOW_KEPT
        if not pace.mean_ns:
            every = max(1, len(indices) // _FIRST_KEPT)
        limit_ns = SLOW * pace.mean_ns or float("inf")
        began_ns = now_ns()
        for index in indices:
            untold += 1
            if untold >= every:
                self.weight = float(untold)
            yield index
            lasted_ns = now_ns() - began_ns
            if lasted_ns > limit_ns and slow_left:
                slow_left -= 1
                untold -= alike
                self._tell(began_ns, lasted_ns, index, float(alike))
            elif untold >= every:
                self._tell(began_ns, lasted_ns, index, float(untold))
                untold = 0
            self.weight = 0.0
            began_ns = now_ns()
        pace.untold = untold

    def _tell(self, began_ns: int, lasted_ns: int, index: Any, weight: float) -> None:
        try:
            self._recorder.complete(self._name, began_ns, lasted_ns, _number(index), weight)
        except Exception as error:  # noqa: BLE001
            self._recorder.failed(names.SAMPLE, error)


def _number(index: Any) -> int:
    """The index as a number; -1: it is none (a key, a slice, an item of a stream)."""
    if type(index) is int:
        return index if -_INT64 <= index < _INT64 else -1
    try:
        number = index.__index__()  # of numpy or of torch
    except Exception:  # noqa: BLE001
        return -1
    return number if type(number) is int and -_INT64 <= number < _INT64 else -1


def looking_costs(recorder: Recorder) -> tuple[float, float]:
    """What looking at a sample and what a span cost in this process, in ns."""
    before = recorder.position()
    timer = SampleTimer(recorder, Pace(0.0, 0.0))
    timer.pace.every, timer.pace.mean_ns = _ROUNDS * 10, 1e12
    name, now_ns = timer._name, recorder.now_ns
    best = [float("inf")] * 3
    for _ in range(3):
        times = [now_ns()]
        for _ in timer._some([0] * _ROUNDS):
            pass
        times.append(now_ns())
        for _ in range(_ROUNDS):
            recorder.end(recorder.begin(name))
        times.append(now_ns())
        best = [
            min(a, (later - earlier) / _ROUNDS)
            for a, earlier, later in zip(best, times, times[1:], strict=False)
        ]
    recorder.discard(before)
    return best[0] * _COLD, best[1] * _COLD
