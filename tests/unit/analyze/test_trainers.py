from __future__ import annotations

from dataclasses import replace

from stepscope.analyze.trainers import chosen_loops, trainer_notes
from tests.unit.analyze.made import MS, Event, fold, forward, loop, training


def on_thread(track: int, events: list[Event]) -> list[Event]:
    return [event | {"track": track} for event in events]


def test_every_thread_that_trains_has_a_loop() -> None:
    first, second = on_thread(1, training(5)), on_thread(2, training(7, at=20))
    events = sorted(first + second, key=lambda e: float(e["time_ns"]) + float(e["duration_ns"]))
    for batch_size in (1000, 3):
        assert [one.steps for one in fold(events, batch_size).all()] == [5, 7]


def test_a_thread_that_only_runs_a_model_has_none() -> None:
    events = [*training(3), *on_thread(9, [forward(310, 320)])]
    assert [one.steps for one in fold(events).all()] == [3]


def test_processes_of_one_rank_that_train_together_are_all_reported() -> None:
    first, second = replace(loop(training(9)), pid=11), replace(loop(training(8)), pid=12)
    assert chosen_loops([second, first]) == ([first, second], [])
    notes = trainer_notes([first, second], [])
    assert len(notes) == 1
    assert "2 processes" in notes[0]
    assert "9, 8 steps" in notes[0]


def test_a_trainer_that_is_left_out_is_named_with_its_steps() -> None:
    main = replace(loop(training(9)), pid=11)
    thread = replace(loop(training(6)), pid=11)
    later = loop(training(2))
    later = replace(later, pid=13, start_ns=5000 * MS, end_ns=5200 * MS)
    chosen, left_out = chosen_loops([thread, later, main])
    assert (chosen, left_out) == ([main], [thread, later])
    assert [note.split(" trained")[0] for note in trainer_notes(chosen, left_out)] == [
        "Another thread",
        "Process 13",
    ]


def test_a_helper_that_only_runs_a_model_is_not_mentioned() -> None:
    main = replace(loop(training(9)), pid=11)
    helper = replace(loop([forward(at, at + 10) for at in range(0, 900, 20)]), pid=12)
    assert chosen_loops([helper, main]) == ([main], [])
