"""A finding while it happens: raised, and resolved when it is over."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepscope.model.finding import Finding
from stepscope.model.plain import AnyNumber, Count, Text, UnixTime, from_plain
from stepscope.model.strict_json import strict_json
from stepscope.model.summary import finding_to_dict

__all__ = ["Alert", "AlertState"]


class AlertState(enum.StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One notice about an incident. The notice that resolves it has the same `id`.

    Reads like a mapping too, as the specification's handlers expect: `alert["message"]`.

    id: of the incident, unique over all runs. rule: the rule that raised it ("slowdown").
    finding: what it is, where, how bad, what to do. step: at which it began; None: before the
    first. ranks: on which; several are one alert. …_unix: seconds since 1970; `ended_unix` is None
    while it goes on. capture: a closer look that was taken because of it, a file in the run folder.
    """

    id: Text
    rule: str
    finding: Finding
    state: AlertState
    run: str
    host: str
    began_unix: UnixTime
    told_unix: UnixTime
    step: Count | None = None
    ranks: tuple[Count, ...] = (0,)
    metric: str | None = None
    value: AnyNumber | None = None
    limit: AnyNumber | None = None
    ended_unix: UnixTime | None = None
    capture: str = ""

    @property
    def severity(self) -> float:
        return self.finding.severity

    @property
    def is_firing(self) -> bool:
        return self.state is AlertState.FIRING

    @property
    def message(self) -> str:
        """One sentence: what and where."""
        where = self.finding.location
        place = f" at {where.file}:{where.line}" if where.file else ""
        ranks = "" if self.ranks == (0,) else f" (rank {', '.join(map(str, self.ranks))})"
        over = "" if self.is_firing else "over: "
        return f"{over}{self.finding.title}{place}{ranks}"

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.to_dict().get(key, default)

    def keys(self) -> Any:
        return self.to_dict().keys()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `message` and `severity` are said again for those who read no more."""
        plain = {
            "id": self.id,
            "message": self.message,
            "severity": self.severity,
            "rule": self.rule,
            "state": self.state.value,
            "kind": self.finding.kind,
            "run": self.run,
            "host": self.host,
            "ranks": list(self.ranks),
            "step": self.step,
            "metric": self.metric,
            "value": self.value,
            "limit": self.limit,
            "began_unix": self.began_unix,
            "told_unix": self.told_unix,
            "ended_unix": self.ended_unix,
            "capture": self.capture,
            "finding": finding_to_dict(self.finding),
        }
        return dict(strict_json(plain))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Alert:
        """A saved alert again. Raises FormatError for anything else."""
        made: Alert = from_plain(cls, dict(saved), "alert")
        return made
