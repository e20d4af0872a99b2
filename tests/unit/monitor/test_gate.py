"""A switch with two limits."""

from __future__ import annotations

from stepscope.monitor.gate import Gate


def test_what_moves_about_the_limit_does_not_flicker() -> None:
    gate = Gate(enter=0.9, leave=0.8)
    seen = [gate.update(t, v) for t, v in enumerate([0.89, 0.9, 0.85, 0.91, 0.81, 0.79, 0.85])]
    assert seen == [False, True, True, True, True, False, False]


def test_a_gate_for_low_values_closes_above() -> None:
    gate = Gate(enter=0.5, leave=0.6)
    assert [gate.update(t, v) for t, v in enumerate([0.55, 0.4, 0.55, 0.65])] == [
        False,
        True,
        True,
        False,
    ]


def test_it_knows_since_when_it_is_open() -> None:
    gate = Gate(enter=2.0, leave=1.0)
    gate.update(10, 3.0)
    gate.update(20, 1.5)
    assert gate.began_ns == 10
    gate.update(30, 0.5)
    assert gate.began_ns is None


def test_what_is_no_number_closes_it() -> None:
    gate = Gate(enter=2.0, leave=1.0)
    assert gate.update(1, 3.0)
    assert not gate.update(2, float("nan"))
