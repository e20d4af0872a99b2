"""Rules as they stand in a file: read, or refused with a sentence that helps."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.errors import UsageError
from stepscope.monitor.settings import WatchSettings, watch_settings


def read(text: str) -> WatchSettings:
    return watch_settings(tomllib.loads(text))


def test_nothing_said_gives_the_defaults() -> None:
    assert watch_settings({}) == WatchSettings()


def test_a_whole_file_is_read() -> None:
    settings = read(
        """
        [watch]
        hold = "20s"
        resolve_s = 5
        captures = 1

        [rules.stall]
        after = 4
        least = "1m"
        capture = true

        [rules.slowdown]
        over = "8%"

        [rules.gc]
        enabled = false

        [[threshold]]
        metric = "memory_bytes"
        above = "4GiB"
        for = "30s"
        name = "too much"

        [[threshold]]
        metric = "steps_per_second"
        below = 2
        severity = 0.9

        [[sink]]
        type = "webhook"
        url = "https://user:secret@localhost"
        """
    )
    assert (settings.watch.hold_s, settings.watch.resolve_s, settings.watch.captures) == (20, 5, 1)
    assert (settings.rules.stall.after, settings.rules.stall.least_s) == (4.0, 60.0)
    assert settings.rules.stall.capture
    assert settings.rules.slowdown.over == pytest.approx(0.08)
    assert not settings.rules.gc.enabled
    memory, speed = settings.thresholds
    assert (memory.above, memory.below, memory.for_s, memory.title) == (
        4 * 2**30,
        None,
        30.0,
        "too much",
    )
    assert (speed.below, speed.severity, speed.title) == (2.0, 0.9, "steps_per_second")
    assert settings.sinks == ({"type": "webhook", "url": "https://user:secret@localhost"},)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[wach]", ["wach", "watch", "threshold"]),
        ("[watch]\ncooldwn = 3", ["cooldwn", 'mean "cooldown"', "group"]),
        ("[rules.stal]", ["stal", 'mean "stall"']),
        ("[rules.stall]\naftr = 3", ["rules.stall", "aftr", 'mean "after"', "least"]),
        ("[rules.stall]\nafter = 'soon'", ["rules.stall.after", "soon", "factor above 1"]),
        ("[rules.stall]\nafter = 0.5", ["rules.stall.after", "0.5", "factor above 1"]),
        ("[rules.stall]\nleast = 'a while'", ["rules.stall.least", '"30s"']),
        ("[rules.stall]\nleast = 1\nleast_s = 2", ["rules.stall", "twice", "least_s"]),
        ("[rules.slowdown]\nover = 5", ["rules.slowdown.over", "from 0 to 1"]),
        ("[rules.slowdown]\nover = 0", ["rules.slowdown.over", "above 0"]),
        ("[rules.gc]\nenabled = 'no'", ["rules.gc.enabled", "true or false"]),
        ("[rules]\nstall = 3", ["rules.stall", "table"]),
        ("watch = 3", ["watch", "table"]),
        ("rules = []", ["rules", "table"]),
        ("threshold = 3", ["threshold", "[[threshold]]"]),
        ("[threshold]\nmetric = 'loss'", ["threshold", "[[threshold]]"]),
        ("[[threshold]]\nabove = 3", ["threshold 1", "metric"]),
        ("[[threshold]]\nmetric = 'loss'", ["threshold 1", "above", "below"]),
        ("[[threshold]]\nmetric = 'loss'\nabove = 1\nbelow = 0", ["threshold 1", "one of"]),
        ("[[threshold]]\nmetric = 'loss'\nabove = 'much'", ["threshold 1.above", "4GiB"]),
        ("sink = 'mail'", ["sink", "[[sink]]"]),
        (
            "[[threshold]]\nmetric = 'a'\nabove = 1\nname = 'x'\n" * 2,
            ["Two thresholds", "'x'"],
        ),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(text: str, named: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    for part in named:
        assert part in str(caught.value)


def test_what_stands_in_a_sink_is_in_no_message() -> None:
    with pytest.raises(UsageError) as caught:
        watch_settings({"sink": [{"password": "secret"}, "secret"]})
    assert "secret" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(["watch", "rules", "threshold", "sink", "stall", "after", "over", "metric"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, JSON, max_size=3) | JSON, max_size=4))
def test_any_mapping_gives_settings_or_a_message(mapping: dict[str, Any]) -> None:
    message = ""
    try:
        watch_settings(mapping)
    except UsageError as error:
        message = str(error)
    assert len(message) < 700
