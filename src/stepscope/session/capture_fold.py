"""Folds the events of a capture's time as those of a run are folded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from stepscope.analyze.captures import Standing, growing_line, location_of, within
from stepscope.model.capture import Capture, CaptureDetails, GrowingLine
from stepscope.model.capture_request import CaptureRequest
from stepscope.model.details import Details, PhaseStacks
from stepscope.model.event import Batch
from stepscope.model.finding import Location
from stepscope.model.summary import Summary
from stepscope.session.analysis import RunFold
from stepscope.session.capturing import Answer, Kept, Recorded

__all__ = ["fold_capture", "unfolded"]

_NOBODY: Final = (
    "No process of the program answered: its loop has not begun, or it is in a call that does not"
    " let Python run."
)
_NO_STEP: Final = "No step ended within it: this is where the program stood."
_KILLED: Final = "A process ended in the middle of it: this is what it had recorded."
_NOTES: Final = 20


def fold_capture(
    number: int,
    request: CaptureRequest,
    run: Path,
    answers: Sequence[Answer],
    recorded: Recorded,
) -> Capture:
    """answers: of the processes that took part."""
    begun = [one for one in answers if one.began_ns is not None]
    if not begun:
        notes = [note for one in answers for note in _said(one)]
        return unfolded(number, request, run, *(notes or [_NOBODY]))
    start_ns, end_ns = _window(begun, recorded.kept)
    fold, batches = RunFold(), _cut(recorded, start_ns, end_ns)
    for process, batch in batches:
        fold.update(process, [batch])
    notes = _notes(begun)
    summary = fold.summary({"name": run.name, "path": str(run)}, [], notes)
    found, has_loop = fold.details, summary.steps.count > 0
    stacks = found.stacks if has_loop else _standing(batches)
    location = _location(summary, stacks)
    process = begun[0].process
    details = CaptureDetails(
        number=number,
        run=run.name,
        title=_title(summary, stacks, location),
        began_unix=(start_ns - process.monotonic_ns + process.unix_ns) / 1e9,
        seconds=max(0, end_ns - start_ns) / 1e9,
        steps=max(one.steps for one in begun) or summary.steps.count,
        request=request,
        alert=request.alert,
        location=location,
        ranks=tuple(sorted({one.process.rank for one in begun})),
        stacks=stacks,
        memory=_memory(begun),
        notes=tuple(notes if has_loop else [_NO_STEP, *notes]),
        **_layers(found),
    )
    return Capture(details, summary)


def unfolded(number: int, request: CaptureRequest, run: Path, *notes: str) -> Capture:
    """A capture that shows nothing, and says why."""
    details = CaptureDetails(
        number=number,
        run=run.name,
        title="Nothing was captured",
        began_unix=0.0,
        seconds=0.0,
        steps=0,
        request=request,
        alert=request.alert,
        notes=notes,
    )
    return Capture(details, RunFold().summary({"name": run.name, "path": str(run)}, [], notes))


def _window(begun: Sequence[Answer], kept: Sequence[Kept]) -> tuple[int, int]:
    """From the first step end to the last; without steps, all the time."""
    stepped = [one for one in begun if one.steps]
    if stepped:
        told = [one.ended or {} for one in stepped]
        starts, ends = [_ns(one, "from_ns") for one in told], [_ns(one, "ended_ns") for one in told]
        return min(starts), max(ends)
    ends = [_ns(one.ended or {}, "ended_ns") for one in begun]
    latest_ns = max(_last_ns(each.batch) for each in kept)
    return min(one.began_ns or 0 for one in begun), max(ends) or latest_ns


def _last_ns(batch: Batch) -> int:
    return int(batch.columns["time_ns"][-1] + batch.columns["duration_ns"][-1])


def _ns(told: dict[str, Any], key: str) -> int:
    value = told.get(key)
    return value if isinstance(value, int) else 0


def _cut(recorded: Recorded, start_ns: int, end_ns: int) -> list[Kept]:
    """What numbers mean comes first. What the launcher sampled is taken whole, if it began before:
    counters are then read at both ends of that time. Else they would count from the start of the
    program."""
    found = []
    for process, meanings in recorded.meanings:
        told = meanings.get(start_ns)
        if told is not None:
            found.append(Kept(process, told))
    outside = [each for each in recorded.kept if each.process.role != "program"]
    if outside and outside[0].batch.columns["time_ns"][0] <= start_ns:
        found += outside
    for process, batch in recorded.kept:
        if process.role != "program":
            continue
        inside = within(batch, start_ns, end_ns)
        if inside is not None:
            found.append(Kept(process, inside))
    return found


def _standing(batches: Sequence[Kept]) -> tuple[PhaseStacks, ...]:
    programs = [each for each in batches if each.process.role == "program"]
    pids = {process.pid for process, _ in programs}
    fold = Standing()
    for process, batch in programs:
        fold.update(process, batch, is_worker=process.parent_pid in pids)
    return fold.get()


def _layers(found: Details) -> dict[str, Any]:
    return {
        "layers": found.layers,
        "layer_steps": found.layer_steps,
        "ops": found.ops,
        "op_steps": found.op_steps,
    }


def _location(summary: Summary, stacks: Sequence[PhaseStacks]) -> Location:
    verdict = summary.verdict
    if verdict is not None and verdict.location.file:
        return verdict.location
    return location_of(stacks)


def _title(summary: Summary, stacks: Sequence[PhaseStacks], location: Location) -> str:
    if summary.verdict is not None:
        return summary.verdict.title
    if not stacks:
        return "Nothing was seen"
    place = f" at {location.file}:{location.line}" if location.file else ""
    return f"No step ended: it stands in {stacks[0].phase}{place}"


def _memory(begun: Sequence[Answer]) -> tuple[GrowingLine, ...]:
    lines = [growing_line(text, one.process.rank) for one in begun for text in one.memory]
    found = [line for line in lines if line is not None]
    return tuple(sorted(found, key=lambda line: -line.bytes_per_step))


def _notes(begun: Sequence[Answer]) -> list[str]:
    notes = [note for one in begun for note in _said(one)]
    if any(one.ended is None for one in begun):
        notes.append(_KILLED)
    return list(dict.fromkeys(notes))[:_NOTES]


def _said(answer: Answer) -> list[str]:
    told = answer.ended or {}
    notes = told.get("notes")
    said = [str(note) for note in notes] if isinstance(notes, list) else []
    why = told.get("why")
    return [*said, f"It was not taken: {why}."] if isinstance(why, str) else said
