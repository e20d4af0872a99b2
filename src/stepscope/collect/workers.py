"""What happens inside a loader, in its workers and in the training process, down to the sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect.batches import BatchTimer
from stepscope.collect.chain import hiding, like, nothing, spanned
from stepscope.collect.envelope import Receiver
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.imports import when_imported
from stepscope.collect.samples import Pace, looking_costs
from stepscope.collect.transforms import Transforms
from stepscope.collect.worker_loop import WorkerLoop, wrapped_loop
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames
from stepscope.record.recorder import Recorder

__all__ = ["WorkersCollector", "ignore"]

_TIMER = "_stepscope_timer"  # attribute of a fetcher
_PACES = 32
# The workers of the first iterations have their stacks sampled from the start. Where workers start
# anew again and again, later ones live for some time first: beginning to sample takes a part of
# what a short life lasts, and the first have shown the lines.
_FIRST_ITERATIONS = 4
_STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


def ignore(_: WorkerLoop) -> None:
    """Nobody samples stacks here."""


class WorkersCollector(HookingCollector):
    """Spans for every stage between the dataset and the training loop."""

    name = "workers"

    def __init__(
        self, first: Callable[[], None] = nothing, settled: Callable[[WorkerLoop], None] = ignore
    ) -> None:
        """`settled(worker)` is called in a worker that was forked while `are_short_lived`."""
        super().__init__(first)
        self._settled = settled
        self._receiver: Receiver | None = None
        self._iterations = 0
        self._is_making = False

    @property
    def are_short_lived(self) -> bool:
        """Whether workers are being started, as often before."""
        return self._is_making and self._iterations > _FIRST_ITERATIONS

    def _install(self, recorder: Recorder) -> None:
        from torch.utils.data import dataloader
        from torch.utils.data._utils import pin_memory, worker

        self._recorder = recorder
        self._worker: WorkerLoop | None = None  # what this process is, where it is one
        self._costs = _costs(recorder)
        self._paces: dict[int, Pace] = {}
        self._transforms = Transforms(recorder, self._patches)
        self._receiver = Receiver(recorder)
        self._receiver.listen()
        replace = self._patches.replace
        replace(worker, "_worker_loop", self._loop)
        replace(dataloader._DatasetKind, "create_fetcher", self._creating)
        replace(dataloader._SingleProcessDataLoaderIter, "_next_index", self._choosing)
        replace(dataloader.DataLoader, "_get_iterator", self._making)
        replace(pin_memory, "pin_memory", self._pinning)
        when_imported(_STATEFUL, self._install_stateful, recorder.failed)

    def _uninstall(self) -> None:
        super()._uninstall()
        if self._receiver is not None:
            self._receiver.leave()

    def _install_stateful(self, loader: Any) -> None:
        """torchdata's loader has a loop of its own, known by two names."""
        from importlib import import_module

        if not self._running:
            return
        home = import_module("torchdata.stateful_dataloader.worker")
        ours = self._loop(home._worker_loop, stateful=True)
        for module in (home, loader):
            if hasattr(module, "_worker_loop"):
                self._patches.put(module, "_worker_loop", ours)

    def _loop(self, original: Callable[..., Any], stateful: bool = False) -> Callable[..., Any]:
        return wrapped_loop(self._recorder, self._first, self._enter, original, stateful)

    def _enter(self, loop: WorkerLoop) -> None:
        self._worker = loop
        if self.are_short_lived:
            self._settled(loop)

    def _creating(self, create: Callable[..., Any]) -> Callable[..., Any]:
        """Fetchers are made for each iteration, in workers and out of them: each gets a timer."""

        def create_fetcher(
            kind: Any, dataset: Any, auto_collation: Any, collate_fn: Any, *rest: Any
        ) -> Any:
            timer = None
            try:
                timer = self._timer(dataset, bool(auto_collation))
                collate_fn = timer.collating(collate_fn)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self._recorder.failed("making a fetcher", error)
            fetcher = create(kind, dataset, auto_collation, collate_fn, *rest)
            try:
                setattr(fetcher, _TIMER, timer)
            except AttributeError:
                pass
            if self._worker is not None and self._worker.works_on(dataset):
                self._worker.batch = timer
            return fetcher

        return hiding(create, create_fetcher)

    def _timer(self, dataset: Any, batched: bool) -> BatchTimer:
        # torch asks the same: what is given whole to `__getitems__` is not walked by torch.
        whole = bool(getattr(dataset, "__getitems__", None))
        timer = BatchTimer(self._recorder, self._pace(dataset), batched and not whole, batched)
        own_copy = self._worker is not None
        timer.spans_each += self._transforms.watch(dataset, timer.samples, own_copy)
        return timer

    def _pace(self, dataset: Any) -> Pace:
        """What was learnt of a dataset holds for its next iteration too."""
        pace = self._paces.pop(id(dataset), None) or Pace(*self._costs)
        self._paces[id(dataset)] = pace
        if len(self._paces) > _PACES:
            del self._paces[next(iter(self._paces))]
        return pace

    def _choosing(self, choose: Callable[..., Any]) -> Callable[..., Any]:
        """The indices of the next batch, where there are no workers."""

        def next_index(iterator: Any) -> Any:
            try:
                index = choose(iterator)
                timer = getattr(getattr(iterator, "_dataset_fetcher", None), _TIMER, None)
                return index if timer is None else timer.begin(index)
            except BaseException:
                hide_own_frames()
                raise

        return like(choose, next_index)

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Iterators with workers: what they receive is timed."""

        def get_iterator(loader: Any) -> Any:
            self._is_making, self._iterations = True, self._iterations + 1
            try:
                iterator = make(loader)
            finally:
                self._is_making = False
            try:
                queue = getattr(iterator, "_worker_result_queue", None)
                if queue is not None and self._receiver is not None:
                    self._receiver.attach(queue)
            except Exception as error:  # noqa: BLE001
                self._recorder.failed(names.DESERIALISE, error)
            return iterator

        return hiding(make, get_iterator)

    def _pinning(self, pin: Callable[..., Any]) -> Callable[..., Any]:
        """It calls itself for the parts of a batch: only the outermost call is a span."""
        return spanned(self._recorder, names.PIN, pin, outermost=True)


def _costs(recorder: Recorder) -> tuple[float, float]:
    recorder.pause()  # what is measured here is forgotten before anybody writes it
    try:
        return looking_costs(recorder)
    finally:
        recorder.resume()
