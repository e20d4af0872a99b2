"""Whatever it is told, in whatever order: no rule breaks, and each alert ends at most once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.model.watching import Reading, StepSeen
from tests.unit.monitor.streams import HEALTHY, SECOND_NS, UNIX, monitor_of

TIME_NS = st.integers(0, 3000).map(lambda tenths: tenths * SECOND_NS // 10)
VALUE = st.floats() | st.sampled_from([0.0, 0.5, 0.95, 1.0, 1e10])
RANK = st.integers(0, 2)
STEPS = st.builds(
    StepSeen,
    RANK,
    st.integers(-5, 1000),
    TIME_NS,
    TIME_NS,
    st.dictionaries(st.sampled_from(["input wait", "backward", "evaluation", "x"]), TIME_NS),
    st.booleans(),
)
METRICS = st.sampled_from(sorted({name.partition(" ")[0] for name in HEALTHY}))
READINGS = st.builds(Reading, TIME_NS, METRICS, VALUE, st.sampled_from(["", "0"]), RANK)
TICKS = st.tuples(TIME_NS, st.floats(-1e9, 1e10))
PAUSES = st.tuples(st.just("pause"), TIME_NS, TIME_NS)
RULES: dict[str, Any] = {
    "watch": {"hold": 0, "resolve": 1, "cooldown": 5},
    "rules": {"stall": {"least": 1, "steps": 2, "after": 1.5}, "memory": {"least": 1}},
    "threshold": [{"metric": "loss", "above": 0.5}, {"metric": "cpu_ratio", "below": 0.5}],
}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS | READINGS | TICKS | PAUSES, max_size=120))
def test_any_stream_is_survived(stream: list[Any]) -> None:
    monitor = monitor_of(RULES)
    told = []
    for one in stream:
        if isinstance(one, StepSeen):
            monitor.step(one)
        elif isinstance(one, Reading):
            monitor.reading(one)
        elif one[0] == "pause":
            monitor.pause(one[1], one[2])
        else:
            told += monitor.tick(*one)
    told += monitor.ended(3000 * SECOND_NS, UNIX)
    notices = Counter((alert.id, alert.is_firing) for alert in told)
    assert set(notices.values()) <= {1}
    assert {key for key, firing in notices if firing} == {
        key for key, firing in notices if not firing
    }
    assert monitor.open_alerts == []
    assert monitor.summary().broken == {}
    for alert in told:
        json.dumps(alert.to_dict(), allow_nan=False)
