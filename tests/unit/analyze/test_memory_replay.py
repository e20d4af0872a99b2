from __future__ import annotations

import random

from stepscope.analyze.memory_replay import play_changes, play_events
from stepscope.model.allocations import AllocatorAction, AllocatorEvent, Block, CategoryChange
from stepscope.model.finding import Location

IN, OUT, REFUSED = AllocatorAction.ALLOCATED, AllocatorAction.FREED, AllocatorAction.REFUSED
HERE = (Location("train.py", 5, "f"),)


def came(address: int, size: int, at_us: int | None = 0) -> AllocatorEvent:
    return AllocatorEvent(IN, address, size, at_us, HERE)


def went(address: int, size: int, at_us: int | None = 0) -> AllocatorEvent:
    return AllocatorEvent(OUT, address, size, at_us)


def test_the_start_of_a_window_follows_from_its_end() -> None:
    # 100 and 30 were there before; 30 went; 50 came and stayed.
    end = [Block(1, 112, 100, True), Block(3, 64, 50, True, HERE), Block(9, 999, 0, False)]
    replay = play_events(end, [went(2, 30, 1000), came(3, 50, 3500)])
    assert [(point.at_ms, point.total) for point in replay.points] == [
        (0.0, 130),
        (0.0, 100),
        (2.5, 150),
    ]
    assert replay.peak_bytes == 150
    assert replay.peak_at_ms == 2.5
    assert replay.end_bytes == 150
    assert replay.misfits == 0


def test_the_peak_is_made_of_what_lived_then_by_stack() -> None:
    end = [Block(1, 100, 100, True)]
    replay = play_events(end, [came(2, 70), came(3, 40), went(2, 70), went(3, 40)])
    assert replay.peak_bytes == 210
    assert [(part.bytes, part.blocks, part.stack) for part in replay.peak] == [
        (110, 2, HERE),
        (100, 1, ()),
    ]


def test_the_peak_may_be_the_start() -> None:
    replay = play_events([], [went(7, 500, 10), came(8, 20, 20), went(8, 20, 30)])
    assert replay.peak_bytes == 500
    assert replay.peak_at_ms == 0.0
    assert [(part.bytes, part.stack) for part in replay.peak] == [(500, ())]


def test_an_address_that_is_used_again_is_another_block() -> None:
    replay = play_events([], [came(1, 10), went(1, 10), came(1, 99), went(1, 99)])
    assert [point.total for point in replay.points] == [0, 10, 0, 99, 0]


def test_events_that_contradict_the_others_are_counted_and_passed_over() -> None:
    lost = play_events([], [came(1, 10), came(2, 5), went(2, 5)])  # 1 neither went nor is there
    assert lost.misfits == 1
    assert lost.peak_bytes == 5
    twice = play_events([], [came(1, 10), went(1, 10), went(1, 10)])
    assert twice.misfits == 1
    assert min(point.total for point in twice.points) == 0


def test_refusals_change_nothing() -> None:
    refused = AllocatorEvent(REFUSED, 0, 1 << 40, 5)
    replay = play_events([Block(1, 10, 10, True)], [refused])
    assert (replay.peak_bytes, replay.misfits) == (10, 0)


def test_without_times_numbers_of_events_stand_for_them() -> None:
    replay = play_events([], [came(1, 10, None), went(1, 10, None)])
    assert [point.at_ms for point in replay.points] == [0.0, 1.0, 2.0]


def test_clocks_that_go_back_do_not_take_the_points_with_them() -> None:
    replay = play_events([], [came(1, 10, 5000), came(2, 5, 1000), went(1, 10, 9000), went(2, 5)])
    times = [point.at_ms for point in replay.points]
    assert times == sorted(times)


def test_a_snapshot_without_history_is_one_moment() -> None:
    replay = play_events([Block(1, 10, 10, True)], [])
    assert (replay.peak_bytes, replay.peak_at_ms, replay.points) == (10, None, ())


def test_any_window_gives_what_was_true() -> None:
    for seed in range(30):
        chance = random.Random(seed)
        live: dict[int, int] = {}
        events, totals = [], []
        for at in range(400):
            if live and chance.random() < 0.48:
                address = chance.choice(list(live))
                events.append(went(address, live.pop(address), at))
            else:
                address = next(n for n in range(1000) if n not in live)
                live[address] = chance.randint(1, 1000)
                events.append(came(address, live[address], at))
            totals.append(sum(live.values()))
        end = [Block(address, size, size, True) for address, size in live.items()]
        begin = chance.randint(1, 399)
        replay = play_events(end, events[begin:])
        assert [point.total for point in replay.points] == totals[begin - 1 :]
        assert replay.peak_bytes == max(totals[begin - 1 :])
        assert sum(part.bytes for part in replay.peak) == replay.peak_bytes
        assert replay.misfits == 0


def test_categories_change_without_a_dip_and_what_was_there_is_the_start() -> None:
    replay = play_changes(
        [
            CategoryChange(-1, "parameter", 100),
            CategoryChange(-1, "parameter", 50),
            CategoryChange(5_000_000, "other", 40),
            CategoryChange(6_000_000, "other", -40),  # it is an activation from now on
            CategoryChange(6_000_000, "activation", 40),
            CategoryChange(8_000_000, "activation", -40),
        ]
    )
    assert [(point.at_ms, point.bytes) for point in replay.points] == [
        (0.0, (150, 0, 0, 0, 0, 0, 0)),
        (0.0, (150, 0, 0, 0, 0, 0, 40)),
        (1.0, (150, 0, 0, 40, 0, 0, 0)),
        (3.0, (150, 0, 0, 0, 0, 0, 0)),
    ]
    assert (replay.peak_bytes, replay.peak_at_ms, replay.end_bytes) == (190, 0.0, 150)
    assert [(part.category, part.bytes, part.blocks) for part in replay.peak] == [
        ("parameter", 150, 2),
        ("other", 40, 1),
    ]


def test_an_empty_file_holds_nothing() -> None:
    replay = play_changes([])
    assert (replay.peak_bytes, replay.points, replay.peak) == (0, (), ())
