"""Rules of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from stepscope.errors import UsageError
from stepscope.model.watching import Condition, Reading, StepSeen
from stepscope.monitor.registry import register_rule, registered_rules, unregister_rule
from stepscope.monitor.rule import Rule
from tests.unit.monitor.streams import SECOND_NS, UNIX, condition, monitor_of


class LateRule(Rule):
    """Speaks from a step on."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._after = options.get("after", 3)
        self._steps = 0

    def step(self, seen: StepSeen) -> None:
        self._steps += 1

    def conditions(self, now_ns: int) -> Iterator[Condition]:
        if self._steps > self._after:
            yield condition(rule="stall", key="late", kind="no such kind", began_ns=now_ns)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_rule("late", LateRule)
    yield
    for name in registered_rules():
        unregister_rule(name)


def alerts_after(steps: int, rules: dict[str, Any] | None = None) -> list[Any]:
    monitor = monitor_of(rules)
    for number in range(steps):
        start_ns = number * SECOND_NS
        monitor.step(StepSeen(0, number, start_ns, start_ns + SECOND_NS, {}))
    return monitor.tick(steps * SECOND_NS, UNIX)


def test_a_registered_rule_is_told_and_heard_under_its_own_name() -> None:
    assert alerts_after(3) == []
    (alert,) = alerts_after(5)
    assert (alert.rule, alert.finding.kind) == ("late", "threshold")


def test_its_options_stand_in_the_rules_beside_those_of_all() -> None:
    assert alerts_after(5, {"rules": {"late": {"after": 10}}}) == []
    assert alerts_after(5, {"rules": {"late": {"enabled": False}}}) == []
    assert alerts_after(5, {"rules": {"late": {"hold": "5s"}}}) == []


def test_a_rule_that_nobody_registered_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match='mean "late"'):
        alerts_after(0, {"rules": {"lete": {}}})


@pytest.mark.parametrize("name", ["stall", "threshold", "two words", ""])
def test_names_that_are_taken_or_none_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        register_rule(name, LateRule)


class BrokenRule(Rule):
    def __init__(self, where: str) -> None:
        self._where = where

    def step(self, seen: StepSeen) -> None:
        self._fail("step")

    def reading(self, reading: Reading) -> None:
        self._fail("reading")

    def conditions(self, now_ns: int) -> Any:
        self._fail("conditions")
        return ["no condition"] if self._where == "kind" else [condition(began_ns=None)]

    def _fail(self, where: str) -> None:
        if self._where == where:
            raise RuntimeError(f"broken in {where}")


@pytest.mark.parametrize("where", ["step", "reading", "conditions", "kind", "began"])
def test_a_rule_that_fails_is_off_and_the_others_go_on(where: str) -> None:
    register_rule("broken", lambda options: BrokenRule(where))
    monitor = monitor_of({"threshold": [{"metric": "mine", "above": 1}]})
    monitor.step(StepSeen(0, 1, 0, 1, {}))
    monitor.reading(Reading(1, "mine", 2.0))
    assert len(monitor.tick(2, UNIX)) == 1
    assert monitor.tick(3, UNIX) == []
    assert list(monitor.summary().broken) == ["broken"]
    assert [alert.rule for alert in monitor.open_alerts] == ["threshold"]


def _fails(options: Mapping[str, Any]) -> Rule:
    raise KeyError("after")


@pytest.mark.parametrize("factory", [_fails, lambda options: "no rule"])
def test_a_rule_that_cannot_be_made_is_a_usage_error(factory: Any) -> None:
    register_rule("broken", factory)
    with pytest.raises(UsageError, match="broken"):
        monitor_of()
