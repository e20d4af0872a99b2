"""Looks closer when something becomes an alert: the analysers of the report, on what was recorded
so far, say what it is, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from stepscope.advise.catalogue import recommend
from stepscope.analyze.recent_lines import grown_line, heaviest_line, standing_line
from stepscope.analyze.words import bytes_text
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase
from stepscope.model.watching import Condition, Explained

if TYPE_CHECKING:
    from stepscope.session.analysis import RunFold
    from stepscope.session.machine_speed import MachineSpeed

__all__ = ["Explainer"]

_BEFORE_NS = 45_000_000_000  # how far back a slow-down is compared with what was
_LOOK_NS = 5_000_000_000  # a stall: its last seconds
_MACHINES = 0.5  # of a slow-down: if the machine explains so much of it, no line is to blame
_NOT_MACHINES = 1.5  # times as much slower than the steps: that is something else
_COMPUTING = ("", *(f"phase:{one}" for one in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)))
_NOT_BEFORE = "What it took before was not seen."
_NO_LINE = "No line of the program's own was seen there."


class Explainer:
    """What is asked of it says model/watching.py, Condition.asks. Never raises.

    now_ns: the clock of the events. failed: told of an error of ours. knows_before: stacks were
    sampled all the time, not only when something was suspected.
    """

    def __init__(
        self,
        fold: RunFold,
        speed: MachineSpeed,
        now_ns: Callable[[], int],
        failed: Callable[[str], None],
        knows_before: bool = True,
    ) -> None:
        self._knows_before = knows_before
        self._fold, self._speed, self._now_ns, self._failed = fold, speed, now_ns, failed

    def __call__(self, condition: Condition) -> Explained:
        found = Explained()
        try:
            found = self._look(condition)
        except Exception as error:  # noqa: BLE001 - an alert without a place is still an alert
            self._failed(f"looking closer at {condition.rule}: {type(error).__name__}: {error}")
        if found.recommendation is None:
            found = found._replace(recommendation=recommend(_as_finding(condition, found)))
        return found

    def _look(self, condition: Condition) -> Explained:
        what, _, detail = condition.asks.partition(":")
        if condition.kind == "slowdown" and (found := self._machine(condition)) is not None:
            return found
        if what == "stall":
            return self._stall(condition)
        if what == "phase":
            return self._phase(condition, detail)
        if what == "kinds":
            return self._kinds(condition, detail)
        if what == "memory":
            return self._memory(condition)
        return Explained()

    def _stall(self, condition: Condition) -> Explained:
        now_ns = self._now_ns()
        start_ns = max(condition.began_ns, now_ns - _LOOK_NS)
        found = standing_line(self._fold.stacks_since(condition.rank, start_ns, now_ns))
        if found is None:
            return Explained(missing=(_NO_LINE,))
        location, phase, share = found
        evidence = f"{share * 100:.0f} % of its last seconds the program stood there, in {phase}."
        return Explained(location=_of_rank(location, condition.rank), evidence=(evidence,))

    def _machine(self, condition: Condition) -> Explained | None:
        """Where a piece of work that is always the same takes longer too, it is not the program.
        That work finds empty caches after a wait, too, and then takes many times as long: so only
        where it is computing that takes longer, and by about as much."""
        if condition.asks not in _COMPUTING:
            return None
        ratio = self._speed.ratio(condition.rank, condition.began_ns)
        of_steps = condition.measures.get("ratio", 1.0)
        if ratio is None or ratio - 1.0 < _MACHINES * (of_steps - 1.0):
            return None
        if ratio > _NOT_MACHINES * of_steps:
            return None
        evidence = (
            f"The machine became slower: a piece of work that is always the same takes {ratio:.2f}"
            " times as long as before."
        )
        return Explained(evidence=(evidence,))

    def _phase(self, condition: Condition, phase: str) -> Explained:
        began_ns, now_ns = condition.began_ns, self._now_ns()
        before = self._fold.stacks_since(condition.rank, began_ns - _BEFORE_NS, began_ns)
        after = self._fold.stacks_since(condition.rank, began_ns, now_ns)
        if not (before and self._knows_before):
            return _now_only(condition, heaviest_line(after, phase))
        found = grown_line(before, after, phase, condition.measures.get("ratio", 1.0))
        if found is None:
            return Explained(missing=(_NO_LINE,))
        evidence = (
            f"That line takes {found.after * 100:.0f} % of the time now, and took"
            f" {found.before * 100:.0f} %."
        )
        return Explained(location=_of_rank(found.location, condition.rank), evidence=(evidence,))

    def _kinds(self, condition: Condition, group: str) -> Explained:
        """The dearest of that group. A slow-down whose cause is one of these is of that kind."""
        found = next((f for f in self._fold.findings_now() if KINDS[f.kind].group == group), None)
        if found is None:
            if condition.kind == "slowdown" and group == "input":
                return self._phase(condition, "input wait")
            return Explained(missing=("What stands behind it does not show yet.",))
        return _of_finding(found)

    def _memory(self, condition: Condition) -> Explained:
        """The line that keeps more and more, where tensors are seen (--memory): as the report
        finds it, or, where it began too lately for that, the one that grew most."""
        leaks = (f for f in self._fold.findings_now() if f.kind == "leak" and f.location.file)
        found = next(leaks, None)
        if found is not None:
            return _of_finding(found)
        grown = self._fold.most_grown(condition.rank, condition.measures.get("grown_bytes", 0.0))
        if grown is None:
            return Explained(missing=("Which line it is shows with: stepscope run --memory …",))
        evidence = (
            f"The line holds {bytes_text(grown.bytes)} more after step {grown.last_step:,} than"
            f" after step {grown.first_step:,}."
        )
        return Explained(location=_of_rank(grown.location, condition.rank), evidence=(evidence,))


def _now_only(condition: Condition, found: tuple[Location, float] | None) -> Explained:
    """Stacks were not sampled before it began."""
    if found is None:
        return Explained(missing=(_NO_LINE,))
    location, share = found
    evidence = f"That line takes {share * 100:.0f} % of the time now, the most in that phase."
    return Explained(
        location=_of_rank(location, condition.rank), evidence=(evidence,), missing=(_NOT_BEFORE,)
    )


def _of_finding(found: Finding) -> Explained:
    return Explained(
        found.kind, found.location, found.evidence, found.missing, found.recommendation
    )


def _of_rank(location: Location, rank: int) -> Location:
    return replace(location, rank=rank)


def _as_finding(condition: Condition, found: Explained) -> Finding:
    return Finding(
        kind=found.kind or condition.kind,
        title=condition.title,
        share=condition.share,
        severity=condition.severity,
        confidence=condition.confidence,
        location=found.location,
        measures=condition.measures,
    )
