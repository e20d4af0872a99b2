"""Findings at a line of the user's → the function of an installed package that it waits for.

Where a library runs the loop, the user's own line is a single `fit()`: what costs the time lies
below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.user_code import is_users, named_function
from stepscope.analyze.words import percent
from stepscope.model.details import FlameNode
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import KINDS
from stepscope.model.phases import Phase

__all__ = ["below", "with_library"]

# Installed packages, but for torch: its functions are those of every program.
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\](?!torch[/\\])([^/\\.]+)")
_MOST = 0.5  # a function has to hold more than this of the time of the user's


def with_library(evidence: Evidence, finding: Finding) -> Finding:
    """The finding, with the function of a package that most of its line's time lies in."""
    kind = KINDS[finding.kind]
    if not finding.location.file or finding.is_of_memory:
        return finding
    phases = frozenset(kind.phases or Phase)
    flames = [
        one.flame
        for one in evidence.details.stacks
        if one.flame is not None
        and (one.phase in phases or (one.where == "worker" and kind.group == "input"))
    ]
    found = below(flames, finding.location)
    if found is None:
        return finding
    at, share = found
    package = _LIBRARY.search(at.file or "")
    sentence = (
        f"{percent(share)} of the time of that line lies in {at.function} of"
        f" {package[1] if package else 'a library'}, {at.file}:{at.line}."
    )
    return replace(finding, library=at, evidence=(*finding.evidence, sentence))


def below(flames: Iterable[FlameNode], user: Location) -> tuple[Location, float] | None:
    """The innermost function of a package that takes most of the time of the user's function, and
    its share of that. None: it is the user's own code, or is spread over several."""
    level = [found for flame in flames for found in _calls_of(flame, user)]
    total_ms = sum(node.ms for node in level)
    best: tuple[Location, float] | None = None
    while level:
        by_function: dict[tuple[str, str], list[FlameNode]] = {}
        for node in level:
            for child in node.children:
                if not is_users(child.file, child.name):
                    by_function.setdefault((child.file, child.name), []).append(child)
        level = max(by_function.values(), key=_ms, default=[])
        if not level or _ms(level) <= _MOST * total_ms:
            break
        if _LIBRARY.search(level[0].file):
            hottest = max(level, key=lambda node: node.ms)
            place = Location(hottest.file, hottest.line, named_function(hottest.name))
            best = place, min(1.0, _ms(level) / total_ms)
    return best


def _ms(nodes: Iterable[FlameNode]) -> float:
    return sum(node.ms for node in nodes)


def _calls_of(flame: FlameNode, user: Location) -> list[FlameNode]:
    """Where the user's function was called, by whomever; the outermost of recursive calls."""
    found, waiting = [], [flame]
    while waiting:
        node = waiting.pop()
        if node.file == user.file and named_function(node.name) == user.function:
            found.append(node)
        else:
            waiting += node.children
    return found
