"""Findings about memory, and what to do about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepscope.advise.catalogue import advise
from stepscope.analyze.findings import findings
from stepscope.analyze.resources import Resources
from stepscope.model.details import Details
from stepscope.model.finding import Finding, Location
from stepscope.model.memory import (
    ACTIVATION,
    OPTIMIZER_STATE,
    Coverage,
    DeviceMemory,
    Fragmentation,
    Growing,
    Headroom,
    Memory,
    Peak,
    PeakPart,
    RefusedAllocation,
)
from stepscope.model.timeline import StepBucket, Timeline
from tests.unit.analyze.made_evidence import trained

MB = 1_000_000
HERE = Location("train.py", 12, "train")


def device(**parts: int) -> DeviceMemory:
    made = tuple(PeakPart(name.replace("_", " "), size * MB, 1) for name, size in parts.items())
    total = sum(part.bytes for part in made)
    return DeviceMemory("cpu", Peak(total, 50, 1.0, made, total, 50), steps=((50, total, 0),))


def memory(**more: object) -> Memory:
    made = Memory("run", devices=(device(activation=100),), coverage=Coverage(1000 * MB, 100 * MB))
    return replace(made, **more)  # type: ignore[arg-type]


def leak(verdict: str = "leak", **more: Any) -> Growing:
    made = Growing(verdict, "It grew in 8 of 8 windows.", 2.0 * MB, 200 * MB, 100, "other", HERE)
    return made._replace(**more)


def found(value: Memory) -> dict[str, Finding]:
    made = findings([trained()], Resources(), Details(memory=value))
    return {one.kind: one for one in advise(made)}


def test_a_leak_is_told_with_its_line_rate_and_holder() -> None:
    held_by = ("item 0 of a list of 100", "global variable 'history' of __main__")
    one = found(memory(growing=(leak(held_by=held_by),)))["leak"]
    assert one.location == HERE
    assert one.share == pytest.approx(0.2)  # of what the process held
    assert one.is_of_memory
    assert one.max_speedup is None
    assert "2.0 MB more with every step" in one.evidence[0]
    assert any("history" in sentence for sentence in one.evidence)
    assert one.recommendation is not None
    assert one.recommendation.expected_speedup is None


def test_a_leak_of_graphs_has_another_remedy() -> None:
    held_by = ("the autograd graph of a tensor", "local variable 'total' of train()")
    one = found(memory(growing=(leak(held_by=held_by),)))["leak"]
    assert one.recommendation is not None
    assert "item()" in one.recommendation.action


def test_an_examined_leak_is_surer_than_another() -> None:
    unsure = found(memory(growing=(leak(),)))["leak"]
    sure = found(memory(growing=(leak(kept_share=1.0),)))["leak"]
    assert (unsure.confidence, sure.confidence) == (0.5, 1.0)
    shaky = found(memory(growing=(leak(kept_share=1.0, steady_share=0.75),)))["leak"]
    assert shaky.confidence == 0.75
    assert unsure.missing


def test_what_ends_the_run_comes_first_and_other_leaks_last() -> None:
    far = Headroom(25_000 * MB, "host", 1000 * MB, 2.0 * MB, (1e4, 1.2e4, 1.3e4))
    near = far._replace(steps=(8.0, 10.0, 12.0))
    kinds = list(found(memory(growing=(leak(live_bytes=MB),), headroom=far)))
    assert kinds[-1] == "leak"
    kinds = list(found(memory(growing=(leak(live_bytes=MB),), headroom=near)))
    assert kinds[0] == "leak"


@pytest.mark.parametrize(
    ("grown", "place"),
    [
        (leak(kept_share=1.0, live_bytes=100 * MB), 0),  # 10 % that no collection frees
        (leak(live_bytes=100 * MB), -1),  # it may be garbage
        (leak(kept_share=1.0, live_bytes=MB), -1),  # of 1,000 MB
    ],
    ids=["proved", "unsure", "small"],
)
def test_a_proved_leak_of_some_size_comes_first(grown: Growing, place: int) -> None:
    assert list(found(memory(growing=(grown,))))[place] == "leak"


@pytest.mark.parametrize("verdict", ["cache", "input shape", "slowing"])
def test_other_growth_is_no_finding(verdict: str) -> None:
    assert set(found(memory(growing=(leak(verdict),)))) == {"compute"}


def test_garbage_in_cycles_names_the_class() -> None:
    one = found(memory(growing=(leak("cycle garbage", made_by="Episode", kept_share=0.2),)))[
        "cycle-garbage"
    ]
    assert "Episode" in one.title
    assert one.recommendation is not None
    assert "weakref" in one.recommendation.action


@pytest.mark.parametrize(
    ("parts", "word"),
    [({ACTIVATION: 900}, "checkpoint"), ({OPTIMIZER_STATE.replace(" ", "_"): 900}, "momentum")],
)
def test_too_little_memory_is_answered_by_what_fills_it(parts: dict[str, int], word: str) -> None:
    tight = Headroom(1000 * MB, "cgroup", 960 * MB)
    one = found(memory(devices=(device(**parts),), headroom=tight))["memory-pressure"]
    assert one.recommendation is not None
    assert word in one.recommendation.action
    assert one.share == pytest.approx(0.96)
    assert one.confidence == 1.0, "all of it is the process's own"


def test_memory_that_others_may_hold_is_less_surely_the_programs() -> None:
    tight = Headroom(1000 * MB, "cgroup", 960 * MB)
    half = memory(headroom=tight, coverage=Coverage(480 * MB, 100 * MB))
    assert found(half)["memory-pressure"].confidence == pytest.approx(0.75)


def test_a_refused_allocation_is_out_of_memory_at_its_line() -> None:
    limit = Headroom(1000 * MB, "RLIMIT_AS", 700 * MB)
    refused = RefusedAllocation(400 * MB, 50, HERE)
    made = found(memory(refused=(refused,), headroom=limit))
    one = made["memory-pressure"]
    assert next(iter(made)) == "memory-pressure"
    assert (one.severity, one.confidence, one.location) == (1.0, 1.0, HERE)
    assert "400.0 MB" in one.evidence[0]


def test_enough_memory_is_no_finding() -> None:
    assert "memory-pressure" not in found(memory(headroom=Headroom(1000 * MB, "host", 500 * MB)))


def test_memory_in_pieces_is_a_finding_unless_the_next_step_takes_it() -> None:
    pieces = Fragmentation("glibc", 1000 * MB, 500 * MB, 500 * MB, 10 * MB)
    one = found(memory(fragmentation=(pieces,)))["fragmentation"]
    assert one.recommendation is not None
    assert "MALLOC_ARENA_MAX" in one.recommendation.action
    waiting = pieces._replace(reused_bytes=480 * MB)
    assert "fragmentation" not in found(memory(fragmentation=(waiting,)))
    on_gpu = Fragmentation("cuda:0", 1000 * MB, 500 * MB, 500 * MB, 10 * MB, 450 * MB)
    one = found(memory(fragmentation=(on_gpu,)))["fragmentation"]
    assert one.recommendation is not None
    assert "expandable_segments" in one.recommendation.action


def grows(mb_a_step: float, count: int = 100, slow_from: int = 1000) -> Details:
    """Steps of 50 ms, and from one on of 500; samples every 25 ms, of what the last step left."""
    ends = [0.0]
    for step in range(count):
        ends.append(ends[-1] + (500.0 if step >= slow_from else 50.0))
    buckets = tuple(StepBucket(ends[step], step, 1, (50.0,)) for step in range(count))
    rss = []
    for at in range(int(ends[-1] // 25)):
        done = sum(end <= at * 25.0 for end in ends) - 1
        rss.append((at * 25.0, (1000 + mb_a_step * done) * MB))
    return Details(timeline=Timeline(0, 1e5, buckets=buckets, rss=tuple(rss)))


@pytest.mark.parametrize("slow_from", [1000, 60], ids=["even steps", "steps that become slow"])
def test_without_closer_looks_a_process_that_grows_is_told_with_where_to_look(
    slow_from: int,
) -> None:
    details = grows(5.0, slow_from=slow_from)
    made = {f.kind: f for f in findings([trained()], Resources(), details)}
    assert "--memory" in made["leak"].missing[0]
    assert made["leak"].location == Location()
    assert made["leak"].measures["bytes_per_step"] == pytest.approx(5 * MB, rel=0.02)


@pytest.mark.parametrize(("rate", "count"), [(0.1, 100), (50.0, 15), (-5.0, 100)])
def test_a_process_that_hardly_grows_or_was_hardly_seen_is_no_finding(
    rate: float, count: int
) -> None:
    made = {f.kind for f in findings([trained()], Resources(), grows(rate, count))}
    assert "leak" not in made
