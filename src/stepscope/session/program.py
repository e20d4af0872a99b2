"""The training process: its recorder, its collectors, and its life from torch to the end."""

from __future__ import annotations

import atexit
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import torch

from stepscope.collect.backward import BackwardCollector
from stepscope.collect.chain import nothing
from stepscope.collect.cost import measure_hook_cost
from stepscope.collect.forward import ForwardCollector
from stepscope.collect.gc import GcCollector
from stepscope.collect.gpu import AllocatorSource
from stepscope.collect.imports import when_imported
from stepscope.collect.loader import LoaderCollector
from stepscope.collect.saves import SavesCollector
from stepscope.collect.steps import StepsCollector
from stepscope.collect.timeline import CudaDriver, CudaTimeline
from stepscope.collect.transfer import TransferCollector, accelerator_present
from stepscope.config import ENV_STATUS
from stepscope.model import names
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header, process_rank

__all__ = ["Program"]


class _Collector(Protocol):
    name: str

    def start(self, recorder: Any) -> None: ...
    def stop(self) -> None: ...


class Program:
    """A process of the run. It writes nothing until its loop shows a first sign of life."""

    def __init__(self, run: str, began: Moment, spent_ns: int) -> None:
        self._run = run
        self._began = began
        self._spent_ns = spent_ns  # on joining, so far
        self._recorder = Recorder()
        self._awake = False
        self._gc = GcCollector()
        self._timeline: CudaTimeline | None = None

    def start(self) -> None:
        """Hook torch. From here on, what the program does is seen."""
        began_ns = time.perf_counter_ns()
        self._cost = measure_hook_cost(self._recorder)
        recorder, at_step = self._recorder, nothing
        if accelerator_present(torch) and torch.version.cuda:
            self._timeline = CudaTimeline(recorder, CudaDriver(torch.cuda))
            recorder = self._timeline.recorder()
            at_step = AllocatorSource(recorder, torch.cuda)
        for collector in self._collectors(at_step):
            self._start(collector, recorder)
        os.register_at_fork(after_in_child=self._after_fork)
        when_imported("torch._dynamo.trace_rules", _keep_from_compiling, recorder.failed)
        when_imported("multiprocessing.util", self._mind_workers, recorder.failed)
        atexit.register(self._leave)
        self._spent_ns += time.perf_counter_ns() - began_ns

    def _collectors(self, at_step: Any) -> tuple[_Collector, ...]:
        # All of these are cheap enough for every level; dearer ones will be for some.
        wake = self._wake
        return (
            StepsCollector(wake, at_step),
            ForwardCollector(wake),
            BackwardCollector(wake),
            LoaderCollector(wake),
            TransferCollector(force=os.environ.get("STEPSCOPE_TRANSFERS") == "1"),
            SavesCollector(),
        )

    def _start(self, collector: _Collector, recorder: Recorder) -> None:
        """One collector that cannot start does not keep the others from starting."""
        try:
            collector.start(recorder)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(f"starting {collector.name}", error)

    def _wake(self) -> None:
        """The loop lives: open the files, say what joining cost, and record collections too."""
        if self._awake:
            return
        self._awake = True
        began_ns = time.perf_counter_ns()
        self._open()
        self._start(self._gc, self._recorder)
        sample, intern = self._recorder.sample, self._recorder.intern
        sample(intern(names.OWN_CALL_COST_NS), self._cost.call_ns)
        sample(intern(names.OWN_PROBE_COST_NS), self._cost.probe_ns)
        spent_ns = self._spent_ns + time.perf_counter_ns() - began_ns
        sample(intern(names.OWN_STARTUP_NS), float(spent_ns))

    def _open(self) -> None:
        process = f"{os.getpid()}-{self._began.unix_ns}"
        base = Path(self._run, f"rank-{process_rank(os.environ):05d}", process)
        status = os.environ.get(ENV_STATUS)
        page = str(Path(status, f"{os.getpid()}.status")) if status else ""
        header = process_header(os.environ, sys.argv, self._recorder.core.name, self._began)
        self._recorder.open(str(base), header, page)

    def _after_fork(self) -> None:
        """In a forked child: forget what is the parent's, and go on in files of our own."""
        try:
            self._began = Moment.now()
            self._recorder.after_fork()
            if self._awake:
                self._open()
        except Exception as error:  # noqa: BLE001
            self._recorder.failed("after a fork", error)

    def _mind_workers(self, util: Any) -> None:
        """Children of multiprocessing end with os._exit: no atexit, but their own finalizers."""

        def in_child(program: Program) -> None:
            util.Finalize(None, program._leave, exitpriority=-100)

        util.register_after_fork(self, in_child)

    def _leave(self) -> None:
        """The process ends: write what is pending."""
        try:
            if self._timeline is not None:
                self._timeline.poll()
            if not self._awake or not self._recorder.counters()["recorded"]:
                return
            self._recorder.mark(self._recorder.intern(names.PROCESS_EXIT))
            self._recorder.close()
        except Exception as error:  # noqa: BLE001
            self._recorder.failed("at exit", error)


def _keep_from_compiling(trace_rules: Any) -> None:
    """What our wrappers call is run under the program's torch.compile: dynamo is to leave it be."""
    trace_rules.add("stepscope")
