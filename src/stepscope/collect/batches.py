"""One fetcher of torch, in a worker or in the training process → the spans within each of its
batches (`input.sample`, `input.transform`, `input.collate`) and what the kernel counted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import like, placed
from stepscope.collect.samples import Pace, SampleTimer
from stepscope.collect.thread_use import ThreadUse, UseInBatches
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["BatchTimer"]


class BatchTimer:
    """`begin` when the indices of a batch are known, `collating` around what makes it of samples.

    `spans_each`: how many spans one sample is, transforms included.
    """

    def __init__(self, recorder: Recorder, pace: Pace, item_by_item: bool, batched: bool) -> None:
        self._recorder = recorder
        self.samples = SampleTimer(recorder, pace)
        self.spans_each = 1
        self._item_by_item, self._batched = item_by_item, batched
        self._collate = recorder.intern(names.COLLATE)
        self._counted = tuple(
            recorder.intern(name)
            for name in (
                names.WORKER_RUN_DELAY_NS, names.WORKER_READ_BYTES, names.WORKER_READ_CHARS,
                names.WORKER_WRITE_BYTES, names.WORKER_SYSTEM_NS,
            )
        )  # fmt: skip
        self._before: ThreadUse | None = None
        self._began_ns = 0
        self._items = 0
        self._weight = 0.0  # how many batches the one under way stands for; 0: it is not timed

    def begin(self, index: Any) -> Any:
        """What the fetcher is to iterate in the place of `index`."""
        try:
            pace = self.samples.pace
            if pace.untimed + 1 < pace.timed:  # of short batches, most are only counted
                pace.untimed += 1
                pace.untold += len(index) if self._batched and isinstance(index, list) else 1
                self._weight = 0.0
                return index
            return self._begin(index)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed("the start of a batch", error)
            return index

    def _begin(self, index: Any) -> Any:
        pace, self._weight = self.samples.pace, 0.0
        self.samples.reset()
        if not pace.next_is_timed():
            pace.untold += len(index) if self._batched and isinstance(index, (list, tuple)) else 1
            return index
        self._weight, self._items = float(pace.timed), 0
        self._before = UseInBatches.of_this_thread().now()
        self._began_ns = self._recorder.now_ns()
        if not self._batched:
            self._items = 1
            self.samples.one(index)
        elif isinstance(index, (list, tuple)):
            self._items = len(index)
            if self._item_by_item:
                return self.samples.indices(index)
        return index

    def collating(self, collate: Callable[..., Any]) -> Callable[..., Any]:
        """`collate` within a span; the samples are over when it begins, the batch when it ends."""
        begin, end, failed = self._recorder.begin, self._recorder.end, self._recorder.failed

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            token = -1
            try:
                self._samples_are_there()
                token = begin(self._collate, 0, self._weight)
            except Exception as error:  # noqa: BLE001
                failed(names.COLLATE, error)
            wrong = 1
            try:
                result = collate(*args, **kwargs)
                wrong = 0
                return result
            finally:
                try:
                    end(token, wrong)
                    self._is_over()
                except Exception as error:  # noqa: BLE001
                    failed(names.COLLATE, error)

        placed(wrapper, collate)

        def collated(*args: Any, **kwargs: Any) -> Any:
            try:
                return wrapper(*args, **kwargs) if self._weight else collate(*args, **kwargs)
            except BaseException:
                hide_own_frames()
                raise

        return like(collate, collated)

    def _samples_are_there(self) -> None:
        # Still open: a stream that ended within the batch, which is no sample.
        self.samples.end(failed=int(self._batched))
        lasted_ns = self._recorder.now_ns() - self._began_ns
        self.samples.pace.update(lasted_ns, self._items, self.spans_each)

    def _is_over(self) -> None:
        """Say what the thread used in the batches that were timed; arg: how many these are."""
        self.samples.pace.batch_took(self._recorder.now_ns() - self._began_ns)
        self._weight = 0.0
        if self._before is None:
            return
        use = UseInBatches.of_this_thread()
        sums = use.add(self._before)
        self._before = None
        for name, total in zip(self._counted, sums, strict=True):
            if total >= 0:
                self._recorder.sample(name, float(total), use.batches)
