"""What is sampled of a process during a session, and the limits it passed."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from stepscope.model import names
from stepscope.model.process import ProcessInfo
from stepscope.model.watching import Crossing
from stepscope.session.sampled import Sampled
from tests.unit.analyze.made import MS, Event, batch, sample

HERE = ProcessInfo(os.getpid(), 1, 0, 1, "host", "program", (), "3.11", "native", 0, 0)
MEMORY, GPU = "host_memory_ratio", "gpu_memory_ratio"


def sampled(*events: Event, start_ns: int = 0, **limits: float) -> Sampled:
    made = Sampled(start_ns, limits)
    made.update(HERE, [batch([one]) for one in events])
    return made


def taken(*shares: float) -> list[Event]:
    """Of a machine with 1000 bytes, every 100 ms."""
    rounds = enumerate(shares)
    return [sample(names.HOST_MEMORY_TOTAL_BYTES, 0, 1000.0)] + [
        sample(names.HOST_MEMORY_AVAILABLE_BYTES, at * 100, 1000.0 * (1 - share))
        for at, share in rounds
    ]


def test_memory_that_is_not_available_is_kept_and_judged() -> None:
    found = sampled(*taken(0.5, 0.75, 0.875, 0.75, 0.5, 0.75), host_memory_ratio=0.75)
    assert found.crossing(MEMORY) == Crossing(0.75, 2, 0.875, 200 * MS, 500 * MS)
    memory = found.gauges.seconds(found.gauges.memory, 100.0)
    assert memory == pytest.approx({0.0: 50, 0.1: 75, 0.2: 87.5, 0.3: 75, 0.4: 50, 0.5: 75})


def test_a_long_session_is_judged_by_every_sample() -> None:
    """Series keep fewer and fewer points of what is long ago; what was judged stays."""
    found = sampled(*taken(*[0.5, 1.0] * 5000), host_memory_ratio=0.75)
    assert found.crossing(MEMORY) == Crossing(0.75, 5000, 1.0, 0, 999_900 * MS)
    assert len(found.gauges.seconds(found.gauges.memory)) < 5000


def test_the_fullest_gpu_is_judged() -> None:
    shares = [(100 * at, gpu, used) for at, gpu, used in ((0, 0, 10.0), (0, 1, 90.0), (1, 1, 95.0))]
    found = sampled(
        *(
            sample(name, at, value, arg=gpu)
            for at, gpu, used in shares
            for name, value in (
                (names.GPU_MEMORY_USED_BYTES, used),
                (names.GPU_MEMORY_TOTAL_BYTES, 100.0),
            )
        ),
        gpu_memory_ratio=0.9,
    )
    assert found.crossing(GPU) == Crossing(0.9, 1, 0.95, 100 * MS, 100 * MS)
    assert list(found.gauges.seconds(found.gauges.gpu).values()) == [0.9, 0.95]


def test_only_this_process_counts_and_only_from_the_start_on() -> None:
    own, other = os.getpid(), os.getpid() + 1
    found = sampled(
        sample(names.PROCESS_RSS_BYTES, 1, 7.0, arg=own),
        sample(names.PROCESS_RSS_BYTES, 6, 8.0, arg=own),
        sample(names.PROCESS_RSS_BYTES, 7, 9.0, arg=other),
        start_ns=5 * MS,
    )
    found.update(replace(HERE, pid=other), [batch([sample(names.PROCESS_RSS_BYTES, 8, 9.0, own)])])
    assert found.gauges.seconds(found.gauges.rss) == {0.001: 8.0}


def test_a_forked_child_begins_anew() -> None:
    found = sampled(*taken(0.9, 0.9), host_memory_ratio=0.75)
    found.after_fork()
    assert found.crossing(MEMORY) == Crossing(0.75)
    assert found.gauges.seconds(found.gauges.memory) == {}
