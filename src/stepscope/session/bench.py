"""Runs the user's program for the tuner: profiled, or measured with some changes."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.analyze.trial import LEAST_STEPS, TrialFold, step_seconds, trial_steps
from stepscope.config import PLAN_FAILED, Level, PlanWish, Replay, Settings, TrialWish
from stepscope.errors import UsageError
from stepscope.launch.command import Command
from stepscope.launch.environment import child_environment
from stepscope.model.change import Applied, Change
from stepscope.model.trial import Measurement, Outcome
from stepscope.session.analysis import RunFold
from stepscope.session.trial_run import Ended, Limits, Observer, run_program
from stepscope.session.troubles import Troubles
from stepscope.store.files import PRIVATE_FOLDER
from stepscope.store.rundir import NewRun
from stepscope.store.tail import RunTail
from stepscope.store.tuning_file import read_applied
from stepscope.tune.guard.guarded import prepare
from stepscope.tune.injection import APPLIED_FILE
from stepscope.tune.tuner import OutOfTime

if TYPE_CHECKING:
    from stepscope.model.checkpoint_plan import PlanReport
    from stepscope.model.summary import Summary

__all__ = ["BenchOptions", "ProgramBench"]

PROFILE_S: Final = 15.0  # of steps that are profiled, where a program takes longer
_MOST_MEMORY: Final = 0.85  # of what there is
_SLOWER: Final = 4.0  # times as long as the program as it is: then it hangs
_PLENTY: Final = 1000  # runs, where nothing is known yet
_START_S: Final = 60.0  # that a program may take more than the run before it


class BenchOptions(NamedTuple):
    """steps: of a trial; 0: as many as it needs. memory_bytes: 0: nearly all there is. guarded: the
    user's files are kept from what the program writes."""

    command: Command
    folder: Path  # for everything that trials leave
    budget_s: float
    steps: int = 0
    memory_bytes: int = 0
    guarded: bool = True


