"""Conditions, look by look → incidents: told once when they begin and once when they are over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stepscope.model.watching import Condition
from stepscope.monitor.rule_settings import Watch

__all__ = ["Changes", "Held", "Incident", "Incidents"]

Key = tuple[str, str]  # of a condition: its rule and key

MOST_KEYS: Final = 1000  # conditions that are followed at once
MOST_OTHERS: Final = 5


class Held(NamedTuple):
    """A condition, and how long it has to be seen before it is told."""

    condition: Condition
    hold_s: float = 0.0


@dataclass(slots=True)
class Incident:
    """Conditions that are told as one.

    number: from 1, in their order. first: the one that is told of, the most severe of those that
    opened it. members: all, as last seen. returns: how often it came back in the cool-down before,
    untold. ended_ns: when the last of them was seen last; None while it goes on.
    """

    number: int
    first: Condition
    members: dict[Key, Condition] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # what other rules saw: the titles of the first of them
    severity: float = 0.0  # the worst so far
    returns: int = 0
    ended_ns: int | None = None

    def take(self, condition: Condition) -> None:
        key = _key(condition)
        if key not in self.members and condition.rule != self.first.rule:
            self.others = (*self.others, condition.title)[:MOST_OTHERS]
        self.members[key] = condition
        self.severity = max(self.severity, condition.severity)

    @property
    def began_ns(self) -> int:
        return min(member.began_ns for member in self.members.values())

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({member.rank for member in self.members.values()}))


class Changes(NamedTuple):
    opened: list[Incident]
    closed: list[Incident]


@dataclass(slots=True)
class _Seen:
    """A condition that is there, or belongs to an incident that is not over."""

    condition: Condition
    first_ns: int
    last_ns: int
    hold_s: float
    incident: Incident | None = None
    is_muted: bool = False


@dataclass(slots=True)
class _Quiet:
    """A cool-down. returns: how often the condition came back in it."""

    until_ns: int
    returns: int = 0


class Incidents:
    """Hold, grouping, resolving and cool-down.

    A condition is told when it was seen at every look for its `hold_s`, and is over when none of
    its incident was seen for `resolve_s`. What comes back within `cooldown_s` of that is counted
    and told when it is still there at the end of it. What has the group of an open incident and
    began within `group_s` of one of its members joins that, untold.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen: dict[Key, _Seen] = {}
        self._quiet: dict[Key, _Quiet] = {}
        self._now_ns = 0
        self._opened = 0
        self.open: list[Incident] = []
        self.untold = 0  # conditions that came back within their cool-down
        self.left_out = 0  # looks at conditions beyond MOST_KEYS

    def update(self, conditions: Iterable[Held], now_ns: int) -> Changes:
        """What changed by what holds now. Times that go back count as no time."""
        self._now_ns = now_ns = max(now_ns, self._now_ns)
        here = self._notice(conditions)
        for key in [k for k, seen in self._seen.items() if not seen.incident and k not in here]:
            del self._seen[key]
        opened = self._tell()
        closed = [one for one in self.open if self._is_over(one)]
        for incident in closed:
            self._close(incident)
        for key in [k for k, quiet in self._quiet.items() if quiet.until_ns <= now_ns]:
            if key not in self._seen:
                del self._quiet[key]
        return Changes(opened, closed)

    @property
    def pending(self) -> list[Condition]:
        """Those that hold and are not told yet."""
        return [
            seen.condition
            for seen in self._seen.values()
            if seen.incident is None and not seen.is_muted
        ]

    def close_all(self, now_ns: int) -> list[Incident]:
        """The run is over, and what went on with it."""
        self._now_ns = max(now_ns, self._now_ns)
        closed = list(self.open)
        for incident in closed:
            self._close(incident)
            incident.ended_ns = self._now_ns
        self._seen.clear()
        return closed

    def _notice(self, conditions: Iterable[Held]) -> set[Key]:
        here: set[Key] = set()
        for condition, hold_s in conditions:
            key = _key(condition)
            if key in here:
                continue
            seen = self._seen.get(key)
            if seen is None:
                if len(self._seen) >= MOST_KEYS:
                    self.left_out += 1
                    continue
                seen = self._seen[key] = _Seen(condition, self._now_ns, self._now_ns, hold_s)
            here.add(key)
            seen.condition, seen.last_ns = condition, self._now_ns
            if seen.incident is not None:
                seen.incident.take(condition)
        return here

    def _tell(self) -> list[Incident]:
        due = [
            seen
            for seen in self._seen.values()
            if seen.incident is None and self._now_ns - seen.first_ns >= seen.hold_s * 1e9
        ]
        due.sort(key=lambda seen: (-seen.condition.severity, seen.condition.began_ns))
        opened = []
        for seen in due:
            incident = self._of_group(seen.condition)
            if incident is None:
                if self._is_quiet(seen):
                    continue
                incident = self._new(seen.condition)
                opened.append(incident)
            incident.take(seen.condition)
            seen.incident = incident
        return opened

    def _new(self, condition: Condition) -> Incident:
        quiet = self._quiet.pop(_key(condition), None)
        self._opened += 1
        incident = Incident(self._opened, condition, returns=quiet.returns if quiet else 0)
        self.open.append(incident)
        return incident

    def _of_group(self, condition: Condition) -> Incident | None:
        within_ns = self._watch.group_s * 1e9
        return next(
            (
                incident
                for incident in self.open
                if condition.group
                and any(
                    member.group == condition.group
                    and abs(member.began_ns - condition.began_ns) <= within_ns
                    for member in incident.members.values()
                )
            ),
            None,
        )

    def _is_quiet(self, seen: _Seen) -> bool:
        quiet = self._quiet.get(_key(seen.condition))
        if quiet is None or quiet.until_ns <= self._now_ns:
            return False
        if not seen.is_muted:
            seen.is_muted = True
            quiet.returns += 1
            self.untold += 1
        return True

    def _is_over(self, incident: Incident) -> bool:
        since_ns = self._now_ns - self._last_ns(incident)
        return since_ns > 0 and since_ns >= self._watch.resolve_s * 1e9

    def _last_ns(self, incident: Incident) -> int:
        return max(self._seen[key].last_ns for key in incident.members)

    def _close(self, incident: Incident) -> None:
        incident.ended_ns = self._last_ns(incident)
        self.open.remove(incident)
        for key in incident.members:
            del self._seen[key]
            self._quiet[key] = _Quiet(self._now_ns + int(self._watch.cooldown_s * 1e9))


def _key(condition: Condition) -> Key:
    return condition.rule, condition.key
