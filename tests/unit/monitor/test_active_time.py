"""A clock that stands still while the program is suspended."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.monitor.active_time import ActiveTime

PAUSES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=20)


def test_time_in_a_pause_does_not_pass() -> None:
    clock = ActiveTime()
    assert clock.active(100) == 100
    clock.pause(150, 250)
    clock.pause(300, 400)
    assert [clock.active(t) for t in (149, 200, 250, 299, 350, 401)] == [
        149,
        150,
        150,
        199,
        200,
        201,
    ]


def test_a_pause_that_is_told_late_counts_from_then_on() -> None:
    clock = ActiveTime()
    assert clock.active(200) == 200
    clock.pause(100, 250)
    assert clock.active(200) == 200
    assert clock.active(260) == 210


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PAUSES, st.lists(st.integers(0, 2 * 10**6), min_size=2, max_size=20))
def test_time_never_goes_back_and_is_found_again(
    pauses: list[tuple[int, int]], times: list[int]
) -> None:
    clock = ActiveTime()
    for start, end in pauses:
        clock.pause(start, end)
    active = [clock.active(time) for time in sorted(times)]
    assert active == sorted(active)
    for time in times:
        assert clock.active(clock.real(clock.active(time))) == clock.active(time)
        assert clock.real(clock.active(time)) >= time


def test_thousands_of_pauses_are_summed_up() -> None:
    clock = ActiveTime()
    for number in range(5000):
        clock.pause(number * 100, number * 100 + 50)
    assert clock.active(500_000) == 250_000
    assert clock.real(250_000) == 500_000
