"""Checkpoint plans in a training process: applied to an unmodified program, or found in it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.config import ENV_STATUS, PLAN_FAILED, PLAN_PROGRESS, PlanWish
from stepscope.errors import StepscopeError, UsageError
from stepscope.model import names
from stepscope.printer import say
from stepscope.record.recorder import Recorder
from stepscope.session.header import process_rank, process_ranks
from stepscope.store.files import write_text

if TYPE_CHECKING:
    from stepscope.checkpointing.manager import CheckpointManager
    from stepscope.checkpointing.meter import Meter
    from stepscope.checkpointing.planner import Planner
    from stepscope.collect.sampling import Guide
    from stepscope.model.checkpoint_plan import PlanReport
    from stepscope.tune.injection import Site

__all__ = ["guide_for", "plan_checkpoints"]

MOST_STEPS: Final = 100_000  # of a sample_step that is called by us


def plan_checkpoints(
    model: Any,
    sample_step: Callable[[], Any],
    budget: int | float | str | None = None,
    *,
    save: str | float | None = None,
    manager: CheckpointManager | None = None,
) -> PlanReport:
    """Find what to recompute so that a step fits a budget at the least cost, and measure it.

    sample_step: runs one whole step of the training: forward, backward, optimizer. It is called
    some 75 times, so the model trains on meanwhile. budget: bytes, "4GiB", or a share of the peak
    ("60%", 0.6); save: the share to save instead. manager: where the plan stays applied; without
    one the model is afterwards as it was, and `CheckpointManager(model).apply(report.plan)` applies
    it. UsageError: no plan fits, and it says which peak is the smallest one.
    """
    from stepscope.checkpointing.budget import budget_of
    from stepscope.checkpointing.manager import CheckpointManager
    from stepscope.checkpointing.planner import Planner

    ours = CheckpointManager(model) if manager is None else manager
    planner = Planner(model, budget_of(budget, save=save), ours)
    try:
        for _ in range(MOST_STEPS):
            sample_step()
            if planner.step_ended():
                break
    finally:
        if manager is None:
            planner.forget()
        planner.close()
    assert planner.report is not None
    return planner.report


def guide_for(wish: str, run: Path, recorder: Recorder, leave: Callable[[], None]) -> Guide | None:
    """wish: what ENV_PLAN says. leave: writes what is pending. None: nothing is to be done."""
    if not wish:
        return None
    asked = PlanWish(**json.loads(wish))
    if asked.path:
        from stepscope.tune.changes.plan import Plan

        applying = Plan({"path": asked.path}, _Saying(asked.path, recorder))
        applying.install()
        return applying
    return _Finding(asked, run, recorder, leave)


class _Saying:
    """Tells the user what became of a plan."""

    def __init__(self, path: str, recorder: Recorder) -> None:
        self._path, self._recorder = path, recorder

    def applied(self, what: str, site: Site | None = None) -> None:
        """The run shows it."""

    def refused(self, why: str, site: Site | None = None) -> None:
        say(f"the plan {self._path} is not applied: {why}")

    def failed(self, where: str, error: BaseException) -> None:
        self._recorder.failed(where, error)


class _Finding:
    """Plans while the program trains, and ends it when that is done, if nobody wants more."""

    def __init__(
        self, asked: PlanWish, run: Path, recorder: Recorder, leave: Callable[[], None]
    ) -> None:
        self._asked, self._run, self._recorder, self._leave = asked, run, recorder, leave
        self._is_first = process_rank(os.environ) == 0
        self._models: list[Any] = []
        self._anchor: int | None = None
        self._planner: Planner | None = None
        self._is_done = False
        self._told = ""  # of the progress
        self._look = recorder.intern(names.OWN_LOOK)
        self._meter: Meter | None = None
        self._open_meter()

    def _open_meter(self) -> None:
        """Now, before there is a model: so every tensor is counted."""
        from stepscope.checkpointing.meter import CpuMeter

        try:
            self._meter = CpuMeter(self._recorder)
        except UsageError:
            return  # said when the model turns out to be on the CPU

    def seen(self, module: Any) -> None:
        self._models.append(module)

    def stepped(self, optimizer: Any) -> None:
        if self._anchor is None:
            self._anchor = id(optimizer)
        if not self._is_done and id(optimizer) == self._anchor:
            token = self._recorder.begin(self._look)  # this time is ours, not the program's
            try:
                self._guarded(self._step)
            finally:
                self._recorder.end(token)

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except StepscopeError as error:
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed("planning checkpoints", error)
            self._give_up(f"planning failed: {type(error).__name__}: {error}")

    def _step(self) -> None:
        if self._planner is None:
            if not self._is_ours():
                self._is_done = True
                return
            self._planner = self._make_planner()
            return
        if not self._planner.step_ended():
            self._tell_progress(self._planner.progress)
            return
        self._is_done = True
        if self._is_first and self._planner.report is not None:
            from stepscope.store.plan_file import write_plan_report

            write_plan_report(self._run, self._planner.report)
        self._end()

    def _is_ours(self) -> bool:
        """The first process of each rank that trains is the one that plans."""
        try:
            (self._run / f".planning-{process_rank(os.environ)}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _make_planner(self) -> Planner:
        from stepscope.checkpointing.budget import budget_of
        from stepscope.checkpointing.manager import CheckpointManager
        from stepscope.checkpointing.meter import meter_for
        from stepscope.checkpointing.planner import ATTEMPTS, Planner

        models = [one for one in self._models if any(True for _ in one.parameters())]
        if not models:
            raise UsageError("no module with parameters ran in the first step: nothing to plan.")
        model = max(models, key=lambda one: sum(p.numel() for p in one.parameters()))
        self._models.clear()
        asked = self._asked
        budget = budget_of(asked.memory or None, save=asked.save or None)
        # Ranks have to take the same number of steps: they wait for one another.
        attempts = 1 if process_ranks(os.environ) > 1 else ATTEMPTS
        meter = meter_for(model, self._recorder)
        return Planner(model, budget, CheckpointManager(model), meter, attempts=attempts)

    def _tell_progress(self, text: str) -> None:
        folder = os.environ.get(ENV_STATUS)
        if folder and self._is_first and text != self._told:
            self._told = text
            try:
                write_text(Path(folder, PLAN_PROGRESS), text)
            except OSError:
                return  # nobody will read it

    def _give_up(self, why: str) -> None:
        self._is_done = True
        if self._is_first:
            try:
                write_text(self._run / PLAN_FAILED, why)
            except OSError:
                say(why)
        self._end()

    def _end(self) -> None:
        if self._meter is not None:
            self._meter.close()
        if self._asked.keep_going:
            return
        # Not the program's own way out: it would save checkpoints and results of a training that
        # nobody wanted to the end. Other ranks would wait for one that is gone: the launcher ends
        # them all.
        if process_ranks(os.environ) > 1:
            return
        self._leave()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(0)
