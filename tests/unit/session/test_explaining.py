"""What an alert is told to be, from what a run has recorded so far."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.analyze.memory_run import GrownNow
from stepscope.model.details import HotLine, PhaseStacks
from stepscope.model.finding import Finding, Location
from stepscope.model.watching import Condition, Reading
from stepscope.session.explaining import Explainer
from stepscope.session.machine_speed import MachineSpeed

SECOND = 1_000_000_000
WORK, LOG = Location("train.py", 10, "work"), Location("train.py", 20, "log")


def phase(name: str, ms: float, lines: dict[Location, float]) -> PhaseStacks:
    hot = tuple(HotLine(place, share, share, None, 1) for place, share in lines.items())
    return PhaseStacks(phase=name, where="main", ms=ms, samples=1, lines=hot, flame=None)


class Recorded:
    """What a RunFold is asked, with known answers."""

    def __init__(self) -> None:
        self.before: tuple[PhaseStacks, ...] = ()
        self.after: tuple[PhaseStacks, ...] = ()
        self.found: list[Finding] = []
        self.grown: GrownNow | None = None

    def stacks_since(self, rank: int, start_ns: int, until_ns: int) -> tuple[PhaseStacks, ...]:
        return self.before if until_ns <= 100 * SECOND else self.after

    def findings_now(self) -> list[Finding]:
        return self.found

    def most_grown(self, rank: int, grown_bytes: float) -> GrownNow | None:
        return self.grown


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def explained(recorded: Any, asks: str, kind: str, speed: MachineSpeed | None = None) -> Any:
    troubles: list[str] = []
    explain = Explainer(recorded, speed or MachineSpeed(), lambda: 110 * SECOND, troubles.append)
    condition = Condition(
        rule="r", key="k", kind=kind, title="t", severity=0.5, confidence=0.9,
        began_ns=100 * SECOND, measures={"ratio": 2.0, "grown_bytes": 1e9}, rank=3, asks=asks,
    )  # fmt: skip
    found = explain(condition)
    return found._replace(missing=(*found.missing, *troubles))


def test_a_stall_is_where_the_program_stands(recorded: Recorded) -> None:
    recorded.after = (phase("python between", 5000, {LOG: 0.9}),)
    found = explained(recorded, "stall", "stall")
    assert (found.location.line, found.location.rank) == (20, 3)
    assert "90 %" in found.evidence[0]
    assert "train.py:20" in found.recommendation.action


def test_a_slow_down_is_the_line_that_takes_longer(recorded: Recorded) -> None:
    recorded.before = (phase("forward", 100, {WORK: 0.9, LOG: 0.1}),)
    recorded.after = (phase("forward", 100, {WORK: 0.45, LOG: 0.55}),)
    found = explained(recorded, "phase:forward", "slowdown")
    assert found.location.line == 20
    assert found.recommendation.expected_speedup == pytest.approx((1 / 0.55, 1 / 0.45))


def test_without_stacks_of_before_it_is_the_line_that_takes_most_and_that_is_said(
    recorded: Recorded,
) -> None:
    recorded.after = (
        phase("forward", 80, {WORK: 0.25, LOG: 0.75}),
        phase("backward", 20, {WORK: 1.0}),
    )
    found = explained(recorded, "phase:forward", "slowdown")
    assert found.location.line == 20
    assert found.evidence == ("That line takes 60 % of the time now, the most in that phase.",)
    assert "was not seen" in found.missing[0]


def test_a_machine_that_is_slower_is_no_fault_of_a_line(recorded: Recorded) -> None:
    recorded.before = (phase("forward", 100, {WORK: 0.9}),)
    recorded.after = (phase("forward", 100, {WORK: 0.9}),)
    speed = MachineSpeed()
    for second in range(90, 110):
        takes_s = 1e-5 if second < 100 else 1.8e-5
        speed.reading(Reading(second * SECOND, "reference_seconds", takes_s, rank=3))
    found = explained(recorded, "phase:forward", "slowdown", speed)
    assert found.location.file is None
    assert "1.80 times" in found.evidence[0]
    assert "another program" in found.recommendation.action


@pytest.mark.parametrize(
    ("asks", "takes_s"), [("phase:python between", 1.8e-5), ("phase:forward", 6.9e-5)]
)
def test_a_program_that_waits_is_not_a_machine_that_is_slower(
    recorded: Recorded, asks: str, takes_s: float
) -> None:
    """After a wait caches are empty: whatever is timed then takes many times as long."""
    grown = asks.removeprefix("phase:")
    recorded.before = (phase(grown, 100, {WORK: 0.9, LOG: 0.1}),)
    recorded.after = (phase(grown, 100, {WORK: 0.45, LOG: 0.55}),)
    speed = MachineSpeed()
    for second in range(90, 110):
        value = 1e-5 if second < 100 else takes_s
        speed.reading(Reading(second * SECOND, "reference_seconds", value, rank=3))
    assert explained(recorded, asks, "slowdown", speed).location.line == 20


def test_a_wait_for_data_is_what_the_report_finds_it_to_be(recorded: Recorded) -> None:
    recorded.found = [
        Finding("gc", "collections", 0.4, 0.9, 0.9),
        Finding("input-cpu", "loading", 0.3, 0.8, 0.9, ("slow",), location=WORK),
    ]
    found = explained(recorded, "kinds:input", "slowdown")
    assert (found.kind, found.location, found.evidence) == ("input-cpu", WORK, ("slow",))


def test_memory_that_grows_is_the_leak_of_the_report_or_the_line_that_grew(
    recorded: Recorded,
) -> None:
    recorded.grown = GrownNow(LOG, 800_000_000, 300, 400)
    found = explained(recorded, "memory", "leak")
    assert found.location.line == 20
    assert "800.0 MB more after step 400 than after step 300" in found.evidence[0]
    recorded.found = [Finding("leak", "a line keeps it", 0.3, 0.8, 0.9, location=WORK)]
    assert explained(recorded, "memory", "leak").location == WORK


def test_what_cannot_be_found_is_said_to_be_missing(recorded: Recorded) -> None:
    for asks in ("stall", "phase:forward", "kinds:input", "memory"):
        found = explained(recorded, asks, "leak" if asks == "memory" else "slowdown")
        assert found.location == Location()
        assert found.missing
        assert found.recommendation is not None


def test_a_failure_of_ours_leaves_an_alert_without_a_place() -> None:
    found = explained(object(), "stall", "stall")
    assert found.location == Location()
    assert "AttributeError" in found.missing[-1]
