from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from stepscope.analyze.lines import LineFold
from stepscope.model import names
from stepscope.model.event import Flag
from stepscope.model.lines import LineProfile, LineTime
from tests.unit.analyze.made import THREAD, Event, batch, mark, sample, span

MS = 1_000_000
OTHER = 200

# main:3 → train:10 → step:20 | step:21 → loss:30
STACKS = {
    1: (0, 3, "main"),
    2: (1, 10, "train"),
    3: (2, 20, "step"),
    4: (2, 21, "step"),
    5: (4, 30, "loss"),
}


def frames(stacks: dict[int, tuple[int, int, str]] = STACKS) -> list[Event]:
    return [
        mark(names.STACK_FRAME, 0, number, f"{caller}\t{line}\t{function}\ta.py")
        for number, (caller, line, function) in stacks.items()
    ]


def begin(at: float, text: str = "1/fit", track: int = THREAD, depth: int = 0) -> Event:
    return mark(names.OPERATION_BEGIN, at, depth, text) | {"track": track}


def end(start: float, at: float, text: str = "1/fit", track: int = THREAD, flags: int = 0) -> Event:
    return span(names.OPERATION, start, at, track=track, flags=flags) | {"text": text}


def seen(at: float, stack: int, ms: float = 1, track: int = THREAD) -> Event:
    return sample(names.STACK, at, ms * MS, stack) | {"track": track}


def profile(events: Sequence[Event], identity: str = "1/fit") -> LineProfile:
    fold = LineFold()
    fold.update(batch(events))
    return fold.get(identity)


def times(found: LineProfile) -> dict[tuple[str, int], tuple[float, float, int]]:
    """{(function, line): (self ms, total ms, samples)}"""
    return {
        (line.function, line.line): (line.self_ns / MS, line.total_ns / MS, line.samples)
        for line in found.lines
    }


def test_lines_get_the_time_of_the_samples_within_the_block() -> None:
    events = [
        *frames(),
        seen(9, 3),  # before
        begin(10),
        *(seen(at, 3) for at in (11, 12, 13)),
        seen(14, 5, ms=2),
        end(10, 15),
        seen(16, 5),  # after
    ]
    found = profile(events)
    assert (found.total_ns, found.samples, found.unnamed_ns) == (5 * MS, 4, 0)
    assert times(found) == {
        ("main", 3): (0, 5, 4),
        ("train", 10): (0, 5, 4),
        ("step", 20): (3, 3, 3),
        ("step", 21): (0, 2, 1),
        ("loss", 30): (2, 2, 1),
    }
    assert found.lines[0] == LineTime("a.py", 20, "step", 3 * MS, 3 * MS, 3, 0.6)
    functions = {one.function: (one.self_ns / MS, one.total_ns / MS) for one in found.functions}
    assert functions == {"main": (0, 5), "train": (0, 5), "step": (3, 5), "loss": (2, 2)}
    assert profile(events, "1/other") == LineProfile()


def test_what_called_the_block_is_left_out_where_the_depth_of_its_entry_is_known() -> None:
    found = profile([*frames(), begin(10, depth=3), seen(11, 5), seen(12, 3), end(10, 13)])
    assert times(found) == {
        ("step", 20): (1, 1, 1),
        ("step", 21): (0, 1, 1),
        ("loss", 30): (1, 1, 1),
    }
    cut = profile([*frames(), begin(10, depth=9), seen(11, 5), end(10, 13)])  # outer frames missing
    assert times(cut) == {("loss", 30): (1, 1, 1)}


def test_a_line_in_a_stack_twice_is_counted_once() -> None:
    stacks = {1: (0, 5, "dig"), 2: (1, 5, "dig"), 3: (2, 6, "dig")}
    found = profile([*frames(stacks), begin(1), seen(2, 3), end(1, 3)])
    assert times(found) == {("dig", 5): (0, 1, 1), ("dig", 6): (1, 1, 1)}
    (function,) = found.functions
    assert (function.total_ns, function.share) == (MS, 1.0)


def test_other_threads_are_not_the_blocks() -> None:
    events = [*frames(), begin(10), seen(11, 3), seen(11, 5, track=OTHER), end(10, 12)]
    assert profile(events).total_ns == MS


def test_runs_in_several_threads_at_once_add_up() -> None:
    events = [
        *frames(), begin(10), begin(10, track=OTHER), seen(11, 3), seen(11, 5, track=OTHER),
        end(10, 12, track=OTHER), seen(13, 3), seen(13, 5, track=OTHER), end(10, 14),
    ]  # fmt: skip
    assert times(profile(events))["step", 20] == (2, 2, 2)
    assert times(profile(events))["loss", 30] == (1, 1, 1)


