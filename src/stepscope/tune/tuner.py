"""Tries changes on a program in turns with the program as it is, and keeps what provably helps.

It measures nothing itself: it is given a bench that runs the program. So all of it can be tested
on made-up programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from stepscope.errors import UsageError
from stepscope.model.change import Change
from stepscope.model.trial import Measurement, Outcome, Speedup, Trial, Tuning, Verdict
from stepscope.tune.arms import Arm, Candidate
from stepscope.tune.judge import LEAST_GAIN, LOOKS, is_noisy
from stepscope.tune.promising import promising
from stepscope.tune.results import limits, why_apart

__all__ = ["Bench", "OutOfTime", "Tuner"]

MOST_PASSES: Final = 6
MOST_REPEATS: Final = 4  # of noisy runs: a machine that stays noisy has to be lived with
BESIDE: Final = 1.01  # what a change has to add to those that are kept already
# With these a dataset may draw other random numbers than without.
DRAWS_ANEW: Final = frozenset({"loader", "fetch-threads", "vectorise", "batched"})
BATCH_SEEDS: Final = Change("batch-seeds", "Draw each batch from a seed of its own")


class OutOfTime(Exception):  # noqa: N818 - an end, not an error
    """The budget does not allow for another run."""


class Bench(Protocol):
    """Runs the program."""

    def candidates(self, kept: Sequence[Change]) -> Sequence[Change]:
        """What a profile of the program with these changes suggests, the most promising first."""

    def measure(self, changes: Sequence[Change]) -> Measurement:
        """One run. OutOfTime: there is no time for it."""

    def tell(self, text: str) -> None:
        """How far it is."""

    def runs_left(self) -> int:
        """How many runs the time still allows for, about."""


class Tuner:
    """`run` once. What was proved before time ran out, or before Ctrl-C, is kept."""

    def __init__(self, bench: Bench, is_allowed: Callable[[Change], str] = lambda _: "") -> None:
        """is_allowed: why a change is not to be tried; "": it may be."""
        self._bench, self._is_allowed = bench, is_allowed
        self._kept: list[Change] = []
        self._trials: list[Trial] = []
        self._notes: list[str] = []
        self._proposals: list[Change] = []
        self._seen_with = -1  # how many changes were kept when it was profiled last
        self._first: Arm | None = None  # the program as it is
        self._speedup: Speedup | None = None
        self._redrawn: Measurement | None = None  # the program as it is, with BATCH_SEEDS
        self._repeated, self._noisy = 0, 0  # noisy runs: made again, and counted all the same
        self._refused: set[str] = set()

    def run(self) -> Tuning:
        try:
            for _ in range(MOST_PASSES):
                if not self._pass():
                    break
            self._measure_all()
        except OutOfTime:
            self._notes.append("The time was used up: give it more with --budget.")
        except KeyboardInterrupt:
            self._notes.append("Interrupted: what was proved until then is kept.")
        if self._repeated:
            busy = "other programs used the machine meanwhile"
            self._notes.append(f"{_runs(self._repeated)} made again: {busy}.")
        if self._noisy:
            wider = "the machine was in use: intervals are wider"
            self._notes.append(f"{_runs(self._noisy)} counted although {wider}.")
        return self._result()

    def _result(self) -> Tuning:
        figures = self._first.figures_s if self._first is not None else []
        kept = tuple(self._kept)
        found = {id(trial.change): trial for trial in self._trials}
        return Tuning(
            base_step_s=sum(figures) / len(figures) if figures else None,
            trials=tuple(self._trials),
            kept=kept,
            speedup=self._speedup if kept else None,
            notes=tuple(self._notes),
            applied=tuple(
                place
                for change in kept
                if id(change) in found
                for place in found[id(change)].applied
            ),
        )

    # ---- one pass: what a profile suggests, tried ----

    def _pass(self) -> bool:
        """Whether there was something to try: then there may be more."""
        if self._seen_with != len(self._kept):
            self._seen_with = len(self._kept)
            self._proposals = list(self._bench.candidates(self._kept))
        new = [one for one in self._proposals if self._is_new(one)]
        wanted = promising([one for one in new if self._may(one)])
        if not wanted:
            return False
        base = Arm(tuple(self._kept))
        if self._first is None:
            self._first = base
        candidates = [
            Candidate(one, Arm((*self._kept, one), samples=one.samples)) for one in wanted
        ]
        try:
            self._rounds(base, candidates, LEAST_GAIN)
        finally:
            for one in candidates:
                if one.is_open:  # time ran out between two looks
                    one.look(base.figures_s, LEAST_GAIN)
            best = self._settle(base, candidates)
        for candidate in best[1:]:
            self._add(candidate)
        return True

    def _is_new(self, change: Change) -> bool:
        return all(
            (one.name, dict(one.settings)) != (change.name, dict(change.settings))
            for one in (*(trial.change for trial in self._trials), *self._kept)
        )

    def _may(self, change: Change) -> bool:
        why = self._is_allowed(change)
        if why and change.name not in self._refused:
            self._refused.add(change.name)
            self._trials.append(Trial(change, Verdict.NOT_TRIED, why))
        return not why

    def _settle(self, base: Arm, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Book all of them, and keep the best. Of settings of one change only the best counts. What
        is left are candidates to be added beside it, the best first."""
        faster = [one for one in candidates if one.verdict is Verdict.FASTER]
        names = {one.change.name for one in faster}
        best = [_best([one for one in faster if one.change.name == name]) for name in names]
        best.sort(key=_gain, reverse=True)
        for one in candidates:
            self._book(one, base, kept=bool(best) and one is best[0], best=best)
        if best:
            self._kept.append(best[0].change)
            self._speedup = best[0].measured if base is self._first else None
        return best

    def _book(self, one: Candidate, base: Arm, *, kept: bool, best: Sequence[Candidate]) -> None:
        why = one.why
        if one.verdict is Verdict.FASTER:
            beside = "faster by itself; not tried beside what is kept"
            why = beside if one in best else "another setting of it is faster"
            why = "" if kept else why
        elif one.verdict is Verdict.NO_GAIN:
            why = "no gain worth it"
        elif one.is_left:
            why = "time was short, and others were more promising"
        elif one.verdict is Verdict.INCONCLUSIVE:
            why = "inconclusive: more runs would be needed"
        if not one.arm.runs:
            one.verdict, why = (
                Verdict.NOT_TRIED,
                why if one.is_left else "no time was left to try it",
            )
        last = one.arm.runs[-1] if one.arm.runs else None
        self._trials.append(
            Trial(
                change=one.change,
                verdict=one.verdict,
                why=why,
                measured=one.measured,
                kept=kept,
                runs=(len(one.arm.figures_s), len(base.figures_s)),
                applied=last.applied if last is not None else (),
            )
        )

    def _add(self, candidate: Candidate) -> None:
        """Beside what is kept already, if it still pays there."""
        base = Arm(tuple(self._kept))
        beside = Candidate(
            candidate.change, Arm((*self._kept, candidate.change), samples=candidate.arm.samples)
        )
        self._rounds(base, [beside], BESIDE)
        if beside.verdict is Verdict.FASTER:
            self._kept.append(candidate.change)
            self._speedup = None
            self._rebook(candidate, kept=True, why="")
        else:
            others = ", ".join(change.name for change in base.changes)
            self._rebook(candidate, kept=False, why=f"no longer pays beside {others}")

    def _rebook(self, candidate: Candidate, *, kept: bool, why: str) -> None:
        self._trials = [
            replace(one, kept=kept, why=why) if one.change is candidate.change else one
            for one in self._trials
        ]

    # ---- rounds: base and candidates in turns ----

    def _rounds(self, base: Arm, candidates: Sequence[Candidate], least_gain: float) -> None:
        """Until every candidate is judged, or there were as many rounds as are looked at."""
        for number in range(LOOKS[-1]):
            waiting = self._affordable(base, [one for one in candidates if one.is_open])
            if not waiting:
                return
            self._bench.tell(f"round {number + 1}: {', '.join(one.change.name for one in waiting)}")
            # There and back, so that a machine that grows slower costs nobody more than others.
            for one in [None, *waiting] if number % 2 == 0 else [*reversed(waiting), None]:
                if one is None:
                    self._run_base(base)
                else:
                    self._run(base, one)
            if number + 1 in LOOKS or number == 0:
                for one in waiting:
                    if one.look(base.figures_s, least_gain):
                        self._settle_doubt(base, one)

    def _affordable(self, base: Arm, waiting: list[Candidate]) -> list[Candidate]:
        """As many as there is time for, the base included; the least promising are left. In a first
        round each has one run, as long as one of them can have another after that."""
        later = 0 if base.runs else 2
        places = max(1, self._bench.runs_left() - 1 - later)
        by_gain = sorted(waiting, key=lambda one: -one.gain_so_far(base.figures_s))
        for one in by_gain[places:]:
            one.is_left = True
        return [one for one in waiting if not one.is_left]

    def _run_base(self, base: Arm) -> None:
        run = self._measured(base.changes)
        if run.outcome is not Outcome.MEASURED:
            raise UsageError(
                f"The program does not run as it is ({run.outcome.value}: {run.why}): see that it"
                " does under stepscope run."
            )
        base.runs.append(run)

    def _run(self, base: Arm, one: Candidate) -> None:
        run = self._measured(one.arm.changes)
        why = ""
        if run.outcome is Outcome.MEASURED and base.runs:
            why = self._why_not_same(base, one, run)
        one.take(run)
        if why and DRAWS_ANEW & {change.name for change in one.arm.changes}:
            one.doubt = why
        elif why:
            one.fail(why)

    def _why_not_same(self, base: Arm, one: Candidate, run: Measurement) -> str:
        """Only the results of what must keep them are held against the program as it is."""
        if one.change.alters or one.change.samples != 1.0:
            return ""
        arm = self._as_it_is(base)
        why = why_apart(arm.runs[0], run, limits(arm.runs))
        if why and len(arm.runs) == 1:  # how far two runs of the program itself are apart
            self._run_base(arm)
            why = why_apart(arm.runs[0], run, limits(arm.runs))
        return why

    def _as_it_is(self, base: Arm) -> Arm:
        return self._first if self._first is not None and self._first.runs else base

    def _settle_doubt(self, base: Arm, one: Candidate) -> None:
        """Of a change that is faster. With and without it, both drawing each batch from a seed of
        its own, the losses have to be the same. Where the random numbers are out of reach, they may
        not be further off than those of the program with other random numbers."""
        known = self._as_it_is(base).runs
        if self._redrawn is None:
            self._redrawn = self._bench.measure((BATCH_SEEDS,))
        seeded = None
        if self._redrawn.outcome is Outcome.MEASURED:
            seeded = self._bench.measure((*one.arm.changes, BATCH_SEEDS))
        if seeded is not None and seeded.outcome is Outcome.MEASURED:
            why = why_apart(self._redrawn, seeded, limits(known))
        else:
            other = limits((*known, self._redrawn))
            found = (why_apart(known[0], run, other) for run in one.arm.runs)
            why = next((why for why in found if why), "")
        if why:
            one.fail(why)
        else:
            one.doubt, one.verdict = "", Verdict.FASTER

    def _measured(self, changes: Sequence[Change]) -> Measurement:
        run = self._bench.measure(changes)
        while is_noisy(run) and self._repeated < MOST_REPEATS:
            self._repeated += 1
            run = self._bench.measure(changes)
        self._noisy += is_noisy(run)
        return run

    def _measure_all(self) -> None:
        """All that is kept, against the program as it is, where that was not measured in one."""
        if not self._kept or self._speedup is not None or self._first is None:
            return
        self._bench.tell("all that is kept, against the program as it is")
        samples = 1.0
        for change in self._kept:
            samples *= change.samples
        whole = Candidate(self._kept[-1], Arm(tuple(self._kept), samples=samples))
        base = Arm(())
        try:
            self._rounds(base, [whole], 1.0)
        finally:
            self._speedup = whole.measured
            self._first = base if base.runs else self._first


def _runs(count: int) -> str:
    return "1 run was" if count == 1 else f"{count} runs were"


def _best(settings: Sequence[Candidate]) -> Candidate:
    """Of settings of one change: the one with fewest workers among those that are as fast as the
    fastest, as far as a difference would matter."""
    near = max(map(_gain, settings)) / LEAST_GAIN
    good = [one for one in settings if _gain(one) >= near]
    return min(good, key=lambda one: (one.change.settings.get("num_workers", 0), -_gain(one)))


def _gain(candidate: Candidate) -> float:
    return candidate.measured.middle if candidate.measured is not None else 0.0
