from __future__ import annotations

import pytest

from stepscope.advise.catalogue import recommend
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS

LIVE = sorted(name for name, kind in KINDS.items() if kind.group == "live")


NOWHERE = Location()


def found(kind: str, location: Location = NOWHERE, **measures: float) -> Finding:
    return Finding(kind, "title", 0.5, 0.5, 0.9, location=location, measures=measures)


@pytest.mark.parametrize("kind", LIVE)
def test_every_kind_of_a_live_finding_has_advice(kind: str) -> None:
    advice = recommend(found(kind))
    assert advice is not None
    assert advice.title
    assert advice.action
    assert not advice.automatic


def test_advice_names_the_place_where_it_is_known() -> None:
    place = Location("train.py", 7, "step")
    for kind in ("stall", "slowdown", "gpu-starved"):
        advice = recommend(found(kind, place))
        assert advice is not None
        assert "train.py:7" in advice.action


def test_undoing_a_slow_down_gains_what_it_cost_and_no_more() -> None:
    advice = recommend(found("slowdown", ratio=1.25))
    assert advice is not None
    assert advice.expected_speedup == pytest.approx((1 / 0.82, 1 / 0.78))
    unknown = recommend(found("slowdown"))
    assert unknown is not None
    assert unknown.expected_speedup is None
