"""Batches that the loop takes from a plain iterable: input that no DataLoader shows.

A generator, or an object with `__next__` or `__getitem__`, that is called by a function which also
calls the model: what it does between the phases is making the next batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.user_code import named_function
from stepscope.analyze.words import duration
from stepscope.model.details import FlameNode
from stepscope.model.finding import Finding, Location
from stepscope.model.phases import Phase

__all__ = ["PulledInput", "iterable_input", "pulled_input"]

_GIVES = re.compile(r"(\.<generator>|(^|\.)__(next|getitem)__)$")
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")
_Function = tuple[str, str]


class PulledInput(NamedTuple):
    """`share`: of the loop's time; `location`: where most of it is made."""

    share: float
    location: Location


def pulled_input(evidence: Evidence) -> PulledInput | None:
    """None: batches come from a DataLoader, or no time goes to making them."""
    whole = evidence.whole
    stacks = evidence.stacks("main", Phase.PYTHON_BETWEEN)
    total_ms = sum(one.ms for one in stacks)
    if not total_ms or whole.share(Phase.INPUT_WAIT):
        return None
    training = {
        function
        for one in evidence.stacks("main", Phase.FORWARD, Phase.BACKWARD)
        if one.flame is not None
        for function in _all_functions(one.flame)
    }
    flames = [one.flame for one in stacks if one.flame is not None]
    given = [node for flame in flames for node in _given(flame, training)]
    if not given:
        return None
    most = max(given, key=lambda node: node.ms)
    taken = min(1.0, sum(node.ms for node in given) / total_ms)
    at = Location(most.file, most.line, named_function(most.name))
    return PulledInput(whole.share(Phase.PYTHON_BETWEEN) * taken, at)


def iterable_input(evidence: Evidence) -> Finding | None:
    found = pulled_input(evidence)
    if found is None:
        return None
    whole, at = evidence.whole, found.location
    busy = whole.cpu_share(Phase.PYTHON_BETWEEN)
    kind = "input-cpu" if busy is None or busy >= 0.5 else "input-io"
    said = (
        f"The loop takes its batches from {at.function}, {at.file}:{at.line}, and no DataLoader:"
        f" making them takes {duration(found.share * whole.step_ns)} of every"
        f" {duration(whole.step_ns)} step."
    )
    return phase_finding(
        evidence,
        kind,
        [Phase.PYTHON_BETWEEN],
        [said],
        share=found.share,
        measures={"plain_iterable": 1.0},
        location=at,
    )


def _all_functions(flame: FlameNode) -> Iterator[_Function]:
    waiting = [flame]
    while waiting:
        node = waiting.pop()
        yield node.file, node.name
        waiting += node.children


def _given(flame: FlameNode, training: Iterable[_Function]) -> list[FlameNode]:
    """The outermost calls that give the loop a value."""
    found, waiting = [], [flame]
    while waiting:
        node = waiting.pop()
        for child in node.children:
            is_theirs = _GIVES.search(child.name) and not _TORCH.search(child.file)
            if is_theirs and (node.file, node.name) in training:
                found.append(child)
            else:
                waiting.append(child)
    return found
