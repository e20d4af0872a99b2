"""How often the sampler works: everything for those who measure, little for those who watch."""

from __future__ import annotations

from stepscope.session.watchers import Pace, ReadBack, Schedule, pace_for


class Watching:
    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s

    def look(self) -> None:
        """Not called here."""

    def after_fork(self) -> None:
        """Nor this."""


def looks(pace: Pace, seconds: float) -> list[ReadBack]:
    """What is read back after each sample of so many seconds."""
    schedule = Schedule()
    ticks = round(seconds / pace.interval_s)
    return [schedule.due(tick * pace.interval_s, pace) for tick in range(ticks)]


def test_who_measures_has_everything_sampled_each_time() -> None:
    assert pace_for([], 0.1) == Pace(0.1, 0.0, 0.0)
    assert pace_for([Watching(1.0)], 0.1) == Pace(0.1, 0.0, 0.0)
    assert pace_for([Watching(0.05)], 0.1) == Pace(0.05, 0.0, 0.0)


def test_for_watchers_alone_the_recorder_looks_at_this_process_and_the_thread_sleeps() -> None:
    for intervals_s, own_s, thread_s in (
        ((1.0, 0.2), 0.2, 2.0),  # it is read back after ten samples
        ((0.1,), 0.1, 1.0),
        ((0.01,), 0.01, 1.0),  # but not more often than every second
        ((1.0,), 1.0, 10.0),
        ((60.0,), 60.0, 60.0),  # who wants to know less often is woken less often
    ):
        pace = pace_for([Watching(one_s) for one_s in intervals_s], None)
        assert pace is not None
        assert (pace.own_s, pace.interval_s) == (own_s, thread_s)
        assert pace.full_s > 10.0


def test_without_anybody_there_is_no_reason_to_go_on() -> None:
    assert pace_for([], None) is None


def test_while_something_is_measured_all_is_read_back_every_second() -> None:
    found = looks(Pace(0.1, 0.0), 20)
    assert set(found) == {ReadBack.NOT_YET, ReadBack.ALL_FILES}
    assert 18 <= found.count(ReadBack.ALL_FILES) <= 22


def test_watchers_wait_ten_of_their_samples_but_a_second_at_least() -> None:
    for interval_s, expected in ((0.01, 60), (0.1, 60), (0.5, 12), (1.0, 6), (10.0, 6)):
        pace = pace_for([Watching(interval_s)], None)
        assert pace is not None
        found = looks(pace, 60)
        count = len(found) - found.count(ReadBack.NOT_YET)
        assert abs(count - expected) <= max(1, expected // 10), interval_s


def test_files_of_others_are_looked_for_now_and_then() -> None:
    found = looks(Pace(10.0, 30.0, 1.0), 240)
    assert 3 <= found.count(ReadBack.ALL_FILES) <= 5
    assert found.count(ReadBack.KNOWN_FILES) > 15
