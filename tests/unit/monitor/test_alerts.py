"""The notices that people get."""

from __future__ import annotations

import math

import pytest

from stepscope.model.alert import Alert, AlertState
from stepscope.model.finding import Location
from stepscope.model.watching import Explained
from stepscope.monitor.alerts import Identity, Moment, joined, raised, resolved
from stepscope.monitor.incidents import Incident
from tests.unit.monitor.streams import SECOND_NS, condition

NOW = Moment(100 * SECOND_NS, 1_000_000.0)


def incident_of(**changes: object) -> Incident:
    first = condition(**changes)  # type: ignore[arg-type]
    incident = Incident(1, first)
    incident.take(first)
    return incident


def alert_of(incident: Incident, explained: Explained | None = None) -> Alert:
    return raised("id1", incident, explained or Explained(), Identity("run", "host"), NOW)


def test_times_are_told_on_the_wall_clock() -> None:
    alert = alert_of(incident_of(began_ns=70 * SECOND_NS))
    assert (alert.began_unix, alert.told_unix, alert.ended_unix) == (999_970.0, 1_000_000.0, None)
    over = resolved(alert, 90 * SECOND_NS, NOW)
    assert (over.id, over.state, over.ended_unix) == ("id1", AlertState.RESOLVED, 999_990.0)
    assert over.finding.evidence[-1] == "It lasted 20 s."


def test_nothing_ends_before_it_began() -> None:
    alert = alert_of(incident_of(began_ns=70 * SECOND_NS))
    assert resolved(alert, 10 * SECOND_NS, NOW).ended_unix == alert.began_unix


@pytest.mark.parametrize("strange", [math.nan, math.inf, -3.0, 7.0])
def test_figures_stay_within_what_they_mean(strange: float) -> None:
    alert = alert_of(incident_of(severity=strange, confidence=strange, share=strange))
    for figure in (alert.severity, alert.finding.confidence, alert.finding.share):
        assert 0.0 <= figure <= 1.0


def test_what_json_does_not_know_is_left_out() -> None:
    alert = alert_of(
        incident_of(value=math.nan, limit=math.inf, measures={"a": 1.0, "b": math.nan})
    )
    assert (alert.value, alert.limit, alert.finding.measures) == (None, None, {"a": 1.0})


def test_a_closer_look_may_name_a_more_precise_kind_and_no_unknown_one() -> None:
    assert alert_of(incident_of(), Explained("gil")).finding.kind == "gil"
    assert alert_of(incident_of(), Explained("nonsense")).finding.kind == "stall"
    assert alert_of(incident_of(kind="mine"), Explained()).finding.kind == "threshold"


def test_the_place_has_the_rank_where_that_is_not_the_first() -> None:
    place = Explained(location=Location("train.py", 3))
    assert alert_of(incident_of(rank=2), place).finding.location == Location("train.py", 3, rank=2)
    assert alert_of(incident_of(rank=0), place).finding.location == Location("train.py", 3)


def test_what_joins_later_shows_in_the_alert() -> None:
    incident = incident_of(severity=0.5)
    alert = alert_of(incident)
    assert joined(alert, incident) is alert
    incident.take(condition("gc", "x", title="Collections", severity=0.9, rank=3))
    later = joined(alert, incident)
    assert (later.severity, later.ranks) == (0.9, (0, 3))
    assert later.finding.evidence == ("Also: Collections.",)
    assert joined(later, incident) is later
