"""The loop of a loader's worker process → its `worker.…` spans.

What stands in front of torch's `_worker_loop` has its name too: a worker that is spawned finds, by
that name, ours where it has joined the run and torch's own where it has not.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from stepscope.collect.batches import BatchTimer
from stepscope.collect.chain import hiding
from stepscope.collect.envelope import Envelope, Sender
from stepscope.collect.proc import read_once
from stepscope.collect.source import source_of_dataset
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["WorkerLoop", "wrapped_loop"]

_LONGEST_START_NS = 600_000_000_000  # more than that, and the clocks of the kernel do not agree
_forked_ns = 0  # when this process was forked; 0: it was not


def _note_fork() -> None:
    global _forked_ns
    _forked_ns = time.monotonic_ns()


os.register_at_fork(after_in_child=_note_fork)


class WorkerLoop:
    """One worker at its work. `batch`: who times the batch under way, once there is a fetcher."""

    def __init__(self, recorder: Recorder, stateful: bool) -> None:
        self._recorder, self._stateful = recorder, stateful
        self.batch: BatchTimer | None = None
        self._idle = recorder.intern(names.WORKER_IDLE)
        self._fetch = recorder.intern(names.WORKER_FETCH)
        self._fetching = -1
        self._started = False
        self._later: Callable[[], None] | None = None
        self._later_ns = 0

    def announce(self, args: tuple[Any, ...]) -> None:
        """Who this worker is. `parent`: the process it works for, whoever forked it."""
        dataset, persistent = args[1], args[12]
        parent = multiprocessing.parent_process()
        about = {
            "loader": {"workers": args[11], "persistent_workers": persistent},
            "parent": parent.pid if parent is not None else os.getppid(),
            **source_of_dataset(dataset),
        }
        recorder = self._recorder
        text = recorder.intern(json.dumps(about, default=str))
        recorder.mark(recorder.intern(names.WORKER), int(args[10]), text)

    def call_when_old(self, age_ns: int, later: Callable[[], None]) -> None:
        """Between two batches, once this process is that old: what only pays off in a worker that
        lives on."""
        self._later, self._later_ns = later, _process_began_ns() + age_ns

    @staticmethod
    def works_on(dataset: Any) -> bool:
        """Whether it is this worker's, and not one of a loader that the dataset itself uses."""
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        return info is None or info.dataset is dataset

    def attach(self, index_queue: Any, data_queue: Any) -> None:
        """Stand in front of this process's ends of the two queues."""
        index_queue.get = self._getting(index_queue.get)
        send = getattr(data_queue, "_send_bytes", None)
        if send is None:  # not a queue with a feeder thread
            data_queue.put = self._putting(data_queue.put, None)
            return
        sender = Sender(self._recorder)
        data_queue._send_bytes = sender.sending(send)
        data_queue.put = self._putting(data_queue.put, sender)

    def _getting(self, get: Callable[..., Any]) -> Callable[..., Any]:
        begin, end, failed = self._recorder.begin, self._recorder.end, self._recorder.failed

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            token = -1
            try:
                self._at_rest()
                token = begin(self._idle)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                failed(names.WORKER_IDLE, error)
            wrong = 1
            try:
                task = get(*args, **kwargs)
                wrong = 0
            finally:
                try:
                    end(token, wrong)
                except Exception as error:  # noqa: BLE001
                    failed(names.WORKER_IDLE, error)
            try:
                return self._begin(task)
            except Exception as error:  # noqa: BLE001
                failed(names.WORKER_FETCH, error)
                return task

        return hiding(get, wrapper)

    def _at_rest(self) -> None:
        self._end_fetch(1)  # a task that was left undone
        if not self._started:
            self._started = True
            began_ns, now_ns = _process_began_ns(), self._recorder.now_ns()
            name = self._recorder.intern(names.WORKER_START)
            self._recorder.complete(name, began_ns, now_ns - began_ns)
        if self._later is not None and self._recorder.now_ns() >= self._later_ns:
            later, self._later = self._later, None
            later()

    def _begin(self, task: Any) -> Any:
        """A batch is to be fetched, if that is what the task says."""
        if type(task) is not tuple or len(task) != 2 or type(task[0]) is not int:
            return task
        number, index = task
        self._fetching = self._recorder.begin(self._fetch, number)
        if self.batch is None:
            return task
        if self._stateful:
            index, snapshot = index
            return number, (self.batch.begin(index), snapshot)
        return number, self.batch.begin(index)

    def _end_fetch(self, failed: int) -> None:
        token, self._fetching = self._fetching, -1
        if token >= 0:
            self._recorder.end(token, failed)

    def _putting(self, put: Callable[..., Any], sender: Sender | None) -> Callable[..., Any]:
        from torch._utils import ExceptionWrapper
        from torch.utils.data._utils.worker import _IterableDatasetStopIteration, _ResumeIteration

        messages = (ExceptionWrapper, _IterableDatasetStopIteration, _ResumeIteration)

        def wrapped(result: Any) -> Any:
            number, data = result
            batch = data[0] if self._stateful and type(data) is tuple else data
            is_batch = type(number) is int and not isinstance(batch, messages)
            self._end_fetch(int(not is_batch))
            return (number, Envelope(data, sender)) if is_batch and sender is not None else result

        def wrapper(result: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = wrapped(result)
            except Exception as error:  # noqa: BLE001
                self._recorder.failed(names.WORKER_FETCH, error)
            return put(result, *args, **kwargs)

        return hiding(put, wrapper)


def wrapped_loop(
    recorder: Recorder,
    first: Callable[[], None],
    enter: Callable[[WorkerLoop], None],
    original: Callable[..., Any],
    stateful: bool = False,
) -> Callable[..., Any]:
    """torch's `_worker_loop`, watched. `enter` is told what worker this process has become."""

    def worker_loop(*args: Any, **kwargs: Any) -> Any:
        try:
            first()
            loop = WorkerLoop(recorder, stateful)
            enter(loop)
            loop.announce(args)
            loop.attach(args[2], args[3])
        except Exception as error:  # noqa: BLE001
            recorder.failed("a worker's start", error)
        return original(*args, **kwargs)

    return hiding(original, worker_loop)


def _process_began_ns() -> int:
    """When this process began, on the clock of the events; a spawned one to 10 ms."""
    now_ns = time.monotonic_ns()
    if _forked_ns:
        return _forked_ns
    try:
        text = read_once("/proc/self/stat") or ""
        ticks = int(text.rpartition(")")[2].split()[19])
        age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf(
            "SC_CLK_TCK"
        )
    except (AttributeError, IndexError, OSError, ValueError):
        return now_ns
    return now_ns - age_ns if 0 <= age_ns < _LONGEST_START_NS else now_ns
