"""All that is hooked in torch, for one process."""

from __future__ import annotations

import os
from collections.abc import Callable

from stepscope.collect.backward import BackwardCollector
from stepscope.collect.chain import keep_from_compiling, nothing
from stepscope.collect.cuda_memory import CudaHistory, Save, nowhere
from stepscope.collect.forward import ForwardCollector
from stepscope.collect.gpu import AllocatorSource
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.loader import LoaderCollector
from stepscope.collect.other_optimizers import OtherOptimizers
from stepscope.collect.own_memory import watch_own_size
from stepscope.collect.sampling import Guide, Sampling
from stepscope.collect.saves import SavesCollector
from stepscope.collect.speed import SpeedReference
from stepscope.collect.steps import StepsCollector
from stepscope.collect.timeline import CudaDriver, CudaTimeline
from stepscope.collect.transfer import TransferCollector, accelerator_present
from stepscope.collect.worker_loop import WorkerLoop
from stepscope.collect.workers import WorkersCollector, ignore
from stepscope.record.recorder import Recorder

__all__ = ["TorchHooks"]


class TorchHooks:
    """The collectors that stand in torch. `first` is called at the loop's first sign of life."""

    name = "torch"

    def __init__(
        self,
        first: Callable[[], None] = nothing,
        save: Save = nowhere,
        settled: Callable[[WorkerLoop], None] = ignore,
    ) -> None:
        """`save`: puts a file beside the recording. `settled`: see WorkersCollector."""
        self._first = first
        self._save = save
        self._workers = WorkersCollector(first, settled)
        self._collectors: tuple[HookingCollector, ...] = ()
        self._timeline: CudaTimeline | None = None
        memory = [part for part in os.environ.get("STEPSCOPE_MEMORY", "").split(",") if part]
        level = os.environ.get("STEPSCOPE_LEVEL", "")
        # Operators that are to be run again have to be logged, whatever that costs in one step.
        looked_at = os.environ.get("STEPSCOPE_REPLAY") == "full" and level != "production"
        self._sampling = Sampling(level, memory=memory, looked_at=looked_at)
        self._speed: SpeedReference | None = None  # once torch is there
        self._steps: StepsCollector | None = None

    def follow(self, guide: Guide) -> None:
        """Before the start: somebody changes the training as it goes."""
        self._sampling.follow(guide)

    def start(self, recorder: Recorder) -> None:
        """One collector that cannot start does not keep the others from starting."""
        if self._collectors:
            return
        import torch

        spans, at_step = recorder, nothing
        if torch.version.cuda and accelerator_present(torch):
            self._timeline = CudaTimeline(recorder, CudaDriver(torch.cuda))
            spans = self._timeline.recorder()
            at_step = AllocatorSource(recorder, torch.cuda)
            history = CudaHistory(torch.cuda, torch._C._cuda_isHistoryEnabled, self._save)
            self._sampling.watch_cuda(history)
        launched = bool(os.environ.get("STEPSCOPE_RUN"))
        self._speed = SpeedReference(recorder, at_step, torch)
        self._speed.set_calm(self._sampling.is_calm)
        self._steps = StepsCollector(
            self._first,
            self._speed,
            self._sampling.stepped,
            lambda: watch_own_size(recorder) if launched else None,
        )
        self._steps.set_calm(self._sampling.is_calm)
        steps = self._steps
        others = OtherOptimizers(lambda: steps.has_optimizers, steps.watch_other, recorder.failed)
        backward = BackwardCollector(self._first, self._sampling.watch, others.after_backward)
        self._collectors = (
            steps,
            backward,
            *_collectors(self._first, self._sampling, self._workers),
        )
        for collector in self._collectors:
            try:
                collector.start(spans)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                recorder.failed(f"starting {collector.name}", error)
        keep_from_compiling(recorder.failed)

    def set_calm(self, calm: bool) -> None:
        """calm: no more than somebody needs who watches for weeks. No step is looked at closer, and
        how fast the machine is only now and then."""
        self._sampling.set_calm(calm)
        if self._speed is not None and self._steps is not None:
            self._speed.set_calm(calm)
            self._steps.set_calm(calm)

    @property
    def starts_short_lived(self) -> bool:
        """Whether the process that is forked now is a loader's worker that may not live long."""
        return self._workers.are_short_lived

    def listen(self, status_folder: str) -> None:
        """The program lives: captures may be asked for in this folder."""
        self._sampling.listen(status_folder)

    def after_fork(self) -> None:
        """In a forked child: the events of the device are the parent's, and not to be touched."""
        self._sampling.after_fork()
        if self._timeline is not None:
            self._timeline.after_fork()

    def stop(self) -> None:
        for collector in reversed(self._collectors):
            collector.stop()
        self._collectors = ()
        self.poll()

    def leave(self) -> None:
        """The program is over: take what there is still to be had."""
        self.poll()
        self._sampling.leave()

    def poll(self) -> None:
        """Record what the GPU has done meanwhile, if there is one."""
        if self._timeline is not None:
            self._timeline.poll()


def _collectors(
    first: Callable[[], None], sampling: Sampling, workers: WorkersCollector
) -> tuple[HookingCollector, ...]:
    # All of these are cheap enough for every level; `sampling` minds the level itself.
    return (
        ForwardCollector(first, sampling.watch),
        LoaderCollector(first),
        workers,
        TransferCollector(force=os.environ.get("STEPSCOPE_TRANSFERS") == "1"),
        SavesCollector(),
        *sampling.collectors,
    )
