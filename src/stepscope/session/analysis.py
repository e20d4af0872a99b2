"""Folds what a run recorded, as it arrives or all at once, into its summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.analyze.fold import LoopFold, Progress
from stepscope.analyze.loop import Loop
from stepscope.analyze.overhead import OwnCost, OwnCostFold, together
from stepscope.analyze.resources import ResourceFold, Resources
from stepscope.analyze.speed import SpeedFold
from stepscope.analyze.tally import OnStep
from stepscope.analyze.trainers import chosen_loops, trainer_notes
from stepscope.model import names, traits
from stepscope.model.details import Details, PhaseStacks
from stepscope.model.event import Batch
from stepscope.model.headline import headline
from stepscope.model.process import ProcessInfo
from stepscope.model.summary import Summary
from stepscope.session.details import DetailsFold
from stepscope.store.status import StatusPage

if TYPE_CHECKING:
    from stepscope.analyze.memory_run import GrownNow
    from stepscope.analyze.operations import OperationFold
    from stepscope.model.finding import Finding
    from stepscope.model.metrics import PerformanceMetrics

__all__ = ["RunFold"]

_PROCESSES = 128  # that are known one by one; loaders may start thousands of workers
_SILENT_NS = 60_000_000_000  # not heard of for so long: it is gone


class _ProcessFold:
    """What is known of one process."""

    def __init__(self, process: ProcessInfo, on_step: OnStep | None = None) -> None:
        self.process = process
        self.loop = LoopFold(process.rank, process.pid, process.monotonic_ns, on_step)
        self.cost = OwnCostFold()
        self.speed = SpeedFold()
        self.events = self.heard_ns = 0
        self.operations: OperationFold | None = None  # once it names some

    @property
    def is_helper(self) -> bool:
        """It neither trains nor names operations: all that counts of it is what it cost."""
        is_program = self.process.role == "program"
        return is_program and self.operations is None and not self.loop.progress().steps

    def update(self, batch: Batch) -> None:
        self.events += batch.count
        self.heard_ns = batch.columns["time_ns"][-1]
        self.cost.update(batch)
        if self.process.role != "program":
            return
        self.loop.update(batch)
        self.speed.update(batch)
        if self.operations is None and next(batch.places((names.OPERATION,)), None):
            # Few programs profile themselves: the others do without this import.
            from stepscope.analyze.operations import OperationFold

            self.operations = OperationFold(self.process.pid)
        if self.operations is not None:
            self.operations.update(batch)


class RunFold:
    """All processes of a run: `update` with what they recorded, in order; then `summary`.

    `run`: its folder, where there may be more than events. `watcher`: gives for a
    process what its steps are told to, as they end, and asks `stacks_since`.
    """

    def __init__(
        self,
        run: Path | None = None,
        watcher: Callable[[ProcessInfo], OnStep] | None = None,
    ) -> None:
        self._run, self._watcher = run, watcher
        self.after_fork()

    def after_fork(self) -> None:
        """A forked child has nothing of its parent's."""
        self._processes: dict[tuple[str, int, int], _ProcessFold] = {}
        # The launcher samples from outside. A program that profiles itself samples too: that
        # counts where there is no launcher, for the sums of two samplers do not mix.
        self._resources = {"launcher": ResourceFold(), "program": ResourceFold()}
        self._details = DetailsFold(is_watched=self._watcher is not None)
        self.details = Details()  # known with the summary
        self._first_ns, self._last_ns = 0, 0
        self._helpers = OwnCost()  # of processes that are not known by themselves any more
        self._helpers_events = 0

    @property
    def loops(self) -> list[LoopFold]:
        """Of the processes that belong to the program."""
        return [fold.loop for fold in self._program()]

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        key = (process.host, process.pid, process.monotonic_ns)
        fold = self._processes.get(key)
        if fold is None:
            on_step = None if self._watcher is None else self._watcher(process)
            fold = self._processes[key] = _ProcessFold(process, on_step)
            self._first_ns = min(self._first_ns or process.monotonic_ns, process.monotonic_ns)
            self._retire_helpers()
        for batch in batches:
            fold.update(batch)
            self._resources[process.role].update(batch)
            if process.role == "program":
                self._details.update(process, batch)
            else:
                self._details.update_outside(batch)
            self._last_ns = max(self._last_ns, batch.columns["time_ns"][-1])

    def _retire_helpers(self) -> None:
        """Those that ended first, of too many. What they lost is told one by one."""
        for key, fold in list(self._processes.items())[:-1]:
            if len(self._processes) <= _PROCESSES:
                return
            cost, is_gone = fold.cost.get(), fold.heard_ns < self._last_ns - _SILENT_NS
            if is_gone and fold.is_helper and not cost.dropped and not cost.lost:
                self._helpers = together(self._helpers, cost)
                self._helpers_events += fold.events
                del self._processes[key]

    def summary(
        self, run: Mapping[str, Any], pages: Sequence[StatusPage], notes: Sequence[str]
    ) -> Summary:
        """`pages`: what the processes say they lost; `notes`: what could not be read."""
        # These are needed once, at the end: not while the program starts.
        from stepscope.advise.catalogue import advise
        from stepscope.analyze.findings import findings
        from stepscope.analyze.summarize import Recorded, summarize

        loops, left_out = self._trainers()
        resources = self._resources_of(loops)
        judged = self._judged_resources(loops)
        recorded = Recorded(
            resources=resources,
            costs=[*_with_losses(self._program(), pages), self._helpers],
            launcher=next((f.cost.get() for f in self._launcher()), OwnCost()),
            events=max(
                self._helpers_events + sum(fold.events for fold in self._program()),
                sum(page.recorded for page in pages),
            ),
            notes=[*notes, *trainer_notes(loops, left_out)],
            operations=self._operations(),
            reference_ns=[ns for fold in self._program() for ns in fold.speed.readings_ns],
        )
        self.details = self._details_of(loops)
        if self._run is not None and self.details.memory is not None:
            from stepscope.session.device_memory import with_device_memory

            self.details = with_device_memory(self.details, self._run)
        found = advise(findings(loops, judged, self.details))
        return summarize(run, loops, recorded, found)

    def progress(self) -> Progress | None:
        """How far the foremost process is; None: there is none yet."""
        return max((one.progress() for one in self.loops), key=lambda p: p.steps, default=None)

    def verdict_now(self) -> Finding | None:
        """The headline if the run ended now."""
        return headline(self.findings_now())

    def findings_now(self) -> list[Finding]:
        """What the report would find if the run ended now."""
        from stepscope.advise.catalogue import advise
        from stepscope.analyze.findings import findings

        loops = self.rank_loops()
        details = self._details_of(loops)
        return advise(findings(loops, self._judged_resources(loops), details))

    def stacks_since(self, rank: int, start_ns: int, until_ns: int) -> tuple[PhaseStacks, ...]:
        """Phases of a rank's training thread between two moments of the last minute."""
        return self._details.stacks_since(self._pid_of(rank), start_ns, until_ns)

    def most_grown(self, rank: int, grown_bytes: float) -> GrownNow | None:
        """The line of that rank that holds more and more, where memory is looked at."""
        return self._details.most_grown(self._pid_of(rank), grown_bytes)

    def _pid_of(self, rank: int) -> int:
        return next((loop.pid for loop in self.rank_loops() if loop.rank == rank), 0)

    def replay_request(self) -> dict[str, Any] | None:
        """What to run again after training (collect/replay.py); None: nothing is worth it."""
        loops = self.rank_loops()
        logged = self._details.logged(loops) if loops else ()
        if not logged:
            return None
        from stepscope.analyze.alternatives import worth_a_try
        from stepscope.analyze.evidence import Evidence
        from stepscope.analyze.warm_up import steady
        from stepscope.analyze.whole import Whole

        details = self._details_of(loops)
        ops = [(json.loads(text), count) for text, count in logged]
        whole = Whole([steady(loop) for loop in loops], self._judged_resources(loops))
        wanted = worth_a_try(Evidence(whole, details), ops)
        if not wanted:
            return None
        known = details.traits
        return {
            "ops": ops,
            "wanted": wanted,
            "threads": known.get(traits.THREADS),
            "autocast": known.get(traits.AUTOCAST),
            "optimizers": known.get(traits.OPTIMIZERS),
        }

    def torch_import_s(self) -> float | None:
        """How long the program took to import torch; None: it was not timed."""
        found = [fold.cost.get().torch_import_ns for fold in self._program()]
        return max((ns / 1e9 for ns in found if ns is not None), default=None)

    def _resources_of(self, loops: Sequence[Loop]) -> Resources:
        start_ns = min((loop.start_ns for loop in loops), default=self._first_ns)
        end_ns = max((loop.end_ns for loop in loops), default=self._last_ns)
        pids = {loop.pid for loop in loops} or {fold.process.pid for fold in self._program()}
        return self._used(start_ns, end_ns, pids)

    def _judged_resources(self, loops: Sequence[Loop]) -> Resources:
        """Those of the steady loops; where that is too short for samples, of all of the loops, as
        long as most of them is steady."""
        from stepscope.analyze.warm_up import steady

        after = [steady(loop) for loop in loops]
        found = self._resources_of(after)
        if found.program.cpu_cores is None and all(2 * x.warm_up_ns < x.wall_ns for x in after):
            return self._resources_of(loops)
        return found

    def _details_of(self, loops: Sequence[Loop]) -> Details:
        return self._details.get(loops, self.sampled(), self._resources["program"])

    def sampled(self) -> ResourceFold:
        """What whoever samples the host has seen."""
        return self._resources["launcher" if self._launcher() else "program"]

    def _used(self, start_ns: int, end_ns: int, pids: set[int]) -> Resources:
        inside = self._resources["program"].get(start_ns, end_ns, pids)
        if not self._launcher():
            return inside
        outside = self._resources["launcher"].get(start_ns, end_ns, pids)
        # The program may have reset the kernel's mark of its peak, after reading it.
        peaks = [one.program.peak_rss_bytes for one in (inside, outside)]
        most = max((peak for peak in peaks if peak is not None), default=None)
        return outside._replace(program=outside.program._replace(peak_rss_bytes=most))

    def _operations(self) -> list[PerformanceMetrics]:
        """Those of all processes, the longest first."""
        folds = [fold.operations for fold in self._program() if fold.operations is not None]
        if not folds:
            return []
        from stepscope.analyze.measure import Asked, measure

        uses = [fold.get(identity) for fold in folds for identity in fold.identities]
        found = [measure(use, Asked()) for use in uses if use is not None]
        return sorted(found, key=lambda metrics: -(metrics.execution_time or 0.0))

    def _program(self) -> list[_ProcessFold]:
        return [fold for fold in self._processes.values() if fold.process.role == "program"]

    def _launcher(self) -> list[_ProcessFold]:
        return [fold for fold in self._processes.values() if fold.process.role == "launcher"]

    def rank_loops(self) -> list[Loop]:
        """The loops of all ranks, the main one of each rank first."""
        return self._trainers()[0]

    def _trainers(self) -> tuple[list[Loop], list[Loop]]:
        """The loops to report, and those of trainers that the report leaves out."""
        loops = [loop for fold in self._program() for loop in fold.loop.all()]
        return chosen_loops(loops)


def _with_losses(folds: Sequence[_ProcessFold], pages: Sequence[StatusPage]) -> list[OwnCost]:
    """What could not be written cannot have been written about: the status pages know of it."""
    said = {page.pid: page for page in pages}
    costs = []
    for fold in folds:
        cost, page = fold.cost.get(), said.pop(fold.process.pid, None)
        if page is not None:
            dropped, lost = max(cost.dropped, page.dropped), max(cost.lost, page.lost)
            cost = replace(cost, dropped=dropped, lost=lost)
        costs.append(cost)
    return costs + [OwnCost(dropped=page.dropped, lost=page.lost) for page in said.values()]
