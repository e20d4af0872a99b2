"""Student's t distribution, without scipy: how far chance alone moves a mean of few values."""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["student_p", "student_t"]

_TERMS = 500  # some 20 are used; more than 100 only beyond a million degrees of freedom
_TINY = 1e-300
_EXACT = 1e-15
_ROUNDS = 200  # some 10 are used; 40 for one degree of freedom and 1 in a million


@lru_cache(maxsize=256)
def student_t(degrees: float, confidence: float = 0.95) -> float:
    """The factor that turns a standard error into the half-width of an interval.

    degrees: of freedom; they need not be whole (Welch).

    >>> round(student_t(4), 3), round(student_t(4.5, 0.99), 3)
    (2.776, 4.273)
    """
    outside = 1.0 - confidence
    at = 0.0
    for _ in range(_ROUNDS):
        # Newton from the left: the tail bends upwards, so it never goes past the place.
        step = (student_p(at, degrees) - outside) / (2.0 * _density(at, degrees))
        at += step
        if step <= _EXACT * at:
            break
    return at


def _density(t: float, degrees: float) -> float:
    front = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    tail = (degrees + 1) / 2 * math.log1p(t * t / degrees)
    return math.exp(front - tail) / math.sqrt(degrees * math.pi)


def student_p(t: float, degrees: float) -> float:
    """How likely chance alone gives a t as far from 0 as this one, to either side.

    >>> round(student_p(2.776, 4), 3), student_p(0.0, 4)
    (0.05, 1.0)
    """
    square = t * t
    if not square:
        return 1.0
    if math.isinf(square):
        return 0.0
    return _beta_share(degrees / (degrees + square), square / (degrees + square), degrees / 2, 0.5)


def _beta_share(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at x; rest: 1 - x, where that is more exact."""
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    if x < (a + 1) / (a + b + 2):  # the fraction ends soon only on this side
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Its continued fraction, by Lentz's method."""
    upper, lower = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            lower = 1.0 / _not_zero(1.0 + term * lower)
            upper = _not_zero(1.0 + term / upper)
            change = lower * upper
            value *= change
        if abs(change - 1.0) < _EXACT:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