class ProgramBench:
    """A Bench of tune/tuner.py."""

    def __init__(self, options: BenchOptions, tell: Callable[[str], None]) -> None:
        self._options, self.tell = options, tell
        self._until_s = time.monotonic() + options.budget_s
        self._took_s: list[float] = []  # of runs that were measured
        self._profiled_s = 0.0
        self._steps = options.steps
        self._is_sized = bool(options.steps)
        self._runs = 0
        self._memory_bytes = options.memory_bytes or _memory_limit_bytes()
        self.summary: Summary | None = None  # of the program as it is

    @property
    def left_s(self) -> float:
        return self._until_s - time.monotonic()

    def runs_left(self) -> int:
        took_s = statistics.median(self._took_s) if self._took_s else self._profiled_s
        return max(0, int(self.left_s / took_s)) if took_s else _PLENTY

    # ---- profiles ----

    def candidates(self, kept: Sequence[Change]) -> Sequence[Change]:
        """What the findings suggest, by what each is expected to gain; unknown gains come last."""
        summary = self._profile(kept)
        if self.summary is None:
            self.summary = summary
        found = [
            change
            for finding in summary.findings
            if finding.recommendation is not None
            for change in finding.recommendation.changes
        ]
        unique = {(one.name, json.dumps(one.settings, sort_keys=True)): one for one in found[::-1]}
        return sorted(unique.values(), key=lambda one: -(one.predicted or 0.0))

    def _profile(self, kept: Sequence[Change]) -> Summary:
        from stepscope.session.watch import Watch

        self.tell("looking at the program" + (" as it is now" if kept else ""))
        run = self._new_run("profile")
        wish = TrialWish(steps=self._options.steps, seconds=PROFILE_S, least_steps=LEAST_STEPS)
        settings = Settings(
            level=Level.BASIC, changes=_as_json(kept), trial=wish, replay=Replay.FULL
        )
        status, troubles = run / "status", Troubles()
        status.mkdir(PRIVATE_FOLDER)
        watch = Watch(
            NewRun(run, run.name, ""), self._options.command, settings, status, troubles, None
        )
        ended = self._run(run, status, settings, watch)
        self._profiled_s = ended.took_s
        if ended.outcome is not Outcome.MEASURED:
            raise UsageError(
                f"The program did not come to its end ({ended.outcome.value}: {ended.why}): see"
                " that it does under stepscope run."
            )
        was_ended = any(run.glob(".trial-ended-*"))
        summary = watch.finish(0)
        if summary is None or not watch.loops:
            raise UsageError("No training steps were found in the program: nothing can be tuned.")
        if not self._is_sized:
            self._is_sized = True
            self._steps = trial_steps(watch.loops[0], ended=not was_ended)
        return summary

    def plan(self, memory: str) -> PlanReport | None:
        """A checkpoint plan for that much memory, measured in turns with nothing recomputed; None:
        the program was over too soon. UsageError: there is no such plan."""
        from stepscope.store.plan_file import read_plan_report

        self.tell("planning what to recompute")
        run = self._new_run("plan")
        settings = Settings(level=Level.PRODUCTION, plan=PlanWish(memory=memory))
        status = run / "status"
        status.mkdir(PRIVATE_FOLDER)
        ended = self._run(run, status, settings, None)
        if (run / PLAN_FAILED).exists():
            raise UsageError((run / PLAN_FAILED).read_text("utf-8"))
        if ended.outcome is not Outcome.MEASURED:
            raise UsageError(f"The program did not come to its end: {ended.why}.")
        return read_plan_report(run)

    # ---- trials ----

    def measure(self, changes: Sequence[Change]) -> Measurement:
        expected_s = statistics.median(self._took_s) if self._took_s else 0.0
        if self.left_s < expected_s:
            raise OutOfTime
        run = self._new_run("trial")
        settings = Settings(
            level=Level.PRODUCTION,
            changes=_as_json(changes),
            trial=TrialWish(steps=self._steps),
        )
        status = run / "status"
        status.mkdir(PRIVATE_FOLDER)
        ended = self._run(run, status, settings, None)
        applied = read_applied(run / APPLIED_FILE)
        found = _measurement(run, ended, applied, changes)
        if found.outcome is Outcome.MEASURED:
            self._took_s.append(ended.took_s)
            _clear(run)
        return found

    def _run(self, run: Path, status: Path, settings: Settings, observer: Observer | None) -> Ended:
        command = self._options.command
        argv = (command.executable, *command.argv[1:])
        environment: Mapping[str, str] = {
            **child_environment(os.environ, run, status, settings),
            "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        }
        if not self._options.guarded:
            return run_program(argv, environment, run, self._limits(), observer)
        guard = prepare(self._options.folder, run)
        try:
            argv, environment = (*guard.prefix, *argv), {**environment, **guard.environment}
            return run_program(argv, environment, run, self._limits(), observer)
        finally:
            guard.remove()

    def _limits(self) -> Limits:
        seconds = max(_START_S, self._options.budget_s)
        if self._took_s:
            seconds = _SLOWER * statistics.median(self._took_s) + _START_S
        return Limits(seconds, self._memory_bytes)

    def _new_run(self, what: str) -> Path:
        self._runs += 1
        run = self._options.folder / f"{what}-{self._runs:03d}"
        run.mkdir(PRIVATE_FOLDER, parents=True)
        return run


def _measurement(
    run: Path, ended: Ended, applied: tuple[Applied, ...], changes: Sequence[Change]
) -> Measurement:
    fold, trial = RunFold(run), TrialFold()
    for news in RunTail(run).read_new():
        fold.update(news.process, news.batches)
        if news.process.rank == 0:
            for batch in news.batches:
                trial.update(batch)
    loops = fold.rank_loops()
    step_s = step_seconds(loops[0].durations_ns) if loops else None
    outcome, why = ended.outcome, ended.why
    if outcome is Outcome.MEASURED:
        why = _not_applied(changes, applied)
        outcome = Outcome.NOT_APPLIED if why else outcome
    if outcome is Outcome.MEASURED and step_s is None:
        outcome, why = Outcome.NO_STEPS, "it ended before there was a step to measure"
    return Measurement(
        outcome=outcome,
        why=why,
        step_s=step_s if outcome is Outcome.MEASURED else None,
        steps=loops[0].steps if loops else 0,
        losses=trial.losses,
        dtype=trial.dtype,
        peak_bytes=ended.peak_bytes or None,
        foreign_cores=ended.load.foreign_cores,
        pressure=ended.load.pressure,
        applied=applied,
        took_s=ended.took_s,
    )


def _not_applied(changes: Sequence[Change], applied: Sequence[Applied]) -> str:
    """Why the program ran without one of the changes; "": all of them took hold."""
    for change in changes:
        told = [one for one in applied if one.change == change.name]
        if not any(not one.refused for one in told):
            return next((one.what for one in told), "it found nothing to change")
    return ""


def _as_json(changes: Sequence[Change]) -> str:
    return json.dumps([change.to_dict() for change in changes]) if changes else ""


def _memory_limit_bytes() -> int:
    from stepscope.collect.limits import OwnLimits

    nearest = OwnLimits().nearest()
    return int(nearest.limit_bytes * _MOST_MEMORY) if nearest is not None else 1 << 62


def _clear(run: Path) -> None:
    """What was measured is taken; a run that failed stays until tuning is over."""
    from shutil import rmtree

    rmtree(run, ignore_errors=True)
