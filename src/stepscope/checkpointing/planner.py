"""Finds the plan with the least recomputing that fits a budget, applies it, and measures it.

A planner is driven by the steps of a training that goes on by itself: `step_ended` after each one.
Checkpointing does not change what is computed, so the training may go on as it is.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from stepscope.checkpointing.budget import Budget
from stepscope.checkpointing.curve import trade_off
from stepscope.checkpointing.meter import Meter, meter_for
from stepscope.checkpointing.posed import Posed, pose
from stepscope.checkpointing.present import PresentCheckpoints
from stepscope.checkpointing.solve import Choice, require_solver
from stepscope.checkpointing.trial import Trial
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import (
    BlockCost,
    CheckpointPlan,
    Outcome,
    PlanReport,
)

if TYPE_CHECKING:
    from stepscope.checkpointing.manager import CheckpointManager

__all__ = ["BudgetTooSmallError", "Planner"]

WARM_UP: Final = 3  # steps: the first ones make the optimizer's state and choose kernels
ATTEMPTS: Final = 3
VARIED: Final = 1.02  # peaks of the profiled steps that differ by more are worth a word
_BASELINE, _PLAN, _PRESENT = "nothing recomputed", "the plan", "the program's own checkpoints"


class BudgetTooSmallError(UsageError):
    """No plan fits. `smallest_bytes` is the peak that the best one reaches."""

    def __init__(self, budget_bytes: int, smallest: Choice, peak_bytes: int) -> None:
        self.smallest_bytes = smallest.peak_bytes
        super().__init__(
            f"No plan fits {_mb(budget_bytes)}: the smallest peak that recomputing can reach is"
            f" {_mb(smallest.peak_bytes)} (now {_mb(peak_bytes)}), at"
            f" {smallest.recompute_ms:,.1f} ms more a step. What is left are parameters, gradients,"
            " the optimizer's state and the largest block: make the batch smaller, or give"
            f" {_mb(smallest.peak_bytes)} and more."
        )


class Planner:
    """For one model. After the last step `report` is there, and the plan is applied."""

    def __init__(
        self,
        model: Any,
        budget: Budget,
        manager: CheckpointManager,
        meter: Meter | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        """manager: with nothing applied. attempts: plans to try where one turns out not to fit."""
        self.report: PlanReport | None = None
        self.progress = "warming up"  # what the next step is for, in words
        require_solver()
        if next(model.parameters(), None) is None:
            raise UsageError("A model without parameters is not trained: there is nothing to plan.")
        if manager.plan.segments:
            raise UsageError("The manager has checkpoints applied: remove() them before planning.")
        self._model, self._budget, self._manager = model, budget, manager
        self._meter = meter or meter_for(model)
        self._attempts = attempts
        self._present = PresentCheckpoints()
        self._course = self._run()
        self._is_done = False
        next(self._course)

    def step_ended(self) -> bool:
        """True: planning is through. Raises BudgetTooSmallError, and UsageError where the model
        cannot be planned; in both cases the model is as it was."""
        if self._is_done:
            return True
        try:
            next(self._course)
        except StopIteration:
            self._close()
        except BaseException:
            self.forget()
            raise
        return self._is_done

    def close(self) -> None:
        """Leave. A plan that was found stays applied, in the place of the program's own
        checkpoints; in the middle of planning all is put back."""
        if self.report is None:
            self.forget()
        self._close()

    def forget(self) -> None:
        """Put all back as it was, a plan that was found too."""
        self._course.close()
        self._manager.remove()
        self._manager.switch(True)
        self._present.open()
        self._close()

    def _close(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._present.close()
            self._meter.close()

    # ---- the course: each yield is a step of the training ----

    def _run(self) -> Generator[None]:
        for _ in range(WARM_UP):
            yield
        self._present.shut()
        if self._present.are_managed:
            raise UsageError(
                "The program has a CheckpointManager of its own with modules applied: plan without"
                " it, and apply the plan in its place."
            )
        yield  # what the last one left behind
        self.progress = "profiling memory and time by module"
        posed = yield from pose(self._model, self._meter, self._manager, self._check)
        yield from self._plan(posed)

    def _check(self, posed: Posed) -> None:
        """A budget that nothing fits is said at once."""
        problem = posed.problem
        peak_bytes = problem.evaluate(()).peak_bytes
        asked_bytes = self._budget.of(peak_bytes)
        if problem.least_time(asked_bytes) is None:
            raise BudgetTooSmallError(asked_bytes, problem.least_peak(), peak_bytes)
        self.progress = "trying what recomputing costs"

    def _plan(self, posed: Posed) -> Generator[None]:
        problem = posed.problem
        asked_bytes = self._budget.of(problem.evaluate(()).peak_bytes)
        smallest = problem.least_peak()
        notes = _notes(posed.peaks)
        choice = problem.least_time(asked_bytes) or smallest
        over_bytes = 0
        for attempts_left in reversed(range(self._attempts)):
            trial = self._trial(posed.plan(choice, asked_bytes))
            yield from trial.run()
            more_bytes = trial.outcome(_PLAN).peak_bytes - asked_bytes
            over_bytes += more_bytes
            another = problem.least_time(asked_bytes - over_bytes) if more_bytes > 0 else None
            if another is None or not attempts_left:
                self._tell(posed, choice, trial, smallest, notes)
                return
            choice = another
            notes.append(
                f"A plan that was predicted to fit took {_mb(more_bytes)} more than asked for when"
                " it was measured, and was made anew."
            )

    def _trial(self, plan: CheckpointPlan) -> Trial:
        self._manager.remove()
        self._manager.apply(plan)
        self.progress = f"measuring a plan of {len(plan.segments)} segments"

        def without() -> None:
            self._manager.switch(False)
            self._present.shut()

        def with_plan() -> None:
            self._manager.switch(True)
            self._present.shut()

        def as_it_stands() -> None:
            self._manager.switch(False)
            self._present.open()

        arms = {_BASELINE: without, _PLAN: with_plan}
        if self._present.layers:
            arms[_PRESENT] = as_it_stands
        return Trial(self._meter, arms)

    def _tell(
        self,
        posed: Posed,
        choice: Choice,
        trial: Trial,
        smallest: Choice,
        notes: list[str],
    ) -> None:
        found = posed.found
        self._manager.switch(True)
        self._present.shut()
        baseline = trial.outcome(_BASELINE)
        present = trial.outcome(_PRESENT) if self._present.layers else None
        if present is not None and present.peak_bytes >= baseline.peak_bytes:
            notes.append(
                f"The checkpoints that the program has ({len(self._present.layers)} places) save"
                " nothing at the peak: they only cost their recomputing."
            )
        chosen = {found[at].segment for at in choice.chosen}
        self.report = PlanReport(
            self._manager.plan,
            baseline,
            present,
            Outcome(choice.peak_bytes, baseline.step_ms + choice.recompute_ms),
            trial.outcome(_PLAN),
            trade_off(posed.problem, smallest, baseline.step_ms),
            tuple(
                BlockCost(
                    one.segment,
                    one.saved_bytes,
                    one.recompute_ms,
                    one.segment in chosen,
                    self._present.has(one.segment.module),
                )
                for one in found
                if one.segment.first is None or one.segment in chosen
            ),
            smallest.peak_bytes,
            tuple(notes),
        )


def _notes(peaks: list[int]) -> list[str]:
    if max(peaks) <= VARIED * min(peaks):
        return []
    varied = (
        f"The peaks of the steps that were profiled lie between {_mb(min(peaks))} and"
        f" {_mb(max(peaks))}: batches differ. The plan is for the largest of them; leave room for"
        " larger ones."
    )
    return [varied]


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
