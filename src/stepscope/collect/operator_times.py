"""What torch's profiler recorded → time by operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["Operator", "OperatorTimes", "fold_events"]

_OURS = "ProfilerStep"
# What autograd records around the operators of a node; no operator itself.
_AROUND = ("autograd::", "torch::autograd::")


class Operator:
    __slots__ = ("calls", "self_ns")

    def __init__(self) -> None:
        self.calls = self.self_ns = 0


class OperatorTimes(NamedTuple):
    operators: dict[str, Operator]
    outermost: int  # operators that no other operator called
    median_ns: float  # how long one of these took


class _Open:
    __slots__ = ("end_ns", "inside_operator", "operator")

    def __init__(self, end_ns: int, operator: Operator, inside_operator: bool) -> None:
        self.end_ns, self.operator, self.inside_operator = end_ns, operator, inside_operator


def fold_events(events: Iterable[Any], host: Any = None) -> OperatorTimes:
    """Self time is that of an event less those right inside it, on the same thread.

    host: the `device_type()` of events that a thread recorded; None: all of them.

    What a device did has no nesting: its kernels stand under their own names.
    """
    rows = []
    operators: dict[str, Operator] = {}
    for event in events:
        name, lasted_ns = event.name(), event.duration_ns()
        if host is not None and event.device_type() != host:
            _add(operators, name, lasted_ns)
        elif not name.startswith(_OURS):
            rows.append((event.start_thread_id(), event.start_ns(), -lasted_ns, name))
    rows.sort()
    durations = _nest(rows, operators)
    durations.sort()
    median_ns = float(durations[len(durations) // 2]) if durations else 0.0
    return OperatorTimes(operators, len(durations), median_ns)


def _nest(rows: list[tuple[int, int, int, str]], operators: dict[str, Operator]) -> list[int]:
    outermost: list[int] = []
    open_events: list[_Open] = []
    thread = -1
    for row_thread, start_ns, minus_ns, name in rows:
        if row_thread != thread:
            open_events.clear()
            thread = row_thread
        while open_events and open_events[-1].end_ns <= start_ns:
            open_events.pop()
        around = open_events[-1] if open_events else None
        within = around is not None and around.inside_operator
        is_operator = "::" in name and not name.startswith(_AROUND)
        if is_operator and not within:
            outermost.append(-minus_ns)
        operator = _add(operators, name, -minus_ns)
        if around is not None:
            around.operator.self_ns += minus_ns
        open_events.append(_Open(start_ns - minus_ns, operator, within or is_operator))
    return outermost


def _add(operators: dict[str, Operator], name: str, ns: int) -> Operator:
    operator = operators.get(name)
    if operator is None:
        operator = operators[name] = Operator()
    operator.calls += 1
    operator.self_ns += ns
    return operator