def test_nested_blocks_both_get_the_time_and_one_within_itself_gets_it_once() -> None:
    events = [
        *frames(), begin(10), seen(11, 3), begin(12, "1/inner"), begin(12), seen(13, 5),
        end(12, 14), end(12, 14, "1/inner"), seen(15, 3), end(10, 16), seen(17, 3),
    ]  # fmt: skip
    assert profile(events).total_ns == 3 * MS
    assert profile(events, "1/inner").total_ns == MS


def test_overlapping_runs_of_one_thread_end_with_the_last() -> None:
    events = [
        *frames(), begin(10), begin(12), seen(13, 3), end(10, 14), seen(15, 3), end(12, 16),
        seen(17, 3),
    ]  # fmt: skip
    assert profile(events).total_ns == 2 * MS


def test_a_run_that_ends_on_another_thread_is_closed_where_it_began() -> None:
    events = [
        *frames(), begin(10), begin(20, track=OTHER), seen(21, 3), seen(21, 5, track=OTHER),
        end(10, 22, track=OTHER), seen(23, 3), seen(23, 5, track=OTHER), end(20, 24, track=OTHER),
    ]  # fmt: skip
    assert times(profile(events))["step", 20] == (1, 1, 1)
    assert times(profile(events))["loss", 30] == (2, 2, 2)


def test_a_run_that_goes_on_is_counted_so_far_and_not_ended_by_news_of_it() -> None:
    events = [*frames(), begin(10), seen(11, 3), end(10, 12, flags=int(Flag.OPEN)), seen(13, 3)]
    assert profile(events).total_ns == 2 * MS


def test_an_end_without_a_beginning_ends_nothing() -> None:
    assert profile([*frames(), seen(3, 3), end(2, 4)]) == LineProfile()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_threads_may_arrive_in_any_order_and_batch(order: tuple[int, ...]) -> None:
    rings = [
        [begin(10), end(10, 500), begin(700), end(700, 900)],
        [seen(at, 3 if at < 400 else 5) for at in range(5, 1000, 10)],
        [begin(300, track=OTHER), end(300, 400, track=OTHER)],
        frames(),
    ]
    fold = LineFold()
    for ring in order:
        for at in range(0, len(rings[ring]), 30):
            fold.update(batch(rings[ring][at : at + 30]))
    samples = {line.line: line.samples for line in fold.get("1/fit").lines}
    assert samples[20] == 39  # at 15, 25, … 395
    assert samples[30] == 30  # 405 … 495, 705 … 895


def test_what_is_old_is_settled_and_not_kept() -> None:
    fold = LineFold()
    fold.update(batch([*frames(), begin(0)]))
    for second in range(60):
        fold.update(batch([seen(second * 1000 + ms, 3) for ms in range(1000)]))
        assert len(fold._waiting) <= 3002
    fold.update(batch([end(0, 60_000)]))
    assert fold.get("1/fit").samples == 60_000
    assert fold.get("1/fit") == fold.get("1/fit")  # looking changes nothing


def test_stacks_that_nobody_named_are_told_apart() -> None:
    found = profile([*frames(), begin(10), seen(11, 3), seen(12, 99), end(10, 13)])
    assert (found.total_ns, found.unnamed_ns) == (2 * MS, MS)


def test_code_that_was_gone_counts_to_the_line_that_called_it() -> None:
    gone = mark(names.STACK_FRAME, 0, 6, "3\t0\t?\t")
    found = profile([*frames(), gone, begin(10), seen(11, 6), end(10, 12)])
    assert times(found)["step", 20] == (1, 1, 1)


def test_a_stack_that_is_its_own_caller_ends_the_walk() -> None:
    stacks = {1: (2, 5, "a"), 2: (1, 6, "b")}
    found = profile([*frames(stacks), begin(10), seen(11, 1), end(10, 12)])
    assert times(found) == {("a", 5): (1, 1, 1), ("b", 6): (0, 1, 1)}


def test_file_names_may_hold_tabs() -> None:
    frame = mark(names.STACK_FRAME, 0, 1, "0\t7\tf\tan odd\tname.py")
    found = profile([frame, begin(10), seen(11, 1), end(10, 12)])
    assert [line.file for line in found.lines] == ["an odd\tname.py"]


def test_frames_of_ours_are_in_no_table_and_their_time_goes_to_what_called_them() -> None:
    ours = mark(names.STACK_FRAME, 0, 2, "1\t0\t\t<stepscope>")
    users = [
        mark(names.STACK_FRAME, 0, number, f"{caller}\t{line}\t{function}\ta.py")
        for number, (caller, line, function) in {1: (0, 3, "main"), 3: (2, 20, "step")}.items()
    ]
    events = [begin(0, depth=1), seen(1, 2), seen(2, 3), end(0, 3)]

    assert times(profile([users[0], ours, users[1], *events])) == {
        ("main", 3): (1.0, 2.0, 2),
        ("step", 20): (1.0, 1.0, 1),
    }
